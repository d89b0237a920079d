"""Waiting for answers: deadlines, calls that stay interruptible, questions asked again until they are answered well enough.

The client library's futures and blocking calls have no common deadline and let no Ctrl-C through; here they get both. Which failures
are worth another question is the caller's.
"""

import errno
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

Item = TypeVar("Item")
Result = TypeVar("Result")

CALL_FAILURES = (KafkaException, TimeoutError)
"""What a blocking call through `in_thread` may raise."""

_SLICE_S = 0.05
_PAUSE_S = 0.25


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on this process's monotonic clock."""

    at_s: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def over(self) -> bool:
        return self.left_s == 0.0


def wait_all(client: AdminClient, futures: Iterable[Future[Any]], deadline: Deadline) -> bool:
    """Wait until all are done or the deadline is over; whether all are done. Stays interruptible, and drains the client's log."""
    finished = True
    for future in futures:
        # Tens of thousands of answers come by here, and each question takes the future's lock: one of them is enough.
        while not (done := future.done()) and not deadline.over:
            # A short poll would return without waiting: only logs and errors come through it.
            wait(future, min(_SLICE_S, deadline.left_s))
            client.poll(0)
        finished = finished and done
    client.poll(0)
    return finished


def call_with_retry(
    client: AdminClient,
    items: Sequence[Item],
    call: Callable[[Sequence[Item], float], Mapping[Item, Future[Any]]],
    *,
    enough: Callable[[Future[Any]], bool],
    timeout_s: float,
) -> dict[Item, Future[Any]]:
    """The last answer for each item, asked again until it is `enough` or `timeout_s` are over.

    One attempt takes at most a third of that: the library sends lookups to any broker that looks alive, a frozen one looks alive
    until its first request times out, and facts that other brokers hold must not be lost with it.
    """
    deadline = Deadline.after(timeout_s)
    answers: dict[Item, Future[Any]] = {}
    wanted = list(items)
    while wanted and (not deadline.over or not answers):
        limit_s = max(_SLICE_S, min(timeout_s / 3, deadline.left_s))
        asked = call(wanted, limit_s)
        if wait_all(client, asked.values(), deadline):
            answers.update(asked)
            wanted = [item for item in wanted if not enough(answers[item])]
        else:
            # What was answered in part is worth more than a later question that was not answered at all.
            answers.update((item, future) for item, future in asked.items() if future.done() or item not in answers)
            wanted = [item for item in wanted if not (answers[item].done() and enough(answers[item]))]
        if wanted:
            time.sleep(min(_PAUSE_S, deadline.left_s))
    return answers


def done_unless(*codes: int) -> Callable[[Future[Any]], bool]:
    """For `ask`: enough is a success, or a failure that asking again would not change."""

    def enough(future: Future[Any]) -> bool:
        failure = future.exception()
        return failure is None or code_of(failure) in codes

    return enough


def code_of(failure: BaseException | None) -> int | None:
    """The Kafka error code of a failed call; None for what is not the library's or the broker's error."""
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else None
    return int(error.code()) if isinstance(error, KafkaError) else None


def run_with_deadline(call: Callable[[], Result], deadline: Deadline) -> Result:
    """Result of a blocking call of the library, which would not let Ctrl-C through. Raises TimeoutError past the deadline."""
    return submit(call).result(timeout=deadline.left_s)


def submit(call: Callable[[], Result]) -> Future[Result]:
    """The call in a thread that nobody has to wait for at the end of the process. Raises OSError where no thread can be started."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - handed to the caller, who raises it
            future.set_exception(failure)

    try:
        threading.Thread(target=run, name="kafka-call", daemon=True).start()
    except RuntimeError as refused:  # all that Python says at a limit of threads or processes
        raise BlockingIOError(errno.EAGAIN, str(refused)) from None
    return future


def reason_of(failure: BaseException | KafkaError) -> str:
    """One line for a failed call: the broker's or the library's words, no class names."""
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else failure
    if isinstance(error, KafkaError):
        return f"{error.str()} ({error.name()})"
    return str(failure) or type(failure).__name__


def wait(future: Future[Any], seconds: float) -> None:
    """Until it is done or the time is over, whichever comes first; raises for neither. Ctrl-C comes through."""
    try:
        future.exception(timeout=seconds)
    except TimeoutError:
        return
