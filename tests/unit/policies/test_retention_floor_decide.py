"""The decision of a floor for each partition: rules, consumers, purge interval, drift, and every
block.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Decision, Satisfied, Skipped, Waiting
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    ExternalPosition,
    GroupState,
    GroupType,
    KeptForever,
    PartitionFacts,
    PendingCommit,
    Unknown,
)
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.text.formatting import format_instant
from tests.golden.wording import mentions
from tests.strategies.facts import (
    DAY,
    HOUR,
    LOST,
    MINUTE,
    NOW_MS,
    OTHER_ID,
    SECOND,
    TOPIC_ID,
    floor,
    group,
    partition,
    planned,
    reader,
    snapshot,
    topic,
)

ADDRESS = Address("RetentionFloor", "gdpr", "orders", 0)


def decide_partition(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> Decision:
    """Return the decision on orders[0]."""
    changes = {
        key: spec.pop(key) for key in ("groups_incomplete", "readers_incomplete", "topics_incomplete") if key in spec
    }
    (decision,) = planned(floor(keep=keep, **spec), snapshot(*facts, **changes)).decisions
    return decision


def acted(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> DeleteRecords:
    decision = decide_partition(keep, *facts, **spec)
    assert isinstance(decision, DeleteRecords), decision
    return decision


def blocked(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> Blocked:
    decision = decide_partition(keep, *facts, **spec)
    assert isinstance(decision, Blocked), decision
    return decision


def outcome(keep: Mapping[str, Any], *facts: Any, **spec: Any) -> int | str:
    """Return the target of a deletion, the code of a block (`?`: of unread facts), or the kind of decision."""
    decision = decide_partition(keep, *facts, **spec)
    if isinstance(decision, Blocked):
        return decision.code + "?" * decision.unread
    return decision.before_offset if isinstance(decision, DeleteRecords) else type(decision).__name__


def old(**facts: Any) -> PartitionFacts:
    """A partition of a hundred records, all older than a day."""
    return partition(**({"at": {DAY: 100}} | facts))


LAST = {"last": 60}
"""Its floor is 40."""
UNREAD = {"unreadBy": ["billing"]}


# --- rules


def test_newer_than_resolves_to_the_first_offset_at_or_after_its_instant() -> None:
    """The action has the absolute offset, the facts that it depends on, and the rule."""
    action = acted({"newerThan": "7d"}, partition(at={7 * DAY: 40, 8 * DAY: 20}, log_start=5, high_watermark=120))
    assert mentions(action.reason, "newerThan 7d", "40")
    assert action == DeleteRecords(
        address=ADDRESS,
        declared_at=SourceLocation("manifests/floors.yaml", 9, 1),
        reason=action.reason,
        mode=Mode.MERGE,
        partition=TopicPartition("orders", 0),
        before_offset=40,
        seen=ObservedPartition(
            topic_id=TOPIC_ID,
            log_start=5,
            last_stable_offset=100,
            high_watermark=120,
            leader=1,
            replicas=(1, 2, 3),
            in_sync=(1, 2, 3),
        ),
        guard=Preconditions(consumers=LagPolicy.BLOCK),
        consumed_by_named=False,
        drift=True,
        may_have_gaps=True,
    )


@pytest.mark.parametrize(
    ("keep", "facts", "target", "words"),
    [
        # Every record is older: the end of the same scan, never -1 and never a later end.
        (
            {"newerThan": "7d"},
            {"at": {7 * DAY: None, 8 * DAY: None}, "high_watermark": 150},
            100,
            "no record is younger",
        ),
        # Records above the last stable offset may still be rolled back, so they stay.
        ({"newerThan": "7d"}, {"at": {7 * DAY: 110, 8 * DAY: 20}, "high_watermark": 120}, 100, "110"),
        ({"newerThan": "7d"}, {"at": {7 * DAY: 41, 8 * DAY: 0}, "log_start": 40}, 41, "41"),
        # The instant is fixed; the present instant is not in the future.
        ({"since": "2026-11-21T10:00:00Z"}, {"at": {0: 70}}, 70, "70"),
        ({"since": "2026-11-21T09:00:00Z"}, {"at": {HOUR: None}}, 100, "100"),
        # `last` counts from the last stable offset, so records of open transactions stay, too.
        ({"last": 30}, {"high_watermark": 120}, 70, "100"),
        # Producers write between the two requests: the high watermark is at least the last stable offset.
        ({"last": 10}, {"high_watermark": 95}, 90, "100"),
    ],
)
def test_a_rule_resolves_to_its_offset_and_the_reason_names_both(
    keep: dict[str, Any], facts: dict[str, Any], target: int, words: str
) -> None:
    """The target is absolute, and never above the last stable offset of the scan."""
    action = acted(keep, old(**facts))
    ((rule, value),) = keep.items()
    assert action.before_offset == target
    assert mentions(action.reason, f"{rule} {value}", words, str(target))
    assert action.seen.high_watermark >= action.seen.last_stable_offset == 100


def test_an_answer_at_the_last_stable_offset_is_not_lowered() -> None:
    """The reason says nothing about it."""
    action = acted({"newerThan": "7d"}, partition(at={7 * DAY: 100, 8 * DAY: 20}, high_watermark=120))
    assert action.before_offset == 100
    assert action.reason.count("100") == 1


def test_since_in_the_future_blocks_the_whole_policy() -> None:
    """The policy has one block at its address and no other decision."""
    decision = decide_partition({"since": "2026-11-21T10:00:01Z"}, partition(), partition(1))
    assert isinstance(decision, Blocked)
    assert (decision.address, decision.code) == (Address("RetentionFloor", "gdpr"), "B210")
    assert decision.declared_at == floor(keep={"last": 1}).declared_at
    assert mentions(decision.reason, "2026-11-21T10:00:01Z")


def test_since_before_1970_requests_instant_zero() -> None:
    """Brokers read negative timestamps as other requests: -2 is the start, -1 the end."""
    policy = floor(keep={"since": "1969-12-31T23:59:59Z"})
    assert policy.scan_request(NOW_MS).topics[0].instants_ms == (0,)
    assert blocked({"since": "1969-12-31T23:59:59Z"}, partition(at={NOW_MS: 3})).code == "B216"


def test_a_very_long_newer_than_requests_instant_zero() -> None:
    """Neither the instant nor that of the drift is below zero."""
    policy = floor(keep={"newerThan": "999999d", "last": 3}, driftAfter="999999d")
    assert policy.scan_request(NOW_MS).topics[0].instants_ms == (0,)


def test_from_offset_is_exact_and_selects_its_partitions() -> None:
    """The plan has no decision on partitions that the map does not name."""
    facts = snapshot(partition(0), partition(1), partition(2))
    decisions = planned(floor(keep={"fromOffset": {"0": 40, "2": 0}}), facts).decisions
    assert [str(decision.address) for decision in decisions] == [
        "RetentionFloor/gdpr/orders[0]",
        "RetentionFloor/gdpr/orders[2]",
    ]
    first, second = decisions
    assert isinstance(first, DeleteRecords)
    assert (first.before_offset, first.drift) == (40, True)
    assert mentions(first.reason, "fromOffset", "40")
    assert isinstance(second, Satisfied)


def test_from_offset_above_the_end_is_blocked_never_lowered() -> None:
    """The offset was meant for another topic or another time. The end itself is valid."""
    decision = blocked({"fromOffset": {"0": 101}}, partition(high_watermark=200))
    assert (decision.code, decision.unread) == ("B208", False)
    assert mentions(decision.reason, "101", "100")
    assert acted({"fromOffset": {"0": 100}}, partition(high_watermark=200)).before_offset == 100


def test_topic_id_pins_the_topic() -> None:
    """Offsets of a topic that was created again mean nothing for the new topic."""
    keep = {"fromOffset": {"0": 40}, "topicId": TOPIC_ID}
    assert acted(keep, partition()).before_offset == 40
    decision = blocked(keep, partition(topic_id=OTHER_ID))
    assert decision.code == "B209"
    assert OTHER_ID in decision.reason
    assert TOPIC_ID in decision.reason


@pytest.mark.parametrize(
    ("keep", "expected", "rules"),
    [
        ({"newerThan": "7d", "last": 30}, 40, ["newerThan 7d", "40", "last 30", "70"]),
        ({"newerThan": "7d", "last": 90}, 10, ["last 90", "10", "newerThan 7d", "40"]),
        (
            {
                "newerThan": "7d",
                "since": "2026-11-21T09:00:00Z",
                "last": 30,
                "fromOffset": {"0": 60},
                "unreadBy": ["billing"],
            },
            40,
            [
                *("newerThan 7d", "40", "since 2026-11-21T09:00:00Z", "90", "last 30", "70"),
                *("fromOffset 60", "60", 'unreadBy "billing"', "80"),
            ],
        ),
    ],
)
def test_the_floor_is_the_lowest_rule_and_the_reason_names_it(
    keep: Mapping[str, Any], expected: int, rules: list[str]
) -> None:
    """A second rule can only keep more.

    The reason has each rule with its offset, the deciding one first.
    """
    at = {7 * DAY: 40, 8 * DAY: 30, HOUR: 90, DAY: 95}
    action = acted(keep, partition(at=at, readers=(reader("billing", 80),)), group("billing"), driftAfter="24h")
    assert action.before_offset == expected
    assert re.search(".*".join(rf"\b{re.escape(rule)}" for rule in rules), action.reason)


@pytest.mark.parametrize(
    ("keep", "facts", "result"),
    [
        ({"newerThan": "7d"}, {"at": {7 * DAY: 40, 8 * DAY: 0}, "log_start": 40}, "Satisfied"),
        ({"last": 101}, {}, "Satisfied"),
        # A purge may go beyond an open transaction; then the last stable offset is below the log start.
        (
            {"newerThan": "7d"},
            {"at": {7 * DAY: None, 8 * DAY: None}, "log_start": 60, "last_stable_offset": 50},
            "Satisfied",
        ),
        ({"fromOffset": {"0": 50}, "unreadBy": ["missing"]}, {"log_start": 60, "last_stable_offset": 50}, "Satisfied"),
        ({"fromOffset": {"0": 51}}, {"log_start": 60, "last_stable_offset": 50}, "B208"),
        # Of an empty partition nothing can go, but the offset was meant for other data.
        ({"fromOffset": {"0": 0}}, {"end": 0}, "Satisfied"),
        ({"fromOffset": {"0": 1}}, {"end": 0, "readers_below": 0}, "B208"),
        (UNREAD, {"end": 0}, "Satisfied"),
        # Negative offsets and missing replicas contradict; a missing leader says more than unread offsets.
        ({"last": 10}, {"log_start": -1001}, "B104"),
        ({"last": 10}, {"last_stable_offset": -1}, "B104"),
        ({"last": 10}, {"high_watermark": -1001}, "B104"),
        ({"newerThan": "7d"}, {"at": {7 * DAY: -1, 8 * DAY: 3}}, "B104"),
        ({"last": 10}, {"replicas": ()}, "B104"),
        ({"last": 10}, {"leader": None, "log_start": LOST}, "B203"),
        # An answer that the facts do not have is unread.
        ({"newerThan": "7d"}, {}, "B103?"),
        # The scan would not have returned a consumer between the two offsets.
        ({"last": 10}, {"readers_below": 89}, "B213?"),
        ({"last": 10}, {"readers_below": 90}, 90),
    ],
)
def test_where_nothing_can_go_and_where_facts_contradict(
    keep: dict[str, Any], facts: dict[str, Any], result: int | str
) -> None:
    """No record is left below the floor, or the numbers cannot be true."""
    assert outcome(keep, old(**facts), group("billing")) == result


# --- facts that are missing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topic_id": LOST}, "the topic id of orders[0]"),
        ({"leader": LOST}, "the leader of orders[0]"),
        ({"replicas": LOST}, "the replicas of orders[0]"),
        ({"in_sync": LOST}, "the in-sync replicas of orders[0]"),
        ({"log_start": LOST}, "the log start of orders[0]"),
        ({"last_stable_offset": LOST}, "the end of orders[0]"),
        ({"high_watermark": LOST}, "the high watermark of orders[0]"),
        ({"at": {7 * DAY: LOST, 8 * DAY: 3}}, "the first offset of orders[0] at or after 2026-11-14T10:00:00Z"),
        ({"at": {7 * DAY: 3, 8 * DAY: LOST}}, "the first offset of orders[0] at or after 2026-11-13T10:00:00Z"),
        ({"readers": LOST}, "the groups that read orders[0]"),
        ({"readers_below": LOST}, "the groups that read orders[0]"),
        ({"last_purge": LOST}, "when orders[0] was last purged"),
    ],
)
def test_an_unread_fact_blocks_with_its_reason(change: dict[str, Any], words: str) -> None:
    """This holds for each fact that an action depends on; an unknown value is never zero."""
    facts = partition(**({"at": {7 * DAY: 40, 8 * DAY: 20}} | change))
    decision = blocked({"newerThan": "7d"}, facts, every="30s")
    assert (decision.code, decision.unread) == ("B103", True)
    assert mentions(decision.reason, words, LOST.reason)
    assert "doctor" in decision.next_step


def test_a_partition_without_facts_is_unread() -> None:
    """The list has two partitions, the scan returned one."""
    facts = snapshot(partition(0, at={DAY: 100}), topic(partitions=2))
    decisions = planned(floor(keep={"last": 10}), facts).decisions
    assert isinstance(decisions[0], DeleteRecords)
    assert isinstance(decisions[1], Blocked)
    assert (decisions[1].code, decisions[1].unread) == ("B103", True)


def test_unknown_number_of_partitions_blocks_the_topic() -> None:
    """The topic has one block, because its partitions are unknown."""
    decision = blocked({"last": 10}, topic(partitions=LOST))
    assert (decision.address, decision.code, decision.unread) == (
        Address("RetentionFloor", "gdpr", "orders"),
        "B103",
        True,
    )
    assert decision.declared_at == floor(keep={"last": 1}).declared_at
    assert mentions(decision.reason, "partitions", "orders", LOST.reason)


def test_an_unread_cleanup_policy_blocks_a_pattern_too() -> None:
    """A match that may or may not be eligible is not skipped silently."""
    facts = snapshot(old(), topic(cleanup_policy=LOST))
    (decision,) = planned(floor("ord*", keep={"last": 10}), facts).decisions
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.unread) == ("B103", True)


# --- topics that do not qualify


@pytest.mark.parametrize(
    ("name", "facts", "code"),
    [
        ("__consumer_offsets", {}, "B201"),
        ("orders", {"internal": True}, "B201"),
        ("orders", {"cleanup_policy": frozenset({"compact"})}, "B202"),
        ("orders", {"cleanup_policy": frozenset()}, "B202"),
    ],
)
def test_an_ineligible_topic_is_blocked_by_name_and_skipped_by_pattern(
    name: str, facts: dict[str, Any], code: str
) -> None:
    """Internal and system topics, and topics whose cleanup policy does not delete."""
    policy = floor(keep={"last": 10})
    facts_of_topic = snapshot(partition(topic=name, at={DAY: 100}), topic(name, **facts))
    (by_name,) = policy.decide({name: True}, facts_of_topic)
    assert isinstance(by_name, Blocked)
    assert (by_name.address, by_name.code) == (Address("RetentionFloor", "gdpr", name), code)
    (by_pattern,) = policy.decide({name: False}, facts_of_topic)
    assert by_pattern == Skipped(address=by_name.address, code=by_name.code, reason=by_name.reason)


def test_compact_and_delete_is_truncated_by_its_exact_name() -> None:
    """Brokers delete records of such a topic. A pattern skips it: restores of changelogs have no group."""
    facts = topic(cleanup_policy=frozenset({"compact", "delete"}))
    assert acted({"last": 10}, old(), facts).before_offset == 90
    (by_pattern,) = floor(keep={"last": 10}).decide({"orders": False}, snapshot(old(), facts))
    assert isinstance(by_pattern, Skipped)
    assert mentions(by_pattern.reason, "orders", "compacted", "pattern")


@pytest.mark.parametrize(
    ("topic_name", "keep", "exact", "forever", "skipped"),
    [
        ("history", {"last": 10}, False, KeptForever.TOPIC, True),
        ("history", {"last": 10}, True, KeptForever.TOPIC, False),
        ("history", {"last": 10}, False, KeptForever.BROKER, False),
        ("history", {"unreadBy": ["app"]}, False, KeptForever.TOPIC, True),
        ("app-x-repartition", {"unreadBy": ["app"]}, False, KeptForever.TOPIC, False),
        ("app-x-repartition", {"last": 10}, False, KeptForever.TOPIC, True),
        ("app-x-repartitions", {"unreadBy": ["app"]}, False, KeptForever.TOPIC, True),
    ],
)
def test_a_pattern_skips_what_a_topic_keeps_for_ever(
    topic_name: str, keep: dict[str, Any], exact: bool, forever: KeptForever, skipped: bool
) -> None:
    """A schema history has no consumer group, and its topic says itself that it loses nothing.

    Kafka Streams sets the same value on the topics that it purges itself.
    """
    app = reader("app", 90, topic_id=TOPIC_ID)
    facts = snapshot(
        partition(topic=topic_name, at={DAY: 100}, readers=(app,)), topic(topic_name, kept_forever=forever)
    )
    (decision,) = floor(topic_name, keep=keep).decide({topic_name: exact}, facts)
    if skipped:
        assert isinstance(decision, Skipped)
        assert (decision.code, decision.address.name) == ("B215", topic_name)
    else:
        assert isinstance(decision, DeleteRecords)
        assert mentions(decision.reason, "the brokers' default") is (forever is KeptForever.BROKER)


def test_an_unread_retention_blocks_a_pattern_and_no_exact_name() -> None:
    """What is not known is never taken for "may be deleted"."""
    facts = snapshot(old(), topic(kept_forever=LOST))
    (by_pattern,) = floor(keep={"last": 10}).decide({"orders": False}, facts)
    assert isinstance(by_pattern, Blocked)
    assert (by_pattern.code, by_pattern.unread) == ("B103", True)
    (by_name,) = floor(keep={"last": 10}).decide({"orders": True}, facts)
    assert isinstance(by_name, DeleteRecords)


def test_the_cleanup_policy_is_named() -> None:
    for policy, words in (({"compact"}, "compact"), (set(), "empty"), ({"none", "compact"}, "compact,none")):
        decision = blocked({"last": 10}, topic(cleanup_policy=frozenset(policy)))
        assert mentions(decision.reason, "cleanup.policy", "orders", words)


def test_an_unknown_topic_is_blocked_with_the_closest_name() -> None:
    """A mistyped name must not look like a topic in sync."""
    decision = blocked({"last": 10}, topic("order"))
    assert (decision.address, decision.code, decision.unread) == (
        Address("RetentionFloor", "gdpr", "orders"),
        "B101",
        False,
    )
    assert mentions(decision.reason, "orders", '"order"')


def test_an_unknown_topic_is_unread_if_the_list_is_incomplete() -> None:
    decision = blocked({"last": 10}, topics_incomplete=Unknown("broker 2 did not answer"))
    assert (decision.code, decision.unread) == ("B101", True)
    assert mentions(decision.reason, "orders", "broker 2 did not answer")


def test_a_very_large_cluster_gives_no_suggestion() -> None:
    """A thousand mistyped names times a hundred thousand topics would take minutes."""
    names = [topic(f"order-{number}") for number in range(2000)]
    assert '"order-' not in blocked({"last": 10}, *names).reason
    assert '"order-' in blocked({"last": 10}, *names[1:]).reason


def test_a_missing_partition_number_is_blocked_by_name_and_skipped_by_pattern() -> None:
    """partitions: [0, 7] on a topic with one partition."""
    facts = snapshot(old())
    exact = planned(floor(keep={"last": 10}, partitions=[7, 0]), facts).decisions
    assert isinstance(exact[0], DeleteRecords)
    assert isinstance(exact[1], Blocked)
    assert (exact[1].address, exact[1].code) == (Address("RetentionFloor", "gdpr", "orders", 7), "B102")
    assert exact[1].declared_at == floor(keep={"last": 1}).declared_at
    assert mentions(exact[1].reason, "orders", "1", "7")
    decisions = planned(floor("ord*", keep={"last": 10}, partitions=[0, 7]), facts).decisions
    assert isinstance(decisions[1], Skipped)


def test_partition_number_equal_to_the_count_is_missing() -> None:
    """Numbers begin at 0."""
    assert blocked({"last": 10}, old(), partitions=[1]).code == "B102"


# --- readers


def test_a_group_behind_the_floor_blocks_and_is_named() -> None:
    """The reason has the slowest group, its position and its number of records; the others are
    counted.
    """
    readers = (reader("a", 39), reader("billing", 5), reader("c", 40))
    decision = blocked({"newerThan": "7d"}, partition(at={7 * DAY: 40, 8 * DAY: 20}, readers=readers), group("billing"))
    assert decision.code == "B204"
    assert mentions(decision.reason, '"billing"', "5", "35 records", "40", "1 more")
    assert "consumers: clamp" in decision.next_step
    all_readers = (*readers, reader("d", 6), *(reader(f"e{number:04d}", 7) for number in range(1000)))
    assert mentions(blocked(LAST, old(readers=all_readers)).reason, "1,002 more")


def test_the_groups_that_hold_a_floor_back_are_data() -> None:
    """All that are behind, by name, and under clamp those at the log start; above twenty none: a
    report must not say that the removal of some would be enough.
    """
    readers = (reader("c", 39), reader("billing", 5), reader("at-the-floor", 40))
    decision = blocked(LAST, old(readers=readers))
    assert decision.held_by == ("billing", "c")
    many = tuple(reader(f"e{number:02d}", 7) for number in range(21))
    assert len(blocked(LAST, old(readers=many[:20])).held_by) == 20
    assert blocked(LAST, old(readers=many)).held_by == ()
    at_start = (reader("a", 10), reader("b", 10, without_commit=True), reader("c", 30))
    held = decide_partition(LAST, partition(at={DAY: 50}, log_start=10, readers=at_start), consumers="clamp")
    overdue = blocked(LAST, old(log_start=10, readers=at_start), consumers="clamp")
    assert isinstance(held, Waiting)
    assert held.held_by == overdue.held_by == ("a", "b")


def test_a_group_exactly_at_the_floor_is_not_behind() -> None:
    """The committed offset is the next offset that the group reads."""
    assert [outcome(LAST, old(readers=(reader("billing", at),))) for at in (40, 39)] == [40, "B204"]


def test_records_below_the_log_start_are_not_counted_as_skipped() -> None:
    """They do not exist any more, whatever the group has committed."""
    decision = blocked(LAST, old(log_start=10, readers=(reader("billing", 3),)))
    assert mentions(decision.reason, "30 records")


def test_a_group_without_a_commit_here_is_at_the_log_start() -> None:
    """It reads the topic, so it will read this partition from its start."""
    decision = blocked(LAST, old(readers=(reader("billing", 0, without_commit=True),)))
    assert decision.code == "B204"
    assert mentions(decision.reason, '"billing"', "40 records", "has no position here")


@pytest.mark.parametrize(("more", "words"), [(0, "below 40"), (1, "; 1 more group is"), (2, "; 2 more groups are")])
def test_further_groups_behind_the_floor_are_counted(more: int, words: str) -> None:
    readers = (reader("a", 5), *(reader(f"b{number}", 6) for number in range(more)))
    assert words in blocked(LAST, old(readers=readers)).reason


def test_clamp_lowers_the_floor_to_the_slowest_group() -> None:
    """Of two groups at the same offset the first by name is cited, so that the plan does not depend
    on the order.
    """
    readers = (reader("b", 25), reader("a", 25), reader("c", 30))
    action = acted(LAST, old(readers=readers), consumers="clamp")
    assert (action.before_offset, action.guard.accepted) == (25, ())
    assert mentions(action.reason, "last 60", "40", "100", "25", '"a"')


def test_clamp_without_a_slow_group_changes_nothing() -> None:
    action = acted(LAST, old(readers=(reader("a", 40),)), consumers="clamp")
    assert action.before_offset == 40
    assert action.reason == acted(LAST, old()).reason, "no clamp is named"


def test_a_floor_that_a_group_holds_back_waits_and_drifts_once_overdue() -> None:
    """A group that has read nothing keeps all records: that is not in sync."""
    readers = (reader("a", 10, without_commit=True),)
    held = decide_partition(LAST, partition(at={DAY: 50}, log_start=10, readers=readers), consumers="clamp")
    assert isinstance(held, Waiting)
    assert mentions(held.reason, "last 60", "40", '"a"', "10")
    assert held.until_ms is None
    overdue = blocked(LAST, old(log_start=10, readers=readers), consumers="clamp")
    assert overdue.code == "B204"
    assert mentions(overdue.reason, "last 60", "40", '"a"', "10")
    assert "exceptGroups" in overdue.next_step


def test_ignore_accepts_slow_groups_and_shows_their_loss() -> None:
    """The action lists each group with its position, and apply accepts no earlier position."""
    readers = (reader("b", 25), reader("a", 5), reader("c", 40))
    action = acted(LAST, old(log_start=10, readers=readers), consumers="ignore")
    assert action.before_offset == 40
    assert action.guard == Preconditions(
        consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("a", 5), AcceptedLag("b", 25))
    )
    assert action.skips == (("a", 30), ("b", 15))


def test_excepted_groups_block_nothing_and_their_loss_is_shown() -> None:
    """exceptGroups has selectors; the records that these groups skip are part of the impact."""
    readers = (reader("console-1", 5), reader("console-2", 90))
    action = acted(LAST, old(readers=readers), exceptGroups=["console-*"])
    assert action.guard == Preconditions(
        consumers=LagPolicy.BLOCK, accepted=(AcceptedLag("console-1", 5),), except_groups=("console-*",)
    )
    assert blocked(LAST, old(readers=readers), exceptGroups=["console-2"]).code == "B204"


def test_excepted_groups_do_not_clamp() -> None:
    """Only groups below the clamped floor count as skipping records."""
    readers = (reader("console-1", 5), reader("console-2", 30), reader("billing", 20))
    action = acted(LAST, old(readers=readers), exceptGroups=["console-*"], consumers="clamp")
    assert action.before_offset == 20
    assert action.guard.accepted == (AcceptedLag("console-1", 5),)
    at_clamp = (reader("console-1", 20), reader("billing", 20))
    action = acted(LAST, old(readers=at_clamp), exceptGroups=["console-*"], consumers="clamp")
    assert action.guard.accepted == (), "a group at the clamped floor skips no records"


def test_except_groups_are_sorted() -> None:
    """The digest must not depend on the order of the manifest."""
    action = acted(LAST, old(), exceptGroups=["z", "a*"])
    assert action.guard.except_groups == ("a*", "z")


# --- groups that cannot be seen


@pytest.mark.parametrize("consumers", ["block", "clamp", "ignore"])
@pytest.mark.parametrize("which", ["groups_incomplete", "readers_incomplete"])
def test_unlisted_groups_block_with_any_consumers_setting(which: str, consumers: str) -> None:
    """The slowest visible group may not be the slowest group."""
    decision = blocked(LAST, old(), consumers=consumers, **{which: Unknown("no DESCRIBE on the cluster")})
    assert (decision.code, decision.unread) == ("B212", True)
    assert "no DESCRIBE on the cluster" in decision.reason


def test_decisions_without_a_purge_are_not_blocked_by_unlisted_groups() -> None:
    """No record would be removed."""
    assert decide_partition({"last": 100}, old(), groups_incomplete=LOST) == Satisfied(ADDRESS)


@pytest.mark.parametrize(
    ("facts", "result", "words", "next_step"),
    [
        # Share groups return an empty list of positions without an error.
        ({"type": GroupType.SHARE, "listed": False}, "B211", ("share",), "exceptGroups"),
        # What a group of an unknown type needs is not known: no one is told to except it.
        ({"type": GroupType.HIDDEN, "listed": False}, "B211", ("type",), ""),
        # Only `__consumer_offsets` has it: it is hidden, or was created during the scan, and its commits were not read.
        ({"type": GroupType.CLASSIC, "listed": False}, "B211", ("listed",), "plan again"),
        ({"type": GroupType.CONSUMER, "listed": False}, "B211", ("listed",), "plan again"),
        ({"type": LOST}, "B103?", ("type",), ""),
        # A client with a protocol type of its own may commit: without an answer it counted as one that reads nothing.
        ({"type": GroupType.OTHER, "listed": False, "consumption_unread": LOST}, "B212?", (), ""),
        ({"type": GroupType.STREAMS, "listed": False, "consumption_unread": LOST}, "B212?", (), ""),
    ],
)
def test_a_group_whose_position_is_not_known_blocks_unless_excepted(
    facts: dict[str, Any], result: str, words: tuple[str, ...], next_step: str
) -> None:
    """The slowest visible group may not be the slowest group."""
    unseen = group("carts", **facts)
    decision = blocked(LAST, old(), unseen)
    assert outcome(LAST, old(), unseen) == result
    assert mentions(decision.reason, '"carts"', *words)
    assert mentions(decision.next_step, next_step)
    if facts["type"] is GroupType.HIDDEN:
        assert not mentions(decision.next_step, "exceptGroups")
    assert outcome(LAST, old(), unseen, exceptGroups=["c*"]) == 40


@pytest.mark.parametrize(
    "facts",
    [
        # Connect workers and schema registries have a group for their members, and never commit.
        {"type": GroupType.CONNECT},
        {"type": GroupType.OTHER},
        {"type": GroupType.CONNECT, "consumption_unread": LOST},
        # A group of the Streams protocol is not listed, and tells its commits.
        {"type": GroupType.STREAMS},
    ],
)
def test_an_unlisted_group_that_tells_its_position_or_has_none_blocks_nothing(facts: dict[str, Any]) -> None:
    unlisted = group("carts", listed=False, **facts)
    assert outcome(LAST, old(), unlisted) == 40
    assert mentions(blocked(LAST, old(readers=(reader("carts", 20),)), unlisted).reason, '"carts"', "20")


@pytest.mark.parametrize(
    ("names", "facts", "words"),
    [("bac", {"type": GroupType.SHARE}, ('"a"', "1 more", "share")), ("ba", {"type": LOST}, ('"a"', "type"))],
)
def test_of_several_unknown_groups_the_first_by_name_is_named(
    names: str, facts: dict[str, Any], words: tuple[str, ...]
) -> None:
    """The order of the scan does not matter, and excepted groups do not count."""
    unknown = [group(name, **facts) for name in names]
    for in_order in (unknown, unknown[::-1]):
        assert mentions(blocked(LAST, old(), *in_order, exceptGroups=["c"]).reason, *words)


# --- unreadBy


def test_unread_by_is_the_position_of_the_slowest_named_group() -> None:
    """Records that all named groups have read may be removed; the reason names the deciding group;
    the interval is 30 s by default.
    """
    readers = (reader("billing", 60), reader("shipping", 35))
    facts = (old(readers=readers), group("billing"), group("shipping"))
    action = acted({"unreadBy": ["shipping", "billing"]}, *facts)
    assert (action.before_offset, action.consumed_by_named) == (35, True)
    assert action.guard == Preconditions(consumers=LagPolicy.BLOCK, named=("billing", "shipping"), every_ms=30 * SECOND)
    assert mentions(action.reason, "unreadBy", '"shipping"', "35")


def test_unread_by_is_lowered_to_the_last_stable_offset() -> None:
    """A group that reads uncommitted records may be above the last stable offset; the reason has both."""
    action = acted(UNREAD, old(high_watermark=120, readers=(reader("billing", 110),)), group("billing"))
    assert action.before_offset == 100
    assert mentions(action.reason, "unreadBy", '"billing"', "110", "100")


@pytest.mark.parametrize("consumers", ["clamp", "ignore"])
def test_only_unread_by_under_block_vouches(consumers: str) -> None:
    """With clamp or ignore the record limits count the records."""
    facts = (old(readers=(reader("billing", 60),)), group("billing"))
    assert not acted(UNREAD, *facts, consumers=consumers).consumed_by_named


@pytest.mark.parametrize(
    ("positions", "result"),
    [
        # At the high watermark everything was read; above it no commit can be.
        ((reader("billing", 120),), 100),
        ((reader("billing", 121),), "B206"),
        # Without a position, or with one for an earlier topic of the name, nothing was read.
        ((), "B205"),
        ((reader("billing", 0, without_commit=True),), "B205"),
        ((reader("billing", -1),), "B205"),
        ((reader("billing", 60, topic_id=OTHER_ID),), "B207"),
        # Brokers before value version 4 wrote no id: None is a fact, Unknown is not.
        ((reader("billing", 60, topic_id=None),), 60),
        ((reader("billing", 60, topic_id=LOST),), "B103?"),
        (LOST, "B103?"),
        # unreadBy answers for the named groups only.
        ((reader("billing", 60), reader("shipping", 3)), "B204"),
    ],
)
def test_a_named_group_counts_by_a_commit_that_proves_something(positions: Any, result: int | str) -> None:
    facts = (old(high_watermark=120, readers=positions), group("billing"), group("shipping"))
    assert outcome(UNREAD, *facts) == result
    if isinstance(result, str) and result != "B204":
        decision = blocked(UNREAD, *facts)
        assert mentions(decision.reason, "groups", "orders[0]", LOST.reason) or '"billing"' in decision.reason
        assert decision.declared_at == SourceLocation("manifests/floors.yaml", 9, 1)


def test_records_that_an_excepted_group_skips_are_not_consumed_by_named() -> None:
    """exceptGroups allows the loss, but the limits count it."""
    billing, audit = reader("billing", 90), reader("audit", 5)
    keep, excepting = UNREAD, {"exceptGroups": ["audit"]}
    skipping = acted(keep, old(readers=(billing, audit)), group("billing"), **excepting)
    assert skipping.guard.accepted == (AcceptedLag("audit", 5),)
    assert not skipping.consumed_by_named
    assert acted(keep, old(readers=(billing,)), group("billing"), **excepting).consumed_by_named
    hidden = group("audit", type=GroupType.SHARE, listed=False)
    unknown = acted(keep, old(readers=(billing,)), group("billing"), hidden, **excepting)
    assert not unknown.consumed_by_named, "where the excepted group stands is not known"


def test_one_named_group_without_a_position_blocks_all() -> None:
    """A missing position does not prove that the group has read everything."""
    facts = (old(readers=(reader("billing", 60),)), group("billing"), group("shipping"))
    assert blocked({"unreadBy": ["billing", "shipping"]}, *facts).code == "B205"


# --- the clock


@pytest.mark.parametrize(
    ("ago", "waits"), [(30 * SECOND, True), (30 * SECOND + 1, False), (0, True), (-5 * SECOND, True)]
)
def test_a_purge_waits_for_its_interval(ago: int, waits: bool) -> None:
    """The interval must be over, as in Kafka Streams; a purge also waits with a clock that is
    behind.
    """
    decision = decide_partition(LAST, old(last_purge=NOW_MS - ago), every="30s")
    if not waits:
        assert isinstance(decision, DeleteRecords)
        assert decision.guard.every_ms == 30 * SECOND
        return
    assert isinstance(decision, Waiting)
    assert decision.until_ms == NOW_MS - ago + 30 * SECOND + 1
    assert (decision.address, decision.declared_at) == (ADDRESS, SourceLocation("manifests/floors.yaml", 9, 1))
    assert mentions(decision.reason, "last 60", "40", "100", format_instant(NOW_MS - ago), "30s")


def test_the_first_purge_does_not_wait() -> None:
    assert acted(LAST, old(last_purge=None), every="30s").before_offset == 40


def test_without_every_the_journal_is_not_read() -> None:
    """An unreadable journal blocks only policies with an interval."""
    assert acted(LAST, old(last_purge=LOST)).guard.every_ms is None
    assert floor(keep=LAST).scan_request(NOW_MS).topics[0].every_ms is None


def test_a_slow_consumer_blocks_a_waiting_purge() -> None:
    """A waiting decision would not show the consumer."""
    facts = old(last_purge=NOW_MS, readers=(reader("a", 3),))
    assert blocked(LAST, facts, every="30s").code == "B204"


# --- drift


@pytest.mark.parametrize(
    ("keep", "at", "readers", "drift"),
    [
        ({"newerThan": "7d"}, {7 * DAY: 40, 8 * DAY: 10}, (), False),
        ({"newerThan": "7d"}, {7 * DAY: 40, 8 * DAY: 11}, (), True),
        ({"newerThan": "7d"}, {7 * DAY: None, 8 * DAY: None}, (), True),
        (LAST, {DAY: 70}, (), False),
        (LAST, {DAY: 71}, (), True),
        (LAST, {DAY: None}, (), True),
        ({"unreadBy": ["a"]}, {DAY: 10}, (reader("a", 50),), False),
        ({"unreadBy": ["a"]}, {DAY: 11}, (reader("a", 50),), True),
        ({"unreadBy": ["a"]}, {DAY: None}, (reader("a", 50),), True),
        ({"since": "2026-11-14T10:00:00Z"}, {7 * DAY: 40}, (), True),
        ({"fromOffset": {"0": 11}}, {}, (), True),
        ({"fromOffset": {"0": 40}, "last": 60}, {DAY: 70}, (), False),
        ({"fromOffset": {"0": 40}, "last": 60}, {DAY: 71}, (), True),
    ],
)
def test_a_moving_floor_is_drift_only_if_it_was_due_before(
    keep: Mapping[str, Any], at: Mapping[int, int | None], readers: tuple[Any, ...], drift: bool
) -> None:
    """The log starts at 10: drift if the floor of `driftAfter` ago is above it; a fixed rule is
    always due.
    """
    action = acted(keep, partition(at=at, readers=readers, log_start=10), every="0s")
    assert action.drift is drift


def test_drift_after_changes_the_requested_instants() -> None:
    """The scan requests the instants that the decision looks up."""
    keep = {"newerThan": "7d", "last": 5, "since": "2026-11-21T09:00:00Z"}
    requested = floor(keep=keep, driftAfter="30m").scan_request(NOW_MS).topics[0].instants_ms
    assert requested == tuple(NOW_MS - age for age in (7 * DAY + 30 * MINUTE, 7 * DAY, HOUR, 30 * MINUTE))


def test_a_short_log_was_not_due_a_day_ago() -> None:
    """The log had only sixty records then, so the rule kept all of them."""
    action = acted(LAST, partition(at={DAY: 60}))
    assert (action.before_offset, action.drift) == (40, False)


def test_a_clamped_floor_is_due_only_from_its_clamp() -> None:
    """The log starts at the clamp, so nothing is due, although the rule alone was due long ago."""
    facts = partition(at={DAY: None}, log_start=10, readers=(reader("a", 11),))
    action = acted(LAST, facts, consumers="clamp")
    assert (action.before_offset, action.drift) == (11, True)


# --- needs


def test_scan_request_of_a_floor() -> None:
    """Selectors, partitions, offsets, instants, consumers with the named groups, the journal, and
    the totals of the limits.
    """
    policy = floor(
        "my-*", exceptTopics=["my-audit"], partitions=[0, 1], keep={"newerThan": "7d", "unreadBy": ["b", "a"]}
    )
    needs = policy.scan_request(NOW_MS)
    (want,) = needs.topics
    assert [selector.text for selector in want.topics] == ["my-*"]
    assert [selector.text for selector in want.except_topics] == ["my-audit"]
    assert want.patterns_skip_underscore
    assert want.partitions == frozenset({0, 1})
    assert want.offsets
    assert want.readers
    assert want.every_ms == 30_000
    assert want.named_groups == frozenset({"a", "b"})
    assert want.instants_ms == (NOW_MS - 8 * DAY, NOW_MS - 7 * DAY, NOW_MS - DAY)
    assert needs.topic_records
    assert needs.cluster_records
    assert needs.groups == ()


def test_the_action_has_the_mode() -> None:
    (decision,) = planned(floor(keep=LAST, envelope={"mode": "continuous"}), snapshot(old())).decisions
    assert isinstance(decision, DeleteRecords)
    assert decision.mode is Mode.CONTINUOUS


# --- who guards, and what need not be a record

GUARDS_NOBODY = '"consumers: block" guards nobody here'


def consumed_by(*groups: str, **facts: Any) -> Any:
    return topic("orders", consumers=frozenset(groups), **facts)


def test_a_topic_that_no_known_consumer_guards_is_named() -> None:
    """Nobody reads it, or exceptGroups names all that do. "No group is behind" was said for none and for five."""
    part = old()
    assert acted(LAST, part, consumed_by()).caveat == f"no consumer is known: {GUARDS_NOBODY}"
    two = consumed_by("console-1", "console-2")
    excepted = acted(LAST, part, two, exceptGroups=["console-*"]).caveat
    assert excepted == f"exceptGroups names all 2 known consumers: {GUARDS_NOBODY}"
    assert acted(LAST, part, two, exceptGroups=["console-1"]).caveat == ""
    unread = acted(LAST, part, topic("orders", consumers=LOST)).caveat
    assert unread == f"whether any consumer guards it is not known: {LOST.reason}"


def test_a_consumer_at_the_end_guards() -> None:
    """The scan leaves its position out, because it holds nothing back now."""
    assert acted(LAST, old(readers=()), consumed_by("billing")).caveat == ""


@pytest.mark.parametrize("declared", ["orders", "clicks"])
def test_an_external_reader_guards_what_its_manifest_or_its_position_names(declared: str) -> None:
    request = ExternalReaderRequest(
        name="ExternalReader/lake", topics=(Selector(declared),), kind=PositionKind.TABLE, at="/x.csv"
    )
    position = ExternalPosition({TopicPartition("orders", 0): 90}, NOW_MS)
    facts = snapshot(old(), consumed_by(), external={request: position})
    (action,) = planned(floor(keep=LAST), facts).decisions
    assert isinstance(action, DeleteRecords)
    assert action.caveat == ""


def test_ignored_consumers_guard_nobody_and_those_of_unread_by_do() -> None:
    part = old(readers=(reader("billing", 90),))
    ignored = acted(LAST, part, consumed_by("billing"), consumers="ignore").caveat
    assert ignored == '1 known consumer may be behind: "consumers: ignore" guards nobody here'
    named = acted(UNREAD, part, consumed_by("billing"), consumers="ignore")
    assert named.caveat == ""


def test_traces_of_readers_that_kafka_does_not_list_are_named() -> None:
    """MirrorMaker 2, and Connect by three topics of one beginning: `orders-offsets` alone is none."""
    names = ("mm2-offset-syncs.B.internal", "lake_connect_configs", "lake_connect_offsets", "lake_connect_statuses")
    others = ("orders-offsets", "orders-status", "mm2-offset-syncs", "offsets", "configs", "status")
    workers = group("connect-cluster", type=GroupType.CONNECT, listed=False)
    caveat = acted(LAST, old(), consumed_by(), workers, *(topic(name) for name in (*names, *others))).caveat
    traces = 'mm2-offset-syncs.B.internal, lake_connect_offsets, "connect-cluster"'
    assert caveat.endswith(f"; traces of readers that Kafka does not list: {traces}")


@pytest.mark.parametrize(
    ("name", "more", "next_step"),
    [
        ("connect-lake", (), "Connect's REST API"),
        ("my-app", (topic("my-app-store-changelog"),), "kafka-streams-application-reset.sh"),
        ("my-app", (topic("my-app-by-key-repartition"), group("my")), "kafka-streams-application-reset.sh"),
        ("counts", (group("counts", type=GroupType.STREAMS),), "kafka-streams-application-reset.sh"),
        ("my", (topic("my-app-store-changelog"), group("my-app")), "or remove it if nothing uses it"),
        ("connect", (), "or remove it if nothing uses it"),
    ],
)
def test_idle_is_not_dead_and_has_its_own_next_step(name: str, more: tuple[Any, ...], next_step: str) -> None:
    """A stopped connector keeps its offsets on purpose. The group with the longest name owns a topic of Streams."""
    facts = old(readers=(reader(name, 10),)), group(name), *more
    decision = blocked(LAST, *facts)
    assert next_step in decision.next_step
    assert ("remove it" in decision.next_step) is (next_step == "or remove it if nothing uses it")


@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.PREPARING_REBALANCE, LOST])
def test_a_group_with_members_is_never_proposed_for_removal(state: GroupState | Unknown) -> None:
    """The plan said `removing "billing" would unblock 1 partition` of a group in use."""
    facts = old(readers=(reader("billing", 10),)), group("billing", state=state)
    assert "remove" not in blocked(LAST, *facts).next_step


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ((topic("orders"), topic("__transaction_state", internal=True)), {}),
        ((topic("orders", cleanup_policy=frozenset({"compact", "delete"})),), {}),
        ((topic("orders"),), {"topics_incomplete": LOST}),
    ],
)
def test_offsets_need_not_be_records(facts: tuple[Any, ...], changes: dict[str, Any]) -> None:
    """After transactions or compaction, and where a topic of transactions may be hidden."""
    assert acted(LAST, old(), *facts, **changes).may_have_gaps
    assert not acted(LAST, old(), topic("orders")).may_have_gaps


def test_explain_says_why_a_partition_is_in_sync() -> None:
    """A plan of named subjects has the rule's reason; a plan of all would grow by a third."""
    facts = snapshot(partition(at={7 * DAY: 30, 8 * DAY: 30}, log_start=30), topic())
    (decision,) = planned(floor(keep={"newerThan": "7d"}), facts, candidates={ADDRESS}).decisions
    assert isinstance(decision, Satisfied)
    assert decision.reason == "newerThan 7d resolves to offset 30; the log starts at 30"
    assert [found.reason for found in planned(floor(keep={"newerThan": "7d"}), facts).decisions] == [""]


