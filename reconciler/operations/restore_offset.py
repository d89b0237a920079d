"""RestoreOffset: write one offset of a removed group back (OffsetCommit, API key 8).

No policy asks for it, so it is not in OPERATIONS. The request goes to the group's coordinator, without a
member: it is refused where the group has members. The client library cannot write metadata without a
NUL byte behind it, so a restored commit has none.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reconciler.model.block_reason import known
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import NOT_ASKED, CommittedOffset, GroupFacts, GroupState, Unknown
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.error_meanings import ErrorMeaning, ErrorTable, Response, Right
from reconciler.operations.observation import Observation, RecheckFailure, present
from reconciler.operations.sendable import Effect, RunContext, Sendable
from reconciler.text.escape import quoted
from reconciler.text.formatting import count

_COMMIT_BYTES = 150
"""Of one offset in a batch of `__consumer_offsets`, without its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOffset(Sendable):
    """Write one offset of a removed group back, where it still means the same records.

    A group that exists in any state or type is never touched, nor one whose absence is not proven. Once
    this run has sent a request the group may exist, so from then on a commit on the partition counts.
    The same holds for an EMPTY group that has offsets of `removal`, those that were removed together,
    and no other offset: an earlier run wrote them.
    """

    OPERATION: ClassVar[str] = "restore_group"
    TITLE: ClassVar[str] = "offset"
    BATCH_SIZE: ClassVar[int] = 2_500
    BATCH_WEIGHT: ClassVar[int] = 400_000
    """Bytes: one request becomes one batch of `__consumer_offsets`, which takes a megabyte."""
    APPLIED: ClassVar[str] = "written back"
    SATISFIED: ClassVar[str] = "the group has this offset"
    ERRORS: ClassVar[ErrorTable] = {
        ErrorMeaning.READ_BACK: frozenset({"REQUEST_TIMED_OUT"}),
        ErrorMeaning.NOT_READY: frozenset({"COORDINATOR_LOAD_IN_PROGRESS"}),
        ErrorMeaning.RETRY: frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}),
        ErrorMeaning.REFUSED: frozenset(
            {"GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_MEMBER_ID"}
        ),
    }
    RIGHT: ClassVar[Right] = Right("READ", "group", hint=" and on the topic")

    group: str
    commit: CommittedOffset
    removal: tuple[CommittedOffset, ...] = ()

    @property
    def subject(self) -> TopicPartition:
        return self.commit.at

    @property
    def irreversible(self) -> bool:
        return False

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        """Say what the actions at these addresses did. All offsets of a group have its address."""
        return f"{count(len(addresses), 'offset')} of {count(len(set(addresses)), 'group')} restored"

    def request(self) -> Mapping[str, str | int]:
        at = self.commit
        return {"group": self.group, "topic": at.topic, "partition": at.partition, "offset": at.offset}

    def check(self, observation: Observation) -> None:
        """Test that no group of this name exists, and that the log still holds the offset."""
        name, offset = f"group {quoted(self.group)}", self.commit.offset
        group = observation.groups.get(self.group)
        unread = observation.groups_incomplete if group is None else group.listed
        if isinstance(unread, Unknown):
            raise RecheckFailure(Status.FAILED, f"whether {name} exists is not known: {unread.reason}")
        if group is not None:
            state = "" if isinstance(group.state, Unknown) else f", {group.state}"
            detail = f"{name} exists ({group.type}{state}): its offsets are never overwritten"
            raise RecheckFailure(Status.BLOCKED, detail)
        position = observation.positions.get((self.group, self.subject))
        if isinstance(position, Unknown):
            detail = f"whether the group has committed since is not known: {position.reason}"
            raise RecheckFailure(Status.FAILED, detail)
        if position == offset:
            raise RecheckFailure(Status.SATISFIED, self.SATISFIED)
        if position is not None:
            detail = f"the group has committed offset {position} since: it is never overwritten"
            raise RecheckFailure(Status.BLOCKED, detail)
        if self.commit.topic_id is None:
            raise RecheckFailure(Status.BLOCKED, "the topic's id at the removal is not known")
        facts = observation.partition(self.subject, self.commit.topic_id)
        if (log_start := known(facts.log_start, "the log start")) > offset:
            raise RecheckFailure(Status.STALE, f"the log starts at {log_start}, above the offset")
        if (high_watermark := known(facts.high_watermark, "the end")) < offset:
            raise RecheckFailure(Status.STALE, f"the log ends at {high_watermark}, below the offset")

    @property
    def weight(self) -> int:
        """Its bytes in a batch of `__consumer_offsets`."""
        return _COMMIT_BYTES + len((self.group + self.commit.topic).encode("utf-8", "replace"))

    @classmethod
    def observe(cls, actions: Sequence["RestoreOffset"], context: RunContext) -> Observation:
        return observe_restore(actions, context.gateway, context.clock, has_sent=context.announced.is_set())

    @classmethod
    def call_gateway(cls, actions: Sequence["RestoreOffset"], gateway: Gateway) -> Mapping[TopicPartition, ItemResult]:
        return gateway.commit_offsets(actions[0].group, [action.commit for action in actions])

    @classmethod
    def observe_effect(
        cls, actions: Sequence["RestoreOffset"], _responses: Mapping[TopicPartition, Response], context: RunContext
    ) -> Observation:
        positions = context.gateway.read_positions({actions[0].group: [action.subject for action in actions]})
        return Observation(observed_at_ms=context.clock(), positions=positions)

    def effect(self, observation: Observation) -> Effect:
        position = observation.positions.get((self.group, self.subject), NOT_ASKED)
        if isinstance(position, Unknown):
            return Effect(None, f"the offset could not be read back: {position.reason}")
        is_written = position == self.commit.offset
        read_back = "no commit" if position is None else f"offset {position}"
        return Effect(read_back, None if is_written else f"the group has {read_back}, and not {self.commit.offset}")

    def verify(self, attempt: Attempt, response: Response, observation: Observation) -> StepResult:
        """Only the read-back proves a commit, and not after a refusal: a consumer may be at that offset."""
        position = observation.positions[self.group, self.subject]
        if not response.no_effect and self.effect(observation).missing is None:
            return self.reached(attempt.after_response(response), observation)
        if response.code == "NONE" and isinstance(position, int) and position > self.commit.offset:
            outcome = self.reached(attempt.after_response(response), observation)
            return replace(outcome, detail=f"{outcome.detail}; a consumer has gone on since")
        return super(RestoreOffset, self).verify(attempt, response, observation)

    def reached(self, attempt: Attempt, observation: Observation) -> Outcome:
        outcome, metadata = super(RestoreOffset, self).reached(attempt, observation), self.commit.metadata_base64
        if outcome.status is not Status.APPLIED or metadata == "":
            return outcome
        reason = "is not known" if metadata is None else "cannot be written by the client library"
        return replace(outcome, detail=f"{outcome.detail}; without its metadata, which {reason}")


