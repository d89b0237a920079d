"""Groups that no broker lists, because their partition of the commit log has no leader."""

import pytest

from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.snapshot_builder import CommitLog


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (CommitLog(sizes={0: 5, 1: 0}, partitions=2), None),
        (CommitLog(), None),
        (CommitLog(missing=NOT_ASKED), None),
        (CommitLog(sizes={0: 5}, partitions=3), "no broker lists the groups of 2 of 3 partitions"),
        (
            CommitLog(sizes={0: 5, 1: 0}, partitions=2, unanswered={1: Unknown("its leader did not answer")}),
            "the groups of __consumer_offsets[1] may not be listed: its leader did not answer",
        ),
        (CommitLog(missing=Unknown("no right")), "whether every group is listed is unknown: no right"),
    ],
    ids=["all led", "no commit log", "not asked", "two without a leader", "a silent leader", "invisible log"],
)
def test_a_log_without_leaders_hides_groups(log: CommitLog, reason: str | None) -> None:
    """Live brokers answer a listing without an error, and omit the groups of partitions that they
    do not lead.
    """
    hides_groups = log.hides_groups
    if reason is None:
        assert hides_groups is None
    else:
        assert isinstance(hides_groups, Unknown)
        assert reason in hides_groups.reason
