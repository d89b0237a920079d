"""Reads records between two offsets of a topic's partitions, with a plain consumer that never commits.

Decided here: when a partition counts as read (up to the high watermark at the start, or not at all).
"""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, Message, TopicPartition

from reconciler.kafka.connect import consumer
from reconciler.kafka.futures import Deadline, reason_of
from reconciler.kafka.offsets import UNKNOWN_LEADER, OffsetsRequest, Watermarks, read_watermarks
from reconciler.kafka.session import KafkaSession
from reconciler.model.snapshot import Unknown

_BATCH = 10_000
_SLICE_S = 0.05
_FETCH: Mapping[str, str | int | float] = {
    "fetch.wait.max.ms": 100,
    "fetch.max.bytes": 64 * 1024 * 1024,
    "max.partition.fetch.bytes": 8 * 1024 * 1024,
    "queued.max.messages.kbytes": 128 * 1024,
    "queued.min.messages": 200_000,
}


def read_ends(session: KafkaSession, topic: str, partitions: Sequence[int]) -> dict[int, Watermarks]:
    """The current ends of some partitions whose leaders are not known."""
    request = OffsetsRequest(topic, partitions, UNKNOWN_LEADER, full=False)
    return {partition.partition: ends for partition, ends in read_watermarks(session, [request]).items()}


def read_records(
    session: KafkaSession,
    topic: str,
    ends: Mapping[int, Watermarks],
    on_record: Callable[[Message], None],
    *,
    read_to: Mapping[int, int] | None = None,
    limit_s: float | None = None,
) -> dict[int, str]:
    """Call `on_record` for each record; return why a partition was not read to its end.

    `ends`: of the partitions, by number. `read_to`: where earlier calls ended. `limit_s`: upper bound of
    the whole call, which also ends after the session's timeout without data. Raises ClusterUnreachable
    and KafkaException.
    """
    errors: dict[int, str] = {}
    starts: dict[int, int] = {}
    unfinished: dict[int, int] = {}
    for number, (start, end) in ends.items():
        if isinstance(start, Unknown):
            errors[number] = f"log start: {start.reason}"
        elif isinstance(end, Unknown):
            errors[number] = f"high watermark: {end.reason}"
        elif (start := max(start, (read_to or {}).get(number, 0))) < end:
            starts[number], unfinished[number] = start, end
    if not unfinished:
        return errors
    client = consumer(session.connection, _FETCH)
    idle = session.deadline()
    limit = Deadline.after(float("inf") if limit_s is None else limit_s)
    try:
        client.assign([TopicPartition(topic, number, start) for number, start in starts.items()])
        while unfinished and not idle.passed and not limit.passed:
            messages = client.consume(_BATCH, _SLICE_S)
            if messages:
                idle = session.deadline()
            for message in messages:
                number, offset, error = message.partition(), message.offset() or 0, message.error()
                if number is None or number not in unfinished:
                    continue
                if error is None:
                    if offset < unfinished[number]:
                        on_record(message)
                    finished = offset >= unfinished[number] - 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    # The end that the answering broker knows: a former leader may lack the last records.
                    finished = offset >= unfinished[number]
                else:
                    # Errors without a partition (such as a coordinator for the reader's own group) never get here.
                    finished = True
                    denied = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                    errors[number] = f"the right READ on {topic} is missing" if denied else reason_of(error)
                if finished:
                    del unfinished[number]
                    client.pause([TopicPartition(topic, number)])
    finally:
        client.close()
    late = f"no data for {session.timeout_s:.0f} s"
    if limit_s is not None and not idle.passed:
        late = f"not done after {limit_s:.0f} s"
    return errors | dict.fromkeys(unfinished, late)
