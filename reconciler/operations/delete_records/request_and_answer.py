"""The request of a record deletion, and what its answer proves, also where the answer is lost.

The request goes to the partition's leader, and only the log start offset proves what was done.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import ConsumerPosition, Consumers, PartitionFacts, Unknown
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.delete_records.rule import Deletion
from reconciler.operations.delete_records.texts import DeletionTexts
from reconciler.operations.error_meanings import ErrorMeaning, ErrorTable, Response, ResponseAction, Right
from reconciler.operations.observation import Observation, present
from reconciler.operations.sendable import Effect, RunContext
from reconciler.text.escape import quoted


class DeleteRecords(DeletionTexts):
    """Remove all records below `before_offset`, the first offset kept. Irreversible."""

    __slots__ = ()

    OPERATION: ClassVar[str] = "delete_records"
    API: ClassVar[tuple[str, int, int]] = ("DeleteRecords", 21, 0)
    RESTS_ON_REMOVALS: ClassVar[bool] = True
    BATCH_SIZE: ClassVar[int] = 1_000
    """The client library merges answers quadratically above that."""
    LANES: ClassVar[int] = 2
    """Each has its own connection to the leader, and mostly waits for the followers' next fetch."""
    APPLIED: ClassVar[str] = "records deleted, shown by the log start"
    SATISFIED: ClassVar[str] = "the log starts there already"
    ERRORS: ClassVar[ErrorTable] = {
        # In every trial the leader had advanced: the answer waits for the slowest live replica.
        ErrorMeaning.READ_BACK: frozenset({"REQUEST_TIMED_OUT"}),
        ErrorMeaning.NOT_READY: frozenset({"LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"}),
        ErrorMeaning.RETRY: frozenset(
            {"NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "BROKER_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE"}
        ),
        ErrorMeaning.STALE: frozenset({"OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_ID"}),
        # Also the answer of a leader whose replica was removed after the deletion.
        ErrorMeaning.GONE: frozenset({"UNKNOWN_TOPIC_OR_PARTITION"}),
        ErrorMeaning.REFUSED: frozenset({"POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "INVALID_TOPIC_EXCEPTION"}),
    }
    RIGHT: ClassVar[Right] = Right("DELETE", "topic")

    def request(self) -> Mapping[str, str | int]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before_offset": self.before_offset,
        }

    def batch_key(self, attempt: Attempt) -> int:
        """Return the partition's leader, as last read."""
        return self.seen.leader if attempt.broker is None else attempt.broker

    @classmethod
    def connect(cls, gateway: Gateway) -> None:
        gateway.connect_for_deletions()

    @classmethod
    def observe(cls, actions: Sequence[Deletion], context: RunContext) -> Observation:
        read_at_ms = context.clock()
        consumers = context.consumers()
        requested: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for action in actions:
            for group in {*action.guard.named, *(reader.group for reader in action.guard.watched)}:
                requested[group].append(action.partition)
        positions = context.gateway.read_positions(requested)
        # After the positions: a commit above an end that was read before it would seem to be none of this log.
        partitions = context.gateway.read_partitions([action.partition for action in actions], offsets=True)
        return Observation(
            observed_at_ms=read_at_ms,
            partitions={
                partition: replace(facts, readers=_readers(facts, consumers, positions))
                for partition, facts in present(partitions).items()
            },
            groups=consumers.groups,
            groups_incomplete=consumers.incomplete,
            external=consumers.external,
            removed_groups=_still_removed(context.removed_groups, consumers, positions),
        )

    def prepare(self, attempt: Attempt, observation: Observation) -> Attempt:
        facts = observation.partitions[self.partition]
        assert isinstance(facts.log_start, int)
        assert isinstance(facts.leader, int)
        start = facts.log_start if attempt.start is None else min(facts.log_start, attempt.start)
        return replace(attempt, start=start, broker=facts.leader)

    @classmethod
    def call_gateway(cls, actions: Sequence[Deletion], gateway: Gateway) -> Mapping[TopicPartition, ItemResult]:
        return gateway.delete_records({action.partition: action.before_offset for action in actions})

    @classmethod
    def observe_effect(
        cls, actions: Sequence[Deletion], _responses: Mapping[TopicPartition, Response], context: RunContext
    ) -> Observation:
        partitions = context.gateway.read_partitions([action.partition for action in actions], offsets=True)
        return Observation(observed_at_ms=context.clock(), partitions=present(partitions))

    def effect(self, observation: Observation) -> Effect:
        facts = observation.partitions.get(self.partition)
        if facts is None:
            return Effect("gone", "the partition is gone")
        if isinstance(facts.log_start, Unknown):
            return Effect(None, f"the log start could not be read back: {facts.log_start.reason}")
        missing = f"the log start is {facts.log_start}, the target {self.before_offset}"
        return Effect(f"log start {facts.log_start}", missing if facts.log_start < self.before_offset else None)

    def verify(self, attempt: Attempt, response: Response, observation: Observation) -> StepResult:
        """Only the log start offset proves anything; an answer that contradicts it is read back again.

        Source: a broker answers NONE once the low watermark, the lowest log start of the leader, its
        future log and all live replicas, is at the target (ReplicaManager.deleteRecords,
        DelayedDeleteRecords.tryComplete, Partition.lowWatermarkIfLeader). REQUEST_TIMED_OUT tells the one
        of the deletion, other errors -1, and the client library hands on neither. So with NONE a lower one
        is not proof for all replicas, and one above the log start is that of another log.
        """
        facts = observation.partitions.get(self.partition)
        if facts is None or (isinstance(facts.topic_id, str) and facts.topic_id != self.seen.topic_id):
            # Which of the two topics the request met is not known any more.
            detail = "the topic was deleted while the request was under way"
            read_back = self.effect(observation).read_back
            return attempt.after_response(response).outcome(Status.STALE, detail, read_back=read_back)
        responded = attempt.after_response(response)
        if (disagreement := self._disagreement(responded, observation)) is not None:
            return responded.retry_later(disagreement)
        if self.effect(observation).missing is None:
            return self.reached(responded, observation)
        unmoved = facts.log_start == attempt.start and facts.leader == attempt.broker
        if response.answer in (ResponseAction.STALE, ResponseAction.FAILED) and unmoved:
            # The log of the leader that answered begins where it did, so nothing is gone. Another
            # replica would not know.
            response = replace(response, no_effect=True)
        return super().verify(attempt, response, observation)

    def reached(self, attempt: Attempt, observation: Observation) -> Outcome:
        outcome = super().reached(attempt, observation)
        disagreement = self._disagreement(attempt, observation)
        return outcome if disagreement is None else replace(outcome, detail=f"{outcome.detail}; {disagreement}")

    def _disagreement(self, attempt: Attempt, observation: Observation) -> str | None:
        """Return how the newest low watermark disagrees with target or log start; None: not at all."""
        low_watermark = None if attempt.last is None else attempt.last.low_watermark
        log_start = observation.partitions[self.partition].log_start
        if low_watermark is None:
            return None
        if low_watermark < self.before_offset:
            lag = f"low watermark {low_watermark}, below the target {self.before_offset}"
            return f"the broker answered NONE with {lag}: not proven on all live replicas"
        if isinstance(log_start, int) and low_watermark > log_start:
            return f"the log start is {log_start}, below the low watermark {low_watermark} that the broker answered"
        return None


def _still_removed(
    removed_groups: Collection[str],
    consumers: Consumers,
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None],
) -> frozenset[str]:
    """Return the removed groups without those that were created again: they are listed, or have commits."""
    committed = {group for (group, _at), position in positions.items() if position is not None}
    committed |= {group for group, _at in consumers.pending}
    return frozenset(removed_groups) - consumers.groups.keys() - committed


def _readers(
    facts: PartitionFacts,
    consumers: Consumers,
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None],
) -> tuple[ConsumerPosition, ...] | Unknown:
    """Return the consumers of a partition. `positions`: newer commits of some groups; None: no commit.

    The recheck has read from `__consumer_offsets` for which topic a group has committed.
    """
    partition, log_start = facts.partition, facts.log_start
    if isinstance(log_start, Unknown):
        return log_start
    by_group: dict[str, int | Unknown | None] = {
        group: commits.get(partition.partition) for group, commits in consumers.commits.get(partition.topic, {}).items()
    }
    for (group, at), committed in positions.items():
        if at == partition and (committed is not None or group in by_group):
            by_group[group] = committed
    readers = []
    for group, committed in sorted(by_group.items()):
        if isinstance(committed, Unknown):
            return Unknown(f"the position of group {quoted(group)}: {committed.reason}")
        offset = log_start if committed is None else committed
        pending = consumers.pending.get((group, partition))
        readers.append(
            ConsumerPosition(group, offset, without_commit=committed is None, topic_id=None, pending=pending)
        )
    return tuple(readers)
