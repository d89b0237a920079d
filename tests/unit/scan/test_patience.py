"""How long a scan waits for brokers, and which groups a broker hides."""

import time
from concurrent.futures import Future

import pytest

from reconciler.kafka.connect import Connection
from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.offsets import Watermarks
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.scan.scan import Listings, _divide
from reconciler.scan.snapshot_builder import ConsumerOffsetsLog
from tests.strategies import facts
from tests.unit.scan.listings import groups, reason, requests_of, topic, topics

LOST = Unknown("no answer")
NEEDS = ScanRequest(topics=(TopicRequest(topics=(Selector("*"),), offsets=True, readers=True),))


def listings(log: ConsumerOffsetsLog, *names: str, partitions: int = 1, requested: bool = False) -> Listings:
    """A topic whose partitions broker 1 leads, and these groups."""
    listing = topics(topic("t", partitions, leaders=(1,)))
    return Listings(
        topics=listing,
        groups=groups(*names),
        retention=Future(),
        partition_requests=tuple(requests_of(NEEDS, listing)) if requested else (),
        counted=frozenset(),
        log=log,
        reads_log=True,
        external={},
        transactions_hidden=False,
    )


def planned(partitions: int, log_records: int = 0, timeout_s: float = 30.0) -> tuple[float, float, float]:
    """The expected reading time, the seconds until tasks give up silent brokers, and the limit of all tasks."""
    log = ConsumerOffsetsLog(sizes={0: log_records}, partitions=1)
    session = KafkaSession(Connection(("127.0.0.1:1",), timeout_s=timeout_s))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: 1_000.0)  # a busy machine must not count
        chunks, task, limit_s = _divide(NEEDS, session, listings(log, partitions=partitions, requested=True))
    return sum(chunk.seconds for chunk in chunks), task.until_s - 1_000.0, limit_s


def test_late_chunks_of_a_large_scan_have_their_patience() -> None:
    """Counted from the start of the job, later chunks had five seconds, for any --timeout."""
    _, small_s, _ = planned(10)
    reading_s, large_s, _ = planned(20_000, log_records=5_000_000)
    assert small_s == pytest.approx(30, abs=0.1)
    assert reading_s == 60
    assert large_s == 90


@pytest.mark.parametrize(("log_start", "high_watermark"), [(2_000_000_000, LOST), (LOST, 5), (LOST, LOST), (9, 3)])
def test_a_partition_of_the_log_without_both_ends_costs_no_time(
    log_start: int | Unknown, high_watermark: int | Unknown
) -> None:
    """Its size was once minus two thousand million, which took the time of all other partitions."""
    assert Watermarks(log_start, high_watermark).size == 0
    assert Watermarks(3, 9).size == 6


def test_the_job_has_a_longer_limit_than_its_chunks() -> None:
    """Otherwise a silent broker would lose the facts of all other brokers."""
    for partitions in (10, 20_000):  # read in an instant, and for longer than everything else takes
        _, until_s, limit_s = planned(partitions, timeout_s=1.0)
        assert limit_s > until_s + 5


def test_the_chunks_of_a_scan_follow_the_leaders_of_the_consumer_offsets() -> None:
    """The leader of a group's partition is its coordinator; groups of leaderless partitions have chunks, too."""
    names = [f"group-{number}" for number in range(3_000)]
    leaders = {number: number % 3 for number in range(49)}
    log = ConsumerOffsetsLog(partitions=50, leaders=leaders, sizes=dict.fromkeys(leaders, 100_000))
    session = KafkaSession(Connection(("127.0.0.1:1",)))
    chunks, _task, _limit_s = _divide(NEEDS, session, listings(log, *names))
    of_groups = [{log.coordinator_of(name) for name in chunk.groups} for chunk in chunks if chunk.groups]
    assert sorted(name for chunk in chunks for name in chunk.groups) == sorted(names)
    assert sorted(map(len, of_groups)) == [1] * 6 + [2]
    assert None in set().union(*of_groups)
    of_log = [{leaders[number] for number in chunk.log} for chunk in chunks if chunk.log]
    assert len(of_log) == 6
    assert all(len(brokers) == 1 for brokers in of_log)


@pytest.mark.parametrize(
    ("log", "words"),
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
def test_a_log_without_leaders_hides_groups(log: ConsumerOffsetsLog, words: str | None) -> None:
    """Live brokers omit, without an error, the groups of partitions that they do not lead."""
    assert log.hides_groups is None if words is None else words in reason(log.hides_groups)


@pytest.mark.parametrize(
    ("missing", "groups", "hidden", "words"),
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
    missing: Unknown | None, groups: list[str], hidden: bool, words: str | None
) -> None:
    """The data source took "unknown topic" for a new cluster, whatever groups were listed: its rows were complete."""
    listed = GroupListing(groups={name: facts.group(name) for name in groups}, incomplete=None)
    log, listing = ConsumerOffsetsLog(missing=missing).judge(listed, hidden=hidden)
    assert log.hidden == hidden
    assert listing.groups == listed.groups
    assert listing.incomplete is None if words is None else words in reason(listing.incomplete)


def test_what_makes_a_listing_incomplete_itself_stays() -> None:
    silent = Unknown("a broker did not answer")
    _log, listing = ConsumerOffsetsLog().judge(GroupListing(groups={}, incomplete=silent), hidden=False)
    assert listing.incomplete is silent
