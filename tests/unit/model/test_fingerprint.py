"""One group's commits as a fingerprint."""

import pytest

from reconciler.model.fingerprint import fingerprint

COMMITS = [("orders", 0, 5), ("orders", 1, 7), ("clicks", 0, 5)]


def test_order_does_not_matter_and_every_part_does() -> None:
    """Topic, partition and offset; and none of them runs into the next."""
    taken = fingerprint(COMMITS)
    assert fingerprint(reversed(COMMITS)) == taken
    assert len(taken) == 64
    others = [
        [("orders", 0, 5), ("orders", 1, 7)],
        [("orders", 0, 5), ("orders", 1, 8), ("clicks", 0, 5)],
        [("orders", 0, 5), ("orders", 2, 7), ("clicks", 0, 5)],
        [("orders", 0, 5), ("order", 1, 7), ("clicks", 0, 5)],
        [],
    ]
    assert len({taken, *map(fingerprint, others)}) == 6
    assert fingerprint([("a", 1, 11)]) != fingerprint([("a", 11, 1)])


def test_an_offset_that_is_none_is_refused() -> None:
    """-1 and -1001 are no commit and unknown in a client's answer."""
    for offset in (-1, -1001):
        with pytest.raises(ValueError, match=rf"orders\[0\]: {offset} is no committed offset"):
            fingerprint([("orders", 0, offset)])
    assert fingerprint([("orders", 0, 0)])
