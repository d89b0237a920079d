"""From policies and one snapshot to a plan: who is meant, who is protected, what two policies claim. A pure function of its arguments.

What a subject deserves is decided in kinds/, whether the whole is too much in limits.py. No clock, no I/O.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from reconciler.errors import WrongCluster
from reconciler.model.action import Mode
from reconciler.model.block_reason import BlockReason
from reconciler.model.election import Election
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, Plan, PolicyInfo, Skipped, Source, sort_decisions
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.delete_group import DeleteGroup
from reconciler.plan import limits
from reconciler.plan.conflicts import Conflict, ConflictIndex, Selection, UnreadByIndex, selection
from reconciler.plan.protection import Protection
from reconciler.plan.targets import Targets
from reconciler.policies import (
    Cluster,
    GroupRemoval,
    LeaderPolicy,
    Policy,
    RetentionFloor,
    Waiver,
    group_removal,
    leader_policy,
    retention_floor,
)

DAY_MS = 86_400_000
ALL_MODES = frozenset(Mode)


def needs(policies: Iterable[Policy], observed_at_ms: int) -> ScanRequest:
    """Everything that deciding these policies wants to know, the limits' denominators included."""
    return ScanRequest.union(_needs(policy, observed_at_ms) for policy in policies)


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
    """One decision for each subject of each policy, and the verdict of the limits.

    `policies`: all of the cluster, since those outside `modes` and `targets` still claim their subjects. `snapshot` answers
    `needs(…, snapshot.observed_at_ms)` of those inside.

    Raises WrongCluster for facts of another cluster, UsageError for a target that nothing is decided about.
    """
    if snapshot.cluster_id != cluster.spec.cluster_id:
        raise WrongCluster(
            f"{cluster.address} names cluster id {cluster.spec.cluster_id}, the facts are of {snapshot.cluster_id}: nothing was "
            f"planned; correct bootstrapServers or clusterId in {cluster.declared_at}"
        )
    wanted = Targets.parse(targets)
    selections = sorted((selection(policy, snapshot) for policy in policies), key=lambda s: s.policy.address)
    claims, awaited = ConflictIndex(selections), UnreadByIndex(s.policy for s in selections)
    protection = Protection.of(cluster)
    chosen = [s for s in selections if s.policy.mode in modes and wanted.touch(s.policy.address)]
    decisions = sort_decisions(
        decision
        for one in chosen
        for decision in _decided(one, claims.contests(one), protection, awaited, snapshot)
        if wanted.include(decision.address)
    )
    wanted.prove(decisions, [s.policy.address for s in selections])
    in_scope = [one.policy for one in chosen]
    return Plan(
        cluster=cluster.metadata.name,
        cluster_id=snapshot.cluster_id,
        observed_at_ms=snapshot.observed_at_ms,
        expires_at_ms=snapshot.observed_at_ms + expires_after_ms,
        decisions=decisions,
        limits=limits.verdicts(decisions, cluster, waivers, snapshot),
        source=source or Source(),
        targets=wanted.texts,
        incomplete=tuple(_incomplete(in_scope, decisions, snapshot)),
        notes=tuple(
            PolicyInfo(policy=policy.address, owner=policy.metadata.owner, reason=policy.metadata.reason)
            for policy in in_scope
            if policy.metadata.owner is not None or policy.metadata.reason is not None
        ),
    )


def _needs(policy: Policy, observed_at_ms: int) -> ScanRequest:
    match policy:
        case RetentionFloor():
            return retention_floor.needs(policy, observed_at_ms)
        case GroupRemoval():
            return group_removal.needs(policy, observed_at_ms)
        case LeaderPolicy():
            return leader_policy.needs(policy, observed_at_ms)
        case _:
            assert_never(policy)


def _decide(policy: Policy, subjects: Mapping[str, bool], snapshot: ClusterSnapshot) -> Iterable[Decision]:
    match policy:
        case RetentionFloor():
            return retention_floor.decide(policy, subjects, snapshot)
        case GroupRemoval():
            return group_removal.decide(policy, subjects, snapshot)
        case LeaderPolicy():
            return leader_policy.decide(policy, subjects, snapshot)
        case _:
            assert_never(policy)


