"""Produces records with any timestamps, also none, with the bytes of a Produce request (version 8).

No client library sends a record without a timestamp; clients before message format 1, and some that
people wrote themselves, do.
"""

import struct
from collections.abc import Sequence

from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.e2e.raw_groups import header, send
from tests.strategies.consumer_offsets import encode_string

_PRODUCE = 0
NO_TIMESTAMP = -1


def produce(servers: str, topic: str, stamps: Sequence[int], *, value: bytes = b"x") -> None:
    """Append one batch to partition 0 with a record for each timestamp, in epoch ms."""
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=2**30
    )
    for number, stamp in enumerate(stamps):
        builder.append(number, stamp, None, value, [])
    batch = bytes(builder.build())
    partition = struct.pack(">i", 0) + struct.pack(">i", len(batch)) + batch
    topics = struct.pack(">i", 1) + encode_string(topic) + struct.pack(">i", 1) + partition
    body = struct.pack(">hhi", -1, -1, 10_000) + topics
    # response: topics, its name, its partitions, its number, error
    send(servers, header(_PRODUCE, 8) + body, error_at=4 + len(encode_string(topic)) + 4 + 4)
