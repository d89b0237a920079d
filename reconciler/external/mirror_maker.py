"""Reads up to where MirrorMaker 2 has mirrored each partition, from its offset syncs (KIP-382).

`mm2-offset-syncs.TARGET.internal` lies on the source cluster. A sync says that the records below its
upstream offset are on the target; it is up to `offset.lag.max` records behind. Two flows to one target
alias share the topic.
"""

import struct
from typing import Any

from reconciler.external.places import PositionUnreadable
from reconciler.kafka.offsets import read_ends
from reconciler.kafka.records import read_records
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import describe
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import ExternalPosition, Unknown


def read_syncs(session: KafkaSession, topic: str) -> ExternalPosition:
    """Return the upstream offset of the newest sync of each partition. Needs READ on the topic.

    Raises PositionUnreadable, ClusterUnreachable and KafkaException.
    """
    described = describe(session, [topic])[topic]
    if described is None:
        raise PositionUnreadable(f"there is no topic {topic}")
    if isinstance(described, Unknown):
        raise PositionUnreadable(described.reason)
    newest: dict[TopicPartition, int | None] = {}
    written_at_ms = 0

    def add(_partition: TopicPartition, messages: list[Any]) -> None:
        nonlocal written_at_ms
        for message in messages:
            partition, offset = decode_sync(message.key(), message.value())
            newest[partition] = offset
            written_at_ms = max(written_at_ms, message.timestamp()[1])

    ends = read_ends(session, topic, [facts.partition.partition for facts in described[1]])
    try:
        unread = read_records(session, topic, ends, add, limit_s=session.timeout_s)
    except ValueError as error:
        raise PositionUnreadable(str(error)) from None
    for number, reason in unread.items():
        raise PositionUnreadable(f"{topic}[{number}] was not read to its end: {reason.reason}")
    offsets = {partition: offset for partition, offset in newest.items() if offset is not None}
    if not offsets:
        raise PositionUnreadable(f"{topic} has no sync")
    return ExternalPosition(offsets, written_at_ms)


def decode_sync(key: bytes | None, value: bytes | None) -> tuple[TopicPartition, int | None]:
    """Decode one record: the partition, and the upstream offset; None: the sync was removed.

    Key: int16 length, topic, int32 partition. Value: int64 upstream, int64 downstream offset. Neither
    has a version. Raises ValueError for other bytes.
    """
    try:
        (length,) = struct.unpack_from(">h", key or b"")
        (number,) = struct.unpack(">i", (key or b"")[2 + length :])
        partition = TopicPartition((key or b"")[2 : 2 + length].decode(), number)
        upstream = None if value is None else struct.unpack(">qq", value)[0]
    except (struct.error, UnicodeDecodeError):
        raise ValueError("a record is not an offset sync of MirrorMaker 2") from None
    if length < 1 or number < 0 or (upstream is not None and upstream < 0):
        raise ValueError("an offset sync has a negative number, or no topic")
    return partition, upstream