def _decided(
    one: Selection,
    contests: Mapping[str, Conflict],
    protection: Protection,
    awaited: UnreadByIndex,
    snapshot: ClusterSnapshot,
) -> Iterator[Decision]:
    """All decisions of one policy: too many, protected, contested, awaited, and what its kind says about the rest."""
    policy = one.policy
    if objection := _too_many(one):
        yield objection.blocked(policy.address, policy.declared_at)
        return
    free = {}
    for name, exact in one.subjects.items():
        if objection := _protected(policy, name, protection):
            yield objection.blocked_or_skipped(_address(policy, name), policy.declared_at, exact=exact)
        else:
            free[name] = exact
    told = set()
    for decision in _decide(policy, free, snapshot):
        address = decision.address
        contest = contests.get(address.name)
        if contest is None and isinstance(decision, DeleteGroup) and (objection := awaited.removal(decision.group)):
            yield objection.blocked(address, policy.declared_at)
        elif contest is None or isinstance(decision, Skipped):
            yield decision
        elif contest.partitions is None:
            # all of it is claimed twice, so once for the whole topic and not once per partition
            if address.name not in told:
                told.add(address.name)
                yield contest.objection.blocked(_address(policy, address.name), policy.declared_at)
        elif address.partition in contest.partitions:
            yield contest.objection.blocked(address, policy.declared_at)
        else:
            yield decision


def _address(policy: Policy, name: str) -> Address:
    return Address(policy.address.kind, policy.address.policy, name)


def _too_many(one: Selection) -> BlockReason | None:
    policy = one.policy
    if isinstance(policy, LeaderPolicy):
        return None
    most = policy.spec.expect_at_most
    if most is None or one.matched <= most:
        return None
    what = "groups" if isinstance(policy, GroupRemoval) else "topics"
    return BlockReason(
        code="B107",
        reason=f"selects {one.matched} {what}, and expectAtMost is {most}: nothing of this policy is done",
        next_step=f"narrow {what}, or raise expectAtMost to {one.matched} if all of them are meant",
    )


def _protected(policy: Policy, name: str, protection: Protection) -> BlockReason | None:
    match policy:
        case RetentionFloor():
            return protection.of_records(name)
        case GroupRemoval():
            return protection.of_group(name)
        case LeaderPolicy():
            # moving a leader loses nothing, electing one that is out of sync loses records
            return protection.of_records(name) if policy.spec.election is Election.UNCLEAN else None
        case _:
            assert_never(policy)


def _incomplete(policies: Sequence[Policy], decisions: Iterable[Decision], snapshot: ClusterSnapshot) -> Iterator[str]:
    """Sentences saying what could not be read, of what these policies rest on."""
    floors = any(isinstance(policy, RetentionFloor) for policy in policies)
    on_topics = floors or any(isinstance(policy, LeaderPolicy) for policy in policies)
    on_groups = floors or any(isinstance(policy, GroupRemoval) for policy in policies)
    if on_topics and snapshot.topics_incomplete is not None:
        yield f"The list of topics is incomplete: {snapshot.topics_incomplete.reason}."
    if on_groups and snapshot.groups_incomplete is not None:
        yield f"The list of groups is incomplete: {snapshot.groups_incomplete.reason}."
    if floors and snapshot.readers_incomplete is not None:
        yield f"Not every group's position is known: {snapshot.readers_incomplete.reason}."
    unread: dict[Address, list[Blocked]] = {}
    for decision in decisions:
        if isinstance(decision, Blocked) and decision.unread:
            unread.setdefault(decision.address.policy_address, []).append(decision)
    for address, blocked in unread.items():
        subjects = "subject" if len(blocked) == 1 else "subjects"
        yield f"{len(blocked)} {subjects} of {address} could not be read, the first because {blocked[0].reason}."
