"""Produces records with any timestamps, also none, with the bytes of a Produce request (version 8).

No client library sends a record without a timestamp; clients before message format 1, and some that
people wrote themselves, do.
"""

import struct
from collections.abc import Sequence

from tests.e2e.raw_groups import header, send, string

_PRODUCE = 0
NO_TIMESTAMP = -1


def produce(servers: str, topic: str, stamps: Sequence[int], *, value: bytes = b"x") -> None:
    """Append one batch to partition 0 with a record for each timestamp, in epoch ms."""
    batch = _batch(stamps, value)
    partition = struct.pack(">i", 0) + struct.pack(">i", len(batch)) + batch
    topics = struct.pack(">i", 1) + string(topic) + struct.pack(">i", 1) + partition
    body = struct.pack(">hhi", -1, -1, 10_000) + topics
    # response: topics, its name, its partitions, its number, error
    send(servers, header(_PRODUCE, 8) + body, error_at=4 + len(string(topic)) + 4 + 4)


def _batch(stamps: Sequence[int], value: bytes) -> bytes:
    """Return a batch of format 2, whose timestamps are differences from the first one."""
    records = b""
    for number, stamp in enumerate(stamps):
        fields = (stamp - stamps[0], number)
        record = b"\0" + b"".join(map(_varint, fields)) + _varint(-1) + _varint(len(value)) + value + _varint(0)
        records += _varint(len(record)) + record
    last = len(stamps) - 1
    # attributes, last offset delta, first and largest timestamp, producer id and epoch, sequence, count
    checked = struct.pack(">hiqqqhii", 0, last, stamps[0], max(stamps), -1, -1, -1, len(stamps)) + records
    # leader epoch, format, checksum
    rest = struct.pack(">ibI", -1, 2, _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(rest)) + rest


def _varint(number: int) -> bytes:
    """Encode a signed number, zigzag and seven bits at a time."""
    number = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _crc32c(data: bytes) -> int:
    """Return the checksum of a batch (Castagnoli's polynomial, bits reversed)."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF
