"""Needs against live names: what is asked of whom, in which chunks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kafka.offsets import OffsetsRequest
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan import requests
from reconciler.scan.requests import PartitionRequest
from reconciler.scan.task_rows import CommitsChunk, LogChunk, PartitionsChunk
from tests.unit.scan.listings import groups, topic, unknown_topic
from tests.unit.scan.listings import topics as listing


def selectors(*texts: str) -> tuple[Selector, ...]:
    return tuple(Selector(text) for text in texts)


def asked(chunks: list[PartitionsChunk]) -> list[tuple[str, int, int]]:
    """(topic, partition, leader) of every question, in order."""
    return [(a.topic, number, a.leader) for chunk in chunks for a in chunk.requests for number in a.partitions]


def test_wishes_of_partitions_that_several_needs_meet() -> None:
    """Each partition once, with all that some need asks of it; partitions that nobody asks for are not wished."""
    needs = ScanRequest(
        topics=(
            TopicRequest(topics=selectors("a*"), partitions=frozenset({0, 1}), offsets=True, instants_ms=(9, 3)),
            TopicRequest(topics=selectors("ab"), partitions=frozenset({1, 2}), readers=True, instants_ms=(3,)),
            TopicRequest(
                topics=selectors("ab"), partitions=frozenset({2}), named_groups=frozenset({"g"}), last_purge=True
            ),
        )
    )
    found = {
        partition.partition.partition: wish
        for wish in requests.partition_requests(needs, listing(topic("ab", 4), topic("b")))
        for partition in wish.partitions
    }
    assert set(found) == {0, 1, 2}
    assert [found[number].instants for number in range(3)] == [(3, 9), (3, 9), (3,)]
    assert [found[number].readers for number in range(3)] == [False, True, True]
    assert [found[number].named for number in range(3)] == [frozenset(), frozenset(), frozenset({"g"})]
    assert [found[number].last_purge for number in range(3)] == [False, False, True]
    assert all(wish.full for wish in found.values())


def test_wishes_for_leadership_alone_ask_no_offsets() -> None:
    """A need without offsets, readers or instants is answered by the listing."""
    (wish,) = requests.partition_requests(
        ScanRequest(topics=(TopicRequest(topics=selectors("a")),)), listing(topic("a"))
    )
    assert not wish.full
    assert requests.partition_chunks([wish], (), listing(topic("a"))) == []


def test_wishes_of_topics_without_known_partitions_are_none() -> None:
    """A topic whose metadata came with an error is not asked about: its facts stay unread."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("a"), offsets=True),))
    assert list(requests.partition_requests(needs, listing(unknown_topic("a")))) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 6_000), max_size=4), st.booleans())
def test_partition_chunks_ask_each_partition_once(sizes: list[int], counted: bool) -> None:
    """Every partition with a leader is asked exactly once, of its leader, in chunks of at most 2,000 of one leader."""
    topics = [topic(f"t{index}", size) for index, size in enumerate(sizes)]
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("t0", "t1"), offsets=True),), cluster_records=counted)
    shown = listing(*topics)
    chunks = requests.partition_chunks(
        list(requests.partition_requests(needs, shown)), requests.counted_topics(needs, shown), shown
    )
    questions = asked(chunks)
    wanted = topics if counted else topics[:2]
    assert sorted(questions) == sorted(
        (t.facts.name, p.partition.partition, p.leader) for t in wanted for p in t.partitions or ()
    )
    if len(questions) > 500:
        for chunk in chunks:
            assert len({request.leader for request in chunk.requests}) == 1
            assert sum(len(request.partitions) for request in chunk.requests) <= 2_000
    else:
        assert len(chunks) <= 1


