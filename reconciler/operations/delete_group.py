"""DeleteGroup: remove one consumer group and its committed offsets (KIP-229, API key 42).

The request goes to the group's coordinator. A group that was created again under the same name is
another group: its commits tell, and it is never removed in the place of the first.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, known, unread
from reconciler.model.bounds import OMIT_DEFAULT, EpochMs, Int32, Int64, NonEmpty
from reconciler.model.description import Description, Fact, IdleGroup
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import Cause, ClusterSnapshot, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.base import NO_LIMITS, Limit, LimitUsage, Operation, beyond_review
from reconciler.operations.consumers import STORE_REMOVAL
from reconciler.operations.error_meanings import ErrorMeaning, ErrorTable, Response, ResponseAction, Right
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.sendable import Effect, RunContext
from reconciler.text.escape import quoted
from reconciler.text.formatting import approximate_duration, count, format_duration, format_time
from reconciler.text.phrase import escaped_name, name, sentence, strong
from reconciler.text.suggest import suggestion_of_many

_ABSENT = "absent"
_NOT_STORED = (
    "the group is not listed, and __consumer_offsets holds no record of its removal: unless one follows, the group "
    f"is back with its next coordinator. If so, {STORE_REMOVAL}"
)
REMOVABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER, GroupType.STREAMS})
"""The only types that are ever removed: DeleteGroups also deletes share groups (KIP-932)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """The group as the scan saw it.

    None where `idleFor: 0s` needs no evidence. `observations`: how many show instead of a newest record that
    it is idle.
    """

    type: GroupType
    state: GroupState
    commits: int
    commit_topics: int
    fingerprint: NonEmpty
    last_activity_ms: EpochMs | None
    newest_record: tuple[Int32, Int64] | None
    observations: Int32 = field(default=0, metadata=OMIT_DEFAULT)


def check_absence(group: str, facts: GroupFacts | None, snapshot: ClusterSnapshot) -> None:
    """Raise BlockReason where an unlisted group is not proven to be gone.

    Missing rights hide groups, and `__consumer_offsets` or the old list call may still know one.
    """
    incomplete = snapshot.groups_incomplete
    if facts is not None:
        check_type(group, facts, REMOVABLE)
        state = "the cluster still holds something of it"
    elif incomplete is not None:
        hint = suggestion_of_many(group, snapshot.groups, before="; ", quote=quoted)
        state = f"the list is incomplete: {incomplete.reason}{hint}"
    else:
        return
    reason = f"group {quoted(group)} is not listed, but {state}"
    if incomplete is not None:
        raise unread("B301", reason, incomplete)
    next_step = f"plan again; if it stays, its removal was not stored: {STORE_REMOVAL}"
    raise BlockReason("B301", reason, next_step=next_step, unread=True)


_KINDS: Mapping[GroupType, str] = {
    GroupType.HIDDEN: "of a type that the cluster does not tell",
    GroupType.OTHER: "a group of a protocol of its own",
}


def check_type(group: str, facts: GroupFacts, types: Collection[str]) -> GroupType:
    """Return the type of a group that may be removed. Raises BlockReason for another one."""
    type_ = known(facts.type, "the type of group", quoted(group))
    if type_ in types:
        return type_
    kind = _KINDS.get(type_, f"a {type_} group")
    *others, last = sorted(REMOVABLE)
    allowed, next_step = f"only {', '.join(others)} and {last} groups are ever removed", ""
    if type_ in REMOVABLE:
        allowed, next_step = (
            f"types allows {' and '.join(types)} only",
            f"take it out of groups, or add {type_} to types",
        )
    raise BlockReason("B302", f"{quoted(group)} is {kind}; {allowed}", next_step=next_step)


def _groups_of_cluster(snapshot: ClusterSnapshot, _bucket: str) -> int | Unknown:
    """An incomplete list makes the share look larger, which is the safe side."""
    listed = sum(group.listed is True for group in snapshot.groups.values())
    return listed or Unknown("the cluster's groups count 0, although one is to be removed")


