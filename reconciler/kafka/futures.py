"""Deadlines and failures of the library's futures, and waits that let Ctrl-C through."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.model.snapshot import Cause, Unknown
from reconciler.text.redact import redact

Item = TypeVar("Item")
Result = TypeVar("Result")

DENIED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError.GROUP_ID_NOT_FOUND})
FINAL = (
    DENIED
    | GONE
    | {KafkaError.TOPIC_EXCEPTION, KafkaError.INVALID_GROUP_ID, KafkaError._INVALID_ARG, KafkaError._DESTROY}
)
"""Errors of reads that a retry would not change."""
_UNANSWERED = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        # A broker that waited for another one in vain.
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_REASONS = {
    KafkaError._NOENT: "no broker led it",
    # So the library ends a call whose answer it cannot parse, such as one with an assignment of a format of its own.
    KafkaError._DESTROY: "the client library cannot decode the answer",
    KafkaError.INVALID_GROUP_ID: "the broker says that the group's id is invalid",
    KafkaError.GROUP_ID_NOT_FOUND: "there is no such group",
}
"""Our own words for some errors."""

_SLICE_S = 0.25


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """A point on this process's monotonic clock."""

    at_s: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def request_timeout_s(self) -> float:
        """Slightly less than the remaining time, so that the library's own timeout comes first."""
        return max(0.1, self.remaining_s * 0.9)

    @property
    def passed(self) -> bool:
        return self.remaining_s == 0.0


def wait_all(clients: Collection[AdminClient], futures: Iterable[Future[Any]], deadline: Deadline) -> None:
    """Wait for all futures, or for the deadline. Drains the clients' logs; Ctrl-C comes through."""
    pending = set(futures)
    while pending and not deadline.passed:
        # The poll only delivers logs and errors, so it must not be what waits.
        pending = wait(pending, timeout=min(_SLICE_S, deadline.remaining_s)).not_done
        for client in clients:
            deliver_events(client)


def deliver_events(client: AdminClient) -> None:
    """Let the library call back with its log and errors, without those that are not UTF-8."""
    with suppress(UnicodeDecodeError):  # the library cut a broker's text off within a character
        client.poll(0)


def is_final(future: Future[Any]) -> bool:
    """Whether a done call succeeded, or failed with an error that a retry would not change."""
    error = future.exception()
    return error is None or code_of(error) in FINAL


def kafka_error(error: object) -> KafkaError | None:
    """The library's or the broker's error in an exception; None for any other."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner if isinstance(inner, KafkaError) else None


def code_of(error: object) -> int:
    """The Kafka error code of a failed call; NO_ERROR for an error of another kind, or none."""
    inner = kafka_error(error)
    return int(KafkaError.NO_ERROR if inner is None else inner.code())


def reason_of(error: BaseException | KafkaError) -> str:
    """One line for a failed call: the words of the broker or the library, without class names."""
    inner = kafka_error(error)
    return one_line(str(error)) or type(error).__name__ if inner is None else f"{text_of(inner)} ({inner.name()})"


def cause_of(error: BaseException | KafkaError) -> Cause:
    """Whether a failed call had an answer, and what it waits for."""
    if code_of(error) == KafkaError.UNSTABLE_OFFSET_COMMIT:
        return Cause.OPEN_TRANSACTION
    return Cause.NO_ANSWER if code_of(error) in _UNANSWERED else Cause.OTHER


def text_of(error: KafkaError) -> str:
    """The text of the broker or the library, without values of secrets."""
    return one_line(raw_text_of(error))


def raw_text_of(error: KafkaError) -> str:
    """The text of the broker or the library, to be compared only: it may quote a secret."""
    try:
        return str(error.str())
    except UnicodeDecodeError:  # the library cut it off within a character, or a broker sent no UTF-8
        return str(error.name())


def one_line(text: str) -> str:
    """The text without values of secrets, which it is searched for before, and with single spaces."""
    return " ".join(redact(text).split())


def failed_with(future: Future[Any], codes: Collection[int]) -> bool:
    """Whether the call is done and failed with one of these codes."""
    return future.done() and code_of(future.exception()) in codes


def failure_of(future: Future[Any], *, right: str = "") -> Unknown | None:
    """Why a call gave no result; None: it gave one. `right`: what it needs."""
    if not future.done():
        return Unknown("no broker answered in time", Cause.NO_ANSWER)
    error = future.exception()
    return None if error is None else unknown_of(error, right=right)


def unknown_of(error: BaseException | KafkaError, *, right: str = "") -> Unknown:
    """Return why an error gave no result. `right`: what the call needs."""
    if right and code_of(error) in DENIED:
        return Unknown(f"the right {right} is missing")
    return Unknown(_REASONS.get(code_of(error)) or reason_of(error), cause_of(error))


def parse_each(
    futures: Mapping[Item, Future[Any]], parse: Callable[[Future[Any]], Result], failed: Callable[[Unknown], Result]
) -> dict[Item, Result]:
    """Return what `parse` makes of the answer for each item.

    An exception of `parse` is an error of this program, for its own item only: `failed` makes the
    result of it.
    """
    results: dict[Item, Result] = {}
    for item, future in futures.items():
        try:
            results[item] = parse(future)
        except Exception as error:  # noqa: BLE001 - named, and no reason to lose the other answers
            results[item] = failed(Unknown(name_failure(error)))
    return results


def name_failure(error: object) -> str:
    """Return the words for an exception of our own."""
    return redact(f"an error of this program, please report it: {type(error).__name__}: {error}")


def error_columns(failure: Unknown | None) -> dict[str, Any]:
    """The columns of a row that say why its subject was not read; both are null if it was."""
    if failure is None:
        return {"error": None, "unanswered": None}
    return {"error": failure.reason, "unanswered": failure.unanswered}


def failure_in(row: Mapping[str, Any]) -> Unknown | None:
    """Why the subject of a row with `error_columns` was not read; None: it was, or the row lacks them."""
    if (reason := row.get("error")) is None:
        return None
    return Unknown(reason, Cause.NO_ANSWER if row.get("unanswered") else Cause.OTHER)


def submit(call: Callable[[], Result]) -> Future[Result]:
    """Run a call in a daemon thread. Raises ClusterUnreachable where no thread can be started."""
    future: Future[Result] = Future()
    try:
        threading.Thread(target=_run, args=(call, future), name="kafka-call", daemon=True).start()
    except RuntimeError as error:  # Python's only word for a limit of threads or processes
        raise ClusterUnreachable(f"no thread could be started: {error}; see this machine's limits") from None
    return future


def _run(call: Callable[[], Result], future: Future[Result]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - handed to the caller, who raises it
        future.set_exception(error)
    finally:
        # The error refers to this frame: with these, a client that failed would live until Python's garbage
        # collection, and log in again and again.
        del call, future


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Parts of at most `size` items: the library merges a call's answers in quadratic time."""
    return (items[start : start + size] for start in range(0, len(items), size))
