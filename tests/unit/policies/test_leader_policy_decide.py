"""When an election is planned: a preferred leader that can lead, and an unclean one as the last
resort.
"""

from typing import Any

import pytest

from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Decision, Satisfied, Waiting
from reconciler.model.ports import Election
from reconciler.model.snapshot import PartitionFacts, Unknown
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership
from tests.golden.wording import mentions
from tests.strategies.facts import LOST, NOW_MS, TOPIC_ID, cluster, leaders, partition, planned, snapshot, topic

ADDRESS = Address("LeaderPolicy", "all", "orders", 0)


def decide_leader(facts: PartitionFacts, *, unclean: bool = False, **changes: Any) -> Decision:
    """Return the decision on orders[0]."""
    policy = leaders(partitions={"orders": [0]}, election="unclean") if unclean else leaders()
    (decision,) = planned(policy, snapshot(facts, **changes)).decisions
    assert decision.address == ADDRESS
    return decision


def preferring(number: int, replicas: tuple[int, ...], leader: int | Unknown | None, **facts: Any) -> PartitionFacts:
    return partition(number, replicas=replicas, leader=leader, in_sync=replicas, **facts)


# --- preferred


def test_the_first_replica_is_elected_if_another_leads() -> None:
    decision = decide_leader(partition(leader=2))
    assert isinstance(decision, ElectLeader)
    assert mentions(decision.reason, "2", "broker 1")
    assert decision == ElectLeader(
        address=ADDRESS,
        declared_at=SourceLocation("manifests/leaders.yaml", 6, 1),
        reason=decision.reason,
        mode=Mode.MERGE,
        partition=TopicPartition("orders", 0),
        election=Election.PREFERRED,
        leader_wanted=1,
        seen=ObservedLeadership(topic_id=TOPIC_ID, leader=2, replicas=(1, 2, 3), in_sync=(1, 2, 3)),
        drift=True,
    )


def test_a_partition_led_by_its_first_replica_is_satisfied() -> None:
    assert decide_leader(partition(leader=1, in_sync=(1,)), brokers=(1,)) == Satisfied(ADDRESS)


@pytest.mark.parametrize(
    ("facts", "brokers", "stated"),
    [
        ({"in_sync": (2, 3)}, (1, 2, 3), ("led", "in sync")),
        ({}, (2, 3), ("led", "alive")),
        ({"in_sync": (2, 3)}, (2, 3), ("led", "alive")),
        ({"leader": None}, (2, 3), ("no leader", "alive")),
    ],
)
def test_an_unavailable_preferred_replica_is_waited_for(
    facts: dict[str, Any], brokers: tuple[int, ...], stated: tuple[str, ...]
) -> None:
    """The reason names the missing broker, and not the present leader: all partitions that wait for
    one broker have the same reason. The wait has no time limit.
    """
    decision = decide_leader(partition(**({"leader": 2} | facts)), brokers=brokers)
    assert isinstance(decision, Waiting)
    assert (decision.declared_at, decision.until_ms) == (SourceLocation("manifests/leaders.yaml", 6, 1), None)
    assert mentions(decision.reason, "orders[0]", "broker 1", *stated)
    assert mentions(decision.reason, "in sync") == ("in sync" in stated)


def test_a_leaderless_partition_with_an_available_preferred_replica_has_an_action() -> None:
    decision = decide_leader(partition(leader=None))
    assert isinstance(decision, ElectLeader)
    assert mentions(decision.reason, "no leader", "broker 1")


@pytest.mark.parametrize("field", ["topic_id", "leader", "replicas", "in_sync"])
def test_unread_metadata_blocks(field: str) -> None:
    decision = decide_leader(partition(**({"leader": 2} | {field: LOST})))
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.unread) == ("B103", True)


def test_offsets_are_not_needed() -> None:
    """The plan of leaders needs no offsets and therefore no Spark."""
    assert isinstance(
        decide_leader(partition(leader=2, log_start=LOST, last_stable_offset=LOST, readers=LOST)), ElectLeader
    )
    assert not leaders().scan_request(NOW_MS).spark