def test_partition_chunks_leave_out_what_has_no_leader() -> None:
    """Nobody would answer for a leaderless partition; the snapshot says that it has no leader."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("a"), offsets=True),))
    shown = listing(topic("a", 4, leaders=(1, None)))
    chunks = requests.partition_chunks(list(requests.partition_requests(needs, shown)), (), shown)
    assert asked(chunks) == [("a", 0, 1), ("a", 2, 1)]


def test_counted_topics_are_not_the_brokers_own() -> None:
    """Records of internal topics are no part of the cluster's; a topic's own are counted where its offsets are wanted."""
    shown = listing(topic("a"), topic("b"), topic("__consumer_offsets"))
    assert requests.counted_topics(ScanRequest(cluster_records=True), shown) == {"a", "b"}
    needs = ScanRequest(
        topics=(TopicRequest(topics=selectors("a"), offsets=True), TopicRequest(topics=selectors("b"))),
        topic_records=True,
    )
    assert requests.counted_topics(needs, shown) == {"a"}


@settings(deadline=None)
@given(st.sets(st.text("abc", min_size=1), max_size=1_200))
def test_commit_chunks_name_each_group_once(names: set[str]) -> None:
    """Every group in exactly one chunk, a few hundred each."""
    chunks = requests.commit_chunks(names)
    assert [name for chunk in chunks for name in chunk.groups] == sorted(names)
    assert all(len(chunk.groups) <= 500 for chunk in chunks)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 49), st.integers(0, 3_000_000), max_size=50))
def test_log_chunks_read_each_partition_once(sizes: dict[int, int]) -> None:
    """Every partition of the log in exactly one chunk, empty ones too; no chunk is heavier than the average by more than one partition."""
    chunks = requests.log_chunks(sizes)
    assert sorted(number for chunk in chunks for number in chunk.partitions) == sorted(sizes)
    if chunks:
        weights = [sum(sizes[number] for number in chunk.partitions) for chunk in chunks]
        assert max(weights) <= sum(sizes.values()) / len(chunks) + max(sizes.values())


def test_log_chunks_of_a_large_log_are_many() -> None:
    """Five million records are cut for more than two cores; a small log is read by one task."""
    assert len(requests.log_chunks(dict.fromkeys(range(50), 100_000))) == 13
    assert len(requests.log_chunks(dict.fromkeys(range(50), 1_000))) == 1


def test_commit_groups_are_all_where_readers_are_wanted() -> None:
    """Whoever may be hurt by a purge is asked for; ids that no current call lists cannot be, and are not."""
    shown = groups("a", "b", hidden=("share",))
    need = GroupRequest(groups=selectors("a", "share"))
    assert requests.commit_groups(ScanRequest(groups=(need,)), shown) == {"a"}
    with_readers = ScanRequest(topics=(TopicRequest(topics=selectors("t"), readers=True),), groups=(need,))
    assert requests.commit_groups(with_readers, shown) == {"a", "b"}


def test_selected_groups_obey_exceptions() -> None:
    """A group that one need excepts is selected all the same where another one names it."""
    first = GroupRequest(groups=selectors("a*"), except_groups=selectors("ab"))
    assert requests.selected_groups([first], ["aa", "ab", "b"]) == {"aa"}
    assert requests.selected_groups([first, GroupRequest(groups=selectors("ab"))], ["aa", "ab", "b"]) == {"aa", "ab"}


def test_exact_topics_are_those_that_are_named() -> None:
    """Only an exact name says that a topic is expected to be there."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("a", "b*", "regex:c")),))
    assert requests.exact_topics(needs) == {"a"}


def test_reading_takes_the_longer_the_more_there_is() -> None:
    """Each source counts, by what its chunks hold and not by how many they are."""
    ask = OffsetsRequest("t", range(2_000), 1)
    groups_of = CommitsChunk(tuple(map(str, range(500))))
    log = {0: 100_000, 1: 50_000, 2: 50_000}
    assert requests.estimated_seconds([], log) == 0
    assert requests.estimated_seconds([PartitionsChunk((ask, ask)), PartitionsChunk((ask,))], {}) == 3
    assert requests.estimated_seconds([groups_of, groups_of], {}) == 2
    assert requests.estimated_seconds([LogChunk((0,)), LogChunk((1, 2))], log) == 2


def test_reading_order_puts_the_slow_ones_first() -> None:
    """The log takes longest: were it last, it would run alone."""
    log, partitions, commits = LogChunk((0,)), PartitionsChunk(()), CommitsChunk(("g",))
    assert requests.order_chunks([log], [partitions], [commits]) == (log, partitions, commits)


def test_wish_keeps_the_topic_as_listed() -> None:
    """The snapshot takes leadership and the topic id from the same listing that the questions were made from."""
    shown = topic("a", 2)
    (wish,) = requests.partition_requests(
        ScanRequest(topics=(TopicRequest(topics=selectors("a"), offsets=True),)), listing(shown)
    )
    assert wish == PartitionRequest(
        topic="a",
        partitions=shown.partitions or (),
        full=True,
        instants=(),
        readers=False,
        named=frozenset(),
        last_purge=False,
    )
