"""Sends what the recheck left of a plan: elections, then group removals, then record deletions, least destructive first.

Decided here: the order, how rounds follow each other, what happens when the run is stopped. What may be sent and what an answer means
is in elections, groups and records; each of them looks again immediately before each request.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

from reconciler.apply import elections, groups, records
from reconciler.apply.attempt import Attempt
from reconciler.apply.context import ApplyContext, StepResult
from reconciler.apply.tuning import BatchLimits
from reconciler.model.action import Action
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, Journal
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader

DEFAULTS = BatchLimits()

_CUT_SHORT = "the run ends in the middle: nothing more is sent"
"""Whoever takes the outcomes is gone, or something failed that should not."""
_EXHAUSTED = (OSError, MemoryError)
"""Descriptors, threads, memory. One lane's trouble must not lose what the others did."""

_Lanes = list[list[Sequence[Attempt[Any]]]]
_Divide = Callable[[Sequence[Attempt[Any]], BatchLimits], _Lanes]
_Work = Callable[[Sequence[Attempt[Any]], ApplyContext], Iterator[StepResult]]


def _silent(_line: str) -> None:
    return


def apply(
    actions: Sequence[Action],
    *,
    gateway: Gateway,
    journal: Journal,
    run_id: str,
    plan_digest: str,
    clock: Callable[[], int],
    sleep: Callable[[float], None],
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[str], None] = _silent,
    sending: Callable[[], None] = lambda: None,
    gone: Collection[str] = (),
    checked_at_ms: int | None = None,
    expires_at_ms: int | None = None,
    settings: BatchLimits = DEFAULTS,
) -> Iterator[Outcome]:
    """One outcome for each action, as they end; never raises for one of them.

    `clock`: epoch milliseconds. `sleep`: seconds. `stop`: true from the first Ctrl-C on; what is in flight is waited for and read
    back, the rest is NOT_ATTEMPTED. A journal that cannot be written stops the run in the same way. `sending`: called before each
    request, from any thread; whoever leaves without waiting knows by it whether anything may have been written. `gone`: groups that the
    plan removes and that the recheck found removed. `checked_at_ms`, `expires_at_ms`: when the recheck began and when the plan expires; too
    long after the one, or past the other, the run stops.
    """
    run = ApplyContext(
        gateway=gateway,
        journal=journal,
        run_id=run_id,
        plan_digest=plan_digest,
        clock=clock,
        sleep=sleep,
        stop=stop,
        settings=settings,
        sending=sending,
        checked_at_ms=checked_at_ms,
        expires_at_ms=expires_at_ms,
    )
    removed = set(gone)
    yield from _phase("elections", _only(actions, ElectLeader), elections.lanes, elections.step, run, progress)
    for outcome in _phase("group removals", _only(actions, DeleteGroup), groups.lanes, groups.step, run, progress):
        if isinstance(outcome.action, DeleteGroup) and outcome.status in (Status.APPLIED, Status.SATISFIED):
            removed.add(outcome.action.group)
        yield outcome
    work = partial(records.execute_batch, removed_groups=frozenset(removed))
    yield from _phase("record deletions", _only(actions, DeleteRecords), records.batches, work, run, progress)


def _only(actions: Sequence[Action], kind: type[Action]) -> list[Action]:
    return [action for action in actions if isinstance(action, kind)]


def _phase(
    name: str,
    actions: Sequence[Action],
    divide: _Divide,
    work: _Work,
    run: ApplyContext,
    progress: Callable[[str], None],
) -> Iterator[Outcome]:
    ended = 0
    for start in range(0, len(actions), run.settings.window):
        window = actions[start : start + run.settings.window]
        for outcomes in _rounds([Attempt(action=action) for action in window], divide, work, run):
            run.record(outcomes)
            ended += len(outcomes)
            progress(f"{name}: {ended} of {len(actions)}")
            yield from outcomes


def _rounds(
    pending: Sequence[Attempt[Any]], divide: _Divide, work: _Work, run: ApplyContext
) -> Iterator[list[Outcome]]:
    """Rounds over what is left, each later and with fresh metadata, until all ended, the rounds are used up or the run stops."""
    for number in range(run.settings.attempts):
        if pending and number:
            run.back_off(number)
            run.gateway.refresh()
        if not pending or run.stopping:
            break
        left: list[Attempt[Any]] = []
        try:
            for steps in _side_by_side(divide(pending, run.settings), work, run):
                ended = [step for step in steps if isinstance(step, Outcome)]
                left += [step for step in steps if isinstance(step, Attempt)]
                if ended:
                    yield ended
        except BaseException:
            run.halt(_CUT_SHORT)
            run.record(_ends(left, run))
            raise
        pending = left
    if pending:
        yield [_left_over(attempt, run) for attempt in pending]


def _left_over(attempt: Attempt[Any], run: ApplyContext) -> Outcome:
    if run.stopping:
        return attempt.end(Status.NOT_ATTEMPTED, run.why) if attempt.sends == 0 else attempt.give_up(run.why)
    return attempt.give_up(f"gave up after {run.settings.attempts} tries")


def _side_by_side(lanes: _Lanes, work: _Work, run: ApplyContext) -> Iterator[list[StepResult]]:
    """The results of each batch, as they come. Lanes run side by side, batches of one lane one after another."""
    finished: SimpleQueue[list[StepResult] | None] = SimpleQueue()

    def run_lane(lane: Sequence[Sequence[Attempt[Any]]]) -> None:
        try:
            for batch in lane:
                steps: list[StepResult] = []
                try:
                    # One by one: what has ended is told even if what comes after it fails.
                    for step in batch if run.stopping else work(batch, run):
                        steps.append(step)
                    run.forget(batch)
                except _EXHAUSTED as exhausted:
                    run.halt(f"this machine is out of something: {exhausted or type(exhausted).__name__}")
                    steps += _lost(batch, steps, run)
                finally:
                    finished.put(steps)
        finally:
            finished.put(None)

    with ThreadPoolExecutor(max_workers=run.settings.lanes_at_once, thread_name_prefix="apply") as pool:
        started: list[Future[None]] = []
        try:
            for batches in lanes:
                started.append(pool.submit(run_lane, batches))
            open_lanes = len(started)
            while open_lanes:
                steps = finished.get()
                if steps is None:
                    open_lanes -= 1
                else:
                    yield steps
        except BaseException:
            # Whoever took the outcomes is gone: lanes that went on would send what nobody hears of.
            run.halt(_CUT_SHORT)
            wait(started)
            run.record(_ends((step for steps in _left_in(finished) for step in steps), run))
            raise
        for lane in started:
            lane.result()


def _lost(batch: Sequence[Attempt[Any]], steps: Sequence[StepResult], run: ApplyContext) -> list[Outcome]:
    """What becomes of those of `batch` that are in no step. Whether a request went out for those that were to be sent nobody knows."""
    told = {step.action.address for step in steps}
    lost = (run.with_intent(attempt) for attempt in batch if attempt.action.address not in told)
    return [_left_over(attempt, run) for attempt in lost]


def _ends(steps: Iterable[StepResult], run: ApplyContext) -> list[Outcome]:
    """The end of each, where there will be no other round."""
    return [step if isinstance(step, Outcome) else _left_over(step, run) for step in steps]


def _left_in(finished: "SimpleQueue[list[StepResult] | None]") -> Iterator[list[StepResult]]:
    while not finished.empty():
        yield finished.get() or []
