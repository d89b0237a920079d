"""The union of scan requests, and which of them need Spark."""

from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector

TOPICS = (Selector("orders"),)


def test_the_union_requests_what_each_part_requests() -> None:
    one, two = TopicRequest(topics=TOPICS), TopicRequest(topics=TOPICS, offsets=True)
    group = GroupRequest(groups=(Selector("g"),))
    union = ScanRequest.union(
        iter(
            [
                ScanRequest(topics=(one,), topic_records=True),
                ScanRequest(topics=(two,), groups=(group,), cluster_records=True),
            ]
        )
    )
    assert union == ScanRequest(topics=(one, two), groups=(group,), topic_records=True, cluster_records=True)
    assert ScanRequest.union([]) == ScanRequest()


def test_metadata_and_listings_need_no_spark() -> None:
    plain = ScanRequest(
        topics=(TopicRequest(topics=TOPICS),), groups=(GroupRequest(groups=TOPICS),), topic_records=True
    )
    assert (plain.offsets, plain.readers, plain.consumer_offsets, plain.spark) == (False, False, False, False)


def test_offsets_and_the_clusters_records_need_spark() -> None:
    for request in (
        ScanRequest(topics=(TopicRequest(topics=TOPICS, offsets=True),)),
        ScanRequest(cluster_records=True),
    ):
        assert (request.offsets, request.consumer_offsets, request.spark) == (True, False, True)


def test_consumers_named_groups_and_evidence_need_the_consumer_offsets() -> None:
    """The check of consumers includes every group that the cluster may hold."""
    for topic_request in (
        TopicRequest(topics=TOPICS, readers=True),
        TopicRequest(topics=TOPICS, named_groups=frozenset({"g"})),
    ):
        request = ScanRequest(topics=(topic_request,))
        assert (request.readers, request.consumer_offsets, request.spark) == (True, True, True)
    evidence = ScanRequest(groups=(GroupRequest(groups=TOPICS, activity=True),))
    assert (evidence.readers, evidence.consumer_offsets, evidence.spark) == (False, True, True)
