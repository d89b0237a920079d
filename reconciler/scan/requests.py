"""Needs resolved against live names: which partitions and groups are read, and what is asked of each.

Pure: listings in, chunks out. How chunks are read is decided in kafka/, where they run in `reduce`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kafka.groups import GroupListing
from reconciler.kafka.offsets import OffsetsRequest
from reconciler.kafka.topics import PartitionMetadata, TopicListing, TopicMetadata
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import select
from reconciler.model.snapshot import Unknown
from reconciler.scan.task_rows import Chunk, CommitsChunk, LogChunk, PartitionsChunk

_PARTITIONS_PER_CHUNK = 2_000
# So few are read by one task quicker than several tasks start.
_SMALL = 500
_GROUPS_PER_CHUNK = 500
_LOG_RECORDS_PER_CHUNK = 400_000
_LOG_SMALL = 100_000
# About a fifth of what one core was measured to read (bench/RESULTS.md; a group with fifty commits): time too many is waited only for
# brokers that are silent, time too few loses facts of brokers that are well.
_PARTITIONS_PER_S = 2_000
_GROUPS_PER_S = 500
_LOG_RECORDS_PER_S = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """Partitions of one topic of which the same is asked. `full`: their offsets; the rest only together with it."""

    topic: TopicMetadata
    partitions: tuple[PartitionMetadata, ...]
    full: bool
    instants: tuple[int, ...]
    readers: bool
    named: frozenset[str]
    last_purge: bool


def exact_topics(needs: ScanRequest) -> frozenset[str]:
    """Topics that some need names; whether they exist must be asked even where the listing lacks them."""
    return frozenset(s.text for need in needs.topics for s in need.topics if not s.is_pattern)


def selected_topics(needs: ScanRequest, names: Iterable[str]) -> dict[str, tuple[TopicRequest, ...]]:
    """Each selected name with the needs that select it."""
    names = tuple(names)
    found: dict[str, list[TopicRequest]] = {}
    for need in needs.topics:
        for name in select(
            names, need.topics, excluding=need.except_topics, patterns_skip_underscore=need.patterns_skip_underscore
        ):
            found.setdefault(name, []).append(need)
    return {name: tuple(found[name]) for name in sorted(found)}


def selected_groups(needs: Sequence[GroupRequest], names: Iterable[str]) -> frozenset[str]:
    """Groups that some need selects."""
    names = tuple(names)
    return frozenset(name for need in needs for name in select(names, need.groups, excluding=need.except_groups))


def partition_requests(needs: ScanRequest, listing: TopicListing) -> Iterator[PartitionRequest]:
    """What is asked, topic by topic. Topics whose partitions are unknown yield none."""
    for name, asking in selected_topics(needs, listing.topics).items():
        topic = listing.topics[name]
        if isinstance(topic.partitions, Unknown):
            continue
        alike: dict[tuple[int, ...], list[PartitionMetadata]] = {}
        for partition in topic.partitions:
            key = tuple(
                index
                for index, need in enumerate(asking)
                if need.partitions is None or partition.number in need.partitions
            )
            if key:
                alike.setdefault(key, []).append(partition)
        for key, partitions in alike.items():
            yield _wish(topic, partitions, [asking[index] for index in key])


def _wish(
    topic: TopicMetadata, partitions: Sequence[PartitionMetadata], asking: Sequence[TopicRequest]
) -> PartitionRequest:
    instants = sorted({instant for need in asking for instant in need.instants_ms})
    named = frozenset(group for need in asking for group in need.named_groups)
    readers = any(need.readers for need in asking)
    return PartitionRequest(
        topic=topic,
        partitions=tuple(partitions),
        full=bool(instants or named or readers or any(need.offsets for need in asking)),
        instants=tuple(instants),
        readers=readers,
        named=named,
        last_purge=any(need.last_purge for need in asking),
    )


def counted_topics(needs: ScanRequest, listing: TopicListing) -> frozenset[str]:
    """Topics of which all records are counted. The broker's own topics are no part of the cluster's records."""
    counted: set[str] = set()
    if needs.cluster_records:
        counted.update(name for name, topic in listing.topics.items() if not topic.internal)
    if needs.topic_records:
        for name, asking in selected_topics(needs, listing.topics).items():
            if any(need.offsets for need in asking):
                counted.add(name)
    return frozenset(counted)


def partition_chunks(
    wanted: Sequence[PartitionRequest], counted: Iterable[str], topics: Mapping[str, TopicMetadata]
) -> list[PartitionsChunk]:
    """Asks by leader, in chunks of at most 2,000 partitions. Leaderless partitions are not asked: nobody would answer."""
    by_leader: dict[int, list[OffsetsRequest]] = {}
    full: dict[str, set[int]] = {}
    for wish in wanted:
        if wish.full:
            full.setdefault(wish.topic.name, set()).update(p.number for p in wish.partitions)
            _add(by_leader, wish.topic.name, wish.partitions, full=True, instants=wish.instants)
    for name in sorted(counted):
        partitions = topics[name].partitions
        if not isinstance(partitions, Unknown):
            done = full.get(name, set())
            _add(by_leader, name, [p for p in partitions if p.number not in done], full=False, instants=())
    total = sum(len(ask.partitions) for asks in by_leader.values() for ask in asks)
    if 0 < total <= _SMALL:
        return [PartitionsChunk(tuple(ask for leader in sorted(by_leader) for ask in by_leader[leader]))]
    return [chunk for leader in sorted(by_leader) for chunk in _cut(by_leader[leader])]


def commit_chunks(groups: Iterable[str]) -> list[CommitsChunk]:
    """Groups whose commits are read, a few hundred per task."""
    ordered = sorted(groups)
    return [
        CommitsChunk(tuple(ordered[start : start + _GROUPS_PER_CHUNK]))
        for start in range(0, len(ordered), _GROUPS_PER_CHUNK)
    ]


def log_size(log_start: int | None, high_watermark: int | None) -> int:
    """Offsets that a partition of the commit log spans; 0 where that is not known: its reading then says why it failed."""
    return 0 if log_start is None or high_watermark is None else max(0, high_watermark - log_start)


def log_chunks(sizes: Mapping[int, int]) -> list[LogChunk]:
    """Partitions of the commit log by their number of records, spread evenly: the largest first, each to the lightest chunk."""
    total = sum(sizes.values())
    count = max(1 if total < _LOG_SMALL else 2, -(-total // _LOG_RECORDS_PER_CHUNK))
    bins: list[tuple[int, list[int]]] = [(0, []) for _ in range(min(count, len(sizes)))]
    for number, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        lightest = min(range(len(bins)), key=lambda index: (bins[index][0], index))
        weight, members = bins[lightest]
        bins[lightest] = (weight + size, [*members, number])
    return [LogChunk(tuple(sorted(members))) for _, members in bins if members]


def order_chunks(logs: Sequence[Chunk], partitions: Sequence[Chunk], commits: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The slow ones first, so that they do not end alone."""
    return (*logs, *partitions, *commits)


