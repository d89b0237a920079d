"""Record deletions: the last look before each DeleteRecords, the request to one leader, and the proof by the log start.

The targets are the plan's, absolute and frozen: nothing here can make one higher. Every fact that cannot be read stops the request,
never the question.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.apply.attempt import Attempt
from reconciler.apply.context import ApplyContext, CheckResult, ReadyAction, Sorted, StepResult, partition_ready
from reconciler.apply.tuning import BatchLimits
from reconciler.errors import JournalUnavailable
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult, ResponseAction
from reconciler.model.selector import Selector
from reconciler.model.snapshot import PartitionFacts, Unknown
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords

RecordsAttempt = Attempt[DeleteRecords]
Commits = Mapping[tuple[str, TopicPartition], int | Unknown | None]


def batches(pending: Sequence[RecordsAttempt], settings: BatchLimits) -> list[list[Sequence[RecordsAttempt]]]:
    """Leaders side by side, a few batches of each at once."""
    by_leader: dict[int, list[RecordsAttempt]] = {}
    for attempt in pending:
        leader = attempt.action.seen.leader if attempt.leader is None else attempt.leader
        by_leader.setdefault(leader, []).append(attempt)
    size = settings.records_per_call
    beside: list[list[Sequence[RecordsAttempt]]] = []
    for _, led in sorted(by_leader.items()):
        batches: list[Sequence[RecordsAttempt]] = [led[at : at + size] for at in range(0, len(led), size)]
        beside += [batches[first :: settings.calls_per_leader] for first in range(settings.calls_per_leader)]
    return [lane for lane in beside if lane]


def execute_batch(
    batch: Sequence[RecordsAttempt], run: ApplyContext, *, removed_groups: frozenset[str]
) -> Iterator[StepResult]:
    """One round for partitions that should have one leader; where they have several, one after the other, each looked at anew."""

    def look(attempts: Sequence[RecordsAttempt]) -> CheckResult:
        return _look(attempts, run, removed_groups)

    seen = look(batch)
    yield from seen.rest
    by_leader: dict[int | None, list[ReadyAction]] = {}
    for go in seen.ready:
        by_leader.setdefault(go.leader, []).append(go)
    if len(by_leader) > 1:
        for led in by_leader.values():
            yield from execute_batch([go.attempt for go in led], run, removed_groups=removed_groups)
        return
    ready, rest = run.begin(seen.ready, look, seen_at_ms=seen.at_ms, still=lambda begun: _alone(begun, run))
    yield from rest
    if ready:
        yield from _send(ready, run)


def _look(attempts: Sequence[RecordsAttempt], run: ApplyContext, removed_groups: frozenset[str]) -> CheckResult:
    seen_at_ms = run.clock()
    purges = _purges_of_others(attempts, run)
    if purges is None:
        return CheckResult(ready=[], rest=list(attempts), at_ms=seen_at_ms)
    now = run.gateway.read_partitions([attempt.action.partition for attempt in attempts], offsets=True)
    commits = run.gateway.read_positions(_positions_wanted(attempts))
    at_ms = run.clock()
    ready, rest = partition_ready(
        recheck(
            attempt,
            now[attempt.action.partition],
            commits,
            last_purge_ms=purges.get(attempt.action.partition),
            now_ms=at_ms,
            removed_groups=removed_groups,
        )
        for attempt in attempts
    )
    return CheckResult(ready=ready, rest=rest, at_ms=seen_at_ms)


def _alone(begun: Sequence[ReadyAction], run: ApplyContext) -> Sorted:
    """Two runs may look at the clock at the same time, and both find that nobody purged: here each sees the other's intent, and waits."""
    purges = _purges_of_others([go.attempt for go in begun], run)
    if purges is None:
        return [], [go.attempt for go in begun]
    now_ms = run.clock()
    return partition_ready(_too_soon(go.attempt, purges.get(go.attempt.action.partition), now_ms) or go for go in begun)


