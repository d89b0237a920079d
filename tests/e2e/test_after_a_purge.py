"""What is said in the minutes after a purge, while brokers keep the segments below the log start.

They remove them every 5 minutes (log.retention.check.interval.ms), the sandbox every second.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition as Partition
from reconciler.model.snapshot import RecordLookup, RecordStamp
from tests.e2e.workspace import DAY_MS, Workspace, floor
from tests.kafka_client import open_transaction


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """A broker that removes no segment during the tests."""
    properties = {"log.retention.check.interval.ms": "300000", "log.initial.task.delay.ms": "300000"}
    with stopping(start(1, name="purged", properties=properties, heap_mib=256)) as broker:
        yield broker


def of_two_days(now_ms: int) -> list[int]:
    """Return timestamps from nine days ago on, of which the last 500 become a week old within ten seconds."""
    week_ago = now_ms - 7 * DAY_MS
    return [*range(now_ms - 9 * DAY_MS, week_ago, DAY_MS // 1_000), *range(week_ago, week_ago + 10_000, 20), now_ms]


def of_now(now_ms: int) -> list[int]:
    return [now_ms] * 2_500


def create_topic(space: Workspace, stamps: Callable[[int], list[int]]) -> str:
    """Create a topic with small segments and a record for each timestamp."""
    topic = space.create_topic(0, configs={"segment.bytes": "1048576"})
    records = [Record(bytes(1_000), timestamp_ms=stamp) for stamp in stamps(time.time_ns() // 1_000_000)]
    client.produce(space.servers, topic, {0: records})
    return topic


def create_purged_topic(space: Workspace) -> str:
    """Create a topic with 500 records of now, from which another tool has purged 2,000."""
    topic = create_topic(space, of_now)
    purge(space, topic, 2_000)
    return topic


def purge(space: Workspace, topic: str, before_offset: int) -> None:
    admin = client.admin_client(space.servers)  # a client that nothing refers to has no answers
    for answer in admin.delete_records([TopicPartition(topic, 0, before_offset)]).values():
        answer.result(30)


@pytest.mark.parametrize(("rule", "stamps"), [("newerThan: 7d", of_two_days), ("last: 100", of_now)])
def test_a_drift_check_after_an_apply_is_in_sync(
    space: Workspace, rule: str, stamps: Callable[[int], list[int]]
) -> None:
    """What is due since then is within `driftAfter`. The search of a day before ended in such a segment, and all was overdue."""
    topic = create_topic(space, stamps)
    space.plan(floor(topic, f"keep: {{{rule}}}"))
    space.apply()
    assert space.log_start(topic) > 1_500, "more than a segment is gone"
    space.produce(topic, 10)
    space.run("drift", code=0)
    (action,) = space.plan()["actions"]
    assert not action["drift"]


def test_a_transaction_after_a_purge_does_not_hang(space: Workspace) -> None:
    """The advice was to abort the transaction of a producer that works."""
    topic = create_topic(space, of_now)
    space.plan(floor(topic, "keep: {last: 100}"))
    space.apply()
    with open_transaction(space.servers, topic):
        plan = space.plan()
        assert (plan["blocked"], plan["actions"]) == ([], [])
        assert "transaction" not in plan["output"]


def test_a_backfill_behind_purged_records_is_not_late(space: Workspace) -> None:
    """No segment is gone, but that of the backfill keeps the stamps of what was purged, and searches by time ended there."""
    now_ms = time.time_ns() // 1_000_000
    topic = space.create_topic(0, configs={"segment.ms": "3000"})
    events, backfill = [now_ms - DAY_MS // 24] * 3, [now_ms - 2 * DAY_MS] * 9
    records = [Record(b"a record", timestamp_ms=stamp) for stamp in (*events, *backfill)]
    client.produce(space.servers, topic, {0: records})
    space.plan(floor(topic, "keep: {last: 6}"))
    space.apply()
    time.sleep(3.5)  # the next record is in a segment of its own
    with open_transaction(space.servers, topic):
        assert space.plan()["blocked"] == []
    space.produce(topic, 10)
    space.run("drift", code=0)


def test_a_transaction_that_hangs_behind_a_purged_stamp_of_the_future_is_named(space: Workspace) -> None:
    """Every search by time ends in its segment for ever, and the newest timestamp is never old."""
    now_ms = time.time_ns() // 1_000_000
    topic = space.create_topic(0, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    old_ms = now_ms - 20 * DAY_MS
    stamps = (old_ms, now_ms * 1_000, old_ms, old_ms)
    client.produce(space.servers, topic, {0: [Record(b"a record", timestamp_ms=stamp) for stamp in stamps]})
    purge(space, topic, 2)
    with open_transaction(space.servers, topic):
        time.sleep(1.5)
        (block,) = space.plan(floor(topic, "keep: {last: 2}, driftAfter: 1s"))["blocked"]
        assert (block["code"], "--start-offset 4" in block["next_step"]) == ("B217", True)
        space.run("drift", code=2)


def test_nothing_is_due_after_a_purge_of_young_records(space: Workspace) -> None:
    """The search of a week ago ended there, too: all was to go, and was blocked as contradictory."""
    plan = space.plan(floor(create_purged_topic(space), "keep: {newerThan: 7d}"))
    assert (plan["blocked"], plan["actions"]) == ([], [])


def test_a_journal_is_read_after_a_purge_of_its_topic(space: Workspace) -> None:
    """Entries of now were not found, and with them which group a run of the same plan had removed."""
    topic = create_purged_topic(space)
    with closing(KafkaSession(Connection((space.servers,)))) as session:
        lines = JournalTopic(session, topic).lines(since_ms=time.time_ns() // 1_000_000 - DAY_MS)
        assert len(list(lines)) == 500


def test_a_segment_that_is_removed_during_the_reading_hides_no_entry(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker removed it after the search that ended in it: the next search passed, and no entry was read."""
    topic = create_purged_topic(space)
    asked: list[RecordLookup] = []

    def find(_session: KafkaSession, pairs: Iterable[tuple[Partition, RecordLookup]]) -> dict[Any, RecordStamp | None]:
        found = {}
        for at, of in pairs:
            asked.append(of)
            found[at, of] = RecordStamp(2_000, time.time_ns() // 1_000_000) if len(asked) > 1 else None
        return found

    monkeypatch.setattr(journal_topic, "find_by_time", find)
    with closing(KafkaSession(Connection((space.servers,)))) as session:
        lines = JournalTopic(session, topic).lines(since_ms=time.time_ns() // 1_000_000 - DAY_MS)
        assert len(list(lines)) == 500
