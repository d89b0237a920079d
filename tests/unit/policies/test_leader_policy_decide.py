"""When an election is planned: a preferred leader that can lead, and an unclean one as the last
resort.
"""

from typing import Any

import pytest

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Decision, Satisfied, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import PartitionFacts, Unknown
from reconciler.operations.elect_leader import ElectLeader
from reconciler.policies import LeaderPolicy
from tests.golden.wording import mentions
from tests.strategies.facts import LOST, NOW_MS, cluster, leaders, partition, planned, snapshot, topic

ADDRESS = Address("LeaderPolicy", "all", "orders", 0)


def preferring(number: int, replicas: tuple[int, ...], leader: int | Unknown | None, **facts: Any) -> PartitionFacts:
    return partition(number, replicas=replicas, leader=leader, in_sync=replicas, **facts)


# --- elections

PLACE = SourceLocation("manifests/leaders.yaml", 6, 1)
UNCLEAN = leaders(partitions={"orders": [0]}, election="unclean")
BEYOND = leaders(partitions={"orders": [0]}, election="unclean", tolerance=100)
LEADERLESS, NONE_IN_SYNC = partition(leader=None, in_sync=(2,)), partition(leader=None, in_sync=())
WITHOUT_OFFSETS = partition(leader=2, log_start=LOST, last_stable_offset=LOST, readers=LOST)


@pytest.mark.parametrize(
    ("policy", "facts", "brokers", "kind", "said", "unsaid"),
    [
        (leaders(), partition(leader=1, in_sync=(1,)), (1,), Satisfied, (), ()),
        (leaders(), partition(leader=None), (1, 2, 3), ElectLeader, ("no leader", "broker 1"), ()),
        (
            leaders(envelope={"mode": "continuous"}),
            *(partition(leader=2), (1, 2, 3), ElectLeader, ("2", "broker 1"), ()),
        ),
        # The plan of leaders needs no offsets and therefore no Spark.
        (leaders(), WITHOUT_OFFSETS, (1, 2, 3), ElectLeader, (), ()),
        # An unavailable preferred replica is waited for, without a time limit. The reason names it and not the
        # present leader: all partitions that wait for one broker have the same reason.
        (leaders(), partition(leader=2, in_sync=(2, 3)), (1, 2, 3), Waiting, ("led", "in sync", "broker 1"), ("2",)),
        (leaders(), partition(leader=2), (2, 3), Waiting, ("led", "alive", "broker 1"), ("in sync", "2")),
        (leaders(), partition(leader=2, in_sync=(2, 3)), (2, 3), Waiting, ("led", "alive"), ("in sync", "2")),
        (leaders(), partition(leader=None), (2, 3), Waiting, ("no leader", "alive", "broker 1"), ("in sync",)),
        # Unclean: without any replica in sync, or with one that is away, whose loss is named; not within a tolerance.
        (
            UNCLEAN,
            NONE_IN_SYNC,
            (1, 2, 3),
            ElectLeader,
            ("1,2,3", "leaderless", "not in sync", "lost is not known"),
            (),
        ),
        (UNCLEAN, LEADERLESS, (1, 3), ElectLeader, ("1,3", "only 2 had is lost"), ()),
        (BEYOND, NONE_IN_SYNC, (1, 2, 3), ElectLeader, (), ()),
        # It waits where it is unnecessary or impossible.
        (UNCLEAN, partition(leader=3, in_sync=(3,)), (1, 2, 3), Satisfied, (), ()),
        (UNCLEAN, LEADERLESS, (1, 2), Waiting, ("orders[0]", "broker 2"), ()),
        (UNCLEAN, LEADERLESS, (4,), Waiting, ("orders[0]", "no replica"), ()),
    ],
)
def test_when_a_leader_is_elected(
    policy: LeaderPolicy,
    facts: PartitionFacts,
    brokers: tuple[int, ...],
    kind: type[Decision],
    said: tuple[str, ...],
    unsaid: tuple[str, ...],
) -> None:
    (decision,) = planned(policy, snapshot(facts, brokers=brokers)).decisions
    assert isinstance(decision, kind)
    assert decision.address == ADDRESS
    assert not isinstance(decision, ElectLeader) or decision.mode is policy.mode
    if isinstance(decision, Waiting):
        assert (decision.declared_at, decision.until_ms) == (PLACE, None)
        assert mentions(decision.reason, "orders[0]")
    if not isinstance(decision, Satisfied):
        assert mentions(decision.reason, *said)
        assert not any(mentions(decision.reason, word) for word in unsaid)
    assert not leaders().scan_request(NOW_MS).spark


def test_a_silent_broker_is_elected_by_no_policy_and_makes_no_election_unclean() -> None:
    """Without a quorum nobody fences it: a plan said that it is alive. It may lead again, so nothing is lost yet."""
    facts = {"brokers": (1, 2, 3), "silent_brokers": frozenset({1, 2})}
    (decision,) = planned(leaders(), snapshot(partition(leader=2), **facts)).decisions
    assert isinstance(decision, Waiting)
    assert mentions(decision.reason, "broker 1", "is not alive")
    (decision,) = planned(UNCLEAN, snapshot(LEADERLESS, **facts)).decisions
    assert isinstance(decision, Waiting)


