"""Selects what a scan reads: the scan request against the live names. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.topics import TopicListing
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import select
from reconciler.model.snapshot import PartitionFacts

RequestsByTopic = Mapping[str, Sequence[TopicRequest]]
"""Each selected topic with the parts of the request that select it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """Partitions of one topic, and what is requested of each. `full`: offsets, also for readers."""

    topic: str
    partitions: tuple[PartitionFacts, ...]
    full: bool
    instants: tuple[int, ...]
    readers: bool
    named: frozenset[str]
    last_purge: bool


def topics_to_describe(request: ScanRequest, names: Iterable[str]) -> frozenset[str]:
    """Topics of these names, and those that the request names: the listing may lack one that exists."""
    exact = (
        selector.name
        for part in request.topics
        for selector in part.topics
        if selector.name is not None and (part.only is None or selector.name in part.only)
    )
    return frozenset(select_topics(request, names)).union(exact)


def select_topics(request: ScanRequest, names: Iterable[str]) -> RequestsByTopic:
    """Each selected name with the parts of the request that select it."""
    names = frozenset(names)
    by_name: dict[str, list[TopicRequest]] = {}
    for part in request.topics:
        skip = part.patterns_skip_underscore
        asked = names if part.only is None else names & part.only.keys()
        for name in select(asked, part.topics, excluding=part.except_topics, patterns_skip_underscore=skip):
            by_name.setdefault(name, []).append(part)
    return {name: by_name[name] for name in sorted(by_name)}


def select_groups(requests: Iterable[GroupRequest], names: Iterable[str]) -> frozenset[str]:
    """Groups that some part of the request selects."""
    names = frozenset(names)
    return frozenset(
        name
        for part in requests
        for name in select(names if part.only is None else names & part.only, part.groups, excluding=part.except_groups)
    )


def partition_requests(
    topics: RequestsByTopic, listing: TopicListing, groups: Iterable[str] = ()
) -> Iterator[PartitionRequest]:
    """Requests by topic. Topics whose partitions are unknown yield none. `groups`: all that are listed."""
    every_group = frozenset(groups)
    for name, parts in topics.items():
        named = [every_group if part.all_groups else part.named_groups for part in parts]
        offsets = any(part.offsets for part in parts)  # of all partitions: a share is one of a topic
        by_parts: dict[tuple[int, ...], list[PartitionFacts]] = {}
        for facts in listing.partitions.get(name, ()):
            number = facts.partition.partition
            key = tuple(index for index, part in enumerate(parts) if part.has_partition(name, number))
            if key or offsets:
                by_parts.setdefault(key, []).append(facts)
        for key, partitions in by_parts.items():
            selected = [parts[index] for index in key]
            names = [named[index] for index in key if named[index]]
            yield PartitionRequest(
                topic=name,
                partitions=tuple(partitions),
                full=offsets or bool(names) or any(part.instants_ms or part.readers for part in selected),
                instants=tuple(sorted({instant for part in selected for instant in part.instants_ms})),
                readers=any(part.readers for part in selected),
                # The only set itself: many topics share it.
                named=names[0] if len(names) == 1 else frozenset().union(*names),
                last_purge=any(part.every_ms is not None for part in selected),
            )


def topics_with_offsets(topics: RequestsByTopic) -> frozenset[str]:
    """Topics whose offsets are requested."""
    return frozenset(name for name, parts in topics.items() if any(part.offsets for part in parts))


def topics_to_count(request: ScanRequest, topics: RequestsByTopic, listing: TopicListing) -> frozenset[str]:
    """Topics whose records are counted. Kafka's own topics do not count for the cluster."""
    of_cluster = (name for name, topic in listing.topics.items() if request.cluster_records and not topic.is_system)
    return (topics_with_offsets(topics) if request.topic_records else frozenset()).union(of_cluster)


def commit_groups(request: ScanRequest, listing: GroupListing) -> frozenset[str]:
    """Groups whose commits are read: all if readers are requested, else selected ones.

    Of the groups that only the old list call shows, those of the Streams protocol answer, too.
    """
    return frozenset(listing.groups) if request.readers else select_groups(request.groups, listing.groups)
