"""Sends what the recheck left of a plan, one operation after another, least destructive first.

This module decides the order, the rounds and what a stop does. The operations decide what may be
sent and what a result means. Each batch is rechecked immediately before its request.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from reconciler.apply.context import ApplyContext
from reconciler.model.action import Action, Subject
from reconciler.model.outcome import Outcome, Status
from reconciler.operations import OPERATIONS
from reconciler.operations.attempt import Attempt, StepResult
from reconciler.operations.error_meanings import ResponseAction
from reconciler.operations.observation import Observation
from reconciler.operations.sendable import Sendable

_CUT_SHORT = "the run ends in the middle: nothing more is sent"
"""The reader of the outcomes has gone, or an unexpected error was raised."""
_FACTS_MAX_AGE_MS = 10_000
"""How long facts are good for a request; older ones are read again."""
_RECHECKS_MAX = 3
"""Most rechecks before one request."""

_Batch = Sequence[Attempt]
_UnderWay = dict[Subject, StepResult]
"""What is known of each attempt of a batch if an error interrupts it: intent stored, request perhaps sent."""


def apply(actions: Sequence[Action], context: ApplyContext) -> Iterator[Outcome]:
    """Yield one outcome for each action, as they end; never raise for one of them.

    After a stop, what is in flight is waited for and read back, and the rest is NOT_ATTEMPTED. A
    journal that cannot be written stops the run in the same way.
    """
    context.topics.update(action.address.name for action in actions)
    kinds: list[Any] = [*OPERATIONS, *map(type, actions)]
    for operation in dict.fromkeys(kinds):
        selected = [action for action in actions if type(action) is operation]
        ended = 0
        for start in range(0, len(selected), context.tuning.window):
            window = [
                Attempt(action=action, broker=context.leaders.get(action.subject))
                for action in selected[start : start + context.tuning.window]
            ]
            for outcomes in _rounds(operation, window, context):
                context.record_outcomes(outcomes)
                context.note_effects(outcomes)
                ended += sum(outcome.status is not Status.NOT_ATTEMPTED for outcome in outcomes)
                context.progress(f"{operation.TITLE}s", f"{ended} of {len(selected)}", ended, len(selected))
                yield from outcomes


def _rounds(operation: type[Sendable], pending: _Batch, context: ApplyContext) -> Iterator[list[Outcome]]:
    """Run rounds over what is pending, each with fresh metadata, up to the last or a stop."""
    size = min(operation.BATCH_SIZE, context.tuning.batch_max or operation.BATCH_SIZE)
    for number in range(context.tuning.attempts):
        if pending and number:
            context.back_off(number)
            context.gateway.refresh()
        if not pending or context.stopping:
            break
        postponed: list[Attempt] = []
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
    operation: type[Sendable], lanes: Sequence[Sequence[_Batch]], context: ApplyContext
) -> Iterator[list[StepResult]]:
    """Yield the results of batches. Lanes run side by side, batches of one lane in order."""
    finished: SimpleQueue[list[StepResult] | None] = SimpleQueue()

    def run_lane(lane: Sequence[_Batch]) -> None:
        try:
            operation.connect(context.gateway)
            for batch in lane:
                steps: list[StepResult] = []
                under_way: _UnderWay = {attempt.action.subject: attempt for attempt in batch}
                try:
                    # One by one: what has ended is reported even if what comes after it fails.
                    for step in batch if context.stopping else _execute_batch(operation, batch, context, under_way):
                        steps.append(step)
                        under_way[step.action.subject] = step
                except (OSError, MemoryError) as error:
                    # Descriptors, threads, memory: one lane must not lose what the others did.
                    context.halt(
                        f"this machine ran out of a resource: {getattr(error, 'strerror', None) or str(error) or 'memory'}"
                    )
                    # Also those without a step: it is not known whether their request went out.
                    steps = [*under_way.values()]
                finally:
                    finished.put(steps)
        finally:
            finished.put(None)

    try:
        with ThreadPoolExecutor(max_workers=context.tuning.lanes_at_once, thread_name_prefix="apply") as pool:
            try:
                started = [pool.submit(run_lane, lane) for lane in lanes]
                open_lanes = len(started)
                while open_lanes:
                    if (steps := finished.get()) is None:
                        open_lanes -= 1
                    else:
                        yield steps
            except BaseException:
                # The reader of the outcomes has gone: lanes that went on would send without a report.
                context.halt(_CUT_SHORT)
                raise
            for future in started:
                future.result()
    except BaseException:
        # All lanes have ended here, also one that no thread could be started for and another one ran.
        while not finished.empty():
            context.record_outcomes(_end_all(finished.get() or (), context))
        raise


def _execute_batch(
    operation: type[Sendable], batch: _Batch, context: ApplyContext, under_way: _UnderWay
) -> Iterator[StepResult]:
    """Run one round of a batch: recheck, store the intents, send one request, read back.

    A batch whose subjects turn out to need several brokers is sent broker by broker, and one that
    the broker finds too large in halves; each part is rechecked again.
    """
    ready, observation = yield from _recheck_batch(operation, batch, context)
    by_broker: defaultdict[int | None, list[Attempt]] = defaultdict(list)
    for attempt in ready:
        by_broker[attempt.broker].append(attempt)
    if len(by_broker) > 1:
        for of_broker in by_broker.values():
            yield from _execute_batch(operation, of_broker, context, under_way)
        return
    ready = yield from _store_intents(operation, ready, observation, context, under_way)
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
            yield from _execute_batch(operation, half, context, under_way)
        return
    observation = operation.observe_effect(actions, results, context)
    for attempt in ready:
        yield attempt.action.verify(attempt, results[attempt.action.subject], observation)


def _recheck_batch(
    operation: type[Sendable], attempts: _Batch, context: ApplyContext
) -> Generator[StepResult, None, tuple[_Batch, Observation]]:
    """Recheck the attempts on present facts.

    Yields what becomes of the attempts that do not hold; returns the others, and the facts.
    """
    observation = operation.observe([attempt.action for attempt in attempts], context)
    ready = []
    for attempt in attempts:
        if (step := attempt.action.step_before_request(attempt, observation)) is None:
            ready.append(attempt.action.prepare(attempt, observation))
        else:
            yield step
    return ready, observation


def _store_intents(
    operation: type[Sendable], ready: _Batch, observation: Observation, context: ApplyContext, under_way: _UnderWay
) -> Generator[StepResult, None, _Batch]:
    """Store the intents. Yields attempts that may not go out; returns those to send at once.

    Where the recheck or the journal took too long, there is another recheck. A run that was stopped
    meanwhile, or whose recheck of the plan has become too old, sends nothing.
    """
    if not ready or not context.may_send() or not context.record_intents(ready):
        yield from ready
        return []
    ready = [replace(attempt, intended=True) for attempt in ready]
    under_way |= {attempt.action.subject: attempt for attempt in ready}
    for number in range(_RECHECKS_MAX):
        if context.stopping:  # a recheck waits for silent brokers, and a supervisor for this process
            break
        if number:
            ready, observation = yield from _recheck_batch(operation, ready, context)
        # A clock may be set back, too.
        if 0 <= context.clock() - observation.observed_at_ms <= _FACTS_MAX_AGE_MS:
            break
    else:
        took = f"the recheck before the request took longer than {_FACTS_MAX_AGE_MS // 1000} s, {_RECHECKS_MAX} times in a row"
        yield from (attempt.retry_later(f"{took}: a smaller --batch may help") for attempt in ready)
        return []
    if not ready or not context.may_send():
        yield from ready
        return []
    sent = (replace(attempt, sends=attempt.sends + 1, possible=True) for attempt in ready)
    under_way |= {attempt.action.subject: attempt for attempt in sent}
    context.announce()
    return ready


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
