"""Cuts what a scan reads into chunks: one Spark task, or one turn of a thread, per chunk. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, zip_longest
from operator import attrgetter, itemgetter
from typing import TypeVar

from reconciler.kafka.futures import batched
from reconciler.kafka.offsets import LOG_START, STABLE_END, OffsetsRequest, Watermarks, requests_by_leader
from reconciler.kafka.topics import TopicListing
from reconciler.scan.select import PartitionRequest

Item = TypeVar("Item")

_PARTITIONS_PER_CHUNK = 2_000
# One task reads so few partitions sooner than several tasks start.
_SMALL = 500
_GROUPS_PER_CHUNK = 500
_LOG_RECORDS_PER_CHUNK = 1_000_000
_LOG_SMALL = 100_000
# About a fifth of the measured rates of one core (bench/RESULTS.md; a group with fifty commits).
# Too low a rate only prolongs the wait for silent brokers, too high a rate loses facts.
_PARTITIONS_PER_S = 2_000
_GROUPS_PER_S = 500
_LOG_RECORDS_PER_S = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one task reads: offsets, what groups consume, or partitions of `__consumer_offsets`.

    `with_members`: those of the groups that may have members.
    """

    requests: tuple[OffsetsRequest, ...] = ()
    groups: tuple[str, ...] = ()
    with_members: tuple[str, ...] = ()
    log: tuple[int, ...] = ()
    log_records: int = 0

    @property
    def partitions(self) -> int:
        """Number of partitions whose offsets are read."""
        return sum(len(request.partitions) for request in self.requests)

    @property
    def seconds(self) -> float:
        """Expected time of reading, at a low rate."""
        groups_s = len(self.groups) / _GROUPS_PER_S
        return self.partitions / _PARTITIONS_PER_S + groups_s + self.log_records / _LOG_RECORDS_PER_S


def partition_chunks(
    requests: Sequence[PartitionRequest], counted: Iterable[str], listing: TopicListing
) -> list[Chunk]:
    """Offset requests by leader, at most 2,000 partitions each. Leaderless ones are left out."""
    full = [request for request in requests if request.full]
    offsets = [
        replace(part, instants=request.instants)
        for request in full
        for part in requests_by_leader(request.partitions, *Watermarks._fields)
    ]
    read = {facts.partition for request in full for facts in request.partitions}
    of_counted = (facts for name in counted for facts in listing.partitions.get(name, ()))
    only_counted = (facts for facts in of_counted if facts.partition not in read)
    offsets += requests_by_leader(only_counted, LOG_START, STABLE_END)
    offsets.sort(key=attrgetter("leader"))
    pairs = [(request, number) for request in offsets for number in request.partitions]
    by_leader = [pairs] if len(pairs) <= _SMALL else _by_broker(pairs, lambda pair: pair[0].leader)
    chunks = []
    for part in _in_turns(batched(of_leader, _PARTITIONS_PER_CHUNK) for of_leader in by_leader):
        by_request = groupby(part, itemgetter(0))
        cut = (replace(request, partitions=[number for _, number in same]) for request, same in by_request)
        chunks.append(Chunk(requests=tuple(cut)))
    return chunks


def commit_chunks(
    groups: Iterable[str],
    with_members: Collection[str] = (),
    *,
    coordinator_of: Callable[[str], int | None] = lambda _group: None,
) -> list[Chunk]:
    """Groups whose commits are read, up to 500 per chunk, and those whose members are read.

    A chunk has groups of one coordinator, so that a silent one delays only its own; remainders of
    several share a chunk. `coordinator_of`: the broker id; None: not known.
    """
    parts = (batched(of_one, _GROUPS_PER_CHUNK) for of_one in _by_broker(sorted(groups), coordinator_of))
    return [
        Chunk(groups=tuple(part), with_members=tuple(group for group in part if group in with_members))
        for part in _join_small(_in_turns(parts), _GROUPS_PER_CHUNK, size_of=lambda _group: 1)
    ]


def log_chunks(sizes: Mapping[int, int], leaders: Mapping[int, int] | None = None) -> list[Chunk]:
    """Partitions of `__consumer_offsets`, by leader: the largest first, each to the lightest chunk of it.

    `sizes`: records by partition. `leaders`: broker ids by partition, as far as they are known.
    Leaders with few records share a chunk.
    """
    total = sum(sizes.values())
    count = max(1 if total < _LOG_SMALL else 2, -(-total // _LOG_RECORDS_PER_CHUNK))
    largest = -(-total // count)
    by_leader = _by_broker(sorted(sizes, key=lambda number: (-sizes[number], number)), (leaders or {}).get)
    parts = _in_turns(_split_evenly(numbers, largest, sizes) for numbers in by_leader)
    return [
        Chunk(log=tuple(part), log_records=sum(sizes[number] for number in part))
        for part in _join_small(parts, largest, size_of=sizes.__getitem__)
    ]


def _by_broker(items: Iterable[Item], broker_of: Callable[[Item], int | None]) -> list[list[Item]]:
    """The items of each broker, in their order; those of an unknown broker together."""
    by_broker: dict[int | None, list[Item]] = {}
    for item in items:
        by_broker.setdefault(broker_of(item), []).append(item)
    return list(by_broker.values())


def _split_evenly(numbers: Sequence[int], largest: int, sizes: Mapping[int, int]) -> list[list[int]]:
    """Partitions, the largest first, in so many parts that each has about `largest` records."""
    total = sum(sizes[number] for number in numbers)
    count = -(-total // largest) if total else 1
    parts: list[list[int]] = [[] for _ in range(min(count, len(numbers)))]
    records = [0] * len(parts)
    for number in numbers:
        lightest = records.index(min(records))
        parts[lightest].append(number)
        records[lightest] += sizes[number]
    return [part for part in parts if part]


def _in_turns(by_broker: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """The first item of each broker, then the second of each: tasks that run together ask different brokers."""
    rounds = chain.from_iterable(zip_longest(*by_broker))
    return (item for item in rounds if item is not None)


def _join_small(parts: Iterable[Sequence[Item]], largest: int, size_of: Callable[[Item], int]) -> list[list[Item]]:
    """The parts; neighbours that are not larger than `largest` together are one, as each task opens clients."""
    joined: list[list[Item]] = []
    room = 0
    for part in parts:
        size = sum(map(size_of, part))
        if joined and size <= room:
            joined[-1] += part
        else:
            joined.append(list(part))
            room = largest
        room -= size
    return joined