def test_patterns_select_internal_topics_too() -> None:
    """A move of the leader loses no records."""
    facts = snapshot(partition(topic="__consumer_offsets", leader=2), topic("__consumer_offsets", internal=True))
    (decision,) = planned(leaders("*"), facts, cluster=cluster(protect={"topics": ["*"]})).decisions
    assert isinstance(decision, ElectLeader)


def test_an_unknown_topic_and_an_unknown_number_of_partitions_block_the_topic() -> None:
    facts = snapshot(topic("known", LOST))
    unknown, uncounted = planned(leaders("gone", "known"), facts).decisions
    assert isinstance(unknown, Blocked)
    assert (unknown.address, unknown.code) == (Address("LeaderPolicy", "all", "gone"), "B101")
    assert isinstance(uncounted, Blocked)
    assert (uncounted.address, uncounted.code) == (Address("LeaderPolicy", "all", "known"), "B103")


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
    """The tolerance is an upper bound of the share that may stay; at the bound there is an action."""
    assert elected_partitions(above, *facts, topics=topics) == ["orders[0]"]
    assert below is None or elected_partitions(below, *facts, topics=topics) == []


def test_tolerance_is_measured_per_preferred_broker() -> None:
    """Broker 2 lost one of one partition, broker 1 one of three."""
    assert elected_partitions(50, MOVED, *LED[:2], preferring(3, (2, 1), 1)) == ["orders[3]"]


# --- unclean


def test_an_unclean_election_without_an_in_sync_replica() -> None:
    """The reason names the live and the missing replicas, and the unknown loss."""
    decision = decide_leader(partition(leader=None, in_sync=(2,)), unclean=True, brokers=(1, 3))
    assert isinstance(decision, ElectLeader)
    assert mentions(decision.reason, "1,3", "2")
    assert decision == ElectLeader(
        address=ADDRESS,
        declared_at=SourceLocation("manifests/leaders.yaml", 6, 1),
        reason=decision.reason,
        mode=Mode.MERGE,
        partition=TopicPartition("orders", 0),
        election=Election.UNCLEAN,
        leader_wanted=None,
        seen=ObservedLeadership(topic_id=TOPIC_ID, leader=None, replicas=(1, 2, 3), in_sync=(2,)),
        drift=True,
    )


def test_an_unclean_election_with_no_in_sync_replica_at_all() -> None:
    decision = decide_leader(partition(leader=None, in_sync=()), unclean=True)
    assert isinstance(decision, ElectLeader)
    assert mentions(decision.reason, "1,2,3", "leaderless", "not in sync", "lost is not known")
    known_loss = decide_leader(partition(leader=None, in_sync=(2,)), unclean=True, brokers=(1, 3)).reason
    assert mentions(known_loss, "only 2 had is lost")


def test_a_partition_with_a_leader_needs_no_unclean_election() -> None:
    assert decide_leader(partition(leader=3, in_sync=(3,)), unclean=True) == Satisfied(ADDRESS)


@pytest.mark.parametrize(("in_sync", "brokers", "fact"), [((2,), (1, 2), "broker 2"), ((2,), (4,), "no replica")])
def test_an_unclean_election_waits_if_it_is_unnecessary_or_impossible(
    in_sync: tuple[int, ...], brokers: tuple[int, ...], fact: str
) -> None:
    decision = decide_leader(partition(leader=None, in_sync=in_sync), unclean=True, brokers=brokers)
    assert isinstance(decision, Waiting)
    assert (decision.declared_at, decision.until_ms) == (SourceLocation("manifests/leaders.yaml", 6, 1), None)
    assert mentions(decision.reason, "orders[0]", fact)


def test_unclean_elections_have_exactly_their_partitions() -> None:
    """A number that the topic does not have is blocked."""
    facts = snapshot(*(partition(number, leader=None, in_sync=()) for number in range(3)))
    decisions = planned(leaders(partitions={"orders": [1, 7]}, election="unclean"), facts).decisions
    assert [str(decision.address) for decision in decisions] == [
        "LeaderPolicy/all/orders[1]",
        "LeaderPolicy/all/orders[7]",
    ]
    assert isinstance(decisions[0], ElectLeader)
    assert isinstance(decisions[1], Blocked)
    assert decisions[1].code == "B102"


def test_the_number_equal_to_the_count_is_missing() -> None:
    (decision,) = planned(leaders(partitions={"orders": [1]}, election="unclean"), snapshot(partition())).decisions
    assert isinstance(decision, Blocked)


