"""Groups that no broker lists, because their partition of `__consumer_offsets` has no leader."""

import pytest

from reconciler.kafka.group_listing import GroupListing
from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog
from tests.strategies import facts


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
    """Live brokers omit, without an error, the groups of partitions that they do not lead."""
    hides_groups = log.hides_groups
    if reason is None:
        assert hides_groups is None
    else:
        assert isinstance(hides_groups, Unknown)
        assert reason in hides_groups.reason


@pytest.mark.parametrize(
    ("missing", "groups", "hidden", "reason"),
    [
        (None, ["billing"], False, '__consumer_offsets is hidden or absent, although "billing" is a group'),
        (None, [], False, None),
        (None, ["billing"], True, None),
        (Unknown("no right"), ["billing"], True, None),
        (Unknown("no right"), [], False, "whether every group is listed is unknown: no right"),
    ],
    ids=["a provider hides it", "a new cluster", "the Cluster says so", "nor is a right needed", "an invisible log"],
)
def test_brokers_without_consumer_offsets_list_no_group(
    missing: Unknown | None, groups: list[str], hidden: bool, reason: str | None
) -> None:
    """The data source took "unknown topic" for a new cluster, whatever groups were listed: its rows were complete."""
    listed = GroupListing(groups={name: facts.group(name) for name in groups}, incomplete=None)
    log, listing = ConsumerOffsetsLog(missing=missing).judge(listed, hidden=hidden)
    assert log.hidden == hidden
    assert listing.groups == listed.groups
    if reason is None:
        assert listing.incomplete is None
    else:
        assert isinstance(listing.incomplete, Unknown)
        assert reason in listing.incomplete.reason


def test_what_makes_a_listing_incomplete_itself_stays() -> None:
    silent = Unknown("a broker did not answer")
    _log, listing = ConsumerOffsetsLog().judge(GroupListing(groups={}, incomplete=silent), hidden=False)
    assert listing.incomplete is silent
