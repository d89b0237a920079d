"""What a record is and how old it is, on real brokers.

A transaction marker is not a record, a timestamp that is missing or implausible is not an age, and what holds
a floor back is named.
"""

import json
import time
from collections.abc import Mapping
from types import MappingProxyType
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, consumer_properties
from tests.e2e import raw_requests
from tests.e2e.raw_requests import NO_TIMESTAMP
from tests.e2e.workspace import DAY_MS, Workspace, floor, observed, targets
from tests.kafka_client import begin_transaction, open_transaction

MONTH_MS = 30 * DAY_MS
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
WEEK = "keep: {newerThan: 7d}"
SHARE = "recordsPercentPerTopic"


@pytest.fixture
def topic(space: Workspace) -> str:
    """An empty topic of one partition that takes timestamps of the future."""
    return space.create_topic(0, configs=ANY_TIME)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def write_transaction(space: Workspace, topic: str, count: int, *, commit: bool, age_ms: int = 0) -> None:
    """Write records in one transaction, and wait for its marker, which follows the answer of the coordinator."""
    _start, end = client.watermarks(space.servers, topic, 0)
    producer = begin_transaction(space.servers, f"tx-{uuid4().hex[:8]}")
    for _ in range(count):
        producer.produce(topic, b"x", partition=0, timestamp=now_ms() - age_ms)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)
    client.wait_until(lambda: client.watermarks(space.servers, topic, 0)[1] == end + count + 1, 30, "the marker")


def planned_and_applied(space: Workspace, topic: str, rule: str) -> int:
    """Apply a plan with one action, and return the log start."""
    assert len(space.plan(floor(topic, rule))["actions"]) == 1
    space.apply()
    return space.log_start(topic)


@pytest.mark.parametrize(
    ("older", "stamps", "words"),
    [
        (0, [NO_TIMESTAMP] * 10, "offset 0 has no timestamp"),
        (0, [1_732_600_000] * 10, "seconds instead of milliseconds"),
        (0, [0] * 10, "before 2001"),
        (0, [-5] * 10, "is stamped 1969-12-31T23:59:59.995Z"),
        (10, [NO_TIMESTAMP] * 10, "the record at offset 19 has no timestamp"),
    ],
    ids=["none", "seconds", "zero", "before 1970", "the last records below the floor"],
)
def test_records_of_an_unknown_age_stay(
    space: Workspace, topic: str, older: int, stamps: list[int], words: str
) -> None:
    """Brokers call such records older than any instant, and all were written seconds ago.

    A rule without times, which the block names, needs no timestamps.
    """
    if older:
        space.produce(topic, older, age_ms=MONTH_MS)
    raw_requests.produce(space.servers, topic, stamps)
    space.produce(topic, 10)
    plan = space.plan(floor(topic, WEEK))
    (blocked,) = plan["blocked"]
    assert (plan["actions"], blocked["code"]) == ([], "B216")
    assert words in blocked["reason"]
    assert "offset " in blocked["reason"]
    assert "last or fromOffset" in blocked["next_step"]
    assert planned_and_applied(space, topic, "keep: {last: 5}") == older + 15


def test_old_records_still_go(space: Workspace, topic: str) -> None:
    """Also those whose batch is larger than what one fetch of a partition asks for."""
    stamp = now_ms() - MONTH_MS
    client.produce(space.servers, topic, {0: [Record(bytes(200_000), timestamp_ms=stamp) for _ in range(5)]})
    space.produce(topic, 5)
    assert planned_and_applied(space, topic, WEEK) == 5


def read_and_commit(
    space: Workspace, group: str, topic: str, count: int, settings: Mapping[str, str] = MappingProxyType({})
) -> list[int]:
    """Read records as a member of a group with librdkafka's defaults, commit, and return their offsets."""
    consumer = Consumer(consumer_properties(space.servers, group) | settings)
    try:
        consumer.subscribe([topic])
        messages: list[Message] = []

        def has_all() -> bool:
            messages.extend(consumer.consume(count, 0.2))
            return len(messages) >= count

        client.wait_until(has_all, 30, f"{count} records")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return [message.offset() for message in messages]


def test_a_marker_behind_a_group_is_no_record_and_stays(space: Workspace, topic: str) -> None:
    """The group at 50 has read everything below 51, and goes on at 50, where librdkafka leaves it.

    The marker once went, too. Kafka reset the consumer to the end, and it lost what came while it was away.
    """
    group = f"{topic}-group"
    write_transaction(space, topic, 50, commit=True)
    assert read_and_commit(space, group, topic, 50, {"auto.offset.reset": "earliest"}) == list(range(50))
    time.sleep(1)
    rule = floor(topic, "keep: {newerThan: 1s}, driftAfter: 1s")
    (action,) = space.plan(rule)["actions"]
    assert (action["request"]["before_offset"], f'group "{group}" has read all' in action["reason"]) == (50, True)
    space.apply()
    assert space.log_start(topic) == 50
    assert space.plan()["summary"]["satisfied"] == 1
    space.run("drift")
    space.produce(topic, 10)
    assert read_and_commit(space, group, topic, 10) == list(range(51, 61))


