"""What a record is and how old it is, on real brokers.

A transaction marker is not a record, a timestamp that is missing or implausible is not an age, and what holds
a floor back is named.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic, producer_properties
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.command import reconciler
from tests.e2e import raw_records
from tests.e2e.raw_records import NO_TIMESTAMP
from tests.e2e.test_unseen_consumers import read_plan, write_floor
from tests.kafka_client import open_transaction
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

DAY_MS = 86_400_000
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@pytest.fixture
def topic(cluster: SandboxCluster) -> str:
    """An empty topic of one partition that takes timestamps of the future."""
    name = f"times-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(name, configs=ANY_TIME)])
    return name


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def produce(cluster: SandboxCluster, topic: str, count: int, *, age_ms: int = 0) -> None:
    stamp = now_ms() - age_ms
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x", timestamp_ms=stamp)] * count})


def write_transaction(cluster: SandboxCluster, topic: str, count: int, *, commit: bool, age_ms: int = 0) -> None:
    """Write records in one transaction, and wait for its marker, which follows the answer of the coordinator."""
    _start, end = client.watermarks(cluster.bootstrap_servers, topic, 0)
    settings = producer_properties(cluster.bootstrap_servers) | {"transactional.id": f"tx-{uuid4().hex[:8]}"}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"x", partition=0, timestamp=now_ms() - age_ms)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    client.wait_until(
        lambda: client.watermarks(cluster.bootstrap_servers, topic, 0)[1] == end + count + 1, 30, "the marker"
    )


def apply_and_read(cluster: SandboxCluster, folder: Path, topic: str) -> int:
    """Apply the plan of `read_plan` and return the log start of partition 0."""
    answer = reconciler(folder, "apply", "plan.json")
    assert answer.returncode == 0, answer.stderr
    return log_start_offsets(cluster, topic)[0]


@pytest.mark.parametrize(
    ("stamps", "words"),
    [
        ([NO_TIMESTAMP] * 10, "has no timestamp"),
        ([1_732_600_000] * 10, "seconds instead of milliseconds"),
        ([0] * 10, "before 2001"),
    ],
    ids=["none", "seconds", "zero"],
)
def test_records_of_an_unknown_age_stay(
    cluster: SandboxCluster, tmp_path: Path, topic: str, stamps: list[int], words: str
) -> None:
    """Brokers call such records older than any instant, and all were written seconds ago."""
    raw_records.produce(cluster.bootstrap_servers, topic, stamps)
    produce(cluster, topic, 10)
    write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}")
    plan = read_plan(tmp_path)
    (blocked,) = plan["blocked"]
    assert (plan["actions"], blocked["code"]) == ([], "B216")
    assert words in blocked["reason"]
    assert "offset 0" in blocked["reason"]
    assert "last or fromOffset" in blocked["next_step"]


def test_the_last_record_below_the_floor_is_looked_at_too(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """Old records come first, and behind them lie records without a timestamp."""
    produce(cluster, topic, 10, age_ms=30 * DAY_MS)
    raw_records.produce(cluster.bootstrap_servers, topic, [NO_TIMESTAMP] * 10)
    produce(cluster, topic, 10)
    write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}")
    (blocked,) = read_plan(tmp_path)["blocked"]
    assert "the record at offset 19 has no timestamp" in blocked["reason"]


def test_a_rule_without_times_needs_no_timestamps(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """The way out that the block names."""
    raw_records.produce(cluster.bootstrap_servers, topic, [NO_TIMESTAMP] * 20)
    write_floor(tmp_path, cluster, topic, "keep: {last: 5}")
    assert len(read_plan(tmp_path)["actions"]) == 1
    assert apply_and_read(cluster, tmp_path, topic) == 15


def test_old_records_still_go(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """Also those whose batch is larger than what one fetch of a partition asks for."""
    stamp = now_ms() - 30 * DAY_MS
    client.produce(
        cluster.bootstrap_servers, topic, {0: [Record(bytes(200_000), timestamp_ms=stamp) for _ in range(5)]}
    )
    produce(cluster, topic, 5)
    write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}")
    assert len(read_plan(tmp_path)["actions"]) == 1
    assert apply_and_read(cluster, tmp_path, topic) == 5


def test_a_marker_behind_a_group_is_no_record(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """The group at 50 has read everything below 51, in the plan and right before the request."""
    write_transaction(cluster, topic, 50, commit=True)
    client.commit(cluster.bootstrap_servers, f"{topic}-group", {(topic, 0): 50})
    write_floor(tmp_path, cluster, topic, "keep: {last: 1}")
    produce(cluster, topic, 1)
    (action,) = read_plan(tmp_path)["actions"]
    assert (action["request"]["before_offset"], action["empty_tail"]) == (51, 1)
    assert apply_and_read(cluster, tmp_path, topic) == 51


def test_aborted_records_are_no_records(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """No read-committed consumer is given them."""
    produce(cluster, topic, 10)
    client.commit(cluster.bootstrap_servers, f"{topic}-group", {(topic, 0): 10})
    write_transaction(cluster, topic, 20, commit=False)
    produce(cluster, topic, 1)
    write_floor(tmp_path, cluster, topic, "keep: {last: 1}")
    assert len(read_plan(tmp_path)["actions"]) == 1
    assert apply_and_read(cluster, tmp_path, topic) == 31


def test_aborted_records_hide_no_share(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """3,000 aborted records behind 100 others made the loss of all 100 read as 3.3 percent."""
    produce(cluster, topic, 100)
    write_transaction(cluster, topic, 3_000, commit=False)
    write_floor(tmp_path, cluster, topic, "keep: {last: 3001}")
    assert share_of_topic(read_plan(tmp_path)) == 100
    produce(cluster, topic, 1)
    write_transaction(cluster, topic, 2_000, commit=False)
    write_floor(tmp_path, cluster, topic, "keep: {last: 5003}")
    assert share_of_topic(read_plan(tmp_path)) == pytest.approx(100 / 1.01)


def share_of_topic(plan: dict[str, Any]) -> float:
    """Return what the plan counts towards the limit of one topic's records, in percent."""
    observed = {limit["id"]: limit["observed"] for limit in plan["limits"]}
    return float(observed["recordsPercentPerTopic"])


