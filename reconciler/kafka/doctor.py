"""Reads what planning and applying need of a cluster: versions, clock, permissions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import confluent_kafka

from reconciler.clock import wall_clock_ms
from reconciler.kafka import permissions
from reconciler.kafka.api_versions import ApiVersions, is_kafka_4
from reconciler.kafka.group_listing import GroupListing, list_groups
from reconciler.kafka.journal_topic import check_topic
from reconciler.kafka.offsets import find_by_time
from reconciler.kafka.permissions import Permission, RequiredAccess, RequiredRequest
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.silence import silent_brokers
from reconciler.kafka.topics import (
    CONSUMER_OFFSETS_TOPIC,
    TopicListing,
    consumer_offsets_missing,
    describe_topics,
    list_topics,
)
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import GroupType, LookupKind, RecordLookup, RecordStamp, Unknown
from reconciler.text.escape import quoted
from reconciler.text.formatting import first_few


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersion:
    """Version ranges of the program's requests on a broker; `lacking`: requests without a usable one.

    `kafka_4`: a guess. `unread`: why the broker did not tell its versions.
    """

    broker: str
    kafka_4: bool = False
    operations: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    lacking: tuple[RequiredRequest, ...] = ()
    unread: Unknown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All results. `silent`: sentences about brokers that do not answer or are not alive; what they
    do not answer is in no other field. `clock_age_ms`: how old the newest timestamp of a broker is by our
    clock; negative: it is in our future. `unseen`: about incomplete listings. `journal_risks`:
    sentences on how the journal topic may lose entries. `beyond`: permissions beyond planning.
    """

    cluster_id: str
    brokers: tuple[int, ...]
    client: str
    versions: tuple[BrokerVersion, ...]
    clock_age_ms: int | Unknown
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    rights: tuple[Permission, ...]
    beyond: tuple[str, ...]
    silent: tuple[str, ...]
    unseen: tuple[str, ...]
    journal_missing: bool
    journal_risks: Sequence[str] | Unknown


def run_checks(session: KafkaSession, required: RequiredAccess) -> DoctorReport:
    """Run all checks; their failures are in the report. Raises ClusterUnreachable."""
    listing = list_topics(session)
    groups = list_groups(session, hidden=False)
    names = tuple(sorted(listing.topics))
    journal = required.journal_topic
    group_names = tuple(sorted(name for name, group in groups.groups.items() if group.listed is True))
    described = describe_topics(session, replace(listing, incomplete=None), [CONSUMER_OFFSETS_TOPIC])
    consumer_offsets = described.partitions.get(CONSUMER_OFFSETS_TOPIC, ())
    risks = () if journal is None else check_topic(session, journal)
    silent = silent_brokers(session, session.addresses)
    rights, beyond = permissions.check(session, required, topics=names, groups=group_names, with_unanswered=not silent)
    return DoctorReport(
        cluster_id=listing.cluster_id or session.cluster_id or "",
        brokers=listing.brokers,
        client=f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}",
        versions=tuple(
            broker_version(session.addresses[broker], versions, required.requests)
            for broker, versions in sorted(session.api_versions().items())
            if broker not in silent
        ),
        clock_age_ms=_clock_age_ms(session, [facts.partition for facts in consumer_offsets]),
        topics=names,
        groups=group_names,
        rights=rights,
        beyond=beyond,
        silent=(*(silent[broker].reason for broker in sorted(silent)), *_not_alive(session, listing)),
        unseen=(
            *(
                f"the list of {subjects} is incomplete: {fact.reason}"
                for subjects, fact in (("topics", listing.incomplete), ("groups", groups.incomplete))
                if fact is not None and not (silent and fact.unanswered)
            ),
            *_undecidable(required, groups, described),
        ),
        journal_missing=risks is None,
        journal_risks=() if risks is None else risks,
    )


def _undecidable(required: RequiredAccess, groups: GroupListing, described: TopicListing) -> Iterator[str]:
    """Yield what the brokers tell nobody, and without which floors and removals are blocked."""
    if not required.needs.group_facts:
        return
    untold = sorted(name for name, of in groups.groups.items() if of.listed is True and of.type is GroupType.HIDDEN)
    is_hidden = CONSUMER_OFFSETS_TOPIC not in described.topics
    if untold or (groups.without_types and is_hidden and not groups.classic_only):
        names = first_few([quoted(name) for name in untold or sorted(groups.groups)])
        yield f"the brokers do not tell the type of {names}: floors are blocked, and so is the removal of these groups"
    # A refusal is a missing right.
    if required.needs.consumer_offsets and is_hidden and described.incomplete is None:
        hidden = required.needs.without_consumer_offsets
        if (missing := consumer_offsets_missing(None, groups.groups, hidden=hidden)) is not None:
            yield (
                f"{missing.reason}: floors are blocked, and so are removals with idleFor above 0s; if the provider hides "
                "it, say consumerOffsets: hidden in the Cluster"
            )


def _not_alive(session: KafkaSession, listing: TopicListing) -> Iterator[str]:
    """Yield a sentence for each broker that has replicas and that no metadata names.

    The controller fences a silent broker, and metadata leaves fenced ones out.
    """
    partitions = (facts for of_topic in listing.partitions.values() for facts in of_topic)
    holders = {broker for facts in partitions if isinstance(facts.replicas, tuple) for broker in facts.replicas}
    for broker in sorted(holders.difference(listing.brokers)):
        yield f"{session.broker(broker)} has replicas and is not in the cluster's metadata: it is down or does not answer"


def broker_version(address: str, versions: ApiVersions | Unknown, requests: Sequence[RequiredRequest]) -> BrokerVersion:
    """Compare the versions of a broker with what the requests need, as in RequiredAccess."""
    if isinstance(versions, Unknown):
        return BrokerVersion(broker=address, unread=versions)
    return BrokerVersion(
        broker=address,
        kafka_4=is_kafka_4(versions),
        operations={request.name: versions[request.key] for request in requests if request.key in versions},
        lacking=tuple(request for request in requests if versions.get(request.key, (0, -1))[1] < request.first),
    )


def _clock_age_ms(session: KafkaSession, partitions: Sequence[TopicPartition]) -> int | Unknown:
    """Brokers write the timestamps of `__consumer_offsets`: its newest one tells their clock."""
    if not partitions:
        return Unknown(f"this principal cannot see {CONSUMER_OFFSETS_TOPIC}, or there is none")
    # A partition without an answer can only hold a newer timestamp, which changes no verdict.
    found = find_by_time(session, ((partition, RecordLookup(LookupKind.NEWEST)) for partition in partitions))
    newest_ms = max((stamp.timestamp_ms for stamp in found.values() if isinstance(stamp, RecordStamp)), default=-1)
    if newest_ms < 0:
        none = Unknown(f"{CONSUMER_OFFSETS_TOPIC} holds no record with a broker's timestamp")
        return next((stamp for stamp in found.values() if isinstance(stamp, Unknown)), none)
    return wall_clock_ms() - newest_ms
