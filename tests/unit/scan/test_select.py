"""What a scan reads: requests against live names."""

from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.scan import select
from tests.unit.scan.listings import groups, requests_of, selectors, topic, unknown_topic
from tests.unit.scan.listings import topics as listing


def test_partition_requests_merge_what_several_parts_request() -> None:
    """Each partition is there once, with all that some part requests, and its listed facts."""
    needs = ScanRequest(
        topics=(
            TopicRequest(topics=selectors("a*"), partitions=frozenset({0, 1}), offsets=True, instants_ms=(9, 3)),
            TopicRequest(topics=selectors("ab"), partitions=frozenset({1, 2}), readers=True, instants_ms=(3,)),
            TopicRequest(topics=selectors("ab"), partitions=frozenset({2}), named_groups=frozenset({"g"}), every_ms=1),
        )
    )
    listed = topic("ab", 4)
    requests = requests_of(needs, listing(listed, topic("b")))
    by_partition = {facts.partition.partition: request for request in requests for facts in request.partitions}
    asked = {n: (of.instants, of.readers, of.named, of.last_purge, of.full) for n, of in by_partition.items()}
    assert asked == {
        0: ((3, 9), False, frozenset(), False, True),
        1: ((3, 9), True, frozenset(), False, True),
        2: ((3,), True, {"g"}, True, True),
        3: ((), False, frozenset(), False, True),  # a share is of all partitions of a topic
    }
    facts = tuple(facts for request in requests for facts in request.partitions)
    assert facts == listed.partitions, "with leadership and topic id"


def test_topics_share_one_set_of_named_groups() -> None:
    """A set for each of thousands of topics would be sent to every task."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("*"), all_groups=True),))
    assert (needs.readers, needs.spark) == (True, True), "__consumer_offsets is needed before the groups are listed"
    first, second = requests_of(needs, listing(topic("a"), topic("b")), ["g", "h"])
    assert first.named == {"g", "h"}
    assert first.named is second.named


def test_partition_requests_skip_topics_with_unknown_partitions() -> None:
    """No request is sent for a topic whose metadata failed: its facts stay Unknown."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("a"), offsets=True),))
    assert requests_of(needs, listing(unknown_topic("a"))) == []


def test_counted_topics_are_not_kafkas_own() -> None:
    """Internal topics do not count for the cluster; a topic's own where offsets are requested.

    Brokers do not call `__remote_log_metadata` internal, whose records made each share look smaller.
    """
    metadata = topic("__remote_log_metadata", internal=False)
    listed = listing(topic("a"), topic("b"), topic("__consumer_offsets"), metadata)
    assert select.topics_to_count(ScanRequest(cluster_records=True), {}, listed) == {"a", "b"}
    needs = ScanRequest(
        topics=(TopicRequest(topics=selectors("a"), offsets=True), TopicRequest(topics=selectors("b"))),
        topic_records=True,
    )
    assert select.topics_to_count(needs, select.select_topics(needs, listed.topics), listed) == {"a"}


def test_commit_groups_are_all_groups_where_readers_are_requested() -> None:
    """Every group may lose records by a purge; of the unlisted ones, Streams groups tell their commits."""
    listed = groups("a", "b", hidden=("share",))
    need = GroupRequest(groups=selectors("a", "share"))
    assert select.commit_groups(ScanRequest(groups=(need,)), listed) == {"a", "share"}, "it may be a Streams group"
    with_readers = ScanRequest(topics=(TopicRequest(topics=selectors("t"), readers=True),), groups=(need,))
    assert select.commit_groups(with_readers, listed) == {"a", "b", "share"}


def test_selected_groups_obey_exceptions() -> None:
    """A group that one part excepts is selected if another part names it."""
    first = GroupRequest(groups=selectors("a*"), except_groups=selectors("ab"))
    assert select.select_groups([first], ["aa", "ab", "b"]) == {"aa"}
    assert select.select_groups([first, GroupRequest(groups=selectors("ab"))], ["aa", "ab", "b"]) == {"aa", "ab"}


def test_exact_topics_are_those_that_are_named() -> None:
    """Only an exact name expects that the topic exists."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("a", "b*", "regex:c")),))
    assert select.topics_to_describe(needs, ["bc"]) == {"a", "bc"}
