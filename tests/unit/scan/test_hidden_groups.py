"""Groups that no broker lists, because their partition of `__consumer_offsets` has no leader."""

import pytest

from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (ConsumerOffsetsLog(sizes={0: 5, 1: 0}, partitions=2), None),
        (ConsumerOffsetsLog(), None),
        (ConsumerOffsetsLog(missing=NOT_ASKED), None),
        (ConsumerOffsetsLog(sizes={0: 5}, partitions=3), "no broker lists the groups of 2 of 3 partitions"),
        (
            ConsumerOffsetsLog(sizes={0: 5, 1: 0}, partitions=2, unanswered={1: Unknown("its leader did not answer")}),
            "the groups of __consumer_offsets[1] may not be listed: its leader did not answer",
        ),
        (ConsumerOffsetsLog(missing=Unknown("no right")), "whether every group is listed is unknown: no right"),
    ],
    ids=["all led", "no __consumer_offsets", "not asked", "two without a leader", "a silent leader", "invisible log"],
)
def test_a_log_without_leaders_hides_groups(log: ConsumerOffsetsLog, reason: str | None) -> None:
    """Live brokers answer a listing without an error, and omit the groups of partitions that they
    do not lead.
    """
    hides_groups = log.hides_groups
    if reason is None:
        assert hides_groups is None
    else:
        assert isinstance(hides_groups, Unknown)
        assert reason in hides_groups.reason