@pytest.mark.parametrize(
    ("policy", "facts", "block", "stated"),
    [
        (leaders("odrers"), partition(), "B101 odrers", ("odrers",)),
        (leaders(), topic("orders", LOST), "B103? orders", ("partitions", "orders", LOST.reason)),
        (leaders(), topic("orders", 1), "B103? orders[0]", ("orders[0]",)),
        (leaders(), partition(leader=LOST), "B103? orders[0]", ("leader", "orders[0]", LOST.reason)),
        *(
            (leaders(), partition(**{"leader": 2, field: LOST}), "B103? orders[0]", (LOST.reason,))
            for field in ("topic_id", "replicas", "in_sync")
        ),
        (leaders(), partition(replicas=()), "B104 orders[0]", ("orders[0]", "replicas")),
        (
            leaders(partitions={"orders": [3]}, election="unclean"),
            topic("orders", 3),
            "B102 orders[3]",
            ("orders", "3"),
        ),
    ],
)
def test_what_is_missing_or_unread_blocks(policy: Any, facts: Any, block: str, stated: tuple[str, ...]) -> None:
    (decision,) = planned(policy, snapshot(facts)).decisions
    assert isinstance(decision, Blocked)
    assert f"{decision.code}{'?' * decision.unread} {str(decision.address).rpartition('/')[2]}" == block
    assert mentions(decision.reason, *stated)
    assert decision.declared_at == PLACE


def test_patterns_select_internal_topics_too() -> None:
    """A move of the leader loses no records."""
    facts = snapshot(partition(topic="__consumer_offsets", leader=2), topic("__consumer_offsets", internal=True))
    (decision,) = planned(leaders("*"), facts, cluster=cluster(protect={"topics": ["*"]})).decisions
    assert isinstance(decision, ElectLeader)


# --- tolerance


def elected_partitions(tolerance: float, *facts: Any, topics: tuple[str, ...] = ("*",)) -> list[str]:
    """Return the partitions for which a policy with this tolerance has actions."""
    decisions = planned(leaders(*topics, tolerance=tolerance), snapshot(*facts)).decisions
    return [str(d.partition) for d in decisions if isinstance(d, ElectLeader)]


LED = [preferring(number, (1, 2), 1) for number in range(1, 200)]
"""Partitions that prefer broker 1, and have it."""
MOVED = preferring(0, (1, 2), 2)
OTHER_TOPIC = [preferring(number, (1, 2), 1, topic="other") for number in range(2)]
OFFLINE = preferring(0, (1, 2), None)


@pytest.mark.parametrize(
    ("facts", "below", "above", "topics"),
    [
        # One of four partitions that prefer broker 1 has another leader; of two hundred, half a percent.
        ([MOVED, *LED[:3]], 25.1, 25, ("*",)),
        ([MOVED, *LED[:3]], 25.1, 0, ("*",)),
        ([MOVED, *LED], 1, 0.5, ("*",)),
        # All topics of the policy count, and no others.
        ([MOVED, *OTHER_TOPIC], 50, 33, ("*",)),
        ([MOVED, *OTHER_TOPIC], None, 50, ("orders",)),
        # An unavailable broker has no partition that waits for it.
        ([MOVED, partition(1, replicas=(1, 2), leader=2, in_sync=(2,))], None, 100, ("*",)),
        # An unread leader counts as preferred, and so may any partition of a topic that is not read.
        ([MOVED, preferring(1, (1, 2), LOST)], 51, 50, ("*",)),
        ([MOVED, topic("other", LOST)], 0.1, 0, ("*",)),
        ([MOVED, *LED[:3], topic("a-unread", LOST)], 20, 0, ("orders", "a-unread", "missing")),
        ([MOVED, *LED[:3]], None, 20, ("orders", "missing")),
        # Each unread leader counts once.
        ([MOVED, *LED[:3], preferring(4, (1, 2), LOST)], None, 20, ("*",)),
        ([MOVED, *LED[:3], *(preferring(number, (1, 2), LOST) for number in (4, 5))], 20, 16, ("*",)),
        # Offline is not led by another broker, and never tolerated.
        ([OFFLINE, *LED[:4]], None, 100, ("*",)),
        ([OFFLINE, preferring(5, (1, 2), 2), *LED[:3]], None, 30, ("*",)),
        # A misspelt topic is not unread.
        ([MOVED], None, 100, ("orders", "odrers")),
    ],
)
def test_a_share_of_moved_leaders_below_the_tolerance_is_satisfied(
    facts: list[Any], below: float | None, above: float, topics: tuple[str, ...]
) -> None:
    """The tolerance is an upper bound of the share that may stay; at the bound there is an action. It is measured
    per preferred broker: broker 2 lost one of one partition, broker 1 one of three.
    """
    assert elected_partitions(50, MOVED, *LED[:2], preferring(3, (2, 1), 1)) == ["orders[3]"]
    assert elected_partitions(above, *facts, topics=topics) == ["orders[0]"]
    assert below is None or elected_partitions(below, *facts, topics=topics) == []


# --- needs


def test_scan_request_of_leaders() -> None:
    """It has the metadata of the selected topics, internal topics included, or of exact partitions."""
    request = TopicRequest(topics=(Selector("*"),), except_topics=(Selector("a"),))
    assert leaders("*", exceptTopics=["a"]).scan_request(NOW_MS) == ScanRequest(topics=(request,))
    of_partitions = leaders(partitions={"b": [1, 2], "a": [0]}, election="unclean").scan_request(NOW_MS)
    assert of_partitions.topics == (
        TopicRequest(topics=(Selector("a"),), partitions=frozenset({0})),
        TopicRequest(topics=(Selector("b"),), partitions=frozenset({1, 2})),
    )
