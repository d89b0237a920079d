"""DeleteGroup: remove one consumer group and its committed offsets (KIP-229, API key 42).

The request goes to the group's coordinator. A group that was made again under the same name is
another group: its commits tell, and it is never removed in the place of the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, quote_group, unknown_fact
from reconciler.model.bounds import EpochMs, Int32, Int64, NonEmpty
from reconciler.model.description import Description, Fact
from reconciler.model.outcome import Status
from reconciler.model.ports import Gateway, ItemResult, ResponseAction
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.base import Operation, RunContext, beyond_review
from reconciler.operations.limit import Limit, LimitUsage
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.topic_checks import suggestion
from reconciler.text.escape import quoted
from reconciler.text.formatting import approximate_duration, count, format_duration, format_time
from reconciler.text.phrase import escaped_name, name, sentence, strong

REMOVABLE = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})
"""The only types that are ever removed: DeleteGroups takes share groups just as easily (KIP-932)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """The group as the scan saw it. `last_activity_ms` and `newest_record` are None only where `idleFor: 0s` gave up the evidence."""

    type: GroupType
    state: GroupState
    commits: int
    commit_topics: int
    fingerprint: NonEmpty
    last_activity_ms: EpochMs | None
    newest_record: tuple[Int32, Int64] | None


def absence_block(group: str, facts: GroupFacts | None, snapshot: ClusterSnapshot) -> BlockReason | None:
    """Return why an unlisted group is not proven to be gone; None: it is gone.

    Missing rights make a group look absent, and groups of hidden types are never listed. Facts of a
    group that is not listed mean that the commit log or the old list call still know something of it.
    """
    if facts is not None:
        if isinstance(facts.type, Unknown):
            return unknown_fact(f"the type of group {quote_group(group)}", facts.type)
        if facts.type not in REMOVABLE:
            return wrong_type(group, facts.type, ())
        why = "is not listed, but the cluster still holds something of it"
    elif snapshot.groups_incomplete is None:
        return None
    else:
        hint = suggestion(group, snapshot.groups)
        why = f"is not listed, but the list is incomplete: {snapshot.groups_incomplete.reason}{hint}"
    return BlockReason(
        code="B301",
        reason=f"group {quote_group(group)} {why}",
        next_step="grant DESCRIBE on the cluster and on the group (`doctor` tells which right is missing), then plan again",
        unread=True,
    )


def wrong_type(group: str, type_: GroupType, types: Iterable[str]) -> BlockReason:
    """Return the block of a group whose type may not be removed, by the policy's `types` or by any."""
    if type_ in REMOVABLE:
        return BlockReason(
            code="B302",
            reason=f"{quote_group(group)} is a {type_} group; types allows {' and '.join(types)} only",
            next_step="take it out of groups, or correct types",
        )
    kind = "of a type that the cluster does not tell" if type_ is GroupType.HIDDEN else f"a {type_} group"
    return BlockReason(
        code="B302",
        reason=f"{quote_group(group)} is {kind}; only {' and '.join(sorted(REMOVABLE))} groups are ever removed",
        next_step="take it out of groups",
    )


def _groups_of_cluster(snapshot: ClusterSnapshot, _bucket: str) -> int | Unknown:
    """An incomplete list makes the share look larger, which is the safe side."""
    listed = sum(group.listed is True for group in snapshot.groups.values())
    return listed or Unknown("the cluster's groups count 0, which cannot be when some are to be lost")