def test_a_share_group_of_another_topic_needs_no_exemption() -> None:
    """Naming it in exceptGroups made limits refuse: the rule of unreadBy answered for nothing any more."""
    facts = (old(readers=(reader("billing", 60),)), group("billing"))
    share = group("carts", type=GroupType.SHARE, listed=False, may_read=frozenset({"clicks"}))
    for except_groups in ({}, {"exceptGroups": ["carts"]}):
        action = acted(UNREAD, *facts, share, **except_groups)
        assert (action.before_offset, action.consumed_by_named) == (60, True)
    here = replace(share, may_read=frozenset({"orders"}))
    assert not acted(UNREAD, *facts, here, exceptGroups=["carts"]).consumed_by_named
    for consumers in ("block", "clamp", "ignore"):
        assert acted(LAST, old(), share, consumers=consumers).before_offset == 40
        assert blocked(LAST, old(), here, consumers=consumers).code == "B211"


@pytest.mark.parametrize("without_commit", [True, False])
def test_a_transaction_of_the_commits_is_named_with_its_partition(without_commit: bool) -> None:
    position = replace(
        reader("billing", 0 if without_commit else 50), without_commit=without_commit, pending=PendingCommit(20, 7)
    )
    decision = blocked(LAST, old(readers=(position,)), group("billing"))
    assert decision.code == "B204"
    assert mentions(
        decision.reason, '"billing"', "transaction", "__consumer_offsets[7]", "no position" if without_commit else "20"
    )
    assert "kafka-transactions.sh" in decision.next_step
    clamped = decide_partition(LAST, old(readers=(position,)), consumers="clamp")
    assert isinstance(clamped, Blocked if without_commit else DeleteRecords)
    assert mentions(clamped.reason, '"billing"', "__consumer_offsets[7]")


def test_a_pending_commit_that_holds_nothing_back_is_not_named() -> None:
    """A busy exactly-once application always has one: only where it decides, the transaction is the reason."""
    position = replace(reader("billing", 20), pending=PendingCommit(80, 7))
    decision = blocked(LAST, old(readers=(position,)), group("billing"))
    assert "transaction" not in decision.reason
