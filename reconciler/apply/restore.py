"""Writes the offsets of a removed group back, where they still mean the same records.

Decided here: from which removal the offsets are, which of them may be written, and what became of
each. A group that exists in any state or type is never touched, nor one whose absence is not proven.
Where it takes several requests, the later ones write no offset where the group has one by then.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from reconciler.apply import results
from reconciler.errors import JournalUnavailable, PlanUnusable
from reconciler.journal.entry import Event, parse
from reconciler.model.action import Action, Mode
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.names import NOWHERE, Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, ItemResult
from reconciler.model.snapshot import CommittedOffset, PartitionFacts, Unknown
from reconciler.operations import DeleteGroup
from reconciler.operations.observation import RecheckFailure
from reconciler.operations.touchable import suggestion
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import count, format_time
from reconciler.text.validation import error_reason

_LOG = logging.getLogger(__name__)

_REQUEST_BYTES = 400_000
"""One request becomes one batch of `__consumer_offsets`, which takes a megabyte."""
_COMMIT_BYTES = 150
"""Of one offset in such a batch, without its names."""
_REFUSALS = frozenset({"GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_MEMBER_ID"})
"""Answers that prove that nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The removal of a group, from a results file or the journal.

    `address`: of the action that removed it. `plan_digest`: of its plan. `source`: for people.
    `cluster_id` None: a journal does not name it; topic ids tell clusters apart, too.
    """

    address: Address
    group: str
    offsets: tuple[CommittedOffset, ...]
    plan_digest: str
    source: str
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreGroup(Action):
    """Commit offsets for a group that does not exist. No policy and no plan yields it."""

    OPERATION: ClassVar[str] = "restore_group"

    group: str
    partitions: int

    @property
    def irreversible(self) -> bool:
        return False

    def request(self) -> Mapping[str, str | int]:
        return {"group": self.group, "partitions": self.partitions}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """Which offsets of a removal may be written now.

    `group_failure`: why none; None: the group is proven to be absent. `failures`: why not that of a
    partition.
    """

    removal: Removal
    group_failure: RecheckFailure | None
    failures: Mapping[TopicPartition, RecheckFailure]

    @property
    def writable(self) -> tuple[CommittedOffset, ...]:
        """The offsets that may be written."""
        if self.group_failure is not None:
            return ()
        return tuple(commit for commit in self.removal.offsets if commit.at not in self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreContext:
    """One run of the command. `stop`, `sending`: as in `ApplyContext`. `record`: stores in the journal."""

    gateway: Gateway
    record: Callable[[Action | Outcome, tuple[CommittedOffset, ...]], None]
    stop: Callable[[], bool]
    sending: Callable[[], None]


def find_removal(text: str, group: str, *, name: str) -> Removal:
    """Return the newest removal of a group in a results file, or in lines of `journal -o json`.

    `name`: of the file, for messages. Raises PlanUnusable.
    """
    try:
        removals = list(_of_journal(text) if text.startswith('{"v":') else _of_results(text))
    except ValueError as error:
        raise PlanUnusable(
            f"{name} is neither a results file nor the output of `reconciler journal -o json`: {error_reason(error)}; pass the file of "
            "`apply --results`"
        ) from None
    same = [removal for removal in removals if removal.group == group]
    if not same:
        hint = suggestion(group, {removal.group for removal in removals})
        number = count(len(removals), "removed group")
        raise PlanUnusable(f"{name} holds no offsets of group {quoted(group)}, but those of {number}{hint}")
    if not same[-1].offsets:
        raise PlanUnusable(
            f"group {quoted(group)} had no committed offset when it was removed: there is nothing to restore"
        )
    twice = next((at for at, number in Counter(commit.at for commit in same[-1].offsets).items() if number > 1), None)
    if twice is not None:
        raise PlanUnusable(
            f"{name} holds more than one offset of group {quoted(group)} for {display_name(str(twice))}, as no run writes "
            "it: nothing was done; pass the file as `apply --results` wrote it"
        )
    return same[-1]


def _of_results(text: str) -> Iterator[Removal]:
    header, rows = results.parse(text)
    for row in rows:
        if row.operation == DeleteGroup.OPERATION and row.removed_offsets is not None:
            yield Removal(
                address=row.address,
                group=row.address.name,
                offsets=row.removed_offsets,
                plan_digest=header.plan_digest,
                source=f"the results of run {header.run_id}, {format_time(header.finished_at_ms)}",
                cluster_id=header.cluster_id,
            )


def _of_journal(text: str) -> Iterator[Removal]:
    """The removals of each group, in the order of their intents, without those that were never sent.

    Many offsets are in several entries, and the intent of each try has all of them.
    """
    removals: dict[tuple[Address, str], Removal] = {}
    for entry in chain.from_iterable(parse(line.encode()) for line in filter(None, text.splitlines())):
        if entry.operation != DeleteGroup.OPERATION:
            continue
        key = entry.address, entry.run_id
        if entry.event is Event.OUTCOME and entry.sends == 0:
            removals.pop(key, None)
        elif entry.event is Event.INTENT and entry.removed_offsets is not None:
            earlier = removals.pop(key).offsets if key in removals else ()
            offsets = {commit.at: commit for commit in (*earlier, *entry.removed_offsets)}
            removals[key] = Removal(
                address=entry.address,
                group=entry.address.name,
                offsets=tuple(offsets.values()),
                plan_digest=entry.plan_digest,
                source=f"the intent of run {entry.run_id} in the journal, {format_time(entry.at_ms)}",
            )
    yield from removals.values()


def plan(removal: Removal, gateway: Gateway) -> RestorePlan:
    """Check the group and every partition on the cluster as it is now."""
    partitions = gateway.read_partitions([commit.at for commit in removal.offsets], offsets=True)
    failures = {commit.at: _check_offset(commit, partitions[commit.at]) for commit in removal.offsets}
    return RestorePlan(
        removal=removal,
        group_failure=_check_absence(removal.group, gateway),
        failures={at: failure for at, failure in failures.items() if failure is not None},
    )


def _check_absence(group: str, gateway: Gateway) -> RecheckFailure | None:
    """Return why a group may exist; None: the listings and its coordinator prove that it does not."""
    name = f"group {quoted(group)}"
    groups = gateway.list_groups()
    if isinstance(groups, Unknown):
        return RecheckFailure(Status.FAILED, f"whether {name} exists is not known: {groups.reason}")
    facts = groups.get(group)
    if facts is None:
        facts = gateway.read_groups([group])[group]
        if facts.listed is False:
            return None
    if isinstance(facts.listed, Unknown):
        return RecheckFailure(Status.FAILED, f"whether {name} exists is not known: {facts.listed.reason}")
    state = "" if isinstance(facts.state, Unknown) else f", {facts.state}"
    return RecheckFailure(Status.BLOCKED, f"{name} exists ({facts.type}{state}): its offsets are never overwritten")


def _check_offset(commit: CommittedOffset, facts: PartitionFacts | None) -> RecheckFailure | None:
    """Return why an offset does not mean the same records any more; None: it does."""
    if commit.topic_id is None:
        return RecheckFailure(Status.BLOCKED, "the topic's id at the removal is not known")
    if facts is None:
        return RecheckFailure(Status.STALE, "the partition is gone")
    try:
        topic_id = known(facts.topic_id, "the topic's id")
        log_start, high_watermark = known(facts.log_start, "the log start"), known(facts.high_watermark, "the end")
    except BlockReason as error:
        return RecheckFailure(Status.FAILED, error.reason)
    if topic_id != commit.topic_id:
        change = f"its id is {topic_id}, the offset is of {commit.topic_id}"
        return RecheckFailure(Status.STALE, f"the topic was deleted and created again: {change}")
    if log_start > commit.offset:
        return RecheckFailure(Status.STALE, f"the log starts at {log_start}, above the offset")
    if high_watermark < commit.offset:
        return RecheckFailure(Status.STALE, f"the log ends at {high_watermark}, below the offset")
    return None


def restore(planned: RestorePlan, context: RestoreContext) -> dict[TopicPartition, Outcome]:
    """Write what was planned and still holds, read it back, and return what became of each partition.

    Raises JournalUnavailable where the intent cannot be stored; nothing is written then.
    """
    removal = planned.removal
    action = _action(planned)
    context.record(action, planned.writable)
    now = plan(removal, context.gateway)
    results_of: dict[TopicPartition, ItemResult] = {}
    outcomes: dict[TopicPartition, Outcome] = {}
    requests, offsets = 0, set(now.writable)
    for batch in _batches(removal.group, [commit for commit in planned.writable if commit in offsets]):
        if context.stop():
            break
        # From the first request on the group exists, so that a consumer may commit between two of them.
        in_use = _in_use(context.gateway, action, batch) if requests else {}
        outcomes |= in_use
        if still := [commit for commit in batch if commit.at not in in_use]:
            context.sending()
            results_of |= context.gateway.commit_offsets(removal.group, still)
            requests += 1
    positions = context.gateway.read_positions({removal.group: list(results_of)})
    outcomes |= unwritten(now, action) | unwritten(planned, action)
    for commit in planned.writable:
        if commit.at in results_of:
            position = positions[removal.group, commit.at]
            outcomes[commit.at] = _outcome(action, commit, results_of[commit.at], position)
        elif commit.at not in outcomes:
            outcomes[commit.at] = Outcome(action=action, status=Status.NOT_ATTEMPTED, detail="interrupted")
    try:
        context.record(_summary(action, removal.offsets, outcomes, requests), ())
    except JournalUnavailable as error:  # what was written stays written
        _LOG.warning("%s", error)
    return {commit.at: outcomes[commit.at] for commit in removal.offsets}


def _in_use(gateway: Gateway, action: RestoreGroup, batch: Sequence[CommittedOffset]) -> dict[TopicPartition, Outcome]:
    """Return the outcome of each offset of a batch on whose partition the group has a commit by now."""
    positions = gateway.read_positions({action.group: [commit.at for commit in batch]})
    outcomes = {}
    for commit in batch:
        position = positions[action.group, commit.at]
        if isinstance(position, Unknown):
            detail = f"whether the group has committed since is not known: {position.reason}"
            outcomes[commit.at] = Outcome(action=action, status=Status.FAILED, detail=detail)
        elif position is not None:
            detail = f"the group has committed offset {position} since: it is never overwritten"
            outcomes[commit.at] = Outcome(action=action, status=Status.BLOCKED, detail=detail)
    return outcomes


def unwritten(planned: RestorePlan, action: Action | None = None) -> dict[TopicPartition, Outcome]:
    """Return the outcome of each partition whose offset may not be written."""
    action = action or _action(planned)
    failures = {commit.at: planned.failures.get(commit.at, planned.group_failure) for commit in planned.removal.offsets}
    return {
        at: Outcome(action=action, status=failure.status, detail=failure.detail)
        for at, failure in failures.items()
        if failure is not None
    }


def _action(planned: RestorePlan) -> RestoreGroup:
    removal = planned.removal
    return RestoreGroup(
        address=removal.address,
        declared_at=NOWHERE,
        reason=removal.source,
        mode=Mode.MERGE,
        group=removal.group,
        partitions=len(planned.writable),
    )


def _batches(group: str, offsets: Sequence[CommittedOffset]) -> Iterator[list[CommittedOffset]]:
    """Split offsets into requests whose commits fit into one batch of the commit log."""
    batch: list[CommittedOffset] = []
    size = 0
    for commit in offsets:
        commit_bytes = _COMMIT_BYTES + sum(len(text.encode("utf-8", "replace")) for text in (group, commit.topic))
        if batch and size + commit_bytes > _REQUEST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(commit)
        size += commit_bytes
    if batch:
        yield batch


def _outcome(action: Action, commit: CommittedOffset, result: ItemResult, position: int | Unknown | None) -> Outcome:
    """Return what a request and the read-back make of one offset. A consumer may have gone on since."""
    is_written = isinstance(position, int) and (
        (position == commit.offset and result.code not in _REFUSALS)
        or (position > commit.offset and result.code == "NONE")
    )
    if is_written:
        detail = "written back" if position == commit.offset else "written back, and a consumer has gone on since"
    elif isinstance(position, Unknown):
        detail = f"the offset could not be read back: {position.reason}"
    elif result.code.endswith("_AUTHORIZATION_FAILED"):
        detail = "a right is missing: the request needs READ on the group and on the topic"
    else:
        detail = result.text or "the broker answered NONE, and the offset is another one"
    read_back = None if isinstance(position, Unknown) else "no commit" if position is None else f"offset {position}"
    return Outcome(
        action=action,
        status=Status.APPLIED if is_written else Status.FAILED,
        detail=detail,
        code=result.code,
        read_back=read_back,
        sends=int(result.sent),
        possible=is_written or (result.sent and result.code not in _REFUSALS),
    )


def note_metadata(commits: Iterable[CommittedOffset]) -> str:
    """Return a part of a sentence about the metadata that restored commits lack; empty: they lack none.

    The client library cannot write metadata without a NUL byte behind it.
    """
    lost = [commit.metadata_base64 for commit in commits if commit.metadata_base64 != ""]
    if not lost:
        return ""
    unknown = lost.count(None)
    reasons = [f"the client library cannot write that of {len(lost) - unknown}"] if unknown < len(lost) else []
    reasons += [f"that of {unknown} is not known"] if unknown else []
    return f"; metadata of {count(len(lost), 'partition')} not restored: {', '.join(reasons)}"


def _summary(
    action: Action, commits: Sequence[CommittedOffset], outcomes: Mapping[TopicPartition, Outcome], requests: int
) -> Outcome:
    """Return the journal's outcome: APPLIED only where every offset of the removal is back."""
    written = [commit for commit in commits if outcomes[commit.at].status is Status.APPLIED]
    worst = next((o for o in outcomes.values() if o.status is not Status.APPLIED), None)
    detail = f"{len(written)} of {count(len(outcomes), 'offset')} written back{note_metadata(written)}"
    return Outcome(
        action=action,
        status=Status.APPLIED if worst is None else worst.status,
        detail=detail if worst is None else f"{detail}; first of the others: {worst.detail}",
        sends=requests,
        possible=any(outcome.possible for outcome in outcomes.values()),
        intended=True,
    )
