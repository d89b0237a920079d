"""Which brokers and topics the cluster shows: leadership, topic ids, cleanup policies. Asked once, by the driver.

Decided here: how "no such topic" is told from "you may not know", and when a topic listing is incomplete. A list call that
answers without an error proves nothing by itself: a caller without rights gets a shorter list.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.connect import Connection, admin, read_timeouts
from reconciler.kafka.futures import (
    CALL_FAILURES,
    Deadline,
    call_with_retry,
    code_of,
    done_unless,
    reason_of,
    run_with_deadline,
)
from reconciler.model.snapshot import NOT_ASKED, Unknown

COMMIT_LOG_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({COMMIT_LOG_TOPIC, "__transaction_state", "__share_group_state"})
"""What the broker itself calls internal; describing a topic tells, listing it does not."""

_NAMES_PER_CALL = 1_000
_PARTITIONS_PER_CALL = 4_000
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
_ENOUGH = done_unless(
    *_GONE, KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION, KafkaError._INVALID_ARG
)
_NO_ANSWER = Unknown("no broker answered in time")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Leadership of one partition. `leader` None: leaderless right now."""

    number: int
    leader: int | Unknown | None
    replicas: tuple[int, ...] | Unknown
    in_sync: tuple[int, ...] | Unknown


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic. `topic_id` is NOT_ASKED until the topic is described. `partitions` sorted by number."""

    name: str
    topic_id: str | Unknown
    internal: bool
    partitions: tuple[PartitionMetadata, ...] | Unknown


@dataclass(frozen=True, slots=True)
class TopicListing:
    """All topics that the caller may see; `incomplete` None: nothing hints at more. `brokers`: ids of those alive."""

    brokers: tuple[int, ...]
    topics: Mapping[str, TopicMetadata]
    incomplete: Unknown | None


def list_topics(connection: Connection) -> TopicListing:
    """Every topic of the cluster with leaders, from one metadata request that names no topic and so creates none.

    Raises ClusterUnreachable if no broker answers within the connection's timeout.
    """
    metadata = _metadata(connection)
    topics: dict[str, TopicMetadata] = {}
    failed: list[str] = []
    for name, listed in metadata.topics.items():
        partitions: tuple[PartitionMetadata, ...] | Unknown
        if listed.error is None:
            partitions = tuple(_listed_partition(p) for _, p in sorted(listed.partitions.items()))
        else:
            failed.append(f"{name} ({listed.error.name()})")
            partitions = Unknown(f"metadata of the topic: {listed.error.str()}")
        topics[name] = TopicMetadata(name, NOT_ASKED, name in INTERNAL_TOPICS, partitions)
    incomplete = Unknown(f"the metadata of {summarize(failed)} came with an error") if failed else None
    return TopicListing(tuple(sorted(metadata.brokers)), topics, incomplete)


def describe_topics(connection: Connection, listing: TopicListing, names: Iterable[str]) -> TopicListing:
    """The same listing, with topic ids, leaders and in-sync replicas of `names` as they are now.

    A name that the listing lacks is asked for, too: the broker's answer tells "no such topic" from "you may not know".
    """
    topics = dict(listing.topics)
    refused: list[str] = []
    for name, answer in _described(connection, listing, sorted(set(names))).items():
        match answer:
            case TopicMetadata():
                topics[name] = answer
            case Unknown(reason):
                refused.append(f"{name} ({reason})")
                if name in topics:
                    topics[name] = replace(topics[name], topic_id=Unknown(f"topic id: {reason}"))
            case None:
                topics.pop(name, None)
    incomplete = listing.incomplete
    if refused and incomplete is None:
        incomplete = Unknown(f"could not describe {summarize(refused)}")
    return TopicListing(listing.brokers, topics, incomplete)


def cleanup_policies(connection: Connection, names: Iterable[str]) -> dict[str, frozenset[str] | Unknown]:
    """`cleanup.policy` of each topic; Unread names the missing right (DESCRIBE_CONFIGS on the topic) or the failure."""
    client = admin(connection, read_timeouts(connection))

    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for part in batched(wanted, _NAMES_PER_CALL):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in part]
            described = client.describe_configs(resources, request_timeout=limit_s)
            answers.update((resource.name, future) for resource, future in described.items())
        return answers

    answers = call_with_retry(client, sorted(set(names)), call, enough=_ENOUGH, timeout_s=connection.timeout_s)
    return {name: _policy(future) for name, future in answers.items()}


def topic_id_text(topic_id: Any) -> str | Unknown:
    """A topic id as Kafka's own tools and the commit log's reader write it; the client prints the other base64 alphabet.

    All zeros is how the protocol says that there is none (KIP-516): two topics without an id are not the same topic.
    """
    text = str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    return Unknown("the brokers give topics no id") if text.strip("A") == "" else text


def summarize(items: Sequence[str], limit: int = 3) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(sorted(items)[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


def batched(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Consecutive parts of at most `size`: the client merges the answers of one call in quadratic time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _metadata(connection: Connection) -> Any:
    deadline = Deadline.after(connection.timeout_s)
    client = admin(connection, read_timeouts(connection))
    failure: BaseException = TimeoutError("timed out")
    while not deadline.over:
        limit_s = max(0.05, min(deadline.left_s, connection.timeout_s / 3))
        try:
            return run_with_deadline(lambda limit_s=limit_s: client.list_topics(timeout=limit_s), deadline)  # type: ignore[misc]
        except CALL_FAILURES as failed:
            failure = failed
    raise ClusterUnreachable(
        f"no broker of {', '.join(connection.bootstrap_servers)} listed its topics in {connection.timeout_s:.0f} s: "
        f"{reason_of(failure)}; check that the brokers are up"
    )


def _described(
    connection: Connection, listing: TopicListing, names: Sequence[str]
) -> dict[str, TopicMetadata | Unknown | None]:
    client = admin(connection, read_timeouts(connection))

    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for part in _by_size(wanted, listing):
            answers.update(client.describe_topics(TopicCollection(part), request_timeout=limit_s))
        return answers

    answers = call_with_retry(client, names, call, enough=_ENOUGH, timeout_s=connection.timeout_s)
    return {name: _description(name, future) for name, future in answers.items()}


def _description(name: str, future: Future[Any]) -> TopicMetadata | Unknown | None:
    """None: the broker says that there is no such topic, to a caller who may know."""
    if not future.done():
        return _NO_ANSWER
    failure = future.exception()
    if failure is not None:
        code = code_of(failure)
        if code in _GONE:
            return None
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return Unknown("the right DESCRIBE on the topic is missing")
        return Unknown(reason_of(failure))
    described = future.result()
    partitions = tuple(
        PartitionMetadata(
            p.id,
            None if p.leader is None or p.leader.id < 0 else p.leader.id,
            tuple(node.id for node in p.replicas),
            tuple(node.id for node in p.isr),
        )
        for p in sorted(described.partitions, key=lambda p: int(p.id))
    )
    return TopicMetadata(name, topic_id_text(described.topic_id), bool(described.is_internal), partitions)


def _listed_partition(metadata: Any) -> PartitionMetadata:
    leader: int | Unknown | None = metadata.leader if metadata.leader >= 0 else None
    if leader is None and metadata.error is not None and metadata.error.code() != KafkaError.LEADER_NOT_AVAILABLE:
        leader = Unknown(f"leader: {metadata.error.str()}")
    return PartitionMetadata(metadata.id, leader, tuple(metadata.replicas), tuple(metadata.isrs))


def _policy(future: Future[Any]) -> frozenset[str] | Unknown:
    if not future.done():
        return Unknown(f"cleanup.policy: {_NO_ANSWER.reason}")
    failure = future.exception()
    if failure is not None:
        if code_of(failure) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return Unknown("cleanup.policy: the right DESCRIBE_CONFIGS on the topic is missing")
        return Unknown(f"cleanup.policy: {reason_of(failure)}")
    entry = future.result().get("cleanup.policy")
    if entry is None or entry.value is None:
        return Unknown("cleanup.policy: not among the topic's configs")
    return frozenset(word.strip() for word in entry.value.split(",") if word.strip())


def _by_size(names: Sequence[str], listing: TopicListing) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for name in names:
        listed = listing.topics.get(name)
        partitions = 1 if listed is None or isinstance(listed.partitions, Unknown) else len(listed.partitions)
        if part and (size + partitions > _PARTITIONS_PER_CALL or len(part) >= _NAMES_PER_CALL):
            yield part
            part, size = [], 0
        part.append(name)
        size += partitions
    if part:
        yield part
