"""The partition of __consumer_offsets that holds a group."""

import pytest

from reconciler.kafka.consumer_offsets_layout import log_partition


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("g0", 41), ("g1", 42), ("share1", 36), ("txgroup", 37), ("newproto", 18), ("polygenelubricants", 0)],
)
def test_log_partition_is_the_brokers(group: str, partition: int) -> None:
    """Observed on a broker with 50 partitions, except the last: its hash is Java's smallest int."""
    assert log_partition(group, 50) == partition


def test_log_partition_hashes_utf_16() -> None:
    """Java hashes UTF-16 units: a character outside the basic plane counts as two."""
    assert log_partition("😀", 2**31) == 31 * 0xD83D + 0xDE00