def test_no_suggestion_takes_markers_for_records(space: Workspace) -> None:
    """A group before the last marker has read everything, and what a floor asks of records is looked up."""
    ended, held = space.create_topic(0), space.create_topic(5, age_ms=MONTH_MS, configs={"retention.ms": "10000000000"})
    write_transaction(space, ended, 5, commit=True)
    for group, at in (("before", 5), ("behind", 6)):
        space.commit(f"{ended}-{group}", ended, at)
    space.commit(f"{held}-group", held, 5)
    with open_transaction(space.servers, held):
        found = json.loads(space.run("suggest", "--bootstrap-server", space.servers, "-q", "-o", "json"))
    assert not any("looked up" in text for section in found["sections"] for text in section["unknown"])
    subjects = {of["subject"]: of["kind"] for of in found["findings"] if of["subject"] in (f"{ended}-before", held)}
    assert subjects == {held: "read-records"}


def test_aborted_records_are_no_records(space: Workspace, topic: str) -> None:
    """No read-committed consumer is given them, and they stay where a group goes on before them."""
    space.produce(topic, 10)
    write_transaction(space, topic, 20, commit=False)
    space.produce(topic, 1)
    space.commit(f"{topic}-group", topic, 10)
    assert planned_and_applied(space, topic, "keep: {last: 1}") == 10
    space.commit(f"{topic}-group", topic, 32)
    assert planned_and_applied(space, topic, "keep: {last: 1}") == 31


def test_aborted_records_hide_no_share(space: Workspace, topic: str) -> None:
    """3,000 aborted records behind 100 others made the loss of all 100 read as 3.3 percent."""
    space.produce(topic, 100)
    write_transaction(space, topic, 3_000, commit=False)
    assert observed(space.plan(floor(topic, "keep: {last: 3001}")), SHARE) == 100
    space.produce(topic, 1)
    write_transaction(space, topic, 2_000, commit=False)
    assert observed(space.plan(floor(topic, "keep: {last: 5003}")), SHARE) == 100


@pytest.mark.parametrize("consumers", ["block", "clamp"])
def test_a_lag_of_one_record_counts(space: Workspace, topic: str, consumers: str) -> None:
    """One committed record lies between markers and aborted ones."""
    write_transaction(space, topic, 50, commit=True)
    space.commit(f"{topic}-group", topic, 50)
    write_transaction(space, topic, 20, commit=False)  # 51 to 70, and a marker
    space.produce(topic, 1)  # 72
    write_transaction(space, topic, 5, commit=True)
    rule = f"keep: {{last: 1}}, consumers: {consumers}"
    if consumers == "block":
        (blocked,) = space.plan(floor(topic, rule))["blocked"]
        assert blocked["code"] == "B204"
        assert "at most 6 records below 78" in blocked["reason"]
    else:
        assert planned_and_applied(space, topic, rule) == 50


def test_a_busy_transactional_topic_is_not_held(space: Workspace, topic: str) -> None:
    """The transaction's own record is young, so the rule would stop there anyway."""
    space.produce(topic, 10, age_ms=MONTH_MS)
    with open_transaction(space.servers, topic):
        space.produce(topic, 10, age_ms=MONTH_MS)
        (action,) = space.plan(floor(topic, WEEK))["actions"]
        assert "transaction" not in action["reason"]
        space.apply()
        assert space.log_start(topic) == 10
        plan = space.plan()
        assert (plan["blocked"], plan["waiting"]) == ([], [])


@pytest.mark.parametrize(("drift_after", "is_overdue"), [("1h", True), ("60d", False)])
def test_a_hanging_transaction_is_drift_once_overdue(
    space: Workspace, topic: str, drift_after: str, is_overdue: bool
) -> None:
    """Drift said "in sync" while 500 records of 30 days lay behind it.

    `last` counts from the last stable offset, which the transaction holds: such a rule hides it only if it
    keeps everything anyway.
    """
    held, more = ["B217"] * is_overdue, f"driftAfter: {drift_after}"
    stamp = now_ms() - MONTH_MS
    with open_transaction(space.servers, topic, timestamp_ms=stamp):
        space.produce(topic, 500, age_ms=MONTH_MS)
        for rule, codes in (("last: 1000", []), ("last: 10", held)):
            plan = space.plan(floor(topic, f"keep: {{newerThan: 7d, {rule}}}, {more}"))
            assert [row["code"] for row in plan["blocked"]] == codes
        space.produce(topic, 5)
        plan = space.plan(floor(topic, f"keep: {{last: 10}}, {more}"))
        assert [row["code"] for row in plan["blocked"]] == held
        plan = space.plan(floor(topic, f"{WEEK}, {more}"))
        (decision,) = plan["blocked"] if is_overdue else plan["waiting"]
        assert "since offset 0 holds the floor back (newerThan 7d): 501 offsets wait" in decision["reason"]
        space.run("drift", code=2 if is_overdue else 0)
    assert len(space.plan()["actions"]) == 1


