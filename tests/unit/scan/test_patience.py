"""How long a scan goes on asking: one bound for all chunks, and one above it for the whole job."""

import time
from concurrent.futures import Future

import pytest

from reconciler.kafka.connect import Connection
from reconciler.kafka.groups import GroupListing
from reconciler.kafka.topics import PartitionMetadata, TopicListing, TopicMetadata
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan import requests
from reconciler.scan.scan import _chunks, _limit_s, _Listed, _Log, _work
from reconciler.scan.task_rows import ScanTask

NEEDS = ScanRequest(topics=(TopicRequest(topics=(Selector("*"),), offsets=True),))


def planned(partitions: int, log_records: int = 0, timeout_s: float = 30.0) -> tuple[ScanTask, float, float]:
    """The work, its expected time of reading, and the seconds until silent brokers are given up."""
    listed = tuple(PartitionMetadata(number, 1, (1,), (1,)) for number in range(partitions))
    topics = TopicListing((1,), {"t": TopicMetadata("t", "id", False, listed)}, None)
    found = _Listed(
        topics=topics,
        groups=GroupListing({}, None, None),
        policies=Future(),
        wishes=tuple(requests.partition_requests(NEEDS, topics)),
        counted=frozenset(),
        commit_groups=frozenset(),
        log=_Log(sizes={0: log_records}, partitions=1),
    )
    reading_s = requests.estimated_seconds(_chunks(found), found.log.sizes)
    before = time.time()
    work = _work(NEEDS, Connection(("127.0.0.1:1",), timeout_s=timeout_s), found, reading_s)
    return work, reading_s, work.until_s - before


def test_late_chunks_of_a_large_scan_have_their_patience() -> None:
    """The bound was once fixed when the job began: chunks whose turn came after it had five seconds, whatever --timeout said."""
    _, _, small_s = planned(10)
    _, reading_s, large_s = planned(100_000, log_records=1_000_000)
    assert 30 <= small_s < 31
    assert reading_s == 60
    assert 90 <= large_s < 91


@pytest.mark.parametrize(("log_start", "high_watermark"), [(2_000_000_000, None), (None, 5), (None, None), (9, 3)])
def test_a_part_of_the_log_that_was_half_answered_costs_no_patience(
    log_start: int | None, high_watermark: int | None
) -> None:
    """Its size was once minus two thousand million, and so was what all others had left."""
    assert requests.log_size(log_start, high_watermark) == 0
    assert requests.log_size(3, 9) == 6


def test_the_whole_job_has_longer_than_its_chunks() -> None:
    """Else a broker that is silent would cost the facts of all the others, too."""
    for partitions in (10, 200_000):  # read in an instant, and for longer than everything else takes
        work, reading_s, until_s = planned(partitions, timeout_s=1.0)
        assert _limit_s(work, reading_s) > until_s + 5
