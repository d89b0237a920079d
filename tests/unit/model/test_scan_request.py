"""Which scan requests need Spark."""

import pytest

from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector

TOPICS = (Selector("orders"),)
PLAIN, GROUPS = TopicRequest(topics=TOPICS), GroupRequest(groups=TOPICS)
OFFSETS, READERS = TopicRequest(topics=TOPICS, offsets=True), TopicRequest(topics=TOPICS, readers=True)
NAMED = TopicRequest(topics=TOPICS, named_groups=frozenset({"g"}))
EVIDENCE = GroupRequest(groups=TOPICS, activity=True)


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
