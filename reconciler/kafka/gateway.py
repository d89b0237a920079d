"""The cluster for the applier: present facts, and the requests that change it, item by item.

Decided here: that no request is sent with an invalid target, and that every item gets a result.
What an error means is decided in operations/, how often and in which batches to try in apply/.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import current_thread
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable, ProgramFailed
from reconciler.kafka import topics
from reconciler.kafka.consumer_offsets import read_newest_records
from reconciler.kafka.coordinators import Positions, fetch, send_removals
from reconciler.kafka.futures import Deadline, kafka_error, name_failure, parse_each, submit, text_of, unknown_of
from reconciler.kafka.group_listing import list_all_groups
from reconciler.kafka.groups import read_consumers, read_groups, unknown_group
from reconciler.kafka.offsets import with_watermarks
from reconciler.kafka.session import REQUEST_GRACE_S, Argument, Item, KafkaSession, Work
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Election, ItemResult
from reconciler.model.snapshot import CommittedOffset, Consumers, ExternalPositions, GroupFacts, PartitionFacts, Unknown

_FAILURES = (ClusterUnreachable, ProgramFailed, KafkaException)
# The broker gives up first: REQUEST_TIMED_OUT from a leader says more than silence.
_BROKER_SHARE = 0.6


class KafkaGateway:
    """`model.ports.Gateway` over librdkafka. Safe between threads.

    A call takes at most the session's timeout, `read_consumers` for each of its steps, and besides four
    seconds for late results and the start of a worker process where it needs one. `read_external`: reads the
    positions of readers that are not groups. `without_consumer_offsets`: as in `ScanRequest`.
    """

    def __init__(
        self,
        session: KafkaSession,
        *,
        read_external: Callable[[], ExternalPositions] = dict,
        without_consumer_offsets: bool = False,
    ) -> None:
        self.session = session
        self._without_log = without_consumer_offsets
        self._read_external = read_external

    def read_partitions(
        self, partitions: Iterable[TopicPartition], *, offsets: bool
    ) -> Mapping[TopicPartition, PartitionFacts | None]:
        """Metadata, then with `offsets` log starts and high watermarks from the leaders."""
        requested = sorted(set(partitions))
        deadline = self.session.deadline()
        try:
            facts = topics.read_partitions(self.session, requested, deadline=deadline)
            return with_watermarks(self.session, facts, deadline=deadline) if offsets else facts
        except _FAILURES as error:
            return {partition: topics.unknown_partition(partition, unknown_of(error)) for partition in requested}

    def read_positions(
        self, requested: Mapping[str, Sequence[TopicPartition]]
    ) -> Mapping[tuple[str, TopicPartition], int | Unknown | None]:
        by_group = {group: sorted(set(partitions)) for group, partitions in requested.items() if partitions}
        missing = Unknown("the answer lacks this partition")

        def offset(read: Positions | Unknown, at: TopicPartition) -> int | Unknown | None:
            commit = read if isinstance(read, Unknown) else read.get((at.topic, at.partition), missing)
            return commit[2] if isinstance(commit, tuple) else commit

        try:
            fetched = fetch(self.session, by_group, timeout_s=self.session.timeout_s)
        except _FAILURES as error:
            fetched = dict.fromkeys(by_group, (unknown_of(error), False))
        return {(group, p): offset(read, p) for group, (read, _is_final) in fetched.items() for p in by_group[group]}

    def read_consumers(self, topics: Collection[str], log_starts: Mapping[int, int]) -> Consumers:
        try:
            consumers = read_consumers(self.session, topics, log_starts=log_starts, without_log=self._without_log)
            return replace(consumers, external=self._read_external())
        except _FAILURES as error:
            return Consumers(groups={}, commits={}, incomplete=unknown_of(error))

    def read_groups(
        self, groups: Sequence[str], *, removed: Collection[str] = (), hidden: bool = False
    ) -> Mapping[str, GroupFacts]:
        requested = sorted(set(groups))
        if not requested:
            return {}
        deadline = self.session.deadline()
        try:
            return read_groups(self.session, requested, deadline=deadline, removed=removed, hidden=hidden)
        except _FAILURES as error:
            return {group: unknown_group(group, unknown_of(error)) for group in requested}

    def list_groups(self) -> Mapping[str, GroupFacts] | Unknown:
        try:
            groups, incomplete = list_all_groups(self.session)
        except _FAILURES as error:
            return unknown_of(error)
        return groups if incomplete is None else incomplete

    def read_consumer_offsets(self, starts: Mapping[int, int]) -> Mapping[int, Mapping[str, int] | Unknown]:
        try:
            return read_newest_records(self.session, starts) if starts else {}
        except _FAILURES as error:
            return dict.fromkeys(starts, unknown_of(error).about("__consumer_offsets"))

    def connect_for_deletions(self) -> None:
        with suppress(ClusterUnreachable):  # no thread can be started; `delete_records` tries again
            submit(partial(self._deletion_client, current_thread().name))

    def _deletion_client(self, thread: str) -> AdminClient:
        """The client for the deletions of a thread, because a second call waits for the answer to the first.

        The applier gives its threads the same few names in every round, so clients are used again.
        """
        (client,) = self.session.clients(f"deletions of {thread}", 1, deadline=self.session.deadline())
        return client

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        for partition, before_offset in before_offsets.items():
            if before_offset < 1:
                raise ValueError(
                    f"{partition}: {before_offset} is not a target; -1 would delete up to the high watermark at that moment"
                )
        request = [ClientPartition(p.topic, p.partition, offset) for p, offset in before_offsets.items()]
        timeout_s = self.session.timeout_s

        def send() -> Mapping[Any, Future[Any]]:
            client = self._deletion_client(current_thread().name)
            futures: Mapping[Any, Future[Any]] = client.delete_records(
                request, request_timeout=timeout_s, operation_timeout=timeout_s * _BROKER_SHARE
            )
            return {TopicPartition(key.topic, key.partition): future for key, future in futures.items()}

        return _results(before_offsets, send, self.session.deadline())

    def delete_groups(self, groups: Sequence[str]) -> Mapping[str, ItemResult]:
        request = sorted(set(groups))
        return self._call_worker(_delete_in_worker, request, request)

    def elect_leaders(
        self, election: Election, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ItemResult]:
        requested = sorted(set(partitions))

        def send() -> Any:
            request = [ClientPartition(p.topic, p.partition) for p in requested]
            # No timeout arguments: the library raises SystemError. socket.timeout.ms limits it.
            return self.session.client("controller").elect_leaders(ElectionType[election.name], request)

        return _results_of_one(requested, send, self.session.deadline(), lambda answer: answer.items())

    def commit_offsets(self, group: str, offsets: Sequence[CommittedOffset]) -> Mapping[TopicPartition, ItemResult]:
        return self._call_worker(_commit_in_worker, (group, offsets), [commit.at for commit in offsets])

    def _call_worker(
        self, work: Work[Argument, dict[Item, ItemResult]], request: Argument, items: Collection[Item]
    ) -> Mapping[Item, ItemResult]:
        """Return the result of each item of a request from a worker process. It may be sent where the process fails."""
        if not items:
            return {}
        try:
            results = self.session.call_worker(work, request, timeout_s=self.session.timeout_s)
        except _FAILURES as error:
            return dict.fromkeys(items, _result(error))
        crash = ItemResult("_TRANSPORT", "the client crashed during the request to the coordinator")
        return dict.fromkeys(items, crash) if results is None else results

    def refresh(self) -> None:
        self.session.refresh()


def _delete_in_worker(session: KafkaSession, groups: Sequence[str], deadline: Deadline) -> dict[str, ItemResult]:
    return _results(groups, lambda: send_removals(session, groups, deadline), deadline)


def _commit_in_worker(
    session: KafkaSession, request: tuple[str, Sequence[CommittedOffset]], deadline: Deadline
) -> dict[TopicPartition, ItemResult]:
    """Send one OffsetCommit (API key 8) without a member, which a coordinator takes of an EMPTY group only.

    Without metadata: py_to_c_parts would send each text with a NUL byte behind it, the empty one too.
    """
    group, offsets = request
    partitions = [
        ClientPartition(
            commit.topic,
            commit.partition,
            commit.offset,
            leader_epoch=-1 if commit.leader_epoch is None else commit.leader_epoch,
        )
        for commit in offsets
    ]

    def send() -> Any:
        commits = [ConsumerGroupTopicPartitions(group, partitions)]
        client = session.client("coordinators")
        (future,) = client.alter_consumer_group_offsets(commits, request_timeout=deadline.request_timeout_s).values()
        return future

    requested = [commit.at for commit in offsets]
    return _results_of_one(requested, send, deadline, lambda answer: ((p, p.error) for p in answer.topic_partitions))


def _results_of_one(
    requested: Collection[TopicPartition],
    send: Callable[[], Future[Any]],
    deadline: Deadline,
    errors_in: Callable[[Any], Iterable[tuple[ClientPartition, KafkaError | None]]],
) -> dict[TopicPartition, ItemResult]:
    """Return the result of each partition of one request for all of them."""
    if not requested:
        return {}
    try:
        answer = send().result(timeout=deadline.remaining_s + REQUEST_GRACE_S)
    except (ClusterUnreachable, KafkaException, FutureTimeout) as error:
        return dict.fromkeys(requested, _result(error))
    results = {TopicPartition(p.topic, p.partition): _result(error) for p, error in errors_in(answer)}
    missing = ItemResult("_TIMED_OUT", "the answer lacks this partition")
    return {partition: results.get(partition, missing) for partition in requested}


def _results(
    items: Collection[Any], send: Callable[[], Mapping[Any, Future[Any]]], deadline: Deadline
) -> dict[Any, ItemResult]:
    """Return the result of each item. `send` sends all requests, or raises and sends none."""
    if not items:
        return {}
    try:
        futures = send()
    except (ClusterUnreachable, KafkaException) as error:
        return dict.fromkeys(items, _result(error))
    wait(futures.values(), timeout=deadline.remaining_s + REQUEST_GRACE_S)
    return parse_each(
        {item: futures[item] for item in items},
        _future_result,
        lambda failure: ItemResult("_APPLICATION", failure.reason),
    )


def _future_result(future: Future[Any]) -> ItemResult:
    """Return the result of a call. A watermark of -1 is none: the broker does not know one."""
    if not future.done():
        return _result(FutureTimeout())
    if (error := future.exception()) is not None:
        return _result(error)
    low_watermark = getattr(future.result(), "low_watermark", -1)
    return ItemResult("NONE", low_watermark=low_watermark if low_watermark >= 0 else None)


def _result(error: object) -> ItemResult:
    """Return the result for an error of the library, of a broker or of this program; None: success."""
    if error is None:
        return ItemResult("NONE")
    if isinstance(error, ClusterUnreachable):
        return ItemResult("_TRANSPORT", str(error), sent=False)
    if isinstance(error, FutureTimeout):
        return ItemResult("_TIMED_OUT", str(error) or "no answer within the deadline")
    inner = kafka_error(error)
    if inner is None:
        return ItemResult("_APPLICATION", str(error) if isinstance(error, ProgramFailed) else name_failure(error))
    return ItemResult(error_name(inner.code()), text_of(inner))


# The client library has some old names.
_KAFKA_NAMES: Mapping[int, str] = {
    KafkaError.NO_ERROR: "NONE",
    KafkaError.UNKNOWN: "UNKNOWN_SERVER_ERROR",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "UNKNOWN_TOPIC_OR_PARTITION",
    KafkaError.NOT_LEADER_FOR_PARTITION: "NOT_LEADER_OR_FOLLOWER",
    KafkaError.TOPIC_EXCEPTION: "INVALID_TOPIC_EXCEPTION",
}


def error_name(code: int) -> str:
    """Return Kafka's name of a protocol code, or the library's, such as `_TIMED_OUT`."""
    name = _KAFKA_NAMES.get(code) or str(KafkaError(code).name())
    return f"_{name}" if code < -1 and not name.startswith("_") else name