GROUPS = Limit("groups", 20, "groups removed")
GROUPS_PERCENT = Limit(
    "groups_percent", 50, "share of the cluster's groups removed", _groups_of_cluster, of_list="groups"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Operation):
    """Remove one consumer group and all its committed offsets.

    It counts as irreversible: `RestoreOffset` writes back only offsets that still mean the same records.
    """

    OPERATION: ClassVar[str] = "delete_group"
    TITLE: ClassVar[str] = "group removal"
    HEADING: ClassVar[str] = "groups removed, with their committed offsets"
    FIELD_WORDS: ClassVar[Mapping[str, str]] = {
        "approved.type": "type of the group",
        "approved.fingerprint": "fingerprint of its committed offsets",
        "approved.newest_record": "place of its newest record in __consumer_offsets",
        "approved.idle_for_ms": "idleFor",
    }
    API: ClassVar[tuple[str, int, int]] = ("DeleteGroups", 42, 0)
    LIMITS: ClassVar[tuple[Limit, ...]] = (GROUPS, GROUPS_PERCENT)
    BATCH_SIZE: ClassVar[int] = 5_000
    """The check before a batch and the read-back after it each list all groups of the cluster."""
    BATCH_WEIGHT: ClassVar[int] = 100_000
    """Most commits of a batch of several groups: they are read in seconds, and held in memory."""
    APPLIED: ClassVar[str] = "removed, absent from a complete listing"
    SATISFIED: ClassVar[str] = "another client removed it, absent from a complete listing"
    ERRORS: ClassVar[ErrorTable] = {
        # Not here: UNKNOWN_SERVER_ERROR, which the coordinator of KIP-848 also answers where the group's tombstones
        # are larger than max.message.bytes of __consumer_offsets, about 9,000 commits (MESSAGE_TOO_LARGE).
        ErrorMeaning.ALREADY_DONE: frozenset({"GROUP_ID_NOT_FOUND"}),
        ErrorMeaning.READ_BACK: frozenset({"REQUEST_TIMED_OUT"}),
        ErrorMeaning.NOT_READY: frozenset({"COORDINATOR_LOAD_IN_PROGRESS"}),
        ErrorMeaning.RETRY: frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"}),
        ErrorMeaning.STALE: frozenset({"NON_EMPTY_GROUP"}),
        # A caller without the right gets GROUP_AUTHORIZATION_FAILED for absent groups, too.
        ErrorMeaning.REFUSED: frozenset({"INVALID_GROUP_ID", "GROUP_AUTHORIZATION_FAILED"}),
    }
    RIGHT: ClassVar[Right] = Right("DELETE", "group")

    group: NonEmpty
    idle_for_ms: int
    seen: ObservedGroup

    @property
    def removed_group(self) -> str:
        return self.group

    def request(self) -> Mapping[str, str | int]:
        return {"group": self.group}

    def figure(self) -> IdleGroup:
        return IdleGroup(
            group=self.group,
            idle_since_ms=self.seen.last_activity_ms,
            required_ms=self.idle_for_ms,
            commits=self.seen.commits,
        )

    # --- plan file

    def approved(self) -> Mapping[str, object]:
        return {
            "type": self.seen.type,
            "fingerprint": self.seen.fingerprint,
            "newest_record": self.seen.newest_record,
            "idle_for_ms": self.idle_for_ms,
        }

    def impact(self) -> Mapping[str, object]:
        return {"commits_lost": self.seen.commits, "topics": self.seen.commit_topics}

    def __post_init__(self) -> None:
        self.check_subject(self.group)
        has_evidence = self.seen.newest_record is not None or self.seen.observations
        if self.idle_for_ms and (self.seen.last_activity_ms is None or not has_evidence):
            raise ValueError("idle_for_ms is set, but last_activity_ms or newest_record is missing")
        if self.seen.type is GroupType.STREAMS and self.seen.newest_record is None:
            raise ValueError("a Streams group is EMPTY by its newest_record only, and that is missing")

    # --- reports

    DRIFT_TYPE: ClassVar[str] = "group"
    DRIFT_TEXT: ClassVar[str] = "the group is still there"

    def describe(self) -> Description:
        commits, topics = count(self.seen.commits, "committed offset"), count(self.seen.commit_topics, "topic")
        last_ms, reason = self.seen.last_activity_ms, sentence(self.reason)
        # Without __consumer_offsets the reason says what else goes, so it is never left out.
        since = None if last_ms is None or self.seen.newest_record is None else f"idle since {format_time(last_ms)}"
        return Description(
            subject=(escaped_name(quoted(self.group)),),
            loss=(strong(commits), f" on {topics}"),
            change=(since or reason,),
            notes=(("because ", reason),) if since else (),
        )

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        return f"{count(len(addresses), 'group')} removed"

    @classmethod
    def total_loss(cls, actions: Sequence["DeleteGroup"], _observed: Mapping[str, float] = NO_LIMITS) -> str:
        return count(sum(action.seen.commits for action in actions), "committed offset")

    def explain(self) -> Iterator[Fact]:
        seen = self.seen
        commits, topics = count(seen.commits, "committed offset"), count(seen.commit_topics, "topic")
        yield "Request", ("DeleteGroups ", escaped_name(quoted(self.group)))
        yield "Facts", (f"{seen.type} group, {seen.state}",)
        yield "", (f"{commits} on {topics}, all removed",)
        yield "", ("fingerprint of its commits ", name(seen.fingerprint))
        rechecked = "still listed, same type, EMPTY, same commits"
        if seen.last_activity_ms is None:
            yield "Idle", ("no evidence was asked for: idleFor is 0s",)
        else:
            since, limit = format_time(seen.last_activity_ms), approximate_duration(self.idle_for_ms)
            yield "Idle", (f"since {since}; idleFor asks for {limit}",)
            if seen.newest_record is None:
                yield "", (f"by {count(seen.observations, 'observation')}: __consumer_offsets is hidden",)
            else:
                partition, offset = seen.newest_record
                yield "", (f"its newest record is __consumer_offsets[{partition}] offset {offset}",)
                rechecked += ", no newer record in __consumer_offsets"
        yield "Rechecked", (rechecked,)
        undo = "reconciler restore-group writes the offsets back from the results file or the journal"
        yield "Undo", (f"{undo}, where topic and records are still there",)

    # --- plan

    def limit_usage(self) -> Iterator[LimitUsage]:
        yield LimitUsage(GROUPS)
        yield LimitUsage(GROUPS_PERCENT)

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, DeleteGroup) or reviewed.group != self.group:
            return beyond_review("new: the reviewed plan does not remove it")
        if reviewed.seen.type is not self.seen.type:
            return beyond_review(
                f"the group is of type {self.seen.type}, it was {reviewed.seen.type} in the reviewed plan"
            )
        if reviewed.seen.fingerprint != self.seen.fingerprint:
            return beyond_review("the group has other commits than the reviewed plan saw")
        if self.idle_for_ms < reviewed.idle_for_ms:
            idle_for, before = format_duration(self.idle_for_ms), format_duration(reviewed.idle_for_ms)
            return beyond_review(f"idleFor is {idle_for}, it was {before} in the reviewed plan")
        if reviewed.seen.newest_record not in (None, self.seen.newest_record):
            if self.seen.newest_record is None:
                return beyond_review("__consumer_offsets is hidden now, and the reviewed plan read it")
            return beyond_review("__consumer_offsets holds a newer record of the group than the reviewed plan saw")
        return self

    # --- recheck

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.groups.get(self.group)
        if facts is not None or snapshot.groups_incomplete is not None:
            return None
        return "not listed any more"

    def check(self, observation: Observation) -> None:
        """Test that it is listed and EMPTY, with the same type and commits, and no newer record or open transaction."""
        name = f"group {quoted(self.group)}"
        facts = observation.groups.get(self.group)
        if facts is None or not known(facts.listed, f"whether {name} exists"):
            if facts is not None and (missing := self._not_stored(facts.newest_record)) is not None:
                raise RecheckFailure(Status.FAILED, missing)
            raise RecheckFailure(Status.SATISFIED, "not listed any more")
        type_ = known(facts.type, "the type of", name)
        if type_ not in REMOVABLE:
            raise RecheckFailure(Status.BLOCKED, f"{name} is of type {type_}, which is never removed")
        if type_ is not self.seen.type:
            raise RecheckFailure(Status.STALE, f"{name} is of type {type_} now, it was {self.seen.type}")
        if isinstance(facts.state, Unknown) or facts.state is GroupState.UNKNOWN:
            raise RecheckFailure(Status.FAILED, f"the state of {name} could not be read")
        if facts.state is not GroupState.EMPTY:
            raise RecheckFailure(Status.STALE, f"{name} is {facts.state} now")
        if self.seen.commits and facts.commits == 0:
            # The list call and the commits are two requests: another run removed it between them.
            raise RecheckFailure(Status.FAILED, f"{name} has no commits any more, and is still listed")
        is_pending = isinstance(facts.fingerprint, Unknown) and facts.fingerprint.cause is Cause.OPEN_TRANSACTION
        if not is_pending and known(facts.fingerprint, "the commits of", name) != self.seen.fingerprint:
            raise RecheckFailure(Status.STALE, f"{name} has other commits than the plan saw")
        newest_record = self.seen.newest_record
        if newest_record is not None and known(facts.newest_record, "the activity of", name) != newest_record:
            raise RecheckFailure(Status.STALE, f"__consumer_offsets holds a newer record of {name}")
        if is_pending:
            raise RecheckFailure(Status.STALE, f"{name} has a commit in an open transaction")

    # --- apply

    def note_effect(self, outcome: Outcome, context: RunContext) -> None:
        if outcome.read_back in (None, _ABSENT):  # None: of the recheck of the plan
            context.removed_groups.add(self.group)

    @property
    def weight(self) -> int:
        return self.seen.commits

    @classmethod
    def observe(cls, actions: Sequence["DeleteGroup"], context: RunContext) -> Observation:
        read = context.gateway.read_groups([action.group for action in actions], hidden=_has_streams(actions))
        groups = {group: _with_commit_records(facts, context.known_groups.get(group)) for group, facts in read.items()}
        # The log is read last: it alone shows a commit of the same offset, and one in an open
        # transaction. The coordinator itself refuses a group with members.
        groups = _with_newest_records(groups, _newest_records(actions, context))
        for action in actions:
            if action.seen.type is GroupType.STREAMS and groups[action.group].listed is True:
                # No call describes it. The log told type and state to the plan, and a record since then is found.
                groups[action.group] = replace(groups[action.group], type=action.seen.type, state=action.seen.state)
        return Observation(observed_at_ms=context.clock(), groups=groups)

    def step_before_request(self, attempt: Attempt, observation: Observation) -> StepResult | None:
        failure = self.recheck(observation) if attempt.confirmed else None
        if attempt.confirmed and (failure is None or failure.status in (Status.STALE, Status.BLOCKED)):
            return self._listed_though_removed(attempt, observation, None if failure is None else failure.detail)
        return super(DeleteGroup, self).step_before_request(attempt, observation)

    def prepare(self, attempt: Attempt, observation: Observation) -> Attempt:
        offsets = observation.groups[self.group].offsets
        return replace(attempt, removed_offsets=None if isinstance(offsets, Unknown) else offsets)

    @classmethod
    def call_gateway(cls, actions: Sequence["DeleteGroup"], gateway: Gateway) -> Mapping[str, ItemResult]:
        return gateway.delete_groups([action.group for action in actions])

    @classmethod
    def observe_effect(
        cls, actions: Sequence["DeleteGroup"], responses: Mapping[str, Response], context: RunContext
    ) -> Observation:
        """Wait until `__consumer_offsets` shows the tombstones of removed groups, then list the groups.

        Up to Kafka 3.9 a coordinator answers NONE, and forgets the group, before any follower has the tombstones,
        and also where it could not write them (GroupMetadataManager.cleanupGroupMetadata, acks 0). The one of
        KIP-848 answers afterwards.
        """
        newest: dict[str, tuple[int, int] | Unknown] = {}
        pending = [action for action in actions if action._leaves_tombstones]
        removed = [action.group for action in pending if responses[action.group].code == "NONE"]
        for _ in context.polls():
            newest |= _newest_records(pending, context)
            answered = [action for action in pending if responses[action.group].answer is ResponseAction.DONE]
            pending = [action for action in answered if action._not_stored(newest[action.group])]
            if not pending:
                break
        removed = [group for group in removed if group not in {action.group for action in pending}]
        names, hidden = [action.group for action in actions], _has_streams(actions)
        groups = _with_newest_records(context.gateway.read_groups(names, removed=removed, hidden=hidden), newest)
        return Observation(observed_at_ms=context.clock(), groups=groups)

    @property
    def _leaves_tombstones(self) -> bool:
        """Whether `__consumer_offsets` shows that a removal is stored; otherwise the coordinator's word counts.

        A group that never had members has no record besides its commits, and up to Kafka 3.9 no other tombstone.
        """
        return self.seen.newest_record is not None and self.seen.commits > 0

    def _not_stored(self, newest_record: tuple[int, int] | Unknown) -> str | None:
        """Return why the group may be back with its next coordinator; None: its removal is stored, or nothing can tell."""
        if not self._leaves_tombstones:
            return None
        if isinstance(newest_record, Unknown):
            return f"the group is not listed, and whether its removal is stored is not known: {newest_record.reason}"
        return _NOT_STORED if newest_record == self.seen.newest_record else None

    def effect(self, observation: Observation) -> Effect:
        facts = observation.groups[self.group]
        if facts.listed is False:
            missing = self._not_stored(facts.newest_record)
            return Effect("not listed" if missing else _ABSENT, missing)
        if isinstance(facts.listed, Unknown):
            return Effect(None, facts.listed.reason)
        state = None if isinstance(facts.state, Unknown) else f"listed, {facts.state}"
        return Effect(state, "the group is still listed")

    def verify(self, attempt: Attempt, response: Response, observation: Observation) -> StepResult:
        facts, effect = observation.groups[self.group], self.effect(observation)
        if response.answer is not ResponseAction.STALE and effect.missing is None:
            # Also after a refusal: an absent group answers a caller without rights with one.
            return self.reached(attempt.after_response(response), observation)
        if response.answer is not ResponseAction.DONE or facts.listed is not True:
            return super(DeleteGroup, self).verify(attempt, response, observation)
        attempt = attempt.after_response(response)
        has_other_commits = isinstance(facts.fingerprint, str) and facts.fingerprint != self.seen.fingerprint
        if attempt.possible:
            change = "its commits are others" if has_other_commits else None
            if change is None and self._leaves_tombstones and self._not_stored(facts.newest_record) is None:
                change = "__consumer_offsets holds newer records of it"  # the same offsets, committed again
            return self._listed_though_removed(attempt, observation, change)
        if not has_other_commits:
            return attempt.retry_later("the broker knows no such group, and the same one is listed")
        detail = "another client removed it; a group of that name was created since"
        return attempt.outcome(Status.SATISFIED, detail, read_back=effect.read_back)

    def _listed_though_removed(self, attempt: Attempt, observation: Observation, change: str | None) -> StepResult:
        """End an attempt that a broker called done, although a group of that name is listed."""
        read_back, state = self.effect(observation).read_back, observation.groups[self.group].state
        if change is None and state is GroupState.EMPTY:
            detail = "the broker answered NONE, and the same group is still listed"
            return attempt.outcome(Status.FAILED, detail, read_back=read_back)
        is_unread = isinstance(state, Unknown) or state is GroupState.UNKNOWN
        if state is GroupState.DEAD or (change is None and is_unread):
            return attempt.retry_later("the broker answered NONE, and a group of that name is still listed")
        detail = "removed; a group of that name was created since" + (f" ({change})" if change else "")
        return attempt.outcome(Status.APPLIED, detail, read_back=read_back)


