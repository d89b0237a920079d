"""Committed offsets of groups by OffsetFetch: which answers are positions, which say that there is none, and which say nothing.

Read in a child process (child.py says why). Which groups and what for is the caller's business.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.kafka.futures import Deadline, reason_of, wait_all
from reconciler.kafka.worker_process import ClientPool, WorkerPool
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Unknown

Positions = dict[TopicPartition, int | Unknown | None]
"""Committed offsets of one group; None: asked for by name and not committed."""

Wanted = Mapping[str, tuple[TopicPartition, ...] | None]
"""Partitions of each group; None: every commit of the group."""

NO_ANSWER = Unknown("the group's coordinator did not answer: it moves, or there is none yet")

NAMELESS = Unknown("the client library cannot ask for the commits of a group without a name")

_NO_COMMIT = (-1001, -1)
_TRIES = 2


def fetch(
    children: WorkerPool, wanted: Mapping[str, Sequence[TopicPartition] | None], *, timeout_s: float
) -> dict[str, Positions | Unknown]:
    """Each group's positions, or why they could not be read. A child that dies is replaced once: a new client looks anew
    for the coordinators."""
    nothing: dict[str, Positions | Unknown] = {
        group: Positions() for group, some in wanted.items() if some is not None and not some
    }
    nothing |= {group: NAMELESS for group in wanted if not group}
    asked = {group: None if some is None else tuple(some) for group, some in wanted.items() if group not in nothing}
    if not asked:
        # The library refuses an empty list of partitions.
        return {**nothing}
    deadline = Deadline.after(timeout_s)
    for _ in range(_TRIES):
        if deadline.over:
            break
        answer = children.call(_fetched, asked, timeout_s=deadline.left_s)
        if answer is not None:
            return {**nothing, **answer}
    return {**nothing, **dict.fromkeys(asked, NO_ANSWER)}


def send(client: AdminClient, wanted: Wanted, deadline: Deadline) -> dict[str, Future[Any]]:
    """One request per group, not waited for. To be called where a crash is survived."""
    futures = {}
    for group, some in wanted.items():
        asked = None if some is None else [ClientPartition(p.topic, p.partition) for p in some]
        call = client.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, asked)], request_timeout=max(0.1, deadline.left_s)
        )
        futures[group] = call[group]
    return futures


def positions(future: Future[Any]) -> Positions | Unknown:
    """One group's answer as facts. An offset below zero is "no commit" where that is what it says, and nothing else."""
    if not future.done():
        return Unknown("the group's coordinator did not answer in time")
    failure = future.exception()
    if failure is not None:
        return Unknown(f"the group's commits could not be read: {reason_of(failure)}")
    found: Positions = {}
    for each in future.result().topic_partitions or ():
        partition = TopicPartition(each.topic, each.partition)
        if each.error is not None:
            found[partition] = Unknown(f"the group's commit could not be read: {reason_of(KafkaException(each.error))}")
        elif each.offset >= 0:
            found[partition] = int(each.offset)
        elif each.offset in _NO_COMMIT:
            found[partition] = None
        else:
            found[partition] = Unknown(f"the group's commit reads as {each.offset}")
    return found


def _fetched(clients: ClientPool, wanted: Wanted, deadline: Deadline) -> dict[str, Positions | Unknown]:
    futures = send(clients.first, wanted, deadline)
    wait_all(clients.first, futures.values(), deadline)
    return {group: positions(future) for group, future in futures.items()}
