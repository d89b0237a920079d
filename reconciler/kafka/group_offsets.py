"""Reads committed offsets of groups by OffsetFetch.

Decided here: which answers are positions, which say that there is none, and which say nothing. Outside
of Spark tasks the requests are sent by worker processes (worker_process.py says why).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.kafka.consumer_offsets_records import log_partition
from reconciler.kafka.futures import Deadline, batched, done_unless, reason_of, wait_all
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.worker_process import ClientPool, WorkerPool
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Unknown

Positions = dict[TopicPartition, int | Unknown | None]
"""Committed offsets of one group; None: requested by name and not committed."""

Commit = tuple[str, int, int]
"""Topic, partition, committed offset."""

PartitionsByGroup = Mapping[str, Sequence[TopicPartition] | None]
"""Partitions of each group; None: every commit of the group."""

NO_ANSWER = Unknown("the group's coordinator did not answer: it moves, or there is none yet")
NAMELESS = Unknown("the client library cannot read the commits of a group without a name")

_NO_COMMIT = (-1001, -1)
_TRIES = 2
_GROUPS_IN_FLIGHT = 500
_PAUSE_S = 0.25
# The default of offsets.topic.num.partitions; a wrong value only makes the parts of a retry less exact.
_LOG_PARTITIONS = 50
_DENIED = "GROUP_AUTHORIZATION_FAILED"
_FINAL_NAMES = (_DENIED, "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND")
_IS_FINAL = done_unless(
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._INVALID_ARG,
)


def fetch(workers: WorkerPool, requested: PartitionsByGroup, *, timeout_s: float) -> dict[str, Positions | Unknown]:
    """Each group's positions, or why they could not be read.

    A worker process that dies is replaced once: a new client looks up the coordinators again.
    """
    # The library refuses an empty list of partitions.
    answers: dict[str, Positions | Unknown] = {
        group: Positions() for group, partitions in requested.items() if partitions is not None and not partitions
    }
    answers |= {group: NAMELESS for group in requested if not group}
    pending = {
        group: None if partitions is None else tuple(partitions)
        for group, partitions in requested.items()
        if group not in answers
    }
    deadline = Deadline.after(timeout_s)
    for _ in range(_TRIES):
        if not pending or deadline.passed:
            break
        fetched = workers.call(_fetch_in_worker, pending, timeout_s=deadline.remaining_s)
        if fetched is not None:
            return answers | fetched
    return answers | dict.fromkeys(pending, NO_ANSWER)


def send(client: AdminClient, requested: PartitionsByGroup, timeout_s: float) -> dict[str, Future[Any]]:
    """Send one request per group without waiting. To be called where a crash is survived."""
    futures: dict[str, Future[Any]] = {}
    for group, partitions in requested.items():
        names = None if partitions is None else [ClientPartition(p.topic, p.partition) for p in partitions]
        request = [ConsumerGroupTopicPartitions(group, names)]
        futures |= client.list_consumer_group_offsets(request, request_timeout=timeout_s)
    return futures


def positions(future: Future[Any]) -> Positions | Unknown:
    """One group's answer as facts. Some offsets below zero mean "no commit"; the others mean nothing."""
    if not future.done():
        return Unknown("the group's coordinator did not answer in time")
    error = future.exception()
    if error is not None:
        return Unknown(f"the group's commits could not be read: {reason_of(error)}")
    read: Positions = {}
    for answer in future.result().topic_partitions or ():
        partition = TopicPartition(answer.topic, answer.partition)
        if answer.error is not None:
            reason = reason_of(KafkaException(answer.error))
            read[partition] = Unknown(f"the group's commit could not be read: {reason}")
        elif answer.offset >= 0:
            read[partition] = int(answer.offset)
        elif answer.offset in _NO_COMMIT:
            read[partition] = None
        else:
            read[partition] = Unknown(f"the group's commit reads as {answer.offset}")
    return read


def commits(read: Positions | Unknown) -> list[Commit] | Unknown:
    """All commits of a group. One position that is Unknown makes all of them Unknown."""
    if isinstance(read, Unknown):
        return Unknown("the right READ or DESCRIBE on the group is missing") if _DENIED in read.reason else read
    known: list[Commit] = []
    for partition, committed in read.items():
        if isinstance(committed, Unknown):
            return Unknown(f"{partition}: {committed.reason}")
        if committed is not None:
            known.append((partition.topic, partition.partition, committed))
    return known


def read_commits(
    session: KafkaSession, groups: Sequence[str], *, isolated: bool
) -> Iterator[dict[str, list[Commit] | Unknown]]:
    """All commits of each group, a few hundred groups at a time.

    `isolated`: send from a worker process. Otherwise the library may kill this process while a
    coordinator moves: acceptable in a Spark task, which is retried in isolation, never in the driver.
    """
    for part in batched(groups, _GROUPS_IN_FLIGHT):
        yield _read_isolated(session, part) if isolated else _read_in_process(session, part)


def _fetch_in_worker(
    clients: ClientPool, requested: PartitionsByGroup, deadline: Deadline
) -> dict[str, Positions | Unknown]:
    futures = send(clients.client, requested, max(0.1, deadline.remaining_s))
    wait_all(clients.client, futures.values(), deadline)
    return {group: positions(future) for group, future in futures.items()}


def _read_in_process(session: KafkaSession, groups: Sequence[str]) -> dict[str, list[Commit] | Unknown]:
    def send_all(client: AdminClient, pending: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return send(client, dict.fromkeys(pending), limit_s)

    answers = session.read([group for group in groups if group], send_all, is_final=_IS_FINAL)
    read: dict[str, list[Commit] | Unknown] = {}
    for group, future in answers.items():
        plain = _plain_commits(future)
        read[group] = commits(positions(future)) if plain is None else plain
    return {group: read.get(group, NAMELESS) for group in groups}


def _plain_commits(future: Future[Any]) -> list[Commit] | None:
    """A usual answer in one pass; None for an answer with errors or without commits."""
    if not future.done() or future.exception() is not None:
        return None
    answers = future.result().topic_partitions or ()
    plain = [(p.topic, p.partition, p.offset) for p in answers if p.error is None and p.offset >= 0]
    return plain if plain and len(plain) == len(answers) else None


def _read_isolated(session: KafkaSession, groups: Sequence[str]) -> dict[str, list[Commit] | Unknown]:
    """Read all groups at once, then the failed ones per coordinator: a moving one must not fail the others."""
    read: dict[str, Positions | Unknown] = {}
    deadline = session.deadline()
    parts: list[list[str]] = [list(groups)]
    while parts and not deadline.passed:
        for part in parts:
            limit_s = max(0.1, min(deadline.remaining_s, session.timeout_s / 3))
            read |= fetch(session.readers, dict.fromkeys(part), timeout_s=limit_s)
        by_coordinator: dict[int, list[str]] = {}
        for group, answer in read.items():
            if isinstance(answer, Unknown) and answer != NAMELESS and not any(n in answer.reason for n in _FINAL_NAMES):
                by_coordinator.setdefault(log_partition(group, _LOG_PARTITIONS), []).append(group)
        parts = list(by_coordinator.values())
        if parts:
            time.sleep(min(_PAUSE_S, deadline.remaining_s))
    return {group: commits(read.get(group, Unknown("its coordinator was not reached in time"))) for group in groups}
