"""Groups that no broker lists, because nobody leads their part of the commit log."""

import pytest

from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.scan import _Log


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (_Log(sizes={0: 5, 1: 0}, partitions=2), None),
        (_Log(), None),
        (_Log(missing=NOT_ASKED), None),
        (_Log(sizes={0: 5}, partitions=3, leaderless=(1, 2)), "no broker lists the groups of 2 of 3 partitions"),
        (_Log(missing=Unknown("no right")), "whether every group is listed is unknown: no right"),
    ],
    ids=["all led", "nobody ever committed", "not asked", "two without a leader", "not to be seen"],
)
def test_a_log_without_leaders_hides_groups(log: _Log, told: str | None) -> None:
    """Live brokers answer a listing without an error, and leave out the groups of partitions that they do not lead."""
    found = log.hides_groups
    assert found is None if told is None else isinstance(found, Unknown) and told in found.reason
