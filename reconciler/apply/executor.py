"""Sends what the recheck left of a plan, one operation after another, least destructive first.

This module decides the order, the rounds and what a stop does. The operations decide what may be
sent and what a result means. Each batch is rechecked immediately before its request.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, NamedTuple

from reconciler.apply.context import ApplyContext
from reconciler.errors import JournalUnavailable
from reconciler.model.action import Action
from reconciler.model.outcome import Outcome, Status
from reconciler.operations import OPERATIONS, Operation
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.response import ResponseAction

_CUT_SHORT = "the run ends in the middle: nothing more is sent"
"""The reader of the outcomes has gone, or an unexpected error was raised."""
_LOOKS = 3
"""Most looks before one request."""

_Batch = Sequence[Attempt[Any]]


class _Look(NamedTuple):
    """Which attempts may go out, what becomes of the others, and the facts that say so."""

    ready: _Batch
    steps: Sequence[StepResult]
    observation: Observation


def apply(actions: Sequence[Action], context: ApplyContext) -> Iterator[Outcome]:
    """Yield one outcome for each action, as they end; never raise for one of them.

    After a stop, what is in flight is waited for and read back, and the rest is NOT_ATTEMPTED. A
    journal that cannot be written stops the run in the same way.
    """
    for operation in OPERATIONS:
        selected = [action for action in actions if isinstance(action, operation)]
        done = 0
        for start in range(0, len(selected), context.tuning.window):
            window = [Attempt(action=action) for action in selected[start : start + context.tuning.window]]
            for outcomes in _rounds(operation, window, context):
                context.record_outcomes(outcomes)
                for outcome in outcomes:
                    group = outcome.action.removed_group if isinstance(outcome.action, Operation) else None
                    if group is not None and outcome.status in (Status.APPLIED, Status.SATISFIED):
                        context.removed_groups.add(group)
                done += len(outcomes)
                context.progress(f"{operation.TITLE}s: {done} of {len(selected)}")
                yield from outcomes


def _rounds(operation: type[Operation], pending: _Batch, context: ApplyContext) -> Iterator[list[Outcome]]:
    """Run rounds over what is pending, each later and with fresh metadata, until they are used up or the run stops."""
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
                postponed += [step for step in steps if isinstance(step, Attempt)]
                if ended := [step for step in steps if isinstance(step, Outcome)]:
                    yield ended
        except BaseException:
            context.halt(_CUT_SHORT)
            context.record_outcomes(_end_all(postponed, context))
            raise
        pending = postponed
    if pending:
        yield _end_all(pending, context)


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
                    for step in batch if context.stopping else _execute_batch(operation, batch, context):
                        steps.append(step)
                    context.discard(batch)
                except (OSError, MemoryError) as error:
                    # Descriptors, threads, memory: the trouble of one lane must not lose what the others did.
                    context.halt(f"this machine is out of something: {error or type(error).__name__}")
                    # Of those without a step it is not known whether their request went out.
                    known = {step.action.address for step in steps}
                    lost = [attempt for attempt in batch if attempt.action.address not in known]
                    steps += _end_all(map(context.with_intent, lost), context)
                finally:
                    finished.put(steps)
        finally:
            finished.put(None)

    with ThreadPoolExecutor(max_workers=context.tuning.lanes_at_once, thread_name_prefix="apply") as pool:
        started = []
        try:
            for lane in lanes:
                started.append(pool.submit(run_lane, lane))
            open_lanes = len(started)
            while open_lanes:
                if (steps := finished.get()) is None:
                    open_lanes -= 1
                else:
                    yield steps
        except BaseException:
            # The reader of the outcomes has gone: lanes that went on would send without a report.
            context.halt(_CUT_SHORT)
            wait(started)
            while not finished.empty():
                context.record_outcomes(_end_all(finished.get() or (), context))
            raise
        for future in started:
            future.result()


def _execute_batch(operation: type[Operation], batch: _Batch, context: ApplyContext) -> Iterator[StepResult]:
    """Run one round of a batch: look, store the intents, send one request, look again.

    A batch whose subjects turn out to need several brokers is sent broker by broker, and one that the
    broker finds too large in halves; each part is looked at anew.
    """
    try:
        look = _look(operation, batch, context)
    except JournalUnavailable as error:
        context.halt(str(error))
        yield from batch
        return
    yield from look.steps
    by_broker: dict[int | None, list[Attempt[Any]]] = {}
    for attempt in look.ready:
        by_broker.setdefault(attempt.broker, []).append(attempt)
    if len(by_broker) > 1:
        for of_broker in by_broker.values():
            yield from _execute_batch(operation, of_broker, context)
        return
    ready, steps = _store_intents(operation, look, context)
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
        responded = [attempt.after_response(results[attempt.action.subject]) for attempt in ready]
        middle = len(ready) // 2
        for half in (responded[:middle], responded[middle:]):
            yield from _execute_batch(operation, half, context)
        return
    observation = operation.observe_effect(actions, results, context)
    for attempt in ready:
        yield attempt.action.verify(attempt, results[attempt.action.subject], observation)


def _look(operation: type[Operation], attempts: _Batch, context: ApplyContext) -> _Look:
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
    return _Look(ready, steps, observation)


def _after_failure(attempt: Attempt[Any], failure: RecheckFailure, observation: Observation) -> StepResult:
    """Return what becomes of an attempt that does not hold right before its request."""
    if failure.status is Status.SATISFIED:
        reached: Outcome = attempt.action.reached(attempt, observation)
        return reached
    if failure.status is Status.FAILED or (failure.status is Status.WAITING and attempt.possible):
        # A fact that was not read may be read in the next round. And of a request that may have been
        # carried out "waiting" would be untrue.
        return attempt.retry_later(failure.detail)
    return attempt.outcome(failure.status, failure.detail, read_back=attempt.action.effect(observation).shown)


def _store_intents(
    operation: type[Operation], look: _Look, context: ApplyContext
) -> tuple[_Batch, Sequence[StepResult]]:
    """Store the intents; return what to send at once, and what becomes of the rest.

    Where the look or the journal took too long, there is another look. A run that was stopped
    meanwhile, or whose recheck is too old by now, sends nothing.
    """
    if not look.ready or not context.may_send() or not context.record_intents(look.ready):
        return [], look.ready
    ready: _Batch = [replace(attempt, intended=True) for attempt in look.ready]
    steps: list[StepResult] = []
    limit_ms = context.tuning.look_ages_ms
    try:
        failures = operation.recheck_after_intents([attempt.action for attempt in ready], context)
        failed = [attempt for attempt in ready if attempt.action.subject in failures]
        steps += [_after_failure(attempt, failures[attempt.action.subject], look.observation) for attempt in failed]
        ready = [attempt for attempt in ready if attempt.action.subject not in failures]
        for number in range(_LOOKS):
            if number:
                look = _look(operation, ready, context)
                ready, steps = look.ready, [*steps, *look.steps]
            # A clock may be set back, too.
            if 0 <= context.clock() - look.observation.read_at_ms <= limit_ms:
                break
        else:
            took = f"took longer than {limit_ms / 1000:.0f} s, {_LOOKS} times in a row"
            reason = f"the look before the request {took}: a smaller --batch may help"
            return [], [*steps, *(attempt.retry_later(reason) for attempt in ready)]
    except JournalUnavailable as error:
        context.halt(str(error))
        return [], [*steps, *ready]
    if not ready or not context.may_send():
        return [], [*steps, *ready]
    context.announce(ready)
    return ready, steps


def _end_all(steps: Iterable[StepResult], context: ApplyContext) -> list[Outcome]:
    """Return the end of each step, where there will be no other round."""
    outcomes = []
    for step in steps:
        if isinstance(step, Outcome):
            outcomes.append(step)
        elif not context.stopping:
            outcomes.append(step.give_up(f"gave up after {context.tuning.attempts} tries"))
        elif step.sends:
            outcomes.append(step.give_up(context.reason))
        else:
            outcomes.append(step.outcome(Status.NOT_ATTEMPTED, context.reason))
    return outcomes