def _newest_records(actions: Sequence[DeleteGroup], context: RunContext) -> dict[str, tuple[int, int] | Unknown]:
    """Return the newest record of each group whose evidence is one, read from where the recheck stopped."""
    newest = {action.group: action.seen.newest_record for action in actions if action.seen.newest_record is not None}
    starts = {
        number: context.consumer_offsets_ends.get(number, 1 + min(at for n, at in newest.values() if n == number))
        for number, _ in newest.values()
    }
    tails = context.gateway.read_consumer_offsets(starts)
    return {
        group: tail if isinstance(tail := tails[number], Unknown) else (number, tail.get(group, offset))
        for group, (number, offset) in newest.items()
    }


def _with_newest_records(
    groups: Mapping[str, GroupFacts], newest: Mapping[str, tuple[int, int] | Unknown]
) -> dict[str, GroupFacts]:
    return {
        group: replace(facts, newest_record=newest[group]) if group in newest else facts
        for group, facts in groups.items()
    }


def _has_streams(actions: Sequence[DeleteGroup]) -> bool:
    """Return whether only the old list call shows one of the groups."""
    return any(action.seen.type is GroupType.STREAMS for action in actions)


def _with_commit_records(facts: GroupFacts, scanned: GroupFacts | None) -> GroupFacts:
    """Return the facts with what only `__consumer_offsets` tells: topic ids of commits, and their metadata.

    A commit of a deleted topic stays if its coordinator was away then. The check finds every later one.
    A record with another offset is of a transaction that is open or was aborted.
    """
    if scanned is None or isinstance(facts.offsets, Unknown):
        return facts
    offsets = []
    for commit in facts.offsets:
        record = scanned.commit_records.get(commit.at)
        if record is not None and record.offset == commit.offset:
            topic_id = record.topic_id or commit.topic_id
            commit = replace(commit, topic_id=topic_id, metadata_base64=record.metadata_base64)
        offsets.append(commit)
    return replace(facts, offsets=tuple(offsets))