@pytest.mark.parametrize(
    ("stamps", "drift_after", "is_overdue"),
    [(1, "1h", True), (1, "60d", False), (3, "1h", True)],
    ids=["overdue", "waiting", "three in a row"],
)
def test_a_stamp_of_the_future_is_named(
    space: Workspace, topic: str, stamps: int, drift_after: str, is_overdue: bool
) -> None:
    """One record in microseconds keeps what follows for 56,000 years. A producer with a wrong clock writes many."""
    for _ in range(stamps):
        raw_requests.produce(space.servers, topic, [now_ms() * 1_000])
    space.produce(topic, 500, age_ms=MONTH_MS)
    plan = space.plan(floor(topic, f"{WEEK}, driftAfter: {drift_after}"))
    (decision,) = plan["blocked"] if is_overdue else plan["waiting"]
    assert decision.get("code") == ("B217" if is_overdue else None)
    assert "the record at offset 0 is stamped" in decision["reason"]
    assert "later than the scan" in decision["reason"]
    space.run("drift", code=2 if is_overdue else 0)


@pytest.mark.parametrize("rule", ["newerThan: 7d", "since: %s"])
def test_a_marker_that_keeps_a_backfill_is_named(space: Workspace, topic: str, rule: str) -> None:
    """The brokers' search by time takes it for a record: 40 records of 30 days were in sync, under `since` for ever."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms() / 1000 - 86_400))
    for _ in range(3):
        write_transaction(space, topic, 20, commit=True, age_ms=MONTH_MS)
    held = f"keep: {{{rule % since if '%' in rule else rule}}}, driftAfter: 1h"
    (action,) = space.plan(floor(topic, held))["actions"]
    assert action["request"]["before_offset"] == 20
    assert action["caveat"].endswith("a transaction marker holds the floor back")
    assert planned_and_applied(space, topic, held) == 20
    (decision,) = space.plan()["blocked"]
    assert (decision["code"], "at offset 21" in decision["reason"]) == ("B217", True)
    space.run("drift", code=2)
    space.produce(topic, 5)
    assert targets(space.plan(floor(topic, "keep: {last: 5}, driftAfter: 1h"))) == [63]


def test_aborted_records_that_begin_a_log_are_named(space: Workspace, topic: str) -> None:
    """Young ones at offset 0 kept 40 records of 30 days, which were in sync."""
    write_transaction(space, topic, 5, commit=False)
    space.produce(topic, 40, age_ms=MONTH_MS)
    (decision,) = space.plan(floor(topic, f"{WEEK}, driftAfter: 1h"))["blocked"]
    assert (decision["code"], "keeps offset 0" in decision["reason"]) == ("B217", True)
    space.run("drift", code=2)


def test_another_rule_that_holds_the_floor_is_no_future(space: Workspace, topic: str) -> None:
    """`last` keeps everything, so the stamp decides nothing."""
    raw_requests.produce(space.servers, topic, [now_ms() + 3_600_000])
    plan = space.plan(floor(topic, "keep: {newerThan: 7d, last: 100}"))
    assert (plan["blocked"], plan["waiting"], plan["summary"]["satisfied"]) == ([], [], 1)


def test_a_plan_needs_read_only_where_it_looks(space: Workspace, topic: str) -> None:
    """A floor that counts offsets, that nothing holds back and that lets nothing go looks up no record."""
    space.produce(topic, 10)
    space.write(floor(topic, "keep: {last: 50}"))
    assert "looking up records" not in space.run("plan", "--out", "plan.json")


def test_a_segment_without_timestamps_hides_no_young_records(space: Workspace) -> None:
    """It ends the brokers' search by time, and a live producer always has a younger record above the scan's end.

    A floor of a week once took records that were seconds old.
    """
    topic = space.create_topic(10, age_ms=MONTH_MS, configs=ANY_TIME | {"segment.bytes": "1048576"})
    for stamp in (NO_TIMESTAMP, NO_TIMESTAMP, now_ms()):  # the second one in a segment of its own
        raw_requests.produce(space.servers, topic, [stamp], value=bytes(600_000))
    space.produce(topic, 50)
    space.produce(topic, 1, age_ms=MONTH_MS)  # a late one ends what the plan sees
    with open_transaction(space.servers, topic):
        assert all(target <= 12 for target in targets(space.plan(floor(topic, WEEK))))