GROUPS = Limit(field="groups", id="groups", default=20, description="Groups removed.", words="groups removed")
GROUPS_PERCENT = Limit(
    field="groups_percent",
    id="groupsPercent",
    default=50,
    description="Share of the cluster's groups.",
    words="groups removed, of those of the cluster",
    whole=_groups_of_cluster,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup(Operation):
    """Remove one consumer group and all its committed offsets. Irreversible."""

    OPERATION: ClassVar[str] = "delete_group"
    NOUN: ClassVar[str] = "group removals"
    API: ClassVar[tuple[str, int, int]] = ("DeleteGroups", 42, 0)
    LIMITS: ClassVar[tuple[Limit, ...]] = (GROUPS, GROUPS_PERCENT)
    BATCH_SIZE: ClassVar[int] = 500
    LANES: ClassVar[int] = 2
    """The look of one batch goes on while coordinators carry out the other."""
    APPLIED: ClassVar[str] = "removed, absent from a complete listing"
    SATISFIED: ClassVar[str] = "someone else removed it, absent from a complete listing"

    group: NonEmpty
    idle_for_ms: int
    seen: ObservedGroup

    @property
    def subject(self) -> str:
        return self.group

    @property
    def irreversible(self) -> bool:
        return True

    @property
    def removed_group(self) -> str:
        return self.group

    def request(self) -> Mapping[str, str | int]:
        return {"group": self.group}

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
        if self.idle_for_ms and (self.seen.newest_record is None or self.seen.last_activity_ms is None):
            raise ValueError(
                "idle_for_ms is set and the evidence of idleness (last_activity_ms, newest_record) is missing"
            )

    # --- reports

    TITLE: ClassVar[str] = "group removal"
    DRIFT_TYPE: ClassVar[str] = "group"
    DRIFT_TEXT: ClassVar[str] = "the group is still there"

    def describe(self) -> Description:
        commits, topics = count(self.seen.commits, "committed offset"), count(self.seen.commit_topics, "topic")
        return Description(
            sign="-",
            subject=(escaped_name(quoted(self.group)),),
            loss=(strong(commits), f" on {topics}"),
            notes=(("because ", sentence(self.reason)),),
        )

    def explain(self) -> tuple[Fact, ...]:
        seen = self.seen
        commits, topics = count(seen.commits, "committed offset"), count(seen.commit_topics, "topic")
        facts: list[Fact] = [
            ("Request", ("DeleteGroups ", escaped_name(quoted(self.group)))),
            ("Facts", (f"{seen.type} group, {seen.state}",)),
            ("", (f"{commits} on {topics}, all lost",)),
            ("", ("fingerprint of its commits ", name(seen.fingerprint))),
        ]
        if seen.last_activity_ms is None or seen.newest_record is None:
            facts.append(("Idle", ("no evidence was asked for: idleFor is 0s",)))
        else:
            partition, offset = seen.newest_record
            since, limit = format_time(seen.last_activity_ms), approximate_duration(self.idle_for_ms)
            facts.append(("Idle", (f"since {since}; idleFor asks for {limit}",)))
            facts.append(("", (f"its newest record is __consumer_offsets[{partition}] offset {offset}",)))
        conditions = "still listed, same type, EMPTY, same commits, no newer record in the commit log"
        return (*facts, ("Rechecked", (conditions,)), ("Undo", ("impossible",)))

    # --- plan

    def limit_usage(self) -> Iterator[LimitUsage]:
        yield LimitUsage(GROUPS)
        yield LimitUsage(GROUPS_PERCENT)

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, DeleteGroup) or reviewed.group != self.group:
            return beyond_review("new: the reviewed plan does not remove it")
        if reviewed.seen.type is not self.seen.type or reviewed.seen.fingerprint != self.seen.fingerprint:
            return beyond_review("the group has other commits than the reviewed plan saw")
        if self.idle_for_ms < reviewed.idle_for_ms:
            return beyond_review(
                f"idleFor is {format_duration(self.idle_for_ms)}, it was {format_duration(reviewed.idle_for_ms)} in "
                "the reviewed plan"
            )
        return self

    # --- recheck

    @classmethod
    def scan_request(cls, actions: Iterable["DeleteGroup"]) -> ScanRequest:
        by_evidence: dict[bool, list[str]] = {}
        for action in actions:
            by_evidence.setdefault(action.seen.newest_record is not None, []).append(action.group)
        return ScanRequest(
            groups=tuple(
                GroupRequest(groups=tuple(map(Selector.literal, groups)), activity=activity)
                for activity, groups in by_evidence.items()
            )
        )

    def recheck(self, observation: Observation) -> RecheckFailure | None:
        """Still listed, of the same type, EMPTY, with the same commits and no newer record."""
        name = f"group {quote_group(self.group)}"
        block = observation.protection.of_group(self.group)
        if block is not None:
            return RecheckFailure(status=Status.BLOCKED, detail=block.reason)
        facts = observation.snapshot.groups.get(self.group)
        if facts is not None and isinstance(facts.listed, Unknown):
            return RecheckFailure.unread(f"whether {name} exists", facts.listed)
        if facts is None or not facts.listed:
            if observation.complete:
                unproven = absence_block(self.group, facts, observation.snapshot)
                if unproven is not None:
                    return RecheckFailure.of(unproven)
            return RecheckFailure(status=Status.SATISFIED, detail="gone already")
        if isinstance(facts.type, Unknown):
            return RecheckFailure.unread(f"the type of {name}", facts.type)
        if facts.type not in REMOVABLE:
            detail = f"{name} is of type {facts.type}, which is never removed"
            return RecheckFailure(status=Status.BLOCKED, detail=detail)
        if facts.type is not self.seen.type:
            detail = f"{name} is of type {facts.type} now, it was {self.seen.type}"
            return RecheckFailure(status=Status.STALE, detail=detail)
        if isinstance(facts.state, Unknown) or facts.state is GroupState.UNKNOWN:
            return RecheckFailure(status=Status.FAILED, detail=f"the state of {name} could not be read")
        if facts.state is not GroupState.EMPTY:
            return RecheckFailure(status=Status.STALE, detail=f"{name} is {facts.state} now")
        if isinstance(facts.fingerprint, Unknown):
            return RecheckFailure.unread(f"the commits of {name}", facts.fingerprint)
        if facts.fingerprint != self.seen.fingerprint:
            return RecheckFailure(status=Status.STALE, detail=f"{name} has other commits than the plan saw")
        if self.seen.newest_record is None or not observation.complete:
            return None
        if isinstance(facts.newest_record, Unknown):
            return RecheckFailure.unread(f"the activity of {name}", facts.newest_record)
        if facts.newest_record != self.seen.newest_record:
            return RecheckFailure(status=Status.STALE, detail=f"the commit log holds a newer record of {name}")
        return None

    # --- apply

    @classmethod
    def observe(cls, actions: Sequence["DeleteGroup"], context: RunContext) -> Observation:
        groups = context.gateway.read_groups([action.group for action in actions])
        # The commits are read last. The list takes as long as the slowest broker, and what it said of
        # members the coordinator finds out itself.
        return Observation.before_request(now_ms=context.clock(), groups=groups)

    @classmethod
    def send(cls, actions: Sequence["DeleteGroup"], gateway: Gateway) -> Mapping[str, ItemResult]:
        return gateway.delete_groups([action.group for action in actions])

    def is_reached(self, observation: Observation) -> bool:
        return observation.snapshot.groups[self.group].listed is False

    def read_back(self, observation: Observation) -> str | None:
        facts = observation.snapshot.groups[self.group]
        if facts.listed is False:
            return "absent"
        if isinstance(facts.listed, Unknown) or isinstance(facts.state, Unknown):
            return None
        return f"listed, {facts.state}"

    def not_reached(self, observation: Observation) -> str:
        listed = observation.snapshot.groups[self.group].listed
        return listed.reason if isinstance(listed, Unknown) else "the group is still listed"

    def verify(self, attempt: Attempt[Any], result: ItemResult, observation: Observation) -> StepResult:
        facts = observation.snapshot.groups[self.group]
        if result.answer is not ResponseAction.STALE and self.is_reached(observation):
            # Also after a refusal: an absent group answers a caller without rights with one.
            return self.reached(attempt.after_response(result), observation)
        if result.answer is ResponseAction.DONE and facts.listed is True:
            before, attempt = attempt, attempt.after_response(result)
            if not (result.no_effect and not before.possible):
                change = "its commits are others" if self._has_other_commits(facts) else None
                return self._listed_after_done(attempt, observation, change)
            if not self._has_other_commits(facts):
                return attempt.retry_later("the broker knows no such group, and the same one is listed")
            detail = "someone else removed it; a group of that name was made since"
            return attempt.outcome(Status.SATISFIED, detail, read_back=self.read_back(observation))
        return super(DeleteGroup, self).verify(attempt, result, observation)

    def after_done(
        self, attempt: Attempt[Any], failure: RecheckFailure | None, observation: Observation
    ) -> StepResult | None:
        if failure is not None and failure.status not in (Status.STALE, Status.BLOCKED):
            return None
        return self._listed_after_done(attempt, observation, None if failure is None else failure.detail)

    def _listed_after_done(self, attempt: Attempt[Any], observation: Observation, change: str | None) -> StepResult:
        """The broker said done and a group of that name is listed: it was made again, or the answer was not true."""
        facts = observation.snapshot.groups[self.group]
        read_back = self.read_back(observation)
        if change is None and facts.state is GroupState.EMPTY:
            detail = "the broker said done, and the same group is still listed"
            return attempt.outcome(Status.FAILED, detail, read_back=read_back)
        detail = "removed; a group of that name was made since" + (f" ({change})" if change else "")
        return attempt.outcome(Status.APPLIED, detail, read_back=read_back)

    def _has_other_commits(self, facts: GroupFacts) -> bool:
        return isinstance(facts.fingerprint, str) and facts.fingerprint != self.seen.fingerprint
