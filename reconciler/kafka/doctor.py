"""What a cluster and its brokers' answers say about whether the manifests can be planned and applied. Reads only.

Decided here: what is asked and how the answers are told apart (fine, missing, could not be asked). Rights are in rights.py, the
grants that would be right in acls.py; nothing here prints.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka import permissions as rights
from reconciler.kafka.connect import Connection, admin
from reconciler.kafka.futures import call_with_retry, done_unless
from reconciler.kafka.groups import list_groups
from reconciler.kafka.permissions import Permission, RequiredAccess
from reconciler.kafka.topics import COMMIT_LOG_TOPIC, describe_topics, list_topics
from reconciler.model.snapshot import Unknown

AHEAD_S = 5
"""A broker's stamp this far in our future is no network delay."""
STALE_S = 60
"""Without a stamp this young nobody can tell whether our clock is ahead."""

_API = re.compile(r"([^\s/]+)/(\d+|bootstrap):\s+ApiKey \S+ \((\d+)\) Versions (\d+)\.\.(\d+)")
_FETCH = 1
OPERATIONS: Mapping[str, int] = {"DeleteRecords": 21, "DeleteGroups": 42, "ElectLeaders": 43}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersion:
    """What one broker speaks. `kafka_4`: it dropped the protocols that Kafka 4.0 dropped. `operations`: version ranges by name."""

    broker: str
    kafka_4: bool
    operations: Mapping[str, tuple[int, int]]

    @property
    def lacking(self) -> tuple[str, ...]:
        """Operations that this broker does not know. ElectLeaders needs version 1: 0 has no election type (KIP-460)."""
        wanted = {"DeleteRecords": 0, "DeleteGroups": 0, "ElectLeaders": 1}
        return tuple(name for name, version in wanted.items() if self.operations.get(name, (0, -1))[1] < version)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSkew:
    """The newest stamp that a broker has put on a record, compared with our clock. `age_ms` negative: in our future."""

    age_ms: int | Unknown

    @property
    def behind(self) -> bool:
        """Our clock is behind a broker's: what is young looks even younger. Harmless, and wrong."""
        return not isinstance(self.age_ms, Unknown) and self.age_ms < -AHEAD_S * 1000

    @property
    def proven(self) -> bool:
        """A broker has stamped a record so recently that our clock cannot be far ahead."""
        return not isinstance(self.age_ms, Unknown) and -AHEAD_S * 1000 <= self.age_ms <= STALE_S * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All that was found. `unseen`: sentences about listings that may be short; `beyond`: rights held that planning does not need."""

    cluster_id: str
    brokers: tuple[int, ...]
    client: str
    versions: tuple[BrokerVersion, ...]
    clock: ClockSkew
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    rights: tuple[Permission, ...]
    beyond: tuple[str, ...]
    unseen: tuple[str, ...]
    journal_missing: bool


def run_checks(connection: Connection, wanted: RequiredAccess, *, cluster_id: str) -> DoctorReport:
    """Ask for everything that planning and applying need. Raises ClusterUnreachable; all else is in the answer."""
    listing = list_topics(connection)
    groups = list_groups(connection, hidden=False)
    names = tuple(sorted(listing.topics))
    group_names = tuple(sorted(name for name, group in groups.groups.items() if group.listed))
    commit_log = describe_topics(connection, listing, [COMMIT_LOG_TOPIC]).topics.get(COMMIT_LOG_TOPIC)
    numbers: Sequence[int] = ()
    if commit_log is not None and not isinstance(commit_log.partitions, Unknown):
        numbers = [partition.number for partition in commit_log.partitions]
    with _capture_client_log() as lines:
        client = admin(connection, {"debug": "feature"})
        found, beyond = rights.check(connection, client, wanted, topics=names, groups=group_names)
        clock = ClockSkew(age_ms=_age_ms(connection, client, numbers))
        client.poll(0)
    unseen = [doubt.reason for doubt in (listing.incomplete, groups.incomplete) if doubt is not None]
    return DoctorReport(
        cluster_id=cluster_id,
        brokers=listing.brokers,
        client=f"confluent-kafka {confluent_kafka.version()}, librdkafka {confluent_kafka.libversion()[0]}",
        versions=versions(lines),
        clock=clock,
        topics=names,
        groups=group_names,
        rights=found,
        beyond=beyond,
        unseen=tuple(unseen),
        journal_missing=wanted.journal_topic is not None and wanted.journal_topic not in listing.topics,
    )


def versions(lines: Sequence[str]) -> tuple[BrokerVersion, ...]:
    """What each broker said it speaks, from the client library's log: no call of the library tells."""
    apis: dict[str, dict[int, tuple[int, int]]] = {}
    for line in lines:
        if found := _API.search(line):
            address, _, key, low, high = found.groups()
            apis.setdefault(address, {})[int(key)] = (int(low), int(high))
    return tuple(
        BrokerVersion(
            broker=broker,
            # Kafka 4.0 removed the first versions of Fetch (KIP-896).
            kafka_4=spoken.get(_FETCH, (0, 0))[0] >= 4,
            operations={name: spoken[key] for name, key in OPERATIONS.items() if key in spoken},
        )
        for broker, spoken in sorted(apis.items())
    )


@contextmanager
def _capture_client_log() -> Iterator[list[str]]:
    """What clients log while this lasts, kept from the terminal."""
    lines: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log = logging.getLogger("reconciler.kafka.client")
    ear, level, propagate = Ear(), log.level, log.propagate
    log.addHandler(ear)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield lines
    finally:
        log.removeHandler(ear)
        log.setLevel(level)
        log.propagate = propagate


def _age_ms(connection: Connection, client: AdminClient, numbers: Sequence[int]) -> int | Unknown:
    """Brokers stamp the commit log themselves, so its newest record tells their clock. Reads no record."""
    if not numbers:
        return Unknown("there is no commit log that this principal may see")

    def call(wanted: Sequence[int], limit_s: float) -> dict[int, Future[Any]]:
        request = {TopicPartition(COMMIT_LOG_TOPIC, number): OffsetSpec.max_timestamp() for number in wanted}
        answers = client.list_offsets(request, request_timeout=limit_s)
        return {int(partition.partition): answer for partition, answer in answers.items()}

    enough = done_unless(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._NOENT)
    answers = call_with_retry(client, list(numbers), call, enough=enough, timeout_s=connection.timeout_s)
    now_ms = time.time_ns() // 1_000_000
    # A partition that nobody told about can only hold a newer stamp, which would make the age smaller: not a proof, no harm.
    stamps = [
        int(answer.result().timestamp) for answer in answers.values() if answer.done() and answer.exception() is None
    ]
    newest = max(stamps, default=-1)
    return now_ms - newest if newest >= 0 else Unknown("the commit log holds no record that a broker has stamped")