@pytest.mark.parametrize("consumers", ["block", "clamp"])
def test_a_lag_of_one_record_counts(cluster: SandboxCluster, tmp_path: Path, topic: str, consumers: str) -> None:
    """One committed record lies between markers and aborted ones."""
    write_transaction(cluster, topic, 50, commit=True)
    client.commit(cluster.bootstrap_servers, f"{topic}-group", {(topic, 0): 50})
    write_transaction(cluster, topic, 20, commit=False)  # 51 to 70, and a marker
    produce(cluster, topic, 1)  # 72
    write_transaction(cluster, topic, 5, commit=True)
    write_floor(tmp_path, cluster, topic, f"keep: {{last: 1}}, consumers: {consumers}")
    plan = read_plan(tmp_path)
    if consumers == "block":
        (blocked,) = plan["blocked"]
        assert blocked["code"] == "B204"
        assert "at most 6 records below 78" in blocked["reason"]
    else:
        assert apply_and_read(cluster, tmp_path, topic) == 72


def test_a_busy_transactional_topic_is_not_held(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """The transaction's own record is young, so the rule would stop there anyway."""
    produce(cluster, topic, 10, age_ms=30 * DAY_MS)
    with open_transaction(cluster.bootstrap_servers, topic, [0], transactional_id=f"tx-{topic}"):
        produce(cluster, topic, 10, age_ms=30 * DAY_MS)
        write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}")
        (action,) = read_plan(tmp_path)["actions"]
        assert "transaction" not in action["reason"]
        assert apply_and_read(cluster, tmp_path, topic) == 10
        plan = read_plan(tmp_path)
        assert (plan["blocked"], plan["waiting"]) == ([], [])


@contextmanager
def hanging(cluster: SandboxCluster, topic: str) -> Iterator[None]:
    """Hold a transaction open whose records are old, before other old records."""
    settings = producer_properties(cluster.bootstrap_servers) | {
        "transactional.id": f"tx-{topic}",
        "transaction.timeout.ms": 600_000,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0, timestamp=now_ms() - 30 * DAY_MS)
    producer.flush(30)
    try:
        yield
    finally:
        producer.abort_transaction(30)


@pytest.mark.parametrize(("drift_after", "is_overdue"), [("1h", True), ("60d", False)])
def test_a_hanging_transaction_is_drift_once_overdue(
    cluster: SandboxCluster, tmp_path: Path, topic: str, drift_after: str, is_overdue: bool
) -> None:
    """Drift said "in sync" while 500 records of 30 days lay behind it."""
    with hanging(cluster, topic):
        produce(cluster, topic, 500, age_ms=30 * DAY_MS)
        produce(cluster, topic, 5)
        write_floor(tmp_path, cluster, topic, f"keep: {{last: 10}}, driftAfter: {drift_after}")
        assert [row["code"] for row in read_plan(tmp_path)["blocked"]] == ["B217"] * is_overdue
        write_floor(tmp_path, cluster, topic, f"keep: {{newerThan: 7d}}, driftAfter: {drift_after}")
        plan = read_plan(tmp_path)
        (decision,) = plan["blocked"] if is_overdue else plan["waiting"]
        assert "since offset 0 holds the floor back (newerThan 7d): 501 offsets wait" in decision["reason"]
        assert reconciler(tmp_path, "drift").returncode == (2 if is_overdue else 0)
    assert len(read_plan(tmp_path)["actions"]) == 1


