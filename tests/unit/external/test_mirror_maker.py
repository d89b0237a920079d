"""The records of MirrorMaker's offset syncs."""

import struct

import pytest

from reconciler.external.mirror_maker import decode_sync
from reconciler.model.names import TopicPartition


def key(topic: bytes = b"orders", partition: int = 3) -> bytes:
    return struct.pack(">h", len(topic)) + topic + struct.pack(">i", partition)


def test_a_sync_says_up_to_where_a_partition_is_mirrored() -> None:
    """The upstream offset counts, not the downstream one; a record without a value removes the sync."""
    assert decode_sync(key(), struct.pack(">qq", 4200, 17)) == (TopicPartition("orders", 3), 4200)
    assert decode_sync(key(), None) == (TopicPartition("orders", 3), None)


@pytest.mark.parametrize(
    ("key_bytes", "value"),
    [
        (None, struct.pack(">qq", 1, 1)),
        (b"", struct.pack(">qq", 1, 1)),
        (key() + b"\0", struct.pack(">qq", 1, 1)),
        (key()[:-1], struct.pack(">qq", 1, 1)),
        (key(b"\xff"), struct.pack(">qq", 1, 1)),
        (key(b""), struct.pack(">qq", 1, 1)),
        (struct.pack(">h", -1) + key(), struct.pack(">qq", 1, 1)),
        (key(partition=-1), struct.pack(">qq", 1, 1)),
        (key(), b""),
        (key(), struct.pack(">q", 1)),
        (key(), struct.pack(">qqq", 1, 1, 1)),
        (key(), struct.pack(">qq", -1, 1)),
    ],
)
def test_other_bytes_are_not_a_sync(key_bytes: bytes | None, value: bytes | None) -> None:
    """Every byte of key and value counts, so a record of another layout never passes for a position."""
    with pytest.raises(ValueError, match="sync"):
        decode_sync(key_bytes, value)
