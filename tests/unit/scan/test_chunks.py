"""Chunks: what is read of which broker, and in how many tasks."""

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.offsets import OffsetsRequest
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.scan import select
from reconciler.scan.chunks import Chunk, commit_chunks, log_chunks, partition_chunks
from tests.unit.scan.listings import ListedTopic, requests_of, selectors, topic
from tests.unit.scan.listings import topics as listing


def requested_partitions(chunks: list[Chunk]) -> list[tuple[str, int, int]]:
    """(topic, partition, leader) of every request, in order."""
    return [(a.topic, number, a.leader) for chunk in chunks for a in chunk.requests for number in a.partitions]


def chunks_of(listed: ListedTopic, *, offsets: bool = True) -> list[Chunk]:
    """The chunks of a scan of one topic."""
    needs = ScanRequest(topics=(TopicRequest(topics=selectors(listed.facts.name), offsets=offsets),))
    return partition_chunks(requests_of(needs, listing(listed)), (), listing(listed))


def test_partition_requests_for_leadership_read_no_offsets() -> None:
    """The listing answers a request without offsets, readers or instants."""
    assert chunks_of(topic("a"), offsets=False) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 6_000), max_size=4), st.booleans())
def test_partition_chunks_contain_each_partition_once(sizes: list[int], counted: bool) -> None:
    """Each with a leader is in one chunk, of at most 2,000 partitions of that leader."""
    topics = [topic(f"t{index}", size) for index, size in enumerate(sizes)]
    needs = ScanRequest(topics=(TopicRequest(topics=selectors("t0", "t1"), offsets=True),), cluster_records=counted)
    listed = listing(*topics)
    chunks = partition_chunks(
        requests_of(needs, listed),
        select.topics_to_count(needs, select.select_topics(needs, listed.topics), listed),
        listed,
    )
    questions = requested_partitions(chunks)
    expected_topics = topics if counted else topics[:2]
    assert sorted(questions) == sorted(
        (t.facts.name, p.partition.partition, p.leader) for t in expected_topics for p in t.partitions or ()
    )
    if len(questions) > 500:
        for chunk in chunks:
            assert len({request.leader for request in chunk.requests}) == 1
            assert sum(len(request.partitions) for request in chunk.requests) <= 2_000
    else:
        assert len(chunks) <= 1


def test_partition_chunks_skip_leaderless_partitions() -> None:
    """No broker answers for a leaderless partition; the snapshot says that it has no leader."""
    assert requested_partitions(chunks_of(topic("a", 4, leaders=(1, None)))) == [("a", 0, 1), ("a", 2, 1)]


def test_a_silent_coordinator_delays_its_own_chunks_only() -> None:
    """Each chunk of 500 groups once had groups of every broker, so that a frozen one delayed them all."""
    names = [f"group-{number}" for number in range(5_000)]
    chunks = commit_chunks(names, coordinator_of=lambda name: log_partition(name, 50) % 3)
    coordinators = [{log_partition(name, 50) % 3 for name in chunk.groups} for chunk in chunks]
    # The remainders of all three share the last chunk, so that there are no more chunks than before.
    assert [len(of_chunk) for of_chunk in coordinators] == [1] * 9 + [3]
    assert sorted(name for chunk in chunks for name in chunk.groups) == sorted(names)
    # Tasks that run at the same time ask different brokers.
    assert all(left != right for left, right in pairwise(coordinators))


@settings(deadline=None)
@given(st.sets(st.text("abc", min_size=1), max_size=1_200), st.integers(1, 60), st.integers(0, 60))
def test_commit_chunks_follow_the_coordinator(names: set[str], brokers: int, unknown: int) -> None:
    """Every group in exactly one chunk, and those of a coordinator in as few as it could, of some unknown ones, too.

    Where no coordinator is known, they are in their order.
    """

    def coordinator_of(name: str) -> int | None:
        broker = log_partition(name, 50) % brokers
        return None if broker == unknown else broker

    assert [name for chunk in commit_chunks(names) for name in chunk.groups] == sorted(names)
    chunks = commit_chunks(names, names, coordinator_of=coordinator_of)
    assert sorted(name for chunk in chunks for name in chunk.groups) == sorted(names)
    assert all(chunk.with_members == chunk.groups and len(chunk.groups) <= 500 for chunk in chunks)
    groups_of = Counter(map(coordinator_of, names))
    chunks_of = Counter(broker for chunk in chunks for broker in set(map(coordinator_of, chunk.groups)))
    assert chunks_of == {broker: -(-count // 500) for broker, count in groups_of.items()}
    assert len(chunks) <= 2 * (len(names) // 500) + 1


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(0, 49), st.integers(0, 3_000_000), max_size=50),
    st.dictionaries(st.integers(0, 49), st.integers(1, 12)),
)
def test_log_chunks_follow_the_leader(sizes: dict[int, int], leaders: dict[int, int]) -> None:
    """Every partition of the log once, also an empty one; a leader with few records is in one chunk.

    Of one leader no chunk is heavier than the average by more than one partition.
    """
    chunks, of_one = log_chunks(sizes, leaders), log_chunks(sizes)
    for each in (chunks, of_one):
        assert sorted(number for chunk in each for number in chunk.log) == sorted(sizes)
        assert all(chunk.log_records == sum(sizes[number] for number in chunk.log) for chunk in each)
    weights = [chunk.log_records for chunk in of_one]
    assert not weights or max(weights) <= sum(weights) / len(weights) + max(sizes.values())
    records: Counter[int | None] = Counter()
    for number, size in sizes.items():
        records[leaders.get(number)] += size
    per_chunk = 50_000 if records.total() < 400_000 else 200_000
    for leader, of_leader in records.items():
        chunks_of = [chunk for chunk in chunks if leader in map(leaders.get, chunk.log)]
        assert len(chunks_of) <= 1 + of_leader // per_chunk


def test_a_silent_leader_delays_its_own_part_of_the_log() -> None:
    """A small log is still one chunk; five million records are split for more than two cores."""
    leaders = {number: number % 3 for number in range(50)}
    chunks = log_chunks(dict.fromkeys(range(50), 100_000), leaders)
    assert [len({leaders[number] for number in chunk.log}) for chunk in chunks] == [1] * 6
    assert [leaders[chunk.log[0]] for chunk in chunks] == [0, 1, 2] * 2
    assert len(log_chunks(dict.fromkeys(range(50), 1_000), leaders)) == 1
    assert len(log_chunks(dict.fromkeys(range(50), 0), leaders)) == 1
    assert len(log_chunks(dict.fromkeys(range(50), 100_000))) == 5


def test_partition_chunks_alternate_between_leaders() -> None:
    """The chunks of one leader were once neighbours: all tasks asked it at once, and waited for it if it was silent."""
    assert [chunk.requests[0].leader for chunk in chunks_of(topic("a", 15_000))] == [1, 2, 3] * 3


def test_seconds_grow_with_the_content_of_a_chunk() -> None:
    """Each source counts by the content of its chunks, not by their number."""
    assert Chunk(requests=(OffsetsRequest("t", range(2_000), 1),) * 2).seconds == 2
    assert Chunk(groups=tuple(map(str, range(500)))).seconds == 1
    assert Chunk(log=(1, 2), log_records=200_000).seconds == 2
