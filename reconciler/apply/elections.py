"""Leader elections: the last look before each ElectLeaders, the request, and the proof by the metadata.

A broker's "done" can mean that another replica was chosen: only the leader that the metadata shows counts. A batch is followed by
the next one when its leaders are seen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.apply.attempt import Attempt
from reconciler.apply.context import ApplyContext, CheckResult, ReadyAction, StepResult, partition_ready
from reconciler.apply.tuning import BatchLimits
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import ItemResult, ResponseAction
from reconciler.model.snapshot import PartitionFacts, Unknown
from reconciler.operations.elect_leader import ElectLeader

ElectionAttempt = Attempt[ElectLeader]

_POLL_MS = 100


def lanes(pending: Sequence[ElectionAttempt], settings: BatchLimits) -> list[list[Sequence[ElectionAttempt]]]:
    """Batches of one election type, one after another: there is one controller."""
    size = settings.elections_per_call
    batches: list[Sequence[ElectionAttempt]] = []
    for election in Election:
        same = [attempt for attempt in pending if attempt.action.election is election]
        batches += [same[at : at + size] for at in range(0, len(same), size)]
    return [batches]


def step(batch: Sequence[ElectionAttempt], run: ApplyContext) -> Iterator[StepResult]:
    """One round for partitions of one election type. A batch that the broker finds too large is halved, each half looked at anew."""

    def look(attempts: Sequence[ElectionAttempt]) -> CheckResult:
        at_ms = run.clock()
        now = run.gateway.read_partitions([attempt.action.partition for attempt in attempts], offsets=False)
        ready, rest = partition_ready(check(attempt, now[attempt.action.partition]) for attempt in attempts)
        return CheckResult(ready=ready, rest=rest, at_ms=at_ms)

    seen = look(batch)
    yield from seen.rest
    ready, rest = run.begin(seen.ready, look, seen_at_ms=seen.at_ms)
    yield from rest
    if not ready:
        return
    partitions = [go.attempt.action.partition for go in ready]
    answers = run.gateway.elect_leaders(batch[0].action.election, partitions)
    if len(ready) > 1 and all(answer.answer is ResponseAction.HALVE for answer in answers.values()):
        middle = len(ready) // 2
        for half in (ready[:middle], ready[middle:]):
            yield from step([go.attempt.sent(answers[go.attempt.action.partition]) for go in half], run)
        return
    after = _seen(ready, answers, run)
    for go in ready:
        partition = go.attempt.action.partition
        yield settle(go.attempt, answers[partition], after[partition])


def check(attempt: ElectionAttempt, now: PartitionFacts | None) -> ReadyAction | StepResult:
    """Whether the request may go out: same topic, same replicas, the wanted leader in sync and not leading yet."""
    action = attempt.action
    if now is None:
        return attempt.end(Status.STALE, f"{action.partition} is gone", read_back="gone")
    if isinstance(now.topic_id, Unknown):
        return attempt.again(f"the topic's id could not be read: {now.topic_id.reason}")
    if now.topic_id != action.seen.topic_id:
        return attempt.end(Status.STALE, "the topic was deleted and made again since the plan", read_back=_shown(now))
    for fact in (now.replicas, now.in_sync, now.leader):
        if isinstance(fact, Unknown):
            return attempt.again(f"the partition could not be read: {fact.reason}")
    if _is_wanted(action, now):
        return _leads(attempt, now)
    if now.replicas != action.seen.replicas:
        return attempt.end(Status.STALE, f"its replicas are {_ids(now.replicas)} now", read_back=_shown(now))
    in_sync = () if isinstance(now.in_sync, Unknown) else now.in_sync
    if action.leader_wanted is not None and action.leader_wanted not in in_sync:
        return attempt.end(Status.STALE, f"broker {action.leader_wanted} is not in sync now", read_back=_shown(now))
    return ReadyAction(attempt=attempt)


def settle(attempt: ElectionAttempt, answer: ItemResult, after: PartitionFacts | None) -> StepResult:
    """What the answer and the metadata afterwards make of it."""
    attempt = attempt.sent(answer)
    seen = (
        after is not None
        and _is_wanted(attempt.action, after)
        and after.topic_id == attempt.action.seen.topic_id
    )
    match answer.answer:
        case ResponseAction.DONE | ResponseAction.READ_BACK | ResponseAction.RETRY if after is not None and seen:
            return _leads(attempt, after)
        case ResponseAction.DONE | ResponseAction.READ_BACK | ResponseAction.RETRY:
            return attempt.again(f"the metadata shows {_shown(after) or 'nothing that could be read'}")
        case ResponseAction.STALE:
            return attempt.end(Status.STALE, answer.text or answer.code, read_back=_shown(after))
        case ResponseAction.WAITING:
            return attempt.end(Status.WAITING, answer.text or answer.code, read_back=_shown(after))
        case ResponseAction.FAILED | ResponseAction.HALVE:
            return attempt.end(Status.FAILED, answer.text or answer.code, read_back=_shown(after))


def _leads(attempt: ElectionAttempt, now: PartitionFacts) -> Outcome:
    if attempt.possible:
        return attempt.end(Status.APPLIED, "leader elected, shown by the metadata", read_back=_shown(now))
    return attempt.end(Status.SATISFIED, "the leader is already the one wanted", read_back=_shown(now))


def _seen(
    ready: Sequence[ReadyAction], answers: Mapping[TopicPartition, ItemResult], run: ApplyContext
) -> Mapping[TopicPartition, PartitionFacts | None]:
    """The partitions once all leaders that may come are seen, or as they are when that takes too long. What was seen is not asked again."""
    actions = {go.attempt.action.partition: go.attempt.action for go in ready}
    after = dict(run.gateway.read_partitions(actions, offsets=False))

    def awaited(among: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [p for p in among if after[p] is not None and not _is_wanted(actions[p], after[p])]

    missing = awaited(
        p for p, answer in answers.items() if answer.answer in (ResponseAction.DONE, ResponseAction.READ_BACK)
    )
    # By the clock: a look at thousands of partitions takes longer than the pause between two. And by count: a clock may be set back.
    until_ms = run.clock() + run.settings.leader_seen_ms
    for _ in range(run.settings.leader_seen_ms // _POLL_MS):
        if not missing or run.clock() >= until_ms:
            break
        run.sleep(_POLL_MS / 1000)
        after.update(run.gateway.read_partitions(missing, offsets=False))
        missing = awaited(missing)
    return after


def _is_wanted(action: ElectLeader, now: PartitionFacts | None) -> bool:
    if now is None or not isinstance(now.leader, int):
        return False
    return action.leader_wanted is None or now.leader == action.leader_wanted


def _shown(now: PartitionFacts | None) -> str | None:
    if now is None:
        return "gone"
    if now.leader is None:
        return "leaderless"
    return None if isinstance(now.leader, Unknown) else f"leader {now.leader}"


def _ids(replicas: tuple[int, ...] | Unknown) -> str:
    return "unknown" if isinstance(replicas, Unknown) else ",".join(str(replica) for replica in replicas)
