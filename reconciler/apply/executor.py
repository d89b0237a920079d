"""Sends what the recheck left of a plan, one operation after another, least destructive first.

Decided here: the order, how rounds follow each other, what happens when the run is stopped. What may
be sent and what a result means is the operation's; each batch is looked at again before its request.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

from reconciler.apply.context import ApplyContext, Look
from reconciler.apply.tuning import Tuning
from reconciler.errors import JournalUnavailable
from reconciler.model.action import Action
from reconciler.model.outcome import Outcome, Status
from reconciler.model.ports import Gateway, Journal
from reconciler.operations import OPERATIONS, Operation
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.response import ResponseAction

DEFAULTS = Tuning()

_CUT_SHORT = "the run ends in the middle: nothing more is sent"
"""The reader of the outcomes has gone, or something failed that should not."""
_EXHAUSTED = (OSError, MemoryError)
"""Descriptors, threads, memory. The trouble of one lane must not lose what the others did."""
_DONE = (Status.APPLIED, Status.SATISFIED)

_Batch = Sequence[Attempt[Any]]


def _ignore_line(_line: str) -> None:
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
    progress: Callable[[str], None] = _ignore_line,
    sending: Callable[[], None] = lambda: None,
    removed_groups: Collection[str] = (),
    checked_at_ms: int | None = None,
    expires_at_ms: int | None = None,
    tuning: Tuning = DEFAULTS,
) -> Iterator[Outcome]:
    """Yield one outcome for each action, as they end; never raise for one of them.

    `clock`: epoch milliseconds. `sleep`: seconds. `stop`: true from the first Ctrl-C on; what is in
    flight is waited for and read back, the rest is NOT_ATTEMPTED. A journal that cannot be written
    stops the run in the same way. `sending`: called before each request, from any thread; a caller
    that leaves without waiting knows by it whether anything may have been written. `removed_groups`:
    groups that the plan removes and that the recheck found removed. `checked_at_ms`,
    `expires_at_ms`: when the recheck began and when the plan expires; too long after the one, or
    past the other, the run stops.
    """
    context = ApplyContext(
        gateway=gateway,
        journal=journal,
        run_id=run_id,
        plan_digest=plan_digest,
        clock=clock,
        sleep=sleep,
        stop=stop,
        tuning=tuning,
        sending=sending,
        checked_at_ms=checked_at_ms,
        expires_at_ms=expires_at_ms,
        removed_groups=set(removed_groups),
    )
    for operation in OPERATIONS:
        chosen = [action for action in actions if isinstance(action, operation)]
        yield from _apply_operation(operation, chosen, context, progress)


def _apply_operation(
    operation: type[Operation],
    actions: Sequence[Operation],
    context: ApplyContext,
    progress: Callable[[str], None],
) -> Iterator[Outcome]:
    done = 0
    for start in range(0, len(actions), context.tuning.window):
        window = actions[start : start + context.tuning.window]
        for outcomes in _rounds(operation, [Attempt(action=action) for action in window], context):
            context.record_outcomes(outcomes)
            for outcome in outcomes:
                group = outcome.action.removed_group if isinstance(outcome.action, Operation) else None
                if group is not None and outcome.status in _DONE:
                    context.removed_groups.add(group)
            done += len(outcomes)
            progress(f"{operation.TITLE}s: {done} of {len(actions)}")
            yield from outcomes


def _rounds(operation: type[Operation], pending: _Batch, context: ApplyContext) -> Iterator[list[Outcome]]:
    """Run rounds over what is pending, each later and with fresh metadata, until all ended, the rounds
    are used up or the run stops.
    """
    size = min(operation.BATCH_SIZE, context.tuning.batch_max or operation.BATCH_SIZE)
    for number in range(context.tuning.attempts):
        if pending and number:
            context.back_off(number)
            context.gateway.refresh()
        if not pending or context.stopping:
            break
        postponed: list[Attempt[Any]] = []
        try:
            for steps in _run_lanes(operation, operation.batches(pending, size), context):
                ended = [step for step in steps if isinstance(step, Outcome)]
                postponed += [step for step in steps if isinstance(step, Attempt)]
                if ended:
                    yield ended
        except BaseException:
            context.halt(_CUT_SHORT)
            context.record_outcomes(_end_all(postponed, context))
            raise
        pending = postponed
    if pending:
        yield [_end_without_round(attempt, context) for attempt in pending]


def _run_lanes(
    operation: type[Operation], lanes: Sequence[Sequence[_Batch]], context: ApplyContext
) -> Iterator[list[StepResult]]:
    """Yield the results of each batch, as they come. Lanes run side by side, batches of one lane in order."""
    finished: SimpleQueue[list[StepResult] | None] = SimpleQueue()

    def run_lane(lane: Sequence[_Batch]) -> None:
        try:
            for batch in lane:
                steps: list[StepResult] = []
                try:
                    # One by one: what has ended is reported even if what comes after it fails.
                    for step in batch if context.stopping else execute_batch(operation, batch, context):
                        steps.append(step)
                    context.discard(batch)
                except _EXHAUSTED as error:
                    context.halt(f"this machine is out of something: {error or type(error).__name__}")
                    steps += _lost(batch, steps, context)
                finally:
                    finished.put(steps)
        finally:
            finished.put(None)

    with ThreadPoolExecutor(max_workers=context.tuning.lanes_at_once, thread_name_prefix="apply") as pool:
        started: list[Future[None]] = []
        try:
            for lane in lanes:
                started.append(pool.submit(run_lane, lane))
            open_lanes = len(started)
            while open_lanes:
                steps = finished.get()
                if steps is None:
                    open_lanes -= 1
                else:
                    yield steps
        except BaseException:
            # The reader of the outcomes has gone: lanes that went on would send without a report.
            context.halt(_CUT_SHORT)
            wait(started)
            context.record_outcomes(_end_all((step for steps in _drain(finished) for step in steps), context))
            raise
        for future in started:
            future.result()


def execute_batch(operation: type[Operation], batch: _Batch, context: ApplyContext) -> Iterator[StepResult]:
    """Run one round of a batch: look, store the intents, send one request, look again.

    A batch whose subjects turn out to need several brokers is sent broker by broker, and one that the
    broker finds too large in halves; each part is looked at anew.
    """

    def look(attempts: _Batch) -> Look:
        return _look(operation, attempts, context)

    try:
        first = look(batch)
    except JournalUnavailable as error:
        context.halt(str(error))
        yield from batch
        return
    yield from first.steps
    by_broker: dict[int | None, list[Attempt[Any]]] = {}
    for attempt in first.ready:
        by_broker.setdefault(attempt.broker, []).append(attempt)
    if len(by_broker) > 1:
        for of_broker in by_broker.values():
            yield from execute_batch(operation, of_broker, context)
        return
    ready, steps = context.store_intents(first.ready, look, read_at_ms=first.read_at_ms)
    yield from steps
    if not ready:
        return
    # Leaders may have moved while the intents were stored.
    broker = ready[0].broker
    yield from (
        attempt.retry_later(f"broker {attempt.broker} leads it now") for attempt in ready if attempt.broker != broker
    )
    ready = [attempt for attempt in ready if attempt.broker == broker]
    actions = [attempt.action for attempt in ready]
    results = operation.send(actions, context.gateway)
    if len(ready) > 1 and all(result.answer is ResponseAction.HALVE for result in results.values()):
        middle = len(ready) // 2
        for half in (ready[:middle], ready[middle:]):
            responded = [attempt.after_response(results[attempt.action.subject]) for attempt in half]
            yield from execute_batch(operation, responded, context)
        return
    observation = operation.observe_effect(actions, results, context)
    for attempt in ready:
        yield attempt.action.verify(attempt, results[attempt.action.subject], observation)


def _look(operation: type[Operation], attempts: _Batch, context: ApplyContext) -> Look:
    """Recheck the attempts on facts of this moment. Raises JournalUnavailable."""
    observation = operation.observe([attempt.action for attempt in attempts], context)
    ready: list[Attempt[Any]] = []
    steps: list[StepResult] = []
    for attempt in attempts:
        failure = attempt.action.recheck(observation)
        step = attempt.action.after_done(attempt, failure, observation) if attempt.done else None
        if step is not None:
            steps.append(step)
        elif failure is None:
            ready.append(attempt.action.prepare(attempt, observation))
        else:
            steps.append(_after_failure(attempt, failure, observation))
    return Look(ready=ready, steps=steps, read_at_ms=observation.read_at_ms)


def _after_failure(attempt: Attempt[Any], failure: RecheckFailure, observation: Observation) -> StepResult:
    """Return what becomes of an attempt that does not hold right before its request."""
    if failure.status is Status.SATISFIED:
        outcome: Outcome = attempt.action.reached(attempt, observation)
        return outcome
    if failure.status is Status.FAILED or (failure.status is Status.WAITING and attempt.possible):
        # A fact that was not read may be read in the next round. And of a request that may have been
        # carried out "waiting" would be untrue.
        return attempt.retry_later(failure.detail)
    return attempt.outcome(failure.status, failure.detail, read_back=attempt.action.effect(observation).shown)


def _end_without_round(attempt: Attempt[Any], context: ApplyContext) -> Outcome:
    if context.stopping:
        if attempt.sends == 0:
            return attempt.outcome(Status.NOT_ATTEMPTED, context.reason)
        return attempt.give_up(context.reason)
    return attempt.give_up(f"gave up after {context.tuning.attempts} tries")


def _lost(batch: _Batch, steps: Sequence[StepResult], context: ApplyContext) -> list[Outcome]:
    """End those of `batch` that are in no step. It is not known whether their request went out."""
    known = {step.action.address for step in steps}
    attempts = (context.with_intent(attempt) for attempt in batch if attempt.action.address not in known)
    return [_end_without_round(attempt, context) for attempt in attempts]


def _end_all(steps: Iterable[StepResult], context: ApplyContext) -> list[Outcome]:
    """Return the end of each step, where there will be no other round."""
    return [step if isinstance(step, Outcome) else _end_without_round(step, context) for step in steps]


def _drain(finished: "SimpleQueue[list[StepResult] | None]") -> Iterator[list[StepResult]]:
    while not finished.empty():
        yield finished.get() or []