def _purges_of_others(attempts: Sequence[RecordsAttempt], run: ApplyContext) -> Mapping[TopicPartition, int] | None:
    """The clock of those that have one; None: it cannot be read, and the run stops. The interval is between purges, not between two tries of one."""
    if all(attempt.action.guard.every_ms is None for attempt in attempts):
        return {}
    try:
        return run.journal.last_purges(except_run=run.run_id)
    except JournalUnavailable as unavailable:
        run.halt(str(unavailable))
        return None


def _send(ready: Sequence[ReadyAction], run: ApplyContext) -> Iterator[StepResult]:
    """One request to the leader of the first; leaders may have moved while intents were stored."""
    leader = ready[0].leader
    yield from (go.attempt.again(f"broker {go.leader} leads it by now") for go in ready if go.leader != leader)
    led = [go for go in ready if go.leader == leader]
    targets = {go.attempt.action.partition: go.attempt.action.before_offset for go in led}
    answers = run.gateway.delete_records(targets)
    after = run.gateway.read_partitions(targets, offsets=True)
    for go in led:
        partition = go.attempt.action.partition
        yield verify(go.attempt, answers[partition], after[partition])


def recheck(
    attempt: RecordsAttempt,
    now: PartitionFacts | None,
    commits: Commits,
    *,
    last_purge_ms: int | None,
    now_ms: int,
    removed_groups: frozenset[str],
) -> ReadyAction | StepResult:
    """Whether the request may go out: same topic, something left to delete, every named group past it, no reader further behind."""
    action = attempt.action
    if now is None:
        return attempt.end(Status.STALE, f"{action.partition} is gone", read_back="gone")
    if isinstance(now.topic_id, Unknown):
        return attempt.again(f"the topic's id could not be read: {now.topic_id.reason}")
    if now.topic_id != action.seen.topic_id:
        return attempt.end(Status.STALE, "the topic was deleted and made again since the plan", read_back=_shown(now))
    if isinstance(now.log_start, Unknown):
        return attempt.again(f"the log start could not be read: {now.log_start.reason}")
    if now.log_start >= action.before_offset:
        return _already(attempt, now)
    if now.log_start < action.seen.log_start:
        # A replica that leads since then may begin earlier: more would go than the plan said.
        detail = f"the log starts at {now.log_start}, it was {action.seen.log_start} in the plan"
        return attempt.end(Status.STALE, detail, read_back=_shown(now))
    if isinstance(now.high_watermark, Unknown):
        return attempt.again(f"the high watermark could not be read: {now.high_watermark.reason}")
    if now.high_watermark < action.seen.high_watermark:
        # Cut off by an election out of sync, and perhaps filled again: below the target there may be records that nobody reviewed.
        detail = f"the high watermark is {now.high_watermark}, it was {action.seen.high_watermark} in the plan"
        return attempt.end(Status.STALE, detail, read_back=_shown(now))
    objection = _readers(attempt, commits, removed_groups)
    if objection is not None:
        return objection
    if (waiting := _too_soon(attempt, last_purge_ms, now_ms, read_back=_shown(now))) is not None:
        return waiting
    if not isinstance(now.leader, int):
        return attempt.again("the partition has no leader")
    start = now.log_start if attempt.log_start is None else min(now.log_start, attempt.log_start)
    return ReadyAction(attempt=replace(attempt, log_start=start, leader=now.leader), leader=now.leader)


def _too_soon(
    attempt: RecordsAttempt, last_purge_ms: int | None, now_ms: int, *, read_back: str | None = None
) -> StepResult | None:
    every_ms = attempt.action.guard.every_ms
    if every_ms is None or last_purge_ms is None or now_ms - last_purge_ms > every_ms:
        return None
    ago_s = (now_ms - last_purge_ms) / 1000
    detail = f"purged {ago_s:.0f} s ago, and the least time between two purges is {every_ms / 1000:.0f} s"
    # Of one that was sent nobody could say that it only waits.
    return attempt.again(detail) if attempt.possible else attempt.end(Status.WAITING, detail, read_back=read_back)


