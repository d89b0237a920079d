"""Readers of offsets and commits: a chunk in, Arrow record batches out. They run in Spark tasks, or right here without Spark.

Decided here: the order of questions, what counts as read, and how long to insist. A negative offset is never a number; the ends
are answered before the first question by timestamp is asked, so that records produced in between stay above them.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler.kafka.connect import Connection, admin, read_timeouts
from reconciler.kafka.coordinator import log_partition
from reconciler.kafka.futures import Deadline, call_with_retry, code_of, done_unless, reason_of
from reconciler.kafka.group_offsets import NAMELESS, Positions, fetch, positions
from reconciler.kafka.schemas import GROUP_COMMITS, PARTITIONS
from reconciler.kafka.worker_process import WorkerPool
from reconciler.model.fingerprint import fingerprint
from reconciler.model.snapshot import Unknown

NO_RECORD = -1
"""Answer to a question by timestamp: every record is older. To DeleteRecords the same number means "everything"."""

_PARTITIONS_PER_CALL = 1_000
_GROUPS_IN_FLIGHT = 500
_GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
)
_GONE_PATIENCE_S = 5.0
_PAUSE_S = 0.25
# The default of offsets.topic.num.partitions; a wrong guess only makes the parts of a second try less exact.
_COORDINATORS = 50
_START, _STABLE, _HIGH = "log start", "stable end", "high watermark"


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """Partitions of one topic and one leader, of which the same is asked.

    `full` False: log start and high watermark only, for counting records. `instants` in epoch ms need `full`.
    """

    topic: str
    partitions: Sequence[int]
    leader: int
    full: bool = True
    instants: tuple[int, ...] = ()


def read_partitions(connection: Connection, asks: Sequence[OffsetsRequest]) -> Iterator[pa.RecordBatch]:
    """Offsets of each asked partition in one batch, `tables.PARTITIONS`. Never raises for a broker that is away."""
    client = admin(connection, read_timeouts(connection))
    ends: list[OffsetQuery] = []
    for some in asks:
        for number in some.partitions:
            ends.append(OffsetQuery(_START, some.topic, number))
            ends.append(OffsetQuery(_HIGH, some.topic, number))
            if some.full:
                ends.append(OffsetQuery(_STABLE, some.topic, number))
    answers = _offsets(client, connection, ends)
    # Only now: "no record at or after" means the ends that were just answered (traps 2 and 12).
    answers |= _offsets(
        client,
        connection,
        [
            OffsetQuery(instant, some.topic, number)
            for some in asks
            for number in some.partitions
            if isinstance(answers.get(OffsetQuery(_STABLE, some.topic, number)), int)
            for instant in some.instants
        ],
    )
    yield _partition_rows(asks, answers)


def read_group_commits(
    connection: Connection, groups: Sequence[str], *, topics: Collection[str] | None = None, isolated: bool = False
) -> Iterator[pa.RecordBatch]:
    """Committed offsets of each group, `tables.GROUP_COMMITS`, one batch per few hundred groups.

    `topics`: rows of commits only for these (None: all); counts and fingerprint are always over all of the group's commits.
    `isolated`: ask in a child process. Without it the client library may kill this one while a coordinator moves (child.py):
    fine in a task, which is tried again in isolation, never in the driver.
    """
    remaining = iter(groups)
    client = None if isolated else admin(connection, read_timeouts(connection))
    while part := list(islice(remaining, _GROUPS_IN_FLIGHT)):
        found = _in_child(connection, part) if client is None else _in_process(client, connection, part)
        yield _commit_rows(found, topics)


_FINAL_NAMES = ("GROUP_AUTHORIZATION_FAILED", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND")
_GROUP_ENOUGH = done_unless(
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._INVALID_ARG,
)


class OffsetQuery(NamedTuple):
    """One offset of one partition: by name, or (int) by timestamp. A tuple, since each is looked up half a dozen times."""

    what: str | int
    topic: str
    partition: int


_SPECS: Mapping[str | int, tuple[OffsetSpec, IsolationLevel]] = {
    _START: (OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    _HIGH: (OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    _STABLE: (OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}


def _offsets(
    client: AdminClient, connection: Connection, questions: Sequence[OffsetQuery]
) -> dict[OffsetQuery, int | str]:
    """An offset, or why there is none. `-1` only where the question was by timestamp."""

    def call(wanted: Sequence[OffsetQuery], limit_s: float) -> dict[OffsetQuery, Future[Any]]:
        by_spec: dict[str | int, list[OffsetQuery]] = {}
        for question in wanted:
            by_spec.setdefault(question.what, []).append(question)
        answers: dict[OffsetQuery, Future[Any]] = {}
        for what, same in by_spec.items():
            spec, isolation = _SPECS.get(what) or (OffsetSpec.for_timestamp(int(what)), IsolationLevel.READ_COMMITTED)
            for start in range(0, len(same), _PARTITIONS_PER_CALL):
                part = same[start : start + _PARTITIONS_PER_CALL]
                request = {TopicPartition(q.topic, q.partition): spec for q in part}
                futures = client.list_offsets(request, isolation_level=isolation, request_timeout=limit_s)
                answers.update((OffsetQuery(what, tp.topic, tp.partition), future) for tp, future in futures.items())
        return answers

    answers: dict[OffsetQuery, int | str] = {}
    by_time = [q for q in questions if isinstance(q.what, int)]
    by_name = [q for q in questions if not isinstance(q.what, int)]
    for part, lowest in ((by_name, 0), (by_time, NO_RECORD)):
        if part:
            futures = call_with_retry(client, part, call, enough=_offset_enough(lowest), timeout_s=connection.timeout_s)
            answers.update((q, _offset(future, lowest, connection)) for q, future in futures.items())
    return answers


def _offset_enough(lowest: int) -> Callable[[Future[Any]], bool]:
    # A topic made a moment ago is unknown to some brokers for seconds; one deleted a moment ago stays unknown.
    patience_over = Deadline.after(_GONE_PATIENCE_S)

    def enough(future: Future[Any]) -> bool:
        failure = future.exception()
        if failure is None:
            return int(future.result().offset) >= lowest
        code = code_of(failure)
        return code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._INVALID_ARG) or (
            code in _GONE and patience_over.over
        )

    return enough


def _offset(future: Future[Any], lowest: int, connection: Connection) -> int | str:
    try:
        failure = future.exception(timeout=0)
    except TimeoutError:
        return f"no answer within {connection.timeout_s:.0f} s"
    if failure is not None:
        if code_of(failure) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return "the right DESCRIBE on the topic is missing"
        if code_of(failure) == KafkaError._NOENT:
            return "it had no leader"
        return reason_of(failure)
    offset = int(future.result().offset)
    # The client reports success with -1001 for a partition whose broker did not answer (trap 1).
    return offset if offset >= lowest else f"its leader did not answer within {connection.timeout_s:.0f} s"


def _partition_rows(asks: Sequence[OffsetsRequest], answers: Mapping[OffsetQuery, int | str]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in PARTITIONS.names}
    for some in asks:
        for number in some.partitions:
            wanted = [_START, _HIGH, _STABLE] if some.full else [_START, _HIGH]
            found = {what: answers[OffsetQuery(what, some.topic, number)] for what in wanted}
            at = [answers.get(OffsetQuery(instant, some.topic, number)) for instant in some.instants]
            failures = [f"{what}: {text}" for what, text in found.items() if isinstance(text, str)]
            failures += [f"offset at an instant: {text}" for text in at if isinstance(text, str)]
            columns["topic"].append(some.topic)
            columns["partition"].append(number)
            columns["log_start"].append(_number(found[_START]))
            columns["stable_end"].append(_number(found.get(_STABLE)))
            columns["high_watermark"].append(_number(found[_HIGH]))
            columns["instants"].append(some.instants)
            columns["offsets_at"].append([_number(offset) for offset in at])
            columns["error"].append(f"{failures[0]} (leader {some.leader})" if failures else None)
    return _batch(columns, PARTITIONS)


_Commits = list[tuple[str, int, int]] | str
"""(topic, partition, committed) of one group, or why its commits are not known."""


def _in_process(client: AdminClient, connection: Connection, groups: Sequence[str]) -> dict[str, _Commits]:
    def call(wanted: Sequence[str], limit_s: float) -> dict[str, Future[Any]]:
        answers: dict[str, Future[Any]] = {}
        for group in wanted:
            request = [ConsumerGroupTopicPartitions(group)]
            answers.update(client.list_consumer_group_offsets(request, request_timeout=limit_s))
        return answers

    named = [group for group in groups if group]
    answers = call_with_retry(client, named, call, enough=_GROUP_ENOUGH, timeout_s=connection.timeout_s)
    found = {group: _plain_commits(future) or _commits(positions(future)) for group, future in answers.items()}
    return {group: found.get(group, NAMELESS.reason) for group in groups}


def _plain_commits(future: Future[Any]) -> _Commits | None:
    """The usual answer in one pass; None for one in which anything is amiss, or that is empty."""
    if not future.done() or future.exception() is not None:
        return None
    commits = [(p.topic, p.partition, p.offset) for p in future.result().topic_partitions or () if p.error is None]
    whole = len(commits) == len(future.result().topic_partitions or ())
    return commits if whole and all(offset >= 0 for _, _, offset in commits) else None


def _in_child(connection: Connection, groups: Sequence[str]) -> dict[str, _Commits]:
    """First all at once; what is left then one coordinator at a time, so that a moving one takes no others with it."""
    found: dict[str, Positions | Unknown] = {}
    children = WorkerPool(connection)
    deadline = Deadline.after(connection.timeout_s)
    parts: list[list[str]] = [list(groups)]
    try:
        while parts and not deadline.over:
            for part in parts:
                limit_s = max(0.1, min(deadline.left_s, connection.timeout_s / 3))
                found |= fetch(children, dict.fromkeys(part), timeout_s=limit_s)
            by_coordinator: dict[int, list[str]] = {}
            for group, answer in found.items():
                if isinstance(answer, Unknown) and not any(code in answer.reason for code in _FINAL_NAMES):
                    by_coordinator.setdefault(log_partition(group, _COORDINATORS), []).append(group)
            parts = list(by_coordinator.values())
            if parts:
                time.sleep(min(_PAUSE_S, deadline.left_s))
    finally:
        children.close()
    return {group: _commits(found.get(group, Unknown("its coordinator was not asked in time"))) for group in groups}


def _commits(found: Positions | Unknown) -> _Commits:
    if isinstance(found, Unknown):
        if "GROUP_AUTHORIZATION_FAILED" in found.reason:
            return "the right READ or DESCRIBE on the group is missing"
        return found.reason
    commits = []
    for partition, committed in found.items():
        if isinstance(committed, Unknown):
            # One position that nobody knows makes the group's positions unknown.
            return f"{partition}: {committed.reason}"
        if committed is not None:
            commits.append((partition.topic, partition.partition, committed))
    return commits


def _commit_rows(answers: Mapping[str, _Commits], topics: Collection[str] | None) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in GROUP_COMMITS.names}
    for group, commits in answers.items():
        if isinstance(commits, str):
            _add(columns, group=[group], error=[commits])
            continue
        kept = commits if topics is None else [commit for commit in commits if commit[0] in topics]
        if kept:
            on_topic, partition, committed = map(list, zip(*kept, strict=True))
            _add(columns, group=[group] * len(kept), topic=on_topic, partition=partition, committed=committed)
        _add(
            columns,
            group=[group],
            commits=[len(commits)],
            commit_topics=[len({topic for topic, _, _ in commits})],
            fingerprint=[fingerprint(commits)],
        )
    return _batch(columns, GROUP_COMMITS)


def _add(columns: Mapping[str, list[Any]], *, group: list[str], **values: list[Any]) -> None:
    """Rows of one group, column by column; a loop per commit costs as much as asking for them."""
    nothing = [None] * len(group)
    for name, column in columns.items():
        column.extend(group if name == "group" else values.get(name, nothing))


def _number(answer: int | str | None) -> int | None:
    return answer if isinstance(answer, int) else None


def _batch(columns: Mapping[str, list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
