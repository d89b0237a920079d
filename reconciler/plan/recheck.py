"""What is left of a plan when it is applied: every action held against a fresh snapshot, before the first write. Pure.

An action goes on only if everything it was decided on still holds; nothing is decided anew and no target moves. What is asked again
right before each send is the applier's.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.plan import LimitVerdict, Plan
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import limits
from reconciler.plan.now import RecheckContext
from reconciler.plan.protection import Protection
from reconciler.policies import Cluster, Waiver
from reconciler.text.formatting import format_instant


@dataclass(frozen=True, slots=True)
class Recheck:
    """`remaining`: actions that still hold, in the plan's order. `outcomes`: how the others ended; nothing was sent for them.

    `limits`: their verdict as they stand now, on what remains. One that is not passed refuses the run: the caller's business.
    """

    remaining: tuple[Action, ...]
    outcomes: tuple[Outcome, ...]
    limits: tuple[LimitVerdict, ...]


def needs(plan: Plan) -> ScanRequest:
    """What the recheck wants to know: of partitions only the plan's, of groups that may read them all."""
    purged: dict[tuple[frozenset[str], bool], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    led: dict[str, set[int]] = defaultdict(set)
    removed: dict[bool, list[str]] = defaultdict(list)
    for action in plan.actions:
        match action:
            case DeleteRecords():
                wish = (frozenset(action.guard.named), action.guard.every_ms is not None)
                purged[wish][action.partition.topic].add(action.partition.partition)
            case DeleteGroup():
                removed[action.seen.newest_record is not None].append(action.group)
            case ElectLeader():
                led[action.partition.topic].add(action.partition.partition)
            case _:
                assert_never(action)
    topics = [
        TopicRequest(
            topics=exact, partitions=numbers, offsets=True, readers=True, named_groups=named, last_purge=last_purge
        )
        for (named, last_purge), partitions in purged.items()
        for exact, numbers in _alike(partitions)
    ]
    topics += [TopicRequest(topics=exact, partitions=numbers) for exact, numbers in _alike(led)]
    groups = [
        GroupRequest(groups=tuple(map(Selector.literal, names)), activity=activity)
        for activity, names in removed.items()
    ]
    loses_records = bool(purged)
    return ScanRequest(
        topics=tuple(topics), groups=tuple(groups), topic_records=loses_records, cluster_records=loses_records
    )


def recheck(plan: Plan, cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot, now_ms: int) -> Recheck:
    """Compares plan and snapshot, with protections, limits and waivers of the manifests as they are now.

    `snapshot` answers `needs(plan)`. Raises WrongCluster, and PlanUnusable for a plan that has expired or acts on one subject twice.
    """
    _prove_usable(plan, cluster, snapshot, now_ms)
    now = RecheckContext(snapshot, Protection.of(cluster), now_ms)
    remaining: list[Action] = []
    outcomes: list[Outcome] = []
    for action in plan.actions:
        ending = now.ending(action)
        if ending is None:
            remaining.append(action)
        else:
            outcomes.append(Outcome(action=action, status=ending.status, detail=ending.detail))
    measured = (_as_of(action, snapshot) for action in remaining)
    return Recheck(tuple(remaining), tuple(outcomes), limits.verdicts(measured, cluster, waivers, snapshot))


def _prove_usable(plan: Plan, cluster: Cluster, snapshot: ClusterSnapshot, now_ms: int) -> None:
    for found, where in (
        (snapshot.cluster_id, "the brokers are"),
        (cluster.spec.cluster_id, f"{cluster.address} names"),
    ):
        if found != plan.cluster_id:
            raise WrongCluster(
                f"the plan is for cluster id {plan.cluster_id}, {where} {found}: nothing was done; choose the right manifests or "
                "plan again"
            )
    if now_ms >= plan.expires_at_ms:
        raise PlanUnusable(
            f"the plan expired at {format_instant(plan.expires_at_ms)}, and now it is {format_instant(now_ms)}: nothing was done; "
            "plan again"
        )
    for text in sorted({t for a in plan.actions if isinstance(a, DeleteRecords) for t in a.guard.except_groups}):
        try:
            Selector(text)
        except ValueError as wrong:
            raise PlanUnusable(f"the plan excepts groups by {text!r}, {wrong}: nothing was done; plan again") from wrong
    subjects: set[tuple[type[Action], TopicPartition | str]] = set()
    for action in plan.actions:
        subject = (type(action), action.group if isinstance(action, DeleteGroup) else action.partition)
        if subject in subjects:
            raise PlanUnusable(f"the plan acts on {subject[1]} twice ({action.address}): nothing was done; plan again")
        subjects.add(subject)


def _as_of(action: Action, snapshot: ClusterSnapshot) -> Action:
    """The action as the limits count it: what retention has taken since the plan is no longer lost by it."""
    if not isinstance(action, DeleteRecords):
        return action
    log_start = snapshot.partitions[action.partition].log_start
    assert isinstance(log_start, int)
    return replace(action, seen=replace(action.seen, log_start=log_start))


def _alike(partitions: Mapping[str, set[int]]) -> Iterator[tuple[tuple[Selector, ...], frozenset[int]]]:
    """Topics of which the same partition numbers are wanted, together: one wish for a thousand topics and not a thousand."""
    topics: dict[frozenset[int], list[str]] = defaultdict(list)
    for topic, numbers in partitions.items():
        topics[frozenset(numbers)].append(topic)
    for alike, names in topics.items():
        yield tuple(map(Selector.literal, sorted(names))), alike
