"""When an election is planned: a preferred leader that can lead, and an unclean one as the last
resort.
"""

from typing import Any

import pytest

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Satisfied, Waiting
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


PLACE = SourceLocation("manifests/leaders.yaml", 6, 1)
UNCLEAN = leaders(partitions={"orders": [0]}, election="unclean")
UNCLEAN_3 = leaders(partitions={"orders": [3]}, election="unclean")
BEYOND = leaders(partitions={"orders": [0]}, election="unclean", tolerance=100)
LEADERLESS, NONE_IN_SYNC = partition(leader=None, in_sync=(2,)), partition(leader=None, in_sync=())
WITHOUT_OFFSETS = partition(leader=2, log_start=LOST, last_stable_offset=LOST, readers=LOST)


def row(policy: LeaderPolicy, facts: Any, gives: str, says: str = "", unsaid: str = "", **of_cluster: Any) -> Any:
    """Return a decision by its class, or a block (`?`: of unread facts) with its subject; and words, by commas."""
    return pytest.param(policy, facts, of_cluster, gives, says, unsaid)


@pytest.mark.parametrize(
    ("policy", "facts", "of_cluster", "gives", "says", "unsaid"),
    [
        row(leaders(), partition(leader=1, in_sync=(1,)), "Satisfied", brokers=(1,)),
        row(leaders(), partition(leader=None), "ElectLeader", "no leader, broker 1"),
        row(leaders(envelope={"mode": "continuous"}), partition(leader=2), "ElectLeader", "2, broker 1"),
        # The plan of leaders needs no offsets and therefore no Spark.
        row(leaders(), WITHOUT_OFFSETS, "ElectLeader"),
        # An unavailable preferred replica is waited for, without a time limit. The reason names it and not the
        # present leader: all partitions that wait for one broker have the same reason.
        row(leaders(), partition(leader=2, in_sync=(2, 3)), "Waiting", "led, in sync, broker 1", "2"),
        row(leaders(), partition(leader=2), "Waiting", "led, alive, broker 1", "in sync, 2", brokers=(2, 3)),
        row(leaders(), partition(leader=2, in_sync=(2, 3)), "Waiting", "led, alive", "in sync, 2", brokers=(2, 3)),
        row(leaders(), partition(leader=None), "Waiting", "no leader, alive, broker 1", "in sync", brokers=(2, 3)),
        # Unclean: without any replica in sync, or with one that is away, whose loss is named; not within a tolerance.
        row(UNCLEAN, NONE_IN_SYNC, "ElectLeader", "1,2,3, leaderless, not in sync, lost is not known"),
        row(UNCLEAN, LEADERLESS, "ElectLeader", "1,3, only 2 had is lost", brokers=(1, 3)),
        row(BEYOND, NONE_IN_SYNC, "ElectLeader"),
        # It waits where it is unnecessary or impossible.
        row(UNCLEAN, partition(leader=3, in_sync=(3,)), "Satisfied"),
        row(UNCLEAN, LEADERLESS, "Waiting", "orders[0], broker 2", brokers=(1, 2)),
        row(UNCLEAN, LEADERLESS, "Waiting", "orders[0], no replica", brokers=(4,)),
        # Without a quorum nobody fences a silent broker: a plan said that it is alive. It may lead again, so nothing is
        # lost yet.
        row(leaders(), partition(leader=2), "Waiting", "broker 1, is not alive", silent_brokers=frozenset({1, 2})),
        row(UNCLEAN, LEADERLESS, "Waiting", silent_brokers=frozenset({1, 2})),
        # What is missing or unread blocks.
        row(leaders("odrers"), partition(), "B101 odrers", "odrers"),
        row(leaders(), topic("orders", LOST), "B103? orders", f"partitions, orders, {LOST.reason}"),
        row(leaders(), topic("orders", 1), "B103? orders[0]", "orders[0]"),
        row(leaders(), partition(leader=LOST), "B103? orders[0]", f"leader, orders[0], {LOST.reason}"),
        *(
            row(leaders(), partition(**{"leader": 2, field: LOST}), "B103? orders[0]", LOST.reason)
            for field in ("topic_id", "replicas", "in_sync")
        ),
        row(leaders(), partition(replicas=()), "B104 orders[0]", "orders[0], replicas"),
        row(UNCLEAN_3, topic("orders", 3), "B102 orders[3]", "orders, 3"),
    ],
)
def test_when_a_leader_is_elected(
    policy: LeaderPolicy, facts: Any, of_cluster: dict[str, Any], gives: str, says: str, unsaid: str
) -> None:
    (decision,) = planned(policy, snapshot(facts, **of_cluster)).decisions
    if isinstance(decision, Blocked):
        subject = str(decision.address).rpartition("/")[2]
        assert f"{decision.code}{'?' * decision.unread} {subject}" == gives
    else:
        assert (type(decision).__name__, decision.address) == (gives, ADDRESS)
    if isinstance(decision, Satisfied):
        return
    assert decision.declared_at == PLACE
    assert mentions(decision.reason, *filter(None, says.split(", ")))
    assert not any(mentions(decision.reason, word) for word in filter(None, unsaid.split(", ")))
    if isinstance(decision, Waiting):
        assert decision.until_ms is None
        assert mentions(decision.reason, "orders[0]")
    if isinstance(decision, ElectLeader):
        assert decision.mode is policy.mode


def test_patterns_select_internal_topics_too() -> None:
    """A move of the leader loses no records, and needs no Spark."""
    assert not leaders().scan_request(NOW_MS).spark
    facts = snapshot(partition(topic="__consumer_offsets", leader=2), topic("__consumer_offsets", internal=True))
    (decision,) = planned(leaders("*"), facts, cluster=cluster(protect={"topics": ["*"]})).decisions
    assert isinstance(decision, ElectLeader)


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
        # A partition that contradicts itself was read, and is none of a broker's.
        ([MOVED, *LED[:3], partition(4, replicas=())], 25.1, 25, ("*",)),
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


def test_scan_request_of_leaders() -> None:
    """It has the metadata of the selected topics, internal topics included, or of exact partitions."""
    request = TopicRequest(topics=(Selector("*"),), except_topics=(Selector("a"),))
    assert leaders("*", exceptTopics=["a"]).scan_request(NOW_MS) == ScanRequest(topics=(request,))
    of_partitions = leaders(partitions={"b": [1, 2], "a": [0]}, election="unclean").scan_request(NOW_MS)
    assert of_partitions.topics == (
        TopicRequest(topics=(Selector("a"),), partitions=frozenset({0})),
        TopicRequest(topics=(Selector("b"),), partitions=frozenset({1, 2})),
    )