def test_tolerance_does_not_apply_to_unclean_elections() -> None:
    """It is for preferred leaders."""
    policy = leaders(partitions={"orders": [0]}, election="unclean", tolerance=100)
    (decision,) = planned(policy, snapshot(partition(leader=None, in_sync=()))).decisions
    assert isinstance(decision, ElectLeader)


# --- needs


def test_scan_request_of_leaders() -> None:
    """It has the metadata of the selected topics, internal topics included."""
    (want,) = leaders("*", exceptTopics=["a"]).scan_request(NOW_MS).topics
    assert [selector.text for selector in want.topics] == ["*"]
    assert [selector.text for selector in want.except_topics] == ["a"]
    assert (want.partitions, want.patterns_skip_underscore, want.offsets, want.readers) == (None, False, False, False)
    (plain,) = leaders("a").scan_request(NOW_MS).topics
    assert plain.except_topics == ()


def test_scan_request_of_exact_partitions() -> None:
    wants = leaders(partitions={"b": [1, 2], "a": [0]}, election="unclean").scan_request(NOW_MS).topics
    assert [(want.topics[0].text, want.partitions) for want in wants] == [
        ("a", frozenset({0})),
        ("b", frozenset({1, 2})),
    ]


def test_both_elections_have_the_mode() -> None:
    (preferred,) = planned(leaders(envelope={"mode": "continuous"}), snapshot(partition(leader=2))).decisions
    unclean_policy = leaders(partitions={"orders": [0]}, election="unclean")
    (unclean,) = planned(unclean_policy, snapshot(partition(leader=None, in_sync=()))).decisions
    assert isinstance(preferred, ElectLeader)
    assert isinstance(unclean, ElectLeader)
    assert (preferred.mode, unclean.mode) == (Mode.CONTINUOUS, Mode.MERGE)


def test_each_unread_leader_counts_once_as_preferred() -> None:
    """One of four has another leader: over 20 percent with one unread, not with two."""
    known_partitions = [preferring(number, (1, 2, 3), 2 if number == 1 else 1) for number in range(1, 5)]
    unread_partitions = [preferring(number, (1, 2, 3), LOST) for number in (0, 5)]
    assert len(elected_partitions(20, *known_partitions)) == 1
    assert elected_partitions(20, *known_partitions, unread_partitions[0]) == elected_partitions(20, *known_partitions)
    assert elected_partitions(20, *known_partitions, *unread_partitions) == []


def test_a_topic_with_an_unknown_number_of_partitions_suspends_the_tolerance() -> None:
    """Any number of its partitions may prefer the broker, whatever topic follows."""
    facts = [preferring(number, (1, 2, 3), 2 if number == 1 else 1) for number in range(1, 5)]
    policy = leaders("orders", "a-unread", "missing", tolerance=20)
    known = snapshot(*facts, topic("orders", 5))
    unread = snapshot(*facts, topic("orders", 5), topic("a-unread", LOST))
    assert any(isinstance(d, ElectLeader) for d in planned(policy, known).decisions)
    assert not any(isinstance(d, ElectLeader) for d in planned(policy, unread).decisions)


@pytest.mark.parametrize(
    ("policy", "facts", "code", "stated"),
    [
        (leaders("odrers"), partition(), "B101", ("odrers",)),
        (leaders(), topic("orders", LOST), "B103", ("partitions", "orders", LOST.reason)),
        (leaders(), topic("orders", 1), "B103", ("orders[0]",)),
        (leaders(), partition(leader=LOST), "B103", ("leader", "orders[0]", LOST.reason)),
        (leaders(partitions={"orders": [3]}, election="unclean"), topic("orders", 3), "B102", ("orders", "3")),
    ],
)
def test_missing_topics_and_partitions_have_code_and_location(
    policy: Any, facts: Any, code: str, stated: tuple[str, ...]
) -> None:
    (decision,) = planned(policy, snapshot(facts)).decisions
    assert isinstance(decision, Blocked)
    assert decision.code == code
    assert mentions(decision.reason, *stated)
    assert decision.declared_at == SourceLocation("manifests/leaders.yaml", 6, 1)
