"""Makes the plan of policies and one snapshot: selects subjects, applies protections, finds conflicts.

The policy decides what a subject needs; limits.py decides whether the whole plan is too much.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import UsageError, WrongCluster
from reconciler.model.action import Mode
from reconciler.model.block_reason import BlockReason
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, Plan, PolicyInfo, Skipped, Source, sort_decisions
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import Operation
from reconciler.operations.protection import Protection
from reconciler.plan import limits
from reconciler.plan.conflicts import Conflict, ConflictIndex, UnreadByIndex
from reconciler.policies import Policy
from reconciler.policies.base import Selection
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean

DAY_MS = 86_400_000
ALL_MODES = frozenset(Mode)


def scan_request(policies: Iterable[Policy], observed_at_ms: int) -> ScanRequest:
    """Return everything that deciding these policies needs, the wholes of the limits included."""
    return ScanRequest.union(policy.scan_request(observed_at_ms) for policy in policies)


def plan(
    *,
    cluster: Cluster,
    policies: Iterable[Policy],
    waivers: Iterable[Waiver],
    snapshot: ClusterSnapshot,
    source: Source | None = None,
    expires_after_ms: int = DAY_MS,
    targets: Sequence[str] = (),
    modes: Collection[Mode] = ALL_MODES,
) -> Plan:
    """Return one decision for each subject of each policy, and the verdict of the limits.

    `policies`: all of the cluster, since those outside `modes` and `targets` still claim their
    subjects. `snapshot` answers `scan_request(…, snapshot.observed_at_ms)` of those inside.

    Raises WrongCluster for facts of another cluster, UsageError for a target without any decision.
    """
    if snapshot.cluster_id != cluster.spec.cluster_id:
        raise WrongCluster(
            f"{cluster.address} names cluster id {cluster.spec.cluster_id}, the facts are of {snapshot.cluster_id}: "
            f"nothing was planned; correct bootstrapServers or clusterId in {cluster.declared_at}"
        )
    target = _Targets.parse(targets)
    selections = sorted((policy.select(snapshot) for policy in policies), key=lambda s: s.policy.address)
    conflicts, unread_by = ConflictIndex(selections), UnreadByIndex(s.policy for s in selections)
    planned = [s for s in selections if s.policy.mode in modes and target.includes_policy(s.policy.address)]
    decisions = sort_decisions(
        decision
        for selection in planned
        for decision in _decide(selection, conflicts.conflicts(selection), cluster.protection, unread_by, snapshot)
        if target.include(decision.address)
    )
    target.check_all_matched(decisions, [s.policy.address for s in selections])
    planned_policies = [selection.policy for selection in planned]
    return Plan(
        cluster=cluster.metadata.name,
        cluster_id=snapshot.cluster_id,
        observed_at_ms=snapshot.observed_at_ms,
        expires_at_ms=snapshot.observed_at_ms + expires_after_ms,
        decisions=decisions,
        limits=limits.verdicts(decisions, cluster, waivers, snapshot),
        source=source or Source(),
        targets=target.texts,
        incomplete=tuple(_incomplete(planned_policies, decisions, snapshot)),
        notes=tuple(
            PolicyInfo(policy=policy.address, owner=policy.metadata.owner, reason=policy.metadata.reason)
            for policy in planned_policies
            if policy.metadata.owner is not None or policy.metadata.reason is not None
        ),
    )


def _decide(
    selection: Selection,
    conflicts: Mapping[str, Conflict],
    protection: Protection,
    unread_by: UnreadByIndex,
    snapshot: ClusterSnapshot,
) -> Iterator[Decision]:
    """Yield all decisions of one policy: too many, protected, claimed twice, awaited, and its own for the others."""
    policy = selection.policy
    if block := _too_many(selection):
        yield block.blocked(policy.address, policy.declared_at)
        return
    unprotected = {}
    for name, exact in selection.subjects.items():
        if block := policy.protection_of(name, protection):
            yield block.blocked_or_skipped(policy.address_of(name), policy.declared_at, exact=exact)
        else:
            unprotected[name] = exact
    blocked_names = set()
    for decision in policy.decide(unprotected, snapshot):
        address = decision.address
        conflict = conflicts.get(address.name)
        if conflict is None and (block := _awaited(decision, unread_by)) is not None:
            yield block.blocked(address, policy.declared_at)
        elif conflict is None or isinstance(decision, Skipped):
            yield decision
        elif conflict.partitions is None:
            # All of it is claimed twice: one decision for the topic and not one for each partition.
            if address.name not in blocked_names:
                blocked_names.add(address.name)
                yield conflict.block.blocked(policy.address_of(address.name), policy.declared_at)
        elif address.partition in conflict.partitions:
            yield conflict.block.blocked(address, policy.declared_at)
        else:
            yield decision


def _awaited(decision: Decision, unread_by: UnreadByIndex) -> BlockReason | None:
    group = decision.removed_group if isinstance(decision, Operation) else None
    return None if group is None else unread_by.block_removal(group)


def _too_many(selection: Selection) -> BlockReason | None:
    policy = selection.policy
    most = policy.expect_at_most
    if most is None or selection.matched <= most:
        return None
    return BlockReason(
        code="B107",
        reason=f"selects {selection.matched} {policy.SUBJECTS}, and expectAtMost is {most}: nothing of this policy is done",
        next_step=f"narrow {policy.SUBJECTS}, or raise expectAtMost to {selection.matched} if all of them are meant",
    )


def _incomplete(policies: Sequence[Policy], decisions: Iterable[Decision], snapshot: ClusterSnapshot) -> Iterator[str]:
    """Yield sentences that say what could not be read, of what these policies rest on."""
    needs = frozenset[str]().union(*(policy.NEEDS for policy in policies))
    if "topics" in needs and snapshot.topics_incomplete is not None:
        yield f"The list of topics is incomplete: {snapshot.topics_incomplete.reason}."
    if "groups" in needs and snapshot.groups_incomplete is not None:
        yield f"The list of groups is incomplete: {snapshot.groups_incomplete.reason}."
    if "consumers" in needs and snapshot.readers_incomplete is not None:
        yield f"Not every group's position is known: {snapshot.readers_incomplete.reason}."
    unread: dict[Address, list[Blocked]] = {}
    for decision in decisions:
        if isinstance(decision, Blocked) and decision.unread:
            unread.setdefault(decision.address.policy_address, []).append(decision)
    for address, blocked in unread.items():
        subjects = "subject" if len(blocked) == 1 else "subjects"
        yield f"{len(blocked)} {subjects} of {address} could not be read, the first because {blocked[0].reason}."


@dataclass(frozen=True, slots=True)
class _Targets:
    """The addresses that a plan is narrowed to, as typed and as parsed; none: everything is meant.

    Narrowing never changes a decision, only whether it is part of the plan.
    """

    texts: tuple[str, ...]
    addresses: frozenset[Address]
    above: frozenset[Address]
    """Policies and topics that a target lies in: what blocks those blocks the target."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "_Targets":
        """Raises UsageError for what is no address."""
        ordered = tuple(sorted(set(texts)))
        try:
            addresses = frozenset(Address.parse(text) for text in ordered)
        except ValueError as error:
            raise UsageError(f"--target: {error}") from error
        return cls(ordered, addresses, frozenset(a for address in addresses for a in _and_above(address)))

    def includes_policy(self, policy: Address) -> bool:
        """Whether anything of this policy is meant."""
        return not self.addresses or policy in self.above

    def include(self, address: Address) -> bool:
        """Whether the decision at `address` is part of the plan."""
        return not self.addresses or address in self.above or any(a in self.addresses for a in _and_above(address))

    def check_all_matched(self, decisions: Iterable[Decision], policies: Iterable[Address]) -> None:
        """Raises UsageError where nothing is decided in or above a target: a typing error must not read as "in sync"."""
        if not self.addresses:
            return
        missing = set(self.addresses)
        for decision in decisions:
            missing.difference_update(_and_above(decision.address))
            if decision.address in self.above:
                missing = {address for address in missing if decision.address not in _and_above(address)}
        if missing:
            address = min(missing)
            near = did_you_mean(str(address.policy_address), map(str, policies))
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"--target {address}: nothing is decided about it{hint}")


def _and_above(address: Address) -> tuple[Address, ...]:
    """The address, its topic and its policy."""
    return address, Address(address.kind, address.policy, address.name), address.policy_address
