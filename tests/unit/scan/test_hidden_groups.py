"""Groups that no broker lists, because their partition of the commit log has no leader."""

import pytest

from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.scan import LogMetadata


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (LogMetadata(sizes={0: 5, 1: 0}, partitions=2), None),
        (LogMetadata(), None),
        (LogMetadata(missing=NOT_ASKED), None),
        (LogMetadata(sizes={0: 5}, partitions=3, leaderless=(1, 2)), "no broker lists the groups of 2 of 3 partitions"),
        (LogMetadata(missing=Unknown("no right")), "whether every group is listed is unknown: no right"),
    ],
    ids=["all led", "no commit log", "not asked", "two without a leader", "invisible log"],
)
def test_a_log_without_leaders_hides_groups(log: LogMetadata, reason: str | None) -> None:
    """Live brokers answer a listing without an error, and omit the groups of partitions that they
    do not lead.
    """
    hides_groups = log.hides_groups
    if reason is None:
        assert hides_groups is None
    else:
        assert isinstance(hides_groups, Unknown)
        assert reason in hides_groups.reason
