"""Makes the plan of policies and one snapshot; limits.py decides whether it is too much."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.model.action import Mode
from reconciler.model.block_reason import SILENT, BlockReason
from reconciler.model.names import Address
from reconciler.model.plan import (
    Blocked,
    Decision,
    Plan,
    PolicyInfo,
    Satisfied,
    Skipped,
    Source,
    Undecided,
    sort_decisions,
)
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import Operation
from reconciler.operations.touchable import Protection
from reconciler.plan import limits
from reconciler.plan.conflicts import ConflictIndex
from reconciler.plan.expiry_and_cluster import check_cluster_id
from reconciler.plan.rules import RuleSet
from reconciler.plan.targets import restrict_request, with_parents
from reconciler.plan.unmatched import find_unmatched
from reconciler.policies import Policy
from reconciler.policies.base import Selection
from reconciler.text.formatting import count

DAY_MS = 86_400_000
LONGEST_EXPIRY_MS = 366 * DAY_MS
"""How long a saved plan may be applied at most."""
ALL_MODES = frozenset(Mode)
_HIDDEN = (
    "{} ({}) says consumerOffsets: hidden, so commits in open transactions, topics of share groups, and the times, topic "
    "ids and metadata of commits are not known."
)


def scan_request(
    policies: Iterable[Policy], observed_at_ms: int, *, candidates: Collection[Address] | None = None
) -> ScanRequest:
    """Return everything that deciding these policies needs, with what the limits are shares of.

    `candidates`: only of these subjects; None: of all; empty: of none.
    """
    if candidates is None:
        return ScanRequest.union(policy.scan_request(observed_at_ms) for policy in policies)
    of_policy = by_policy(candidates)
    return ScanRequest.union(
        restrict_request(policy.scan_request(observed_at_ms), of_policy.get(policy.address, ())) for policy in policies
    )


def plan(
    rules: RuleSet,
    snapshot: ClusterSnapshot,
    *,
    source: Source | None = None,
    expires_after_ms: int = DAY_MS,
    candidates: Collection[Address] | None = None,
    modes: Collection[Mode] = ALL_MODES,
) -> Plan:
    """Return one decision for each subject of each policy, and the verdict of the limits.

    `rules`: all of the cluster, since policies outside `modes` and `candidates` still claim their
    subjects. `snapshot` answers `scan_request(…, snapshot.observed_at_ms)` of those inside.
    `candidates`: the only subjects to plan, such as those of `find_candidates`; None: all.

    Raises WrongCluster for facts of another cluster.
    """
    cluster = rules.cluster
    check_cluster_id(cluster, snapshot.cluster_id, "the facts are of")
    addresses = None if candidates is None else frozenset(candidates)
    planned, found = decide(rules, snapshot, addresses=addresses, modes=modes)
    decisions = sort_decisions(found)
    planned_policies = [selection.policy for selection in planned]
    return Plan(
        cluster=cluster.metadata.name,
        cluster_id=snapshot.cluster_id,
        observed_at_ms=snapshot.observed_at_ms,
        expires_at_ms=snapshot.observed_at_ms + expires_after_ms,
        decisions=decisions,
        limits=limits.verdicts(decisions, rules, snapshot),
        source=source or Source(),
        targets=tuple(sorted(map(str, addresses or ()))),
        incomplete=tuple(_incomplete(planned_policies, decisions, snapshot)),
        unseen=(_HIDDEN.format(cluster.address, cluster.declared_at),) if snapshot.consumer_offsets_hidden else (),
        unmatched=tuple(find_unmatched(rules if addresses is None else None, planned, snapshot)),
        notes=tuple(
            PolicyInfo(policy=policy.address, owner=policy.metadata.owner, reason=policy.metadata.reason)
            for policy in planned_policies
            if policy.metadata.owner is not None or policy.metadata.reason is not None
        ),
    )


def decide(
    rules: RuleSet,
    snapshot: ClusterSnapshot,
    *,
    addresses: frozenset[Address] | None,
    modes: Collection[Mode] = ALL_MODES,
) -> tuple[Sequence[Selection], Iterator[Decision]]:
    """Return what the planned policies select, and every decision: the one place that says what may happen.

    `addresses` None: about all subjects. Other arguments as in `plan`.
    """
    # What blocks the topic or the policy of a target blocks the target.
    above = {address for target in addresses or () for address in with_parents(target)}
    of_policy = None if addresses is None else by_policy(addresses)
    selections = sorted((policy.select(snapshot) for policy in rules.policies), key=lambda s: s.policy.address)
    conflicts = ConflictIndex(selections)
    planned = [s for s in selections if s.policy.mode in modes and (addresses is None or s.policy.address in above)]
    protection = rules.cluster.protection
    decisions = (
        Satisfied(decision.address) if addresses is None and isinstance(decision, Satisfied) else decision
        for selection in planned
        for decision in _decide(_narrow(selection, of_policy), conflicts, protection, snapshot)
        # Narrowing never changes a decision, only whether it is part of the plan. A share is of whole topics.
        if addresses is None
        or isinstance(decision, Undecided)
        or decision.address in above
        or not addresses.isdisjoint(with_parents(decision.address))
    )
    return planned, decisions


def by_policy(addresses: Iterable[Address]) -> Mapping[Address, Sequence[Address]]:
    """Return the addresses of each policy."""
    of_policy = defaultdict[Address, list[Address]](list)
    for address in addresses:
        of_policy[address.policy_address].append(address)
    return of_policy


def _narrow(selection: Selection, of_policy: Mapping[Address, Sequence[Address]] | None) -> Selection:
    """Return the selection with the names that are asked for; all, where a decision compares them."""
    policy = selection.policy
    names = {address.name for address in (of_policy or {}).get(policy.address, ())}
    if of_policy is None or policy.compares_subjects or "" in names:
        return selection
    subjects = {name: exact for name, exact in selection.subjects.items() if name in names}
    return replace(selection, subjects=subjects)


def _decide(
    selection: Selection, all_conflicts: ConflictIndex, protection: Protection, snapshot: ClusterSnapshot
) -> Iterator[Decision]:
    """Yield all decisions of one policy: its own, or those of bounds, protection and conflicts."""
    policy = selection.policy
    most = policy.expect_at_most
    if most is not None and selection.matched > most:
        block = BlockReason(
            code="B107",
            reason=f"selects {count(selection.matched, policy.SUBJECTS[:-1])}, and expectAtMost is {most}: nothing of this policy is done",
            next_step=f"narrow {policy.SUBJECTS}, or raise expectAtMost to {selection.matched} if all of them are meant",
        )
        yield block.blocked(policy.address, policy.declared_at)
        return
    conflicts = all_conflicts.conflicts(selection)
    unprotected = {}
    for name, exact in selection.subjects.items():
        if protected := policy.protection_of(name, protection):
            yield protected.blocked_or_skipped(policy.address_of(name), policy.declared_at, exact=exact)
        else:
            unprotected[name] = exact
    blocked_names = set()
    for decision in policy.decide(unprotected, snapshot):
        address = decision.address
        conflict = conflicts.get(address.name)
        group = decision.removed_group if isinstance(decision, Operation) else None
        if conflict is None and (awaited := all_conflicts.block_removal(group)):
            yield awaited.blocked(address, policy.declared_at)
        elif conflict is None or isinstance(decision, Skipped):
            yield decision
        elif conflict.partitions is None:
            # All of it is claimed twice: one decision for the topic and not one for each partition.
            if address.name not in blocked_names:
                blocked_names.add(address.name)
                yield conflict.block.blocked(policy.address_of(address.name), policy.declared_at)
        elif address.partition in conflict.partitions and not isinstance(decision, Undecided):
            yield conflict.block.blocked(address, policy.declared_at)
        else:
            yield decision


def _incomplete(policies: Sequence[Policy], decisions: Iterable[Decision], snapshot: ClusterSnapshot) -> Iterator[str]:
    """Yield sentences that say what could not be read, of what these policies rest on.

    One for each reason that names silent brokers, with what waits for their answer.
    """
    request = scan_request(policies, snapshot.observed_at_ms)
    lists = (
        (request.topics, "The list of topics is incomplete", snapshot.topics_incomplete),
        (request.groups or request.readers, "The list of groups is incomplete", snapshot.groups_incomplete),
        # For the reason that the list is incomplete for, none is known.
        (
            request.readers and snapshot.readers_incomplete != snapshot.groups_incomplete,
            "Not every group's position is known",
            snapshot.readers_incomplete,
        ),
    )
    incomplete = [(text, fact) for is_needed, text, fact in lists if is_needed and fact is not None]
    silent, unread = defaultdict[str, list[Blocked]](list), defaultdict[Address, list[Blocked]](list)
    for decision in decisions:
        if isinstance(decision, Blocked) and decision.code == SILENT:
            silent[decision.reason].append(decision)
        elif isinstance(decision, Blocked) and decision.unread:
            unread[decision.address.policy_address].append(decision)
    for reason in sorted({fact.reason for _text, fact in incomplete if fact.silent} | silent.keys()):
        effect = "lists may be incomplete"
        if waiting := silent[reason]:
            of_policies = count(len({decision.address.policy_address for decision in waiting}), "policy", "policies")
            effect = f"{count(len(waiting), 'subject')} of {of_policies} could not be read"
        yield f"{reason[:1].upper()}{reason[1:]}: {effect}."
    yield from (f"{text}: {fact.reason}." for text, fact in incomplete if not fact.silent)
    for address, blocked in unread.items():
        subjects = "subject" if len(blocked) == 1 else "subjects"
        yield f"{len(blocked)} {subjects} of {address} could not be read, the first because {blocked[0].reason}."
