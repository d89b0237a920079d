"""Group removals: the last look before each DeleteGroups, the request, and the proof by the listing and the group's coordinator.

A group that was made again under the same name is another group: it is told by its commits, and never removed in the place of the
first.
"""

from collections.abc import Iterator, Sequence

from reconciler.apply.attempt import NOTHING_DONE, Attempt
from reconciler.apply.context import ApplyContext, CheckResult, ReadyAction, StepResult, partition_ready
from reconciler.apply.tuning import BatchLimits
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult, ResponseAction
from reconciler.model.snapshot import GroupFacts, GroupState, Unknown
from reconciler.operations.delete_group import DeleteGroup

GroupAttempt = Attempt[DeleteGroup]


def lanes(pending: Sequence[GroupAttempt], settings: BatchLimits) -> list[list[Sequence[GroupAttempt]]]:
    """A few batches side by side; each goes to all coordinators at once."""
    size, beside = settings.groups_per_call, settings.group_calls_at_once
    batches: list[Sequence[GroupAttempt]] = [pending[at : at + size] for at in range(0, len(pending), size)]
    return [lane for lane in (batches[first::beside] for first in range(beside)) if lane]


def step(batch: Sequence[GroupAttempt], run: ApplyContext) -> Iterator[StepResult]:
    """One round: look, store the intents, send, look again."""

    def look(attempts: Sequence[GroupAttempt]) -> CheckResult:
        now = run.gateway.read_groups([attempt.action.group for attempt in attempts])
        ready, rest = partition_ready(check(attempt, now[attempt.action.group]) for attempt in attempts)
        # The commits are read last. The list takes as long as the slowest broker, and what it said of members the coordinator finds out itself.
        return CheckResult(ready=ready, rest=rest, at_ms=run.clock())

    seen = look(batch)
    yield from seen.rest
    ready, rest = run.begin(seen.ready, look, seen_at_ms=seen.at_ms)
    yield from rest
    if not ready:
        return
    groups = [go.attempt.action.group for go in ready]
    answers = run.gateway.delete_groups(groups)
    after = run.gateway.read_groups(groups)
    for go in ready:
        yield settle(go.attempt, answers[go.attempt.action.group], after[go.attempt.action.group])


def check(attempt: GroupAttempt, now: GroupFacts) -> ReadyAction | StepResult:
    """Whether the request may go out: still listed, same type, EMPTY, same commits."""
    if isinstance(now.listed, Unknown):
        return attempt.again(f"whether the group exists could not be read: {now.listed.reason}")
    if not now.listed:
        return _absent(attempt)
    seen = attempt.action.seen
    for fact in (now.type, now.state, now.fingerprint):
        if isinstance(fact, Unknown):
            return attempt.again(f"the group could not be read: {fact.reason}")
    moved = None
    if now.type != seen.type:
        moved = f"its type is {now.type}, it was {seen.type}"
    elif now.state is not GroupState.EMPTY:
        moved = f"it is {now.state}"
    elif now.fingerprint != seen.fingerprint:
        moved = "its commits are not those of the plan"
    if moved is None and not attempt.done:
        return ReadyAction(attempt=attempt)
    if attempt.done:
        return _there_after_done(attempt, now, moved)
    return attempt.end(Status.STALE, f"{moved}{NOTHING_DONE}", read_back=_shown(now))


def settle(attempt: GroupAttempt, answer: ItemResult, after: GroupFacts) -> StepResult:
    """What the answer and the listing afterwards make of it."""
    attempt = attempt.sent(answer)
    gone = after.listed is False
    match answer.answer:
        case ResponseAction.DONE if gone:
            return _absent(attempt)
        case ResponseAction.DONE if after.listed is True and answer.no_effect and not attempt.possible:
            if not _other_commits(attempt.action, after):
                return attempt.again("the broker knows no such group, and the same one is listed")
            detail = "someone else removed it; a group of that name was made since"
            return attempt.end(Status.SATISFIED, detail, read_back=_shown(after))
        case ResponseAction.DONE if after.listed is True:
            moved = "its commits are others" if _other_commits(attempt.action, after) else None
            return _there_after_done(attempt, after, moved)
        case ResponseAction.READ_BACK | ResponseAction.RETRY if gone:
            return _absent(attempt)
        case ResponseAction.DONE | ResponseAction.READ_BACK | ResponseAction.RETRY:
            why = after.listed.reason if isinstance(after.listed, Unknown) else "the group is still listed"
            return attempt.again(why)
        case ResponseAction.STALE:
            return attempt.end(Status.STALE, f"{answer.text or answer.code}{NOTHING_DONE}", read_back=_shown(after))
        case ResponseAction.FAILED | ResponseAction.HALVE | ResponseAction.WAITING if gone:
            # An absent group answers a caller without rights just so.
            return _absent(attempt)
        case ResponseAction.FAILED | ResponseAction.HALVE | ResponseAction.WAITING:
            return attempt.end(Status.FAILED, answer.text or answer.code, read_back=_shown(after))


def _other_commits(action: DeleteGroup, now: GroupFacts) -> bool:
    return isinstance(now.fingerprint, str) and now.fingerprint != action.seen.fingerprint


def _absent(attempt: GroupAttempt) -> Outcome:
    if attempt.possible:
        return attempt.end(Status.APPLIED, "removed, absent from a complete listing", read_back="absent")
    return attempt.end(Status.SATISFIED, "someone else removed it, absent from a complete listing", read_back="absent")


def _there_after_done(attempt: GroupAttempt, now: GroupFacts, moved: str | None) -> Outcome:
    """The broker said done and a group of that name is listed: made again by someone, or the answer was not true."""
    if moved is None and now.state is GroupState.EMPTY:
        return attempt.end(
            Status.FAILED, "the broker said done, and the same group is still listed", read_back=_shown(now)
        )
    detail = "removed; a group of that name was made since" + (f" ({moved})" if moved else "")
    return attempt.end(Status.APPLIED, detail, read_back=_shown(now))


def _shown(now: GroupFacts) -> str | None:
    if now.listed is False:
        return "absent"
    if isinstance(now.listed, Unknown) or isinstance(now.state, Unknown):
        return None
    return f"listed, {now.state}"
