"""Reads committed offsets of groups by OffsetFetch.

Decided here: which answers are positions, which say that there is none, and which say nothing. Outside
of Spark tasks the requests are sent by worker processes (worker_process.py says why).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.kafka.consumer_offsets_records import log_partition
from reconciler.kafka.futures import Deadline, batched, failure_of, is_final, reason_of, wait_all
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.worker_process import ClientPool, WorkerPool
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Unknown

Positions = dict[tuple[str, int], int | Unknown | None]
"""Committed offsets of one group by topic and partition; None: requested by name and not committed."""

Commit = tuple[str, int, int]
"""Topic, partition, committed offset."""

PartitionsByGroup = Mapping[str, Sequence[TopicPartition] | None]
"""Partitions of each group, never an empty list; None: every commit of the group."""

NO_ANSWER = Unknown("the group's coordinator did not answer: it moves, or there is none yet")
NAMELESS = Unknown("the client library cannot read the commits of a group without a name")

_Fetched = dict[str, tuple[Positions | Unknown, bool]]
"""The positions of each group, and whether a retry would not change them."""

_NO_COMMIT = (-1001, -1)
_TRIES = 2
_GROUPS_IN_FLIGHT = 500
_PAUSE_S = 0.25
# The default of offsets.topic.num.partitions; a wrong value only makes the parts of a retry less exact.
_LOG_PARTITIONS = 50


def fetch(workers: WorkerPool, requested: PartitionsByGroup, *, timeout_s: float) -> dict[str, Positions | Unknown]:
    """Each group's positions, or why they could not be read."""
    return {group: answer for group, (answer, _is_final) in _fetch(workers, requested, timeout_s).items()}


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
    failure = failure_of(
        future, right="READ or DESCRIBE on the group", prefix="the group's commits could not be read: "
    )
    if failure is not None:
        return failure
    read: Positions = {}
    for answer in future.result().topic_partitions or ():
        offset: int | Unknown | None = answer.offset
        if answer.error is not None:
            offset = Unknown(f"the group's commit could not be read: {reason_of(answer.error)}")
        elif answer.offset < 0:
            offset = None if answer.offset in _NO_COMMIT else Unknown(f"the group's commit reads as {answer.offset}")
        read[answer.topic, answer.partition] = offset
    return read


def commits(read: Positions | Unknown) -> list[Commit] | Unknown:
    """All commits of a group. One position that is Unknown makes all of them Unknown."""
    if isinstance(read, Unknown):
        return read
    known: list[Commit] = []
    for (topic, number), committed in read.items():
        if isinstance(committed, Unknown):
            return Unknown(f"{topic}[{number}]: {committed.reason}")
        if committed is not None:
            known.append((topic, number, committed))
    return known


def read_commits(
    session: KafkaSession, groups: Sequence[str], *, isolated: bool
) -> Iterator[dict[str, list[Commit] | Unknown]]:
    """All commits of each group, a few hundred groups at a time.

    `isolated`: send from a worker process. Otherwise the library may kill this process while a
    coordinator moves: acceptable in a Spark task, which is retried in isolation, never in the driver.
    """
    for part in batched(groups, _GROUPS_IN_FLIGHT):
        read = _read_isolated(session, part) if isolated else _read_in_process(session, part)
        yield {group: commits(read.get(group, NAMELESS)) for group in part}


def _fetch(workers: WorkerPool, requested: PartitionsByGroup, timeout_s: float) -> _Fetched:
    """A worker process that dies is replaced once: a new client looks up the coordinators again."""
    fetched: _Fetched = {group: (NO_ANSWER, False) if group else (NAMELESS, True) for group in requested}
    named = {group: partitions for group, partitions in requested.items() if group}
    if named:
        fetched |= workers.call(_fetch_in_worker, named, timeout_s=timeout_s, tries=_TRIES) or {}
    return fetched


def _fetch_in_worker(clients: ClientPool, requested: PartitionsByGroup, deadline: Deadline) -> _Fetched:
    futures = send(clients.client, requested, deadline.request_timeout_s)
    wait_all(clients.client, futures.values(), deadline)
    return {group: (positions(future), future.done() and is_final(future)) for group, future in futures.items()}


def _read_in_process(session: KafkaSession, groups: Sequence[str]) -> dict[str, Positions | Unknown]:
    def send_all(client: AdminClient, pending: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        return send(client, dict.fromkeys(pending), limit_s)

    answers = session.read([group for group in groups if group], send_all)
    return {group: positions(future) for group, future in answers.items()}


def _read_isolated(session: KafkaSession, groups: Sequence[str]) -> dict[str, Positions | Unknown]:
    """Read all groups at once, then the failed ones per coordinator: a moving one must not fail the others."""
    fetched: _Fetched = {}
    deadline = session.deadline()
    parts: list[Sequence[str]] = [groups]
    while parts and not deadline.passed:
        for part in parts:
            limit_s = max(0.1, min(deadline.remaining_s, session.timeout_s / 3))
            fetched |= _fetch(session.readers, dict.fromkeys(part), limit_s)
        by_coordinator: dict[int, list[str]] = {}
        for group, (_, final) in fetched.items():
            if not final:
                by_coordinator.setdefault(log_partition(group, _LOG_PARTITIONS), []).append(group)
        parts = list(by_coordinator.values())
        if parts:
            time.sleep(min(_PAUSE_S, deadline.remaining_s))
    return {group: answer for group, (answer, _) in fetched.items()}