def estimated_seconds(chunks: Iterable[Chunk], log_sizes: Mapping[int, int]) -> float:
    """Seconds after which the last chunk should have had its turn where all brokers answer, reckoned slowly and for a single core."""
    seconds = 0.0
    for chunk in chunks:
        match chunk:
            case PartitionsChunk(asks):
                seconds += sum(len(ask.partitions) for ask in asks) / _PARTITIONS_PER_S
            case CommitsChunk(groups):
                seconds += len(groups) / _GROUPS_PER_S
            case LogChunk(numbers):
                seconds += sum(log_sizes[number] for number in numbers) / _LOG_RECORDS_PER_S
    return seconds


def commit_groups(needs: ScanRequest, groups: GroupListing) -> frozenset[str]:
    """Listed groups whose commits are read: all where readers are wanted, else the needed ones. Others' positions cannot be read."""
    listed = [group.group for group in groups.groups.values() if group.listed]
    return frozenset(listed) if needs.readers else selected_groups(needs.groups, listed)


def _add(
    by_leader: dict[int, list[OffsetsRequest]],
    topic: str,
    partitions: Sequence[PartitionMetadata],
    *,
    full: bool,
    instants: tuple[int, ...],
) -> None:
    numbers: dict[int, list[int]] = {}
    for partition in partitions:
        if isinstance(partition.leader, int):
            numbers.setdefault(partition.leader, []).append(partition.number)
    for leader, of_leader in numbers.items():
        by_leader.setdefault(leader, []).append(OffsetsRequest(topic, tuple(of_leader), leader, full, instants))


def _cut(asks: Sequence[OffsetsRequest]) -> Iterator[PartitionsChunk]:
    chunk: list[OffsetsRequest] = []
    room = _PARTITIONS_PER_CHUNK
    for ask in asks:
        rest = ask.partitions
        while rest:
            part, rest = rest[:room], rest[room:]
            chunk.append(OffsetsRequest(ask.topic, part, ask.leader, ask.full, ask.instants))
            room -= len(part)
            if room == 0:
                yield PartitionsChunk(tuple(chunk))
                chunk, room = [], _PARTITIONS_PER_CHUNK
    if chunk:
        yield PartitionsChunk(tuple(chunk))
