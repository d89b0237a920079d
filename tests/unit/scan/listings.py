"""Listings as the driver reads them, for tests without a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.topics import TopicListing
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupFacts, GroupState, GroupType, PartitionFacts, TopicFacts, Unknown
from reconciler.scan.select import PartitionRequest, partition_requests, select_topics

BROKERS = (1, 2, 3)


def selectors(*texts: str) -> tuple[Selector, ...]:
    return tuple(map(Selector, texts))


def requests_of(request: ScanRequest, listing: TopicListing, groups: Iterable[str] = ()) -> list[PartitionRequest]:
    return list(partition_requests(select_topics(request, listing.topics), listing, groups))


def reason(fact: object) -> str:
    """Why the fact is Unknown, which it must be."""
    assert isinstance(fact, Unknown), fact
    return fact.reason


@dataclass(frozen=True)
class ListedTopic:
    """A topic and its partitions; None: they are not known."""

    facts: TopicFacts
    partitions: tuple[PartitionFacts, ...] | None


def partition(
    topic: str = "t",
    number: int = 0,
    leader: int | Unknown | None = 1,
    replicas: tuple[int, ...] = (1, 2),
    in_sync: tuple[int, ...] = (1,),
    topic_id: str = "id",
) -> PartitionFacts:
    return PartitionFacts(
        partition=TopicPartition(topic, number), topic_id=topic_id, leader=leader, replicas=replicas, in_sync=in_sync
    )


def topic(
    name: str, partitions: int = 1, *, leaders: Sequence[int | None] = BROKERS, internal: bool | None = None
) -> ListedTopic:
    listed = tuple(
        partition(name, number, leaders[number % len(leaders)], BROKERS, BROKERS, f"id-{name}")
        for number in range(partitions)
    )
    is_internal = name.startswith("__") if internal is None else internal
    return ListedTopic(
        TopicFacts(name=name, topic_id=f"id-{name}", internal=is_internal, partitions=partitions), listed
    )


def unknown_topic(name: str) -> ListedTopic:
    facts = TopicFacts(name=name, topic_id=Unknown("id"), internal=False, partitions=Unknown("metadata"))
    return ListedTopic(facts, None)


def topics(*listed: ListedTopic) -> TopicListing:
    return TopicListing(
        brokers=BROKERS,
        topics={each.facts.name: each.facts for each in listed},
        partitions={each.facts.name: each.partitions for each in listed if each.partitions is not None},
    )


def groups(
    *names: str, hidden: tuple[str, ...] = (), incomplete: Unknown | None = None, hidden_unread: Unknown | None = None
) -> GroupListing:
    kinds = (names, True, GroupType.CLASSIC, GroupState.EMPTY), (hidden, False, GroupType.HIDDEN, Unknown("state"))
    listed = {
        name: GroupFacts(group=name, listed=is_listed, type=type_, state=state)
        for of_kind, is_listed, type_, state in kinds
        for name in of_kind
    }
    return GroupListing(groups=listed, incomplete=incomplete, hidden_unread=hidden_unread)
