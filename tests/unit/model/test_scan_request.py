"""The union of scan requests, and which of them need Spark."""

import pytest

from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector

TOPICS = (Selector("orders"),)
PLAIN, GROUPS = TopicRequest(topics=TOPICS), GroupRequest(groups=TOPICS)
OFFSETS, READERS = TopicRequest(topics=TOPICS, offsets=True), TopicRequest(topics=TOPICS, readers=True)
NAMED = TopicRequest(topics=TOPICS, named_groups=frozenset({"g"}))
EVIDENCE = GroupRequest(groups=TOPICS, activity=True)


def test_the_union_requests_what_each_part_requests() -> None:
    parts = [
        ScanRequest(topics=(PLAIN,), topic_records=True),
        ScanRequest(topics=(OFFSETS,), groups=(GROUPS,), cluster_records=True),
    ]
    assert ScanRequest.union(iter(parts)) == ScanRequest(
        topics=(PLAIN, OFFSETS), groups=(GROUPS,), topic_records=True, cluster_records=True
    )
    assert ScanRequest.union([]) == ScanRequest()


@pytest.mark.parametrize(
    ("request_", "offsets", "readers", "consumer_offsets", "spark"),
    [
        # Metadata and listings need no Spark, offsets and the cluster's records do.
        (ScanRequest(topics=(PLAIN,), groups=(GROUPS,), topic_records=True), False, False, False, False),
        (ScanRequest(topics=(OFFSETS,)), True, False, False, True),
        (ScanRequest(cluster_records=True), True, False, False, True),
        # The check of consumers includes every group that the cluster may hold.
        (ScanRequest(topics=(READERS,)), False, True, True, True),
        (ScanRequest(topics=(NAMED,)), False, True, True, True),
        (ScanRequest(groups=(EVIDENCE,)), False, False, True, True),
    ],
)
def test_what_a_request_needs(
    request_: ScanRequest, offsets: bool, readers: bool, consumer_offsets: bool, spark: bool
) -> None:
    assert (request_.offsets, request_.readers) == (offsets, readers)
    assert (request_.consumer_offsets, request_.spark) == (consumer_offsets, spark)
