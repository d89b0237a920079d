"""Clients that stay silent, create nothing and always come back: how a connection is described, opened and first tried.

Decided here: properties that no manifest may override, where the client library's own log goes, and how the lack of a cluster
reads in one line. What is asked of a cluster is decided in the readers and in the gateway.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka import certificate

_CLIENT_LOG = logging.getLogger("reconciler.kafka.client")
_LOG = logging.getLogger(__name__)

READER_GROUP = "kafka-reconciler-reader"
"""The client wants a group id; nothing ever joins or commits under it, so no such group comes to be."""

Item = TypeVar("Item")
Result = TypeVar("Result")

CALL_FAILURES = (KafkaException, TimeoutError)
"""What a blocking call through `in_thread` may raise."""

_SLICE_S = 0.05
_PAUSE_S = 0.25
_GRACE_S = 3.0
_SECRET_WORDS = ("password", "secret", "token", "key", "jaas", "passphrase", "oauth")
_HOPELESS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one cluster. Pickles, so that tasks can open clients of their own: the properties travel with it.

    `properties`: librdkafka's names and values, secrets included, hence hidden from repr. `timeout_s`: the longest that any
    one exchange may take.
    """

    bootstrap_servers: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0


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


def admin(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> AdminClient:
    """A client for admin calls. `tuning`: further librdkafka properties. Raises ClusterUnreachable where a property is refused.

    Futures finish without `poll`; the library's log and its errors wait for `poll`, or are dropped with the client.
    """
    return _open_admin(connection, tuning or {}, _ignore)


def patience(connection: Connection) -> Mapping[str, str | int | float]:
    """Tuning for readers: leave a broker that hangs after a third of the timeout, and learn of new leaders meanwhile."""
    third_ms = max(1_000, int(connection.timeout_s * 1000 / 3))
    return {"socket.timeout.ms": third_ms, "topic.metadata.refresh.interval.ms": max(1_000, third_ms // 2)}


def consumer(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> Consumer:
    """A client that reads partitions assigned to it and never commits. Raises ClusterUnreachable where a property is refused."""
    configuration = _configuration(connection, tuning or {}) | {
        "group.id": READER_GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "error_cb": _ignore,
    }
    try:
        return Consumer(configuration, logger=_Quiet())
    except (KafkaException, ValueError, TypeError) as refused:
        raise _refused(connection, refused) from None


def producer(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> Producer:
    """A client that writes. Raises ClusterUnreachable where a property is refused.

    It asks the brokers to make a missing topic, whatever the configuration: look that there is one before writing.
    """
    configuration = _configuration(connection, tuning or {}) | {"error_cb": _ignore}
    # A property of consumers, which a producer would only warn about.
    del configuration["allow.auto.create.topics"]
    try:
        return Producer(configuration, logger=_Quiet())
    except (KafkaException, ValueError, TypeError) as refused:
        raise _refused(connection, refused) from None


def cluster_id(connection: Connection) -> str:
    """The cluster's id, and with it the proof that some broker answers.

    Raises ClusterUnreachable within `timeout_s`, in one line: who was tried, for how long, and the last reason. A handshake that
    failed is given three seconds for another broker to do better, since no waiting mends a wrong password.
    """
    started = time.monotonic()
    deadline = Deadline.after(connection.timeout_s)
    reasons = _Reasons()
    client = _open_admin(connection, patience(connection), reasons.note)
    # Not describe_cluster: that waits for the controller, and a KRaft broker names any other as such, a frozen one too.
    answer = background(lambda: client.cluster_id(timeout=connection.timeout_s))
    while not answer.done() and not deadline.over and not reasons.hopeless:
        client.poll(_SLICE_S)
    client.poll(0)
    found = answer.result() if answer.done() and answer.exception() is None else None
    if found:
        return str(found)
    servers = ", ".join(connection.bootstrap_servers)
    waited = time.monotonic() - started
    why, next_step = reasons.last, reasons.next_step
    if reasons.certificate:
        limit_s = min(_GRACE_S, connection.timeout_s)
        told = certificate.doubt(connection.bootstrap_servers, connection.properties, timeout_s=limit_s)
        if told is not None:
            why, next_step = f"TLS handshake failed: {told.reason}", told.next_step
    raise ClusterUnreachable(f"no broker of {servers} answered in {waited:.0f} s: {why}; {next_step}")


def settle(client: AdminClient, futures: Iterable[Future[Any]], deadline: Deadline) -> bool:
    """Wait until all are done or the deadline is over; whether all are done. Stays interruptible, and drains the client's log."""
    finished = True
    for future in futures:
        while not future.done() and not deadline.over:
            # A short poll would return without waiting: only logs and errors come through it.
            _wait(future, min(_SLICE_S, deadline.left_s))
            client.poll(0)
        finished = finished and future.done()
    client.poll(0)
    return finished


def ask(
    client: AdminClient,
    items: Sequence[Item],
    call: Callable[[Sequence[Item], float], Mapping[Item, Future[Any]]],
    *,
    enough: Callable[[Future[Any]], bool],
    connection: Connection,
) -> dict[Item, Future[Any]]:
    """The last answer for each item, asked again until it is `enough` or the connection's timeout is over.

    One attempt takes at most a third of that: the library sends lookups to any broker that looks alive, a frozen one looks alive
    until its first request times out, and facts that other brokers hold must not be lost with it.
    """
    deadline = Deadline.after(connection.timeout_s)
    answers: dict[Item, Future[Any]] = {}
    wanted = list(items)
    while wanted and (not deadline.over or not answers):
        limit_s = max(_SLICE_S, min(connection.timeout_s / 3, deadline.left_s))
        asked = call(wanted, limit_s)
        settle(client, asked.values(), deadline)
        # What was answered in part is worth more than a later question that was not answered at all.
        answers.update((item, future) for item, future in asked.items() if future.done() or item not in answers)
        wanted = [item for item in wanted if not (answers[item].done() and enough(answers[item]))]
        if wanted:
            time.sleep(min(_PAUSE_S, deadline.left_s))
    return answers


def succeeded_or(*codes: int) -> Callable[[Future[Any]], bool]:
    """For `ask`: enough is a success, or a failure that asking again would not change."""

    def enough(future: Future[Any]) -> bool:
        failure = future.exception()
        return failure is None or code_of(failure) in codes

    return enough


def code_of(failure: BaseException | None) -> int | None:
    """The Kafka error code of a failed call; None for what is not the library's or the broker's error."""
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else None
    return int(error.code()) if isinstance(error, KafkaError) else None


def in_thread(call: Callable[[], Result], deadline: Deadline) -> Result:
    """Result of a blocking call of the library, which would not let Ctrl-C through. Raises TimeoutError past the deadline."""
    return background(call).result(timeout=deadline.left_s)


def background(call: Callable[[], Result]) -> Future[Result]:
    """The call in a thread that nobody has to wait for at the end of the process."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as failure:  # noqa: BLE001 - handed to the caller, who raises it
            future.set_exception(failure)

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    return future


def reason_of(failure: BaseException | KafkaError) -> str:
    """One line for a failed call: the broker's or the library's words, no class names."""
    error = failure.args[0] if isinstance(failure, KafkaException) and failure.args else failure
    if isinstance(error, KafkaError):
        return f"{error.str()} ({error.name()})"
    return str(failure) or type(failure).__name__


def _wait(future: Future[Any], seconds: float) -> None:
    try:
        future.exception(timeout=seconds)
    except TimeoutError:
        return


def _open_admin(
    connection: Connection, tuning: Mapping[str, str | int | float], on_error: Callable[[KafkaError], None]
) -> AdminClient:
    configuration = _configuration(connection, tuning) | {"error_cb": on_error}
    try:
        return AdminClient(configuration, logger=_Quiet())
    except (KafkaException, ValueError, TypeError) as refused:
        raise _refused(connection, refused) from None


def _configuration(connection: Connection, tuning: Mapping[str, str | int | float]) -> dict[str, Any]:
    return {
        "client.id": "kafka-reconciler",
        # Brokers close idle connections; that is no event.
        "log.connection.close": False,
        "socket.timeout.ms": max(1_000, min(300_000, int(connection.timeout_s * 1000))),
        "socket.connection.setup.timeout.ms": max(1_000, min(30_000, int(connection.timeout_s * 1000))),
        **connection.properties,
        **tuning,
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        # Asking about a topic must not make it: AdminClient.list_topics("x") once did.
        "allow.auto.create.topics": False,
    }


def _refused(connection: Connection, refused: Exception) -> ClusterUnreachable:
    text = reason_of(refused)
    for name, value in connection.properties.items():
        if value and any(word in name for word in _SECRET_WORDS):
            text = text.replace(str(value), "…")
    servers = ", ".join(connection.bootstrap_servers)
    return ClusterUnreachable(f"no client for {servers}: {text}; correct the Cluster's spec.client")


class _Quiet:
    """Stands where the library wants a logger. Its lines, dozens per second while a broker is away, go to debug only."""

    def log(self, _level: int, message: str, *details: object) -> None:
        """Same signature as `logging.Logger.log`; the level is the library's opinion and dropped."""
        _CLIENT_LOG.debug(message, *details)


class _Reasons:
    """What the library said while it could not connect; the last word that explains something wins."""

    def __init__(self) -> None:
        self.last = "no answer"
        self.next_step = "check the addresses, and that this machine may reach them"
        self.certificate = False
        self._hopeless_at: float | None = None

    @property
    def hopeless(self) -> bool:
        return self._hopeless_at is not None and time.monotonic() > self._hopeless_at

    def note(self, error: KafkaError) -> None:
        """Take in one error of the library, newest last. Timeouts and "all down" explain less than what came before them."""
        text = error.str()
        code = error.code()
        if code in _HOPELESS and self._hopeless_at is None:
            self._hopeless_at = time.monotonic() + _GRACE_S
        if code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT) and self.last != "no answer":
            return
        if code == KafkaError._ALL_BROKERS_DOWN:
            return
        self.last = f"{_kind(code, text)} ({text})"
        self.certificate = self.certificate or "certificate verify failed" in text
        if code == KafkaError._AUTHENTICATION:
            self.next_step = "check sasl.mechanism, sasl.username and sasl.password in the Cluster's spec.client"
        elif code == KafkaError._SSL:
            self.next_step = "check security.protocol and ssl.ca.location in the Cluster's spec.client"


def _kind(code: int, text: str) -> str:
    match code:
        case KafkaError._AUTHENTICATION:
            return "authentication failed"
        case KafkaError._SSL:
            return "TLS handshake failed"
        case KafkaError._RESOLVE:
            return "name not found"
        case KafkaError._TIMED_OUT | KafkaError._TIMED_OUT_QUEUE:
            return "timed out"
    lowered = text.lower()
    if "refused" in lowered:
        return "connection refused"
    if "resolve" in lowered:
        return "name not found"
    return "timed out" if "timed out" in lowered else "connection failed"


def _ignore(error: KafkaError) -> None:
    _LOG.debug("client_error=%s text=%s", error.name(), error.str())