def verify(attempt: RecordsAttempt, answer: ItemResult, after: PartitionFacts | None) -> StepResult:
    """What the answer and the log start afterwards make of it. Only the log start proves anything."""
    before, attempt = attempt, attempt.sent(answer)
    action = attempt.action
    if after is None or (isinstance(after.topic_id, str) and after.topic_id != action.seen.topic_id):
        # Which incarnation the request met is not known any more.
        return attempt.end(
            Status.STALE, "the topic was deleted while the request was under way", read_back=_shown(after)
        )
    reached = isinstance(after.log_start, int) and after.log_start >= action.before_offset
    unmoved = after.log_start == before.log_start and after.leader == before.leader
    if answer.answer in (ResponseAction.STALE, ResponseAction.FAILED) and unmoved:
        # The log of the leader that answered begins where it did: whatever it meant, nothing is gone. Another replica would not know.
        attempt = replace(attempt, possible=before.possible)
    match answer.answer:
        case _ if reached:
            return _already(attempt, after)
        case ResponseAction.DONE | ResponseAction.READ_BACK | ResponseAction.RETRY:
            if isinstance(after.log_start, Unknown):
                return attempt.again(f"the log start could not be read back: {after.log_start.reason}")
            return attempt.again(f"the log start is {after.log_start}, the target {action.before_offset}")
        case ResponseAction.STALE:
            return attempt.end(Status.STALE, answer.text or answer.code, read_back=_shown(after))
        case ResponseAction.WAITING:
            return attempt.end(Status.WAITING, answer.text or answer.code, read_back=_shown(after))
        case ResponseAction.FAILED | ResponseAction.HALVE:
            return attempt.end(Status.FAILED, answer.text or answer.code, read_back=_shown(after))


def _already(attempt: RecordsAttempt, now: PartitionFacts) -> Outcome:
    if attempt.possible:
        return attempt.end(Status.APPLIED, "records deleted, shown by the log start", read_back=_shown(now))
    return attempt.end(Status.SATISFIED, "the log starts there already", read_back=_shown(now))


def _readers(attempt: RecordsAttempt, commits: Commits, removed_groups: frozenset[str]) -> StepResult | None:
    action = attempt.action
    for group in action.guard.named:
        position = commits[group, action.partition]
        if isinstance(position, Unknown):
            return attempt.again(f"the position of {group!r} could not be read: {position.reason}")
        if position is None:
            return attempt.end(Status.STALE, f"{group!r} has no commit any more")
        if position < action.before_offset:
            detail = f"{group!r} went back to {position}, below the target {action.before_offset}"
            return attempt.end(Status.STALE, detail)
    for reader in _looked_at(action):
        position = commits[reader.group, action.partition]
        if isinstance(position, Unknown):
            return attempt.again(f"the position of {reader.group!r} could not be read: {position.reason}")
        if position is None:
            # Standing at the log start it may only have come closer; and whom this run removed reads nothing any more.
            if reader.committed <= action.seen.log_start or reader.group in removed_groups:
                continue
            return attempt.end(
                Status.STALE, f"{reader.group!r} has no commit any more; {reader.committed} was accepted"
            )
        if position < reader.committed:
            detail = f"{reader.group!r} went back to {position}, further than the {reader.committed} that was accepted"
            return attempt.end(Status.STALE, detail)
    return None


def _positions_wanted(batch: Sequence[RecordsAttempt]) -> dict[str, list[TopicPartition]]:
    wanted: dict[str, list[TopicPartition]] = {}
    for attempt in batch:
        guard = attempt.action.guard
        for group in {*guard.named, *(reader.group for reader in _looked_at(attempt.action))}:
            wanted.setdefault(group, []).append(attempt.action.partition)
    return wanted


def _looked_at(action: DeleteRecords) -> Iterator[AcceptedLag]:
    """The readers that were accepted where they stood, but for those that exceptGroups leaves alone wherever they are."""
    excepted = [Selector(text) for text in action.guard.except_groups]
    return (r for r in action.guard.accepted if not any(selector.matches(r.group) for selector in excepted))


def _shown(now: PartitionFacts | None) -> str | None:
    if now is None:
        return "gone"
    return f"log start {now.log_start}" if isinstance(now.log_start, int) else None
