"""When a partition counts as read, without brokers."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from reconciler.kafka import records as reading
from reconciler.kafka.connect import Connection
from reconciler.kafka.offsets import Watermarks
from reconciler.kafka.records import look_up, read_records
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import LookupKind, RecordLookup, RecordStamp, Unknown
from tests.golden.wording import mentions


class FakeMessage:
    def __init__(self, partition: int | None, offset: int | None, error: int | None = None) -> None:
        self.topic = lambda: "t"
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.timestamp = lambda: (1, 7)
        self.error = lambda: None if error is None else KafkaError(error)


class FakeConsumer:
    def __init__(self, *messages: FakeMessage) -> None:
        self.messages = list(messages)
        self.assigned: dict[int, int] = {}
        self.calls = 0

    def assign(self, partitions: list[Any]) -> None:
        self.assigned = {partition.partition: partition.offset for partition in partitions}

    def consume(self, count: int, _timeout_s: float) -> list[FakeMessage]:
        self.calls += 1
        messages, self.messages = self.messages[:count], self.messages[count:]
        return messages

    def pause(self, _partitions: list[Any]) -> None: ...

    def close(self) -> None: ...


def read(
    monkeypatch: pytest.MonkeyPatch, client: FakeConsumer, ends: dict[int, Watermarks], **options: Any
) -> tuple[list[tuple[int, int]], dict[int, Unknown]]:
    """The records of a topic as (partition, offset), and the errors by partition."""
    monkeypatch.setattr(reading, "create", lambda *_arguments: client)
    session = KafkaSession(Connection(("127.0.0.1:9",), timeout_s=0.2))
    records: list[tuple[int, int]] = []

    def add(partition: TopicPartition, messages: list[Message]) -> None:
        records.extend((partition.partition, message.offset() or 0) for message in messages)

    errors = read_records(session, "t", ends, add, **options)
    return records, errors


def test_a_partition_is_read_up_to_the_end_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later records do not count, and the reader goes on where the last call ended."""
    client = FakeConsumer(FakeMessage(0, 3), FakeMessage(0, 4), FakeMessage(0, 5), FakeMessage(1, 0))
    ends = {0: Watermarks(0, 5), 1: Watermarks(0, 0)}
    assert read(monkeypatch, client, ends, read_to={0: 3}) == ([(0, 3), (0, 4)], {})
    assert client.assigned == {0: 3}


def test_an_early_end_of_a_partition_is_not_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A former leader may lack the last records; after the timeout the partition is not read."""
    client = FakeConsumer(FakeMessage(0, 3), FakeMessage(0, 4, KafkaError._PARTITION_EOF))
    records, errors = read(monkeypatch, client, {0: Watermarks(0, 5)})
    assert records == [(0, 3)]
    assert list(errors) == [0]
    assert (mentions(errors[0].reason, "no data"), errors[0].unanswered) == (True, True)


def test_an_error_without_a_partition_is_of_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an error of a partition ends its reading; the missing right is named."""
    client = FakeConsumer(
        FakeMessage(None, None, KafkaError._TRANSPORT),
        FakeMessage(0, 0),
        FakeMessage(1, None, KafkaError.TOPIC_AUTHORIZATION_FAILED),
    )
    records, errors = read(monkeypatch, client, {0: Watermarks(0, 1), 1: Watermarks(0, 1)})
    assert records == [(0, 0)]
    assert list(errors) == [1]
    assert mentions(errors[1].reason, "the right READ")


def test_a_partition_without_known_ends_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the one of the end that could not be read."""
    lost = Unknown("no answer")
    ends = {0: Watermarks(lost, 5), 1: Watermarks(0, lost)}
    assert read(monkeypatch, FakeConsumer(), ends) == (
        [],
        {0: Unknown("log start: no answer"), 1: Unknown("high watermark: no answer")},
    )


def test_what_follows_an_error_does_not_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client goes on behind an unreadable batch: the last record is no proof of all."""
    client = FakeConsumer(
        FakeMessage(0, 0),
        FakeMessage(0, 1, KafkaError._BAD_MSG),
        FakeMessage(0, 4),
        FakeMessage(1, 0),
        FakeMessage(1, 1, KafkaError._BAD_MSG),
    )
    records, errors = read(monkeypatch, client, {0: Watermarks(0, 5), 1: Watermarks(0, 1)})
    assert records == [(0, 0), (1, 0)]
    assert list(errors) == [0]


def test_a_broker_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight lookups of one partition waited one after the other: four minutes, with the default timeout."""
    clients: list[FakeConsumer] = []
    monkeypatch.setattr(reading, "create", lambda *_arguments: clients.append(FakeConsumer()) or clients[-1])
    session, partition = KafkaSession(Connection(("127.0.0.1:9",), timeout_s=0.2)), TopicPartition("t", 0)
    asked = [RecordLookup(kind, start, start + 10) for kind in (LookupKind.FIRST, LookupKind.LAST) for start in (0, 90)]
    found = look_up(session, {partition: asked}, {})
    assert [isinstance(answer, Unknown) and answer.unanswered for answer in found[partition].values()] == [True] * 4
    assert len(clients) == 2, "soon, and once more with larger fetches"


def test_what_a_partition_sends_after_its_range_does_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one offset left, 5,000 messages of finished partitions were taken one by one, in half a second."""
    client = FakeConsumer(*(FakeMessage(0, offset) for offset in range(5_000)), FakeMessage(1, 0))
    records, errors = read(monkeypatch, client, {0: Watermarks(0, 1), 1: Watermarks(0, 1)})
    assert (records, errors) == ([(0, 0), (1, 0)], {})
    assert client.calls <= 4


def test_an_empty_range_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader asks for one message, and not for none: that would find out nothing until it gives up."""
    clients = [FakeConsumer(FakeMessage(0, 5)), FakeConsumer()]
    monkeypatch.setattr(reading, "create", lambda *_arguments: clients.pop(0))
    session, lookup = KafkaSession(Connection(("127.0.0.1:9",), timeout_s=0.2)), RecordLookup(LookupKind.FIRST, 5, 5)
    partition = TopicPartition("t", 0)
    assert look_up(session, {partition: [lookup]}, {})[partition][lookup] is None


def test_what_is_not_read_soon_is_read_with_larger_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches above the size of a fetch come one in a request: a wave of 1,000 took 30 s, and one of 4,000 its whole time."""
    sizes: list[Any] = []

    def create(_client: object, _connection: object, settings: dict[str, Any]) -> FakeConsumer:
        sizes.append(settings["max.partition.fetch.bytes"])
        soon = [FakeMessage(0, 5)] if len(sizes) == 1 else []
        return FakeConsumer(*soon or [FakeMessage(1, 5)])

    monkeypatch.setattr(reading, "create", create)
    session, lookup = KafkaSession(Connection(("127.0.0.1:9",), timeout_s=0.2)), RecordLookup(LookupKind.FIRST, 5, 6)
    partitions = [TopicPartition("t", number) for number in (0, 1)]
    found = look_up(session, {partition: [lookup] for partition in partitions}, {})
    assert [found[partition][lookup] for partition in partitions] == [RecordStamp(5, 7)] * 2
    assert sizes == [64 * 1024, 1024 * 1024]
