"""The fingerprint of a group's committed offsets."""

import pytest

from reconciler.model.snapshot import fingerprint

COMMITS = [("orders", 0, 5), ("orders", 1, 7), ("clicks", 0, 5)]


def test_the_fingerprint_depends_on_every_part_and_not_on_the_order() -> None:
    """Topic, partition and offset count, and their boundaries are clear."""
    expected = fingerprint(COMMITS)
    assert fingerprint(reversed(COMMITS)) == expected
    assert len(expected) == 64
    changed_commits = [
        [("orders", 0, 5), ("orders", 1, 7)],
        [("orders", 0, 5), ("orders", 1, 8), ("clicks", 0, 5)],
        [("orders", 0, 5), ("orders", 2, 7), ("clicks", 0, 5)],
        [("orders", 0, 5), ("order", 1, 7), ("clicks", 0, 5)],
        [],
    ]
    assert len({expected, *map(fingerprint, changed_commits)}) == 6
    assert fingerprint([("a", 1, 11)]) != fingerprint([("a", 11, 1)])


def test_an_invalid_offset_is_refused() -> None:
    """In a client's answer -1 means no commit, and -1001 means unknown."""
    for offset in (-1, -1001):
        with pytest.raises(ValueError, match=rf"orders\[0\]: {offset} is not a committed offset"):
            fingerprint([("orders", 0, offset)])
    assert fingerprint([("orders", 0, 0)])