def observe_restore(
    actions: Sequence[RestoreOffset], gateway: Gateway, clock: Callable[[], int], *, has_sent: bool = False
) -> Observation:
    """Read partitions and group. `has_sent`: this run may have created it, so only its commits count."""
    read_at_ms, group, partitions = clock(), actions[0].group, [action.subject for action in actions]
    groups: Mapping[str, GroupFacts] | Unknown = {}
    positions: Mapping[tuple[str, TopicPartition], int | Unknown | None] = {}
    if has_sent:
        positions = gateway.read_positions({group: partitions})
    else:
        groups = gateway.list_groups()
        if not isinstance(groups, Unknown) and group not in groups:
            # No list shows a group that its coordinator is loading.
            groups = {name: facts for name, facts in gateway.read_groups([group]).items() if facts.listed is not False}
        if not isinstance(groups, Unknown) and group in groups and groups[group].state is GroupState.EMPTY:
            wanted = {commit.at: commit.offset for commit in actions[0].removal}
            offsets = gateway.read_groups([group])[group].offsets  # all of them: one elsewhere is of another group
            found = {} if isinstance(offsets, Unknown) else {commit.at: commit.offset for commit in offsets}
            if found and found.items() <= wanted.items():
                groups, positions = {}, {(group, at): offset for at, offset in found.items()}
    return Observation(
        observed_at_ms=read_at_ms,
        partitions=present(gateway.read_partitions(partitions, offsets=True)),
        groups={} if isinstance(groups, Unknown) else groups,
        groups_incomplete=groups if isinstance(groups, Unknown) else None,
        positions=positions,
    )
