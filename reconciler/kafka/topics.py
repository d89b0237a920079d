"""Reads brokers and topics: leadership, topic ids, cleanup policies.

Decided here: how "no such topic" differs from "you may not know", and when a topic listing is
incomplete. A listing without an error proves nothing: without rights it is shorter.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.futures import GONE, Deadline, failed_with, failure_of, text_of
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TRANSACTIONS_TOPIC, TopicPartition
from reconciler.model.snapshot import NOT_ASKED, Cause, KeptForever, PartitionFacts, TopicFacts, Unknown
from reconciler.text.escape import quoted
from reconciler.text.formatting import first_few

CONSUMER_OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
"""The broker's internal topics: a listing does not say which topics are internal."""

_PER_CALL = 1_000
_FOREVER_MS = 5 * 365 * 86_400_000
"""Debezium writes 2^63-1 and Kafka Streams -1; nobody means to wait for five years."""
_UNBOUNDED_BYTES = 2**50
"""A pebibyte: no partition reaches it. Tools that write 2^63-1 for "for ever" write it here, too."""
_PARTITIONS_PER_CALL = 4_000

Described = tuple[TopicFacts, tuple[PartitionFacts, ...]]
"""A described topic and its partitions, sorted by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """All topics that the caller may see. `incomplete` None: nothing hints at further topics.

    `brokers`: ids of live brokers. `partitions`: sorted, by topic; not of topics with Unknown ones.
    """

    brokers: tuple[int, ...]
    topics: Mapping[str, TopicFacts]
    partitions: Mapping[str, tuple[PartitionFacts, ...]]
    incomplete: Unknown | None = None
    cluster_id: str | None = None


def list_topics(session: KafkaSession) -> TopicListing:
    """List every topic with its leaders. Topic ids are Unknown until the topics are described.

    The request names no topic, and so creates none. Raises ClusterUnreachable.
    """
    answer = session.call(lambda client, limit_s: client.list_topics(timeout=limit_s))
    failure = failure_of(answer)
    if failure is not None:
        raise ClusterUnreachable(
            f"no broker of {session.connection.servers} listed its topics in "
            f"{session.timeout_s:.0f} s: {failure.reason}; check that the brokers are up"
        )
    listing = answer.result()
    session.addresses |= {number: f"{broker.host}:{broker.port}" for number, broker in listing.brokers.items()}
    topics: dict[str, TopicFacts] = {}
    partitions: dict[str, tuple[PartitionFacts, ...]] = {}
    failed: list[str] = []
    for name, listed in listing.topics.items():
        count: int | Unknown = len(listed.partitions)
        if listed.error is None:
            partitions[name] = tuple(
                PartitionFacts(
                    partition=TopicPartition(name, number),
                    topic_id=NOT_ASKED,
                    leader=metadata.leader if metadata.leader >= 0 else _leaderless(metadata.error),
                    replicas=tuple(metadata.replicas),
                    in_sync=tuple(metadata.isrs),
                )
                for number, metadata in sorted(listed.partitions.items())
            )
        else:
            failed.append(f"{name} ({listed.error.name()})")
            count = Unknown(f"metadata of the topic: {text_of(listed.error)}")
        topics[name] = TopicFacts(name=name, topic_id=NOT_ASKED, internal=name in INTERNAL_TOPICS, partitions=count)
    return TopicListing(
        brokers=tuple(sorted(listing.brokers)),
        topics=topics,
        partitions=partitions,
        incomplete=Unknown(f"the metadata of {first_few(sorted(failed))} came with an error") if failed else None,
        cluster_id=listing.cluster_id,
    )


def describe(
    session: KafkaSession,
    names: Iterable[str],
    *,
    partitions: Mapping[str, Sequence[object]] | None = None,
    deadline: Deadline | None = None,
) -> dict[str, Described | Unknown | None]:
    """Topics as they are now; None: provably none. `partitions`: as of `send_descriptions`."""
    send = partial(send_descriptions, partitions=partitions)
    answers = session.read(sorted(set(names)), send, deadline=deadline)
    return {name: _description(name, future) for name, future in answers.items()}


def describe_topics(session: KafkaSession, listing: TopicListing, names: Iterable[str]) -> TopicListing:
    """The listing with current facts of `names`, also of missing ones: they may be hidden."""
    topics, partitions = dict(listing.topics), dict(listing.partitions)
    unknown: dict[str, Unknown] = {}
    for name, answer in describe(session, names, partitions=partitions).items():
        match answer:
            case Unknown():
                unknown[name] = answer
                topic_id = answer.about("topic id")
                if name in topics:
                    topics[name] = replace(topics[name], topic_id=topic_id)
                    partitions[name] = tuple(replace(facts, topic_id=topic_id) for facts in partitions.get(name, ()))
            case None:
                topics.pop(name, None)
                partitions.pop(name, None)
            case (topic, topic_partitions):
                topics[name], partitions[name] = topic, topic_partitions
    incomplete = listing.incomplete
    if unknown and incomplete is None:
        reasons = [f"{name} ({fact.reason})" for name, fact in sorted(unknown.items())]
        # A refusal among them is a missing right, and no broker's silence may hide it.
        cause = Cause.NO_ANSWER if all(fact.unanswered for fact in unknown.values()) else Cause.OTHER
        incomplete = Unknown(f"could not describe {first_few(reasons)}", cause)
    return replace(listing, topics=topics, partitions=partitions, incomplete=incomplete)


def consumer_offsets_missing(failure: Unknown | None, groups: Collection[str], *, hidden: bool) -> Unknown | None:
    """Why `__consumer_offsets` is missing, which no broker describes; None: nothing has to be read there.

    `failure`: of the description; None: the brokers know no such topic, which is true of a cluster without
    groups, and the answer of servers that hide it. `hidden`: the Cluster says that its server does.
    """
    if hidden and not (failure is not None and failure.unanswered):
        return None
    if failure is None and groups:
        return Unknown(f"{CONSUMER_OFFSETS_TOPIC} is hidden or absent, although {quoted(min(groups))} is a group")
    return failure


def read_partitions(
    session: KafkaSession, requested: Sequence[TopicPartition], *, deadline: Deadline
) -> dict[TopicPartition, PartitionFacts | None]:
    """Current metadata of partitions. None: a broker said that the topic or number is gone."""
    facts: dict[TopicPartition, PartitionFacts | None] = dict.fromkeys(requested)
    for topic, answer in describe(session, (p.topic for p in requested), deadline=deadline).items():
        if isinstance(answer, tuple):
            facts.update((partition.partition, partition) for partition in answer[1] if partition.partition in facts)
        elif isinstance(answer, Unknown):
            reason = answer.about("the topic could not be described")
            facts.update((p, unknown_partition(p, reason)) for p in requested if p.topic == topic)
    return facts


def unknown_partition(partition: TopicPartition, reason: Unknown) -> PartitionFacts:
    """A partition whose facts could not be read."""
    return PartitionFacts(
        partition=partition,
        topic_id=reason,
        leader=reason,
        replicas=reason,
        in_sync=reason,
        log_start=reason,
        last_stable_offset=reason,
        high_watermark=reason,
    )


def send_descriptions(
    client: AdminClient,
    names: Sequence[str],
    limit_s: float,
    *,
    partitions: Mapping[str, Sequence[object]] | None = None,
    permissions: bool = False,
) -> dict[str, Future[Any]]:
    """Send DescribeTopics, with `permissions` for the caller's, too.

    `partitions`: known ones by topic. A call has about 4,000; a topic counts as at least four.
    """
    answers: dict[str, Future[Any]] = {}
    ends = accumulate(max(4, len((partitions or {}).get(name, ()))) for name in names)
    for _, part in groupby(zip(names, ends, strict=True), key=lambda item: item[1] // _PARTITIONS_PER_CALL):
        topics = TopicCollection([name for name, _ in part])
        answers |= client.describe_topics(topics, include_authorized_operations=permissions, request_timeout=limit_s)
    return answers


def read_config_entries(session: KafkaSession, names: Iterable[str]) -> dict[str, Mapping[str, ConfigEntry] | Unknown]:
    """The configs of each topic, defaults included. Rights: DESCRIBE_CONFIGS on the topic."""

    def send(client: AdminClient, part: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in part]
        futures = client.describe_configs(resources, request_timeout=limit_s)
        return {resource.name: future for resource, future in futures.items()}

    def configs(future: Future[Any]) -> Mapping[str, ConfigEntry] | Unknown:
        failure = failure_of(future, right="DESCRIBE_CONFIGS on the topic")
        if failure is not None:
            return failure
        return {name: entry for name, entry in future.result().items() if entry.value is not None}

    answers = session.read(sorted(set(names)), send, per_call=_PER_CALL)
    return {name: configs(future) for name, future in answers.items()}


class RetentionFacts(NamedTuple):
    """What the configuration of a topic says about the loss of records, as in TopicFacts."""

    cleanup_policy: frozenset[str] | Unknown = NOT_ASKED
    kept_forever: KeptForever | Unknown | None = NOT_ASKED


def retention_facts(session: KafkaSession, names: Iterable[str]) -> dict[str, RetentionFacts]:
    """`cleanup.policy` and retention of each topic, as of `read_config_entries`."""
    return {name: _retention(entries) for name, entries in read_config_entries(session, names).items()}


def _retention(entries: Mapping[str, ConfigEntry] | Unknown) -> RetentionFacts:
    if isinstance(entries, Unknown):
        return RetentionFacts(entries.about("cleanup.policy"), entries.about("cleanup.policy"))
    policy: frozenset[str] | Unknown = Unknown("cleanup.policy: not among the topic's configs")
    if "cleanup.policy" in entries:
        policy = frozenset(filter(None, map(str.strip, entries["cleanup.policy"].value.split(","))))
    # A server may lack these: then only what a pattern selects is not decided.
    if lacking := [name for name in ("retention.ms", "retention.bytes") if name not in entries]:
        return RetentionFacts(policy, Unknown(f"{lacking[0]}: not among the topic's configs"))
    by_age, by_size = int(entries["retention.ms"].value), int(entries["retention.bytes"].value)
    if 0 <= by_age < _FOREVER_MS or 0 <= by_size < _UNBOUNDED_BYTES:
        return RetentionFacts(policy, None)
    is_own = ConfigSource(entries["retention.ms"].source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return RetentionFacts(policy, KeptForever.TOPIC if is_own else KeptForever.BROKER)


def topic_id_text(topic_id: Any) -> str | Unknown:
    """A topic id as Kafka's own tools spell it; the library has another base64 alphabet.

    All zeros means that there is no id (KIP-516): two topics without an id are not the same topic.
    """
    text = str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
    if text.strip("A") == "":
        return Unknown(
            "the brokers give topics no id: they, or their inter.broker.protocol.version, are before Kafka 2.8"
        )
    return text


def _leaderless(error: KafkaError | None) -> Unknown | None:
    if error is None or error.code() == KafkaError.LEADER_NOT_AVAILABLE:
        return None
    return Unknown(f"leader: {text_of(error)}")


def _description(name: str, future: Future[Any]) -> Described | Unknown | None:
    """None: the broker says to a caller who may know that there is no such topic."""
    failure = failure_of(future, right="DESCRIBE on the topic")
    if failure is not None:
        return None if failed_with(future, GONE) else failure
    described = future.result()
    topic_id = topic_id_text(described.topic_id)
    partitions = tuple(
        PartitionFacts(
            partition=TopicPartition(name, p.id),
            topic_id=topic_id,
            leader=None if p.leader is None or p.leader.id < 0 else p.leader.id,
            replicas=tuple(node.id for node in p.replicas),
            in_sync=tuple(node.id for node in p.isr),
        )
        for p in sorted(described.partitions, key=lambda p: p.id)
    )
    topic = TopicFacts(name=name, topic_id=topic_id, internal=bool(described.is_internal), partitions=len(partitions))
    return topic, partitions
