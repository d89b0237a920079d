"""Clients that stay silent, create nothing and always come back: how a connection is described, opened and first tried.

Decided here: properties that no manifest may override, where the client library's own log goes, and how the lack of a cluster
reads in one line. What is asked of a cluster is decided in the readers and in the gateway.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka import tls_check
from reconciler.kafka.futures import Deadline, reason_of, submit, wait

_CLIENT_LOG = logging.getLogger("reconciler.kafka.client")
_LOG = logging.getLogger(__name__)

READER_GROUP = "kafka-reconciler-reader"
"""The client wants a group id; nothing ever joins or commits under it, so no such group comes to be."""

Client = TypeVar("Client", Consumer, Producer, AdminClient)

_SLICE_S = 0.05
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


def admin(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> AdminClient:
    """A client for admin calls. `tuning`: further librdkafka properties. Raises ClusterUnreachable where a property is refused.

    Futures finish without `poll`; the library's log and its errors wait for `poll`, or are dropped with the client.
    """
    return _open_admin(connection, tuning or {}, _ignore)


def read_timeouts(connection: Connection) -> Mapping[str, str | int | float]:
    """Tuning for readers: leave a broker that hangs after a third of the timeout, and learn of new leaders meanwhile."""
    third_ms = max(1_000, int(connection.timeout_s * 1000 / 3))
    return {"socket.timeout.ms": third_ms, "topic.metadata.refresh.interval.ms": max(1_000, third_ms // 2)}


def consumer(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> Consumer:
    """A client that reads partitions assigned to it and never commits, read-committed unless `tuning` says otherwise.

    Raises ClusterUnreachable where a property is refused.
    """
    # Set after the tuning it once silenced the commit log's "read_uncommitted": groups behind an open transaction looked idle.
    configuration = _configuration(connection, {"isolation.level": "read_committed", **(tuning or {})}) | {
        "group.id": READER_GROUP,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        # A follower would answer a client of its rack, and knows less than the leader.
        "client.rack": "",
        "enable.partition.eof": True,
        "error_cb": _ignore,
    }
    return _made(Consumer, configuration, connection)


def producer(connection: Connection, tuning: Mapping[str, str | int | float] | None = None) -> Producer:
    """A client that writes. Raises ClusterUnreachable where a property is refused.

    It asks the brokers to make a missing topic, whatever the configuration: look that there is one before writing.
    """
    configuration = _configuration(connection, tuning or {}) | {"error_cb": _ignore}
    # A property of consumers, which a producer would only warn about.
    del configuration["allow.auto.create.topics"]
    return _made(Producer, configuration, connection)


def cluster_id(connection: Connection) -> str:
    """The cluster's id, and with it the proof that some broker answers.

    Raises ClusterUnreachable within `timeout_s`, in one line: who was tried, for how long, and the last reason. A handshake that
    failed is given three seconds for another broker to do better, since no waiting mends a wrong password.
    """
    started = time.monotonic()
    deadline = Deadline.after(connection.timeout_s)
    reasons = ConnectErrors()
    client = _open_admin(connection, read_timeouts(connection), reasons.note)
    # Not describe_cluster: that waits for the controller, and a KRaft broker names any other as such, a frozen one too.
    answer = submit(lambda: client.cluster_id(timeout=connection.timeout_s))
    while not answer.done() and not deadline.over and not reasons.hopeless:
        # The answer ends the waiting; what went wrong meanwhile is told by `poll` alone.
        wait(answer, min(_SLICE_S, deadline.left_s))
        client.poll(0)
    client.poll(0)
    found = answer.result() if answer.done() and answer.exception() is None else None
    if found:
        return str(found)
    servers = ", ".join(connection.bootstrap_servers)
    waited = time.monotonic() - started
    why, next_step = reasons.last, reasons.next_step
    if reasons.certificate:
        limit_s = min(_GRACE_S, connection.timeout_s)
        told = tls_check.diagnose_certificate(connection.bootstrap_servers, connection.properties, timeout_s=limit_s)
        if told is not None:
            why, next_step = f"TLS handshake failed: {told.reason}", told.next_step
    raise ClusterUnreachable(f"no broker of {servers} answered in {waited:.0f} s: {why}; {next_step}")


def _open_admin(
    connection: Connection, tuning: Mapping[str, str | int | float], on_error: Callable[[KafkaError], None]
) -> AdminClient:
    configuration = _configuration(connection, tuning) | {"error_cb": on_error}
    return _made(AdminClient, configuration, connection)


def _made(make: Callable[..., Client], configuration: Mapping[str, Any], connection: Connection) -> Client:
    # Off the main thread, where Python delivers signals: a Ctrl-C while the library reads its properties comes out of it as a TypeError
    # about a property that is fine.
    try:
        return submit(lambda: make(configuration, logger=DebugLogger())).result()
    except (KafkaException, ValueError, TypeError) as refused:
        raise _refused(connection, refused) from None
    except BlockingIOError as threadless:
        raise ClusterUnreachable(
            f"no client could be opened: {threadless.strerror}; see this machine's limits"
        ) from None


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


class DebugLogger:
    """Stands where the library wants a logger. Its lines, dozens per second while a broker is away, go to debug only."""

    def log(self, _level: int, message: str, *details: object) -> None:
        """Same signature as `logging.Logger.log`; the level is the library's opinion and dropped."""
        _CLIENT_LOG.debug(message, *details)


class ConnectErrors:
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
