"""Hypothesis strategies of complete planner inputs: a Cluster, policies, waivers and a snapshot.

Most facts are healthy; sometimes a fact is missing, a topic cannot be truncated, or a group cannot
be removed. Names and offsets are few, so that claims, protections and consumers often meet. Each
input comes from one seed: to draw each number through Hypothesis takes 20 ms per input instead of
2, which matters more than shrinking.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from reconciler.model.names import TopicPartition
from reconciler.model.plan import Plan
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    GroupFacts,
    GroupState,
    GroupType,
    KeptForever,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.operations.delete_records import LagPolicy
from reconciler.plan import planner, recheck
from reconciler.plan.rules import RuleSet
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from tests.strategies import facts
from tests.strategies.facts import DAY, HOUR, NOW_MS, OTHER_ID, TOPIC_ID, is_pattern

T = TypeVar("T")
F = TypeVar("F", PartitionFacts, TopicFacts, GroupFacts, ClusterSnapshot)

TOPIC_SELECTORS = (
    "*",
    "orders",
    "orders*",
    "clicks",
    "regex:^c.*$",
    "_schemas",
    "__remote_log_metadata",
    "journal",
    "gone",
)
GROUPS = ("billing", "shipping", "console-1", "[ab]", "carts")
GROUP_SELECTORS = ("*", "billing", "shipping", "console-1", "console-*", "regex:^.*ing$", "gone")
MAX_OFFSET = 60

PARTITION_FACTS = (
    "topic_id",
    "leader",
    "replicas",
    "in_sync",
    "log_start",
    "last_stable_offset",
    "high_watermark",
    "readers",
    "readers_below",
    "last_purge",
)
TOPIC_FACTS = ("partitions", "cleanup_policy", "kept_forever", "records", "topic_id")
GROUP_FACTS = ("type", "state", "commits", "commit_topics", "fingerprint", "last_activity_ms", "newest_record")
SNAPSHOT_FACTS = ("topics_incomplete", "groups_incomplete", "readers_incomplete", "cluster_records")


@dataclass(frozen=True)
class PlannerInput:
    """All arguments of the planner."""

    cluster: Cluster
    policies: tuple[Policy, ...]
    waivers: tuple[Waiver, ...]
    snapshot: ClusterSnapshot

    @property
    def rules(self) -> RuleSet:
        return RuleSet(self.cluster, self.policies, self.waivers)

    def plan(self, **changes: Any) -> Plan:
        return planner.plan(self.rules, self.snapshot, **changes)

    def recheck(self, saved: Plan) -> recheck.Recheck:
        """Decide the actions of a saved plan again, by these policies and on these facts."""
        return recheck.recheck(saved, self.rules, self.snapshot)


def seeded(build: Callable[[Random], T]) -> st.SearchStrategy[T]:
    """Strategy of what `build` makes from a random seed."""
    return st.integers(0, 2**48).map(lambda seed: build(Random(seed)))


def chance(r: Random, one_in: int) -> bool:
    return r.randrange(one_in) == 0


def rarely(r: Random, healthy: T, *odd: T, one_in: int = 12) -> T:
    """Mostly the healthy value, sometimes another one."""
    return r.choice(odd) if chance(r, one_in) else healthy


def lose_fact(r: Random, facts_object: F, *names: str, one_in: int = 12) -> F:
    """Mostly the unchanged facts, sometimes with one of the named facts unknown."""
    return replace(facts_object, **{r.choice(names): Unknown("lost")}) if chance(r, one_in) else facts_object


def sample(r: Random, values: Sequence[T], max_count: int = 2) -> list[T]:
    """One to `max_count` of the values."""
    return r.sample(values, r.randint(1, max_count))


# --- manifests


def duration(r: Random) -> str:
    return r.choice(("0s", "30s", "1h", "7d"))


def mode(r: Random, *, reviewed_only: bool = False) -> dict[str, str]:
    """A mode that such a policy may have."""
    return {"mode": "merge" if reviewed_only else r.choice(("merge", "continuous"))}


def keep(r: Random, *, exact: bool) -> dict[str, Any]:
    """Any valid combination of `keep` rules."""
    rules: dict[str, Any] = {}
    if chance(r, 2):
        rules["newerThan"] = r.choice(("30s", "1h", "7d"))
    if chance(r, 4):
        rules["since"] = r.choice(("2026-11-14T10:00:00Z", "2026-11-21T10:00:00Z", "1960-01-01T00:00:00Z"))
    if chance(r, 3):
        rules["last"] = r.randint(1, MAX_OFFSET // 2)
    if exact and chance(r, 4):
        rules["fromOffset"] = {str(number): r.randint(0, MAX_OFFSET) for number in sample(r, range(3))}
    if not rules or chance(r, 3):
        rules["unreadBy"] = sample(r, ("billing", "shipping"))
    return rules


def floor(r: Random, name: str = "f") -> RetentionFloor:
    """A floor on a few topics."""
    topics = [topic for topic in sample(r, TOPIC_SELECTORS) if not topic.startswith("__")] or ["orders"]
    pattern = any(map(is_pattern, topics))
    spec: dict[str, Any] = {"keep": keep(r, exact=not pattern)}
    if pattern:
        spec["expectAtMost"] = rarely(r, 6, 0, 1)
    if chance(r, 5):
        spec["exceptTopics"] = sample(r, TOPIC_SELECTORS, 1)
    if "fromOffset" not in spec["keep"] and chance(r, 4):
        spec["partitions"] = sample(r, range(3))
    spec["consumers"] = r.choice(("block", "clamp", "ignore"))
    if chance(r, 3):
        spec["exceptGroups"] = sample(r, (*GROUP_SELECTORS, "carts"))
    if chance(r, 2):
        spec["every"] = duration(r)
    spec["driftAfter"] = duration(r)
    unpinned = "fromOffset" in spec["keep"] and "topicId" not in spec["keep"]
    reviewed_only = unpinned or "*" in spec.get("exceptGroups", ())
    return facts.floor(*topics, name=name, envelope=mode(r, reviewed_only=reviewed_only), **spec)


def removal(r: Random, name: str = "g") -> GroupRemoval:
    """A removal of a few groups."""
    groups = sample(r, GROUP_SELECTORS)
    pattern = any(map(is_pattern, groups))
    spec: dict[str, Any] = {"idleFor": "3d" if pattern else r.choice(("0s", "3d"))}
    if pattern:
        spec["expectAtMost"] = rarely(r, 6, 0, 1)
    if chance(r, 4):
        spec["exceptGroups"] = sample(r, GROUP_SELECTORS, 1)
    if chance(r, 4):
        spec["types"] = sample(r, ("classic", "consumer"), 1)
    envelope = mode(r, reviewed_only=spec["idleFor"] == "0s")
    return facts.removal(*groups, name=name, envelope=envelope, **spec)


def leader_policy(r: Random, name: str = "l") -> LeaderPolicy:
    """Preferred leaders of a few topics, or unclean elections of exact partitions."""
    tolerance = r.choice((0, 0, 30, 50, 100))
    if chance(r, 4):
        exact = {topic: sample(r, range(3)) for topic in sample(r, ("orders", "clicks", "journal", "gone"))}
        return facts.leaders(name=name, tolerance=tolerance, election="unclean", partitions=exact)
    return facts.leaders(*sample(r, TOPIC_SELECTORS), name=name, envelope=mode(r), tolerance=tolerance)


def policies(r: Random) -> tuple[Policy, ...]:
    """One to three policies with different names."""
    kinds: Sequence[Callable[[Random, str], Policy]] = (floor, floor, removal, leader_policy)
    return tuple(r.choice(kinds)(r, f"p{index}") for index in range(r.randint(1, 3)))


def limit_spec(r: Random) -> dict[str, int]:
    """Some limits, from 0 to values that no plan exceeds."""
    max_count = {
        "topics": 4,
        "recordsPercentPerTopic": 100,
        "recordsPercent": 100,
        "groups": 4,
        "groupsPercent": 100,
        "elections": 6,
        "uncleanElections": 0,
    }
    return {name: r.randint(0, bound) for name, bound in max_count.items() if chance(r, 2)}


def cluster(r: Random) -> Cluster:
    """A Cluster, mostly without protections, with limits that sometimes refuse."""
    protect: dict[str, Any] = {}
    if chance(r, 8):
        protect["topics"] = sample(r, TOPIC_SELECTORS, 1)
    if chance(r, 8):
        protect["groups"] = sample(r, GROUP_SELECTORS, 1)
    return facts.cluster(journal={"topic": "journal"}, protect=protect, limits=limit_spec(r))


def waivers(r: Random, of: tuple[Policy, ...]) -> tuple[Waiver, ...]:
    """Waivers for these policies, some of them expired or valid for too long."""
    limits = {
        "RetentionFloor": ("topics", "recordsPercentPerTopic", "recordsPercent"),
        "GroupRemoval": ("groups", "groupsPercent"),
        "LeaderPolicy": ("elections", "uncleanElections"),
    }
    return tuple(
        facts.waiver(
            str(policy.address),
            r.choice(limits[policy.address.kind]),
            r.randint(0, 100),
            name=f"w{index}",
            expires=r.choice(("2026-11-21T20:00:00Z", "2026-11-20T10:00:00Z", "2027-11-20T10:00:00Z")),
        )
        for index, policy in enumerate(r.choices(of, k=r.randint(0, 3)))
    )


# --- facts


def readers(r: Random, log_start: int, high_watermark: int) -> tuple[ConsumerPosition, ...]:
    """Most groups have a position, mostly near the end; a few have no commit or belong to another
    topic id.
    """
    positions = []
    for name in sorted(GROUPS[:4]):
        if chance(r, 4):
            continue
        without_commit = chance(r, 10)
        committed = log_start if without_commit else max(0, high_watermark + rarely(r, 0, 3) - r.randint(0, 20))
        topic_id: Any = rarely(r, TOPIC_ID, None, OTHER_ID, Unknown("lost"), one_in=20)
        positions.append(ConsumerPosition(name, committed, without_commit, topic_id))
    return tuple(positions)


def partition(r: Random, name: TopicPartition, instants: tuple[int, ...]) -> PartitionFacts:
    """Facts of one partition. Answers to later instants never have lower offsets."""
    replicas = r.choice(((1, 2, 3), (2, 3, 1), (3, 1), (1, 2), (2,)))
    in_sync = rarely(r, replicas, replicas[:1], replicas[1:], (), one_in=5)
    log_start = r.randint(0, 15)
    last_stable_offset = r.randint(log_start, MAX_OFFSET)
    if chance(r, 20):
        log_start, last_stable_offset = last_stable_offset, log_start
    high_watermark = max(log_start, last_stable_offset) + rarely(r, 0, 1, 5)
    offsets = sorted(r.randint(log_start, MAX_OFFSET + 5) for _ in instants)
    answers: dict[int, int | Unknown | None] = {
        instant: None if offset > high_watermark else offset
        for instant, offset in zip(sorted(instants), offsets, strict=True)
    }
    if instants and chance(r, 30):
        answers[r.choice(instants)] = rarely(r, Unknown("lost"), -1, one_in=2)
    healthy = facts.partition(
        name.partition,
        topic=name.topic,
        topic_id=rarely(r, TOPIC_ID, OTHER_ID, one_in=40),
        leader=rarely(r, r.choice(replicas), None, one_in=12),
        replicas=replicas,
        in_sync=in_sync,
        log_start=rarely(r, log_start, -1001, one_in=100),
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        offsets_at=answers,
        readers=readers(r, log_start, high_watermark),
        readers_below=rarely(r, max(0, last_stable_offset), 0, 20, one_in=30),
        last_purge=rarely(
            r,
            None,
            NOW_MS,
            NOW_MS - 31_000,
            NOW_MS - 10**9,
            one_in=4,
        ),
    )
    if healthy.leader is None:  # no broker knows its offsets
        no_leader = Unknown("no leader")
        healthy = replace(
            healthy,
            log_start=no_leader,
            last_stable_offset=no_leader,
            high_watermark=no_leader,
            offsets_at=dict.fromkeys(instants, no_leader),
        )
    return lose_fact(r, healthy, *PARTITION_FACTS)


def group(r: Random, name: str) -> GroupFacts:
    """A group, mostly idle and EMPTY. `carts` sometimes has a type that the program cannot read."""
    type_ = r.choice((GroupType.CLASSIC, GroupType.CONSUMER))
    if name == "carts":
        type_ = rarely(r, type_, GroupType.SHARE, GroupType.STREAMS, GroupType.CONNECT, GroupType.HIDDEN, one_in=6)
    healthy = facts.group(
        name,
        idle=rarely(r, 6 * DAY, 0, DAY, one_in=4),
        listed=not chance(r, 15),
        type=type_,
        state=rarely(r, GroupState.EMPTY, *GroupState, one_in=4),
        commits=r.randint(0, 5),
        commit_topics=1,
        fingerprint=r.choice(("ab" * 32, "cd" * 32)),
        newest_record=r.choice(((17, 1), (17, 2))),
    )
    return lose_fact(r, healthy, *GROUP_FACTS, one_in=25)


def snapshot(r: Random, instants: tuple[int, ...] = ()) -> ClusterSnapshot:
    """Facts of a small cluster, with an offset for each of `instants` on every partition."""
    all_facts: list[TopicFacts | PartitionFacts | GroupFacts] = []
    other_topics = r.sample(("orders-2", "_schemas", "__remote_log_metadata", "journal"), r.randint(0, 2))
    names = ["orders", "clicks", *other_topics]
    r.shuffle(names)
    for name in names[: rarely(r, len(names), 1)]:
        count = rarely(r, 1, 2, 3, one_in=3)
        cleanup = rarely(
            r, frozenset({"delete"}), frozenset({"compact"}), frozenset({"compact", "delete"}), frozenset[str]()
        )
        records = rarely(r, 200, 0, 5, 30, 90, one_in=3)
        forever = rarely(r, None, *KeptForever)
        topic = facts.topic(
            name, count, internal=chance(r, 20), cleanup_policy=cleanup, kept_forever=forever, records=records
        )
        all_facts.append(lose_fact(r, topic, *TOPIC_FACTS, one_in=20))
        all_facts += [
            partition(r, TopicPartition(name, number), instants) for number in range(count) if not chance(r, 40)
        ]
    all_facts += [group(r, name) for name in r.sample(GROUPS, 5) if not chance(r, 5)]
    brokers = rarely(r, (1, 2, 3), (1, 2), (3,), ())
    healthy = facts.snapshot(*all_facts, brokers=brokers, cluster_records=rarely(r, 500, 0, 60, one_in=5))
    return lose_fact(r, healthy, *SNAPSHOT_FACTS, one_in=15)


def shuffled(r: Random, items: Iterable[T]) -> list[T]:
    """The items in a random order."""
    all_items = list(items)
    return r.sample(all_items, len(all_items))


def reordered(r: Random, facts: ClusterSnapshot) -> ClusterSnapshot:
    """The same facts, in dictionaries of another order; consumers are sorted by contract."""
    return replace(
        facts,
        topics=dict(shuffled(r, facts.topics.items())),
        groups=dict(shuffled(r, facts.groups.items())),
        partitions={
            name: replace(partition, offsets_at=dict(shuffled(r, partition.offsets_at.items())))
            for name, partition in shuffled(r, facts.partitions.items())
        },
    )


# --- strategies


def requested_instants(of: Sequence[Policy], at_ms: int = NOW_MS) -> tuple[int, ...]:
    """All instants for which these policies need offsets."""
    request = planner.scan_request(of, at_ms)
    return tuple(sorted({instant for topic_request in request.topics for instant in topic_request.instants_ms}))


def _planner_input(r: Random, of: tuple[Policy, ...]) -> PlannerInput:
    return PlannerInput(cluster(r), of, waivers(r, of), snapshot(r, requested_instants(of)))


def example(r: Random) -> PlannerInput:
    """Some policies, and facts that answer them."""
    return _planner_input(r, policies(r))


planner_inputs = seeded(example)
floor_inputs = seeded(lambda r: _planner_input(r, (floor(r),)))
"""One floor, without other policies."""


def other_day(r: Random) -> tuple[PlannerInput, PlannerInput]:
    """The same Cluster and policies with the facts of two days."""
    first_day = _planner_input(r, policies(r))
    return first_day, replace(first_day, snapshot=snapshot(r, requested_instants(first_day.policies)))


two_days = seeded(other_day)


# --- a later day


def edited(r: Random, policy: Policy) -> Policy:
    """The policy with one other parameter, as a later change to the manifests may have it."""
    changes: dict[str, Any]
    match policy:
        case RetentionFloor(spec=spec):
            rule = r.choice(
                ({"last": r.randint(1, MAX_OFFSET // 2)}, {"newer_than": r.choice((30_000, HOUR, 7 * DAY))})
            )
            changes = r.choice(
                (
                    {"keep": spec.keep.model_copy(update=rule)},
                    {"keep": spec.keep.model_copy(update={"since": NOW_MS + r.choice((-DAY, 30 * DAY))})},
                    {"consumers": r.choice(list(LagPolicy))},
                    {"every": r.choice((None, 30_000, HOUR))},
                    {"except_groups": None},
                    {"except_topics": (Selector("orders"),)},
                    {"expect_at_most": 0},
                )
            )
        case GroupRemoval(spec=spec):
            idle = {"idle_for": r.choice((1_000, 3 * DAY, 30 * DAY))}
            types = {"types": (r.choice((GroupType.CLASSIC, GroupType.CONSUMER)),)}
            changes = r.choice((idle, types, {"except_groups": (Selector("billing"),)}, {"expect_at_most": 0}))
        case LeaderPolicy(spec=spec):
            changes = {"tolerance": r.choice((0, 50, 100))}
        case _:
            raise AssertionError(policy)
    return policy.model_copy(update={"spec": spec.model_copy(update=changes)})


def moved_partition(r: Random, before: PartitionFacts, instants: tuple[int, ...]) -> PartitionFacts:
    """The same log a little later: longer, perhaps shorter at its start, its consumers mostly further.

    Rarely the log was cut, brought records back, or is that of another topic.
    """
    if not (isinstance(before.log_start, int) and isinstance(before.last_stable_offset, int)):
        return before
    produced, expired = rarely(r, 0, 1, 6, one_in=2), rarely(r, 0, 1, 9, -2, one_in=5)
    end = before.last_stable_offset + produced
    log_start = max(0, min(before.log_start + expired, max(end, before.log_start)))
    offsets = sorted(r.randint(max(0, log_start), max(0, log_start, end)) for _ in instants)
    created_again: dict[str, Any] = {"topic_id": OTHER_ID} if chance(r, 10) else {}
    readers: Any = before.readers
    if isinstance(readers, tuple):
        readers = tuple(
            replace(reader, committed=max(0, reader.committed + rarely(r, produced, 3, -3, one_in=3)), **created_again)
            for reader in readers
            if not chance(r, 20)
        )
    moved = replace(
        before,
        topic_id=created_again.get("topic_id", before.topic_id),
        log_start=log_start,
        last_stable_offset=end,
        high_watermark=before.high_watermark
        if isinstance(before.high_watermark, Unknown)
        else before.high_watermark + rarely(r, produced, -1, one_in=15),
        offsets_at=dict(zip(sorted(instants), offsets, strict=True)),
        readers=readers,
        readers_below=before.readers_below if isinstance(before.readers_below, Unknown) else max(0, end),
        last_purge=rarely(r, before.last_purge, None, NOW_MS, one_in=4),
    )
    return lose_fact(r, moved, *PARTITION_FACTS, one_in=20)


def moved_snapshot(r: Random, before: ClusterSnapshot, instants: tuple[int, ...], at_ms: int) -> ClusterSnapshot:
    """The same cluster later; sometimes a topic, partition or group is another one or gone."""
    other = snapshot(r, instants)
    partitions = {
        name: rarely(r, moved_partition(r, facts, instants), other.partitions.get(name), one_in=10)
        for name, facts in before.partitions.items()
    }
    topics = {name: rarely(r, facts, other.topics.get(name), one_in=12) for name, facts in before.topics.items()}
    groups = {name: rarely(r, facts, other.groups.get(name), one_in=5) for name, facts in before.groups.items()}
    later = replace(
        before,
        observed_at_ms=at_ms,
        brokers=rarely(r, before.brokers, other.brokers, one_in=8),
        topics={name: facts for name, facts in topics.items() if facts is not None},
        partitions={name: facts for name, facts in partitions.items() if facts is not None},
        groups={name: facts for name, facts in groups.items() if facts is not None},
    )
    return lose_fact(r, later, *SNAPSHOT_FACTS, one_in=20)


def later_day(r: Random) -> tuple[PlannerInput, PlannerInput]:
    """A day, and a later one whose policies, protections and facts are mostly the same."""
    first = _planner_input(r, policies(r))
    of = tuple(edited(r, policy) if chance(r, 3) else policy for policy in first.policies)
    of = rarely(r, of, of[1:], (*of, r.choice((floor, removal, leader_policy))(r, "new")), one_in=8)
    at_ms = NOW_MS + r.choice((0, 1, 31_000, HOUR, 20 * HOUR))
    facts_of_later = moved_snapshot(r, first.snapshot, requested_instants(of, at_ms), at_ms)
    return first, PlannerInput(rarely(r, first.cluster, cluster(r), one_in=8), of, first.waivers, facts_of_later)


later_days = seeded(later_day)