@pytest.mark.parametrize(("drift_after", "is_overdue"), [("1h", True), ("60d", False)])
def test_a_stamp_of_the_future_is_named(
    cluster: SandboxCluster, tmp_path: Path, topic: str, drift_after: str, is_overdue: bool
) -> None:
    """One record in microseconds keeps what follows for 56,000 years."""
    raw_records.produce(cluster.bootstrap_servers, topic, [now_ms() * 1_000])
    produce(cluster, topic, 500, age_ms=30 * DAY_MS)
    write_floor(tmp_path, cluster, topic, f"keep: {{newerThan: 7d}}, driftAfter: {drift_after}")
    plan = read_plan(tmp_path)
    (decision,) = plan["blocked"] if is_overdue else plan["waiting"]
    assert "the record at offset 0 is stamped" in decision["reason"]
    assert "later than the scan" in decision["reason"]
    assert reconciler(tmp_path, "drift").returncode == (2 if is_overdue else 0)


@pytest.mark.parametrize("rule", ["newerThan: 7d", "since: %s"])
def test_a_marker_that_keeps_a_backfill_is_named(
    cluster: SandboxCluster, tmp_path: Path, topic: str, rule: str
) -> None:
    """The brokers' search by time takes it for a record: 40 records of 30 days were in sync, under `since` for ever."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms() / 1000 - 86_400))
    for _ in range(3):
        write_transaction(cluster, topic, 20, commit=True, age_ms=30 * DAY_MS)
    write_floor(tmp_path, cluster, topic, f"keep: {{{rule % since if '%' in rule else rule}}}, driftAfter: 1h")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["request"]["before_offset"] == 20
    assert action["caveat"].endswith("a transaction marker holds the floor back")
    assert apply_and_read(cluster, tmp_path, topic) == 20
    (decision,) = read_plan(tmp_path)["blocked"]
    assert (decision["code"], "at offset 21" in decision["reason"]) == ("B217", True)
    assert reconciler(tmp_path, "drift").returncode == 2
    produce(cluster, topic, 5)
    write_floor(tmp_path, cluster, topic, "keep: {last: 5}, driftAfter: 1h")
    (action,) = read_plan(tmp_path)["actions"]
    assert action["request"]["before_offset"] == 63


def test_another_rule_that_holds_the_floor_is_no_future(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """`last` keeps everything, so the stamp decides nothing."""
    raw_records.produce(cluster.bootstrap_servers, topic, [now_ms() + 3_600_000])
    write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d, last: 100}")
    plan = read_plan(tmp_path)
    assert (plan["blocked"], plan["waiting"], plan["summary"]["satisfied"]) == ([], [], 1)


def test_a_plan_needs_read_only_where_it_looks(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """A floor that counts offsets, that nothing holds back and that lets nothing go looks up no record."""
    produce(cluster, topic, 10)
    write_floor(tmp_path, cluster, topic, "keep: {last: 50}")
    answer = reconciler(tmp_path, "plan", "--out", "plan.json")
    assert "looking up records" not in answer.stderr


def test_a_segment_without_timestamps_hides_no_young_records(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It ends the brokers' search by time, and a live producer always has a younger record above the scan's end.

    A floor of a week once took records that were seconds old.
    """
    topic = f"times-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, configs=ANY_TIME | {"segment.bytes": "1048576"})])
    produce(cluster, topic, 10, age_ms=30 * DAY_MS)
    big = bytes(600_000)
    raw_records.produce(cluster.bootstrap_servers, topic, [NO_TIMESTAMP], value=big)
    raw_records.produce(cluster.bootstrap_servers, topic, [NO_TIMESTAMP], value=big)  # in a segment of its own
    raw_records.produce(cluster.bootstrap_servers, topic, [now_ms()], value=big)
    produce(cluster, topic, 50)
    produce(cluster, topic, 1, age_ms=30 * DAY_MS)  # a late one ends what the plan sees
    with open_transaction(cluster.bootstrap_servers, topic, [0], transactional_id=f"tx-{topic}"):
        write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}")
        plan = read_plan(tmp_path)
    assert all(action["request"]["before_offset"] <= 12 for action in plan["actions"])


def test_stamps_of_the_future_in_a_row_are_overdue_too(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """A producer with a wrong clock writes many."""
    for _ in range(3):
        raw_records.produce(cluster.bootstrap_servers, topic, [now_ms() * 1_000])
    produce(cluster, topic, 500, age_ms=30 * DAY_MS)
    write_floor(tmp_path, cluster, topic, "keep: {newerThan: 7d}, driftAfter: 1h")
    assert [row["code"] for row in read_plan(tmp_path)["blocked"]] == ["B217"]


def test_a_second_rule_hides_no_transaction(cluster: SandboxCluster, tmp_path: Path, topic: str) -> None:
    """`last` counts from the last stable offset, which the transaction holds."""
    with hanging(cluster, topic):
        produce(cluster, topic, 500, age_ms=30 * DAY_MS)
        for rule, is_held in (("last: 10", True), ("last: 1000", False)):
            write_floor(tmp_path, cluster, topic, f"keep: {{newerThan: 7d, {rule}}}, driftAfter: 1h")
            assert [row["code"] for row in read_plan(tmp_path)["blocked"]] == ["B217"] * is_held
