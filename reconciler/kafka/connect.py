"""Builds librdkafka clients: no auto-created topics, no log noise, bounded timeouts.

Decided here: properties that no manifest may override, and why a cluster does not answer.
"""

import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.futures import (
    Deadline,
    batched,
    deliver_events,
    failed_with,
    failure_of,
    one_line,
    raw_text_of,
    reason_of,
    submit,
    text_of,
)
from reconciler.kafka.tokens import token_source
from reconciler.references import REFERENCE, value_of
from reconciler.text.formatting import first_few
from reconciler.text.redact import add_references, redact

_LOG = logging.getLogger("reconciler.kafka.client")

Client = TypeVar("Client", Consumer, Producer, AdminClient)
Settings = Mapping[str, Any]
"""Properties of librdkafka for one client, and their values."""

_SLICE_S = 0.05
_GRACE_S = 3.0
_METADATA_MAX_S = 3.0
_INTERNAL_TOPIC = "__consumer_offsets"
"""For a metadata request: all topics would take seconds on a large cluster."""
_FAILED = re.compile(
    r"FAIL .*?\]: (?:\w+://)?(\S+)/(bootstrap|\d+): (.*?)(?:\(after \d+ms in state (\w+).*)?", re.DOTALL
)
"""A log line of librdkafka: the server, its id if an answer named it, what failed, the state of the connection.

The state is the end of the line, which is cut off after a long text of the broker.
"""
_UNANSWERED = re.compile("ApiVersionRequest failed: Local: Timed out.*", re.DOTALL)
"""A frozen broker. The library goes on that its version is "probably" below 0.10, which is a false trail."""
_NOT_OPENED = ("connection refused", "name not found")
_PORTS = "check the ports in the Cluster's bootstrapServers (--bootstrap-server), and that the brokers run"
_NAMES = "check the names in the Cluster's bootstrapServers (--bootstrap-server), and the DNS of this machine"
_LISTENER = "check security.protocol in the Cluster's spec.client, and the ports in bootstrapServers"
_CLOSED = f"{_LISTENER}; or give the brokers more connections (max.connections.per.ip)"
_TLS = "check security.protocol and ssl.ca.location in the Cluster's spec.client"
_CLAIMS = "compare its issuer, audience and scope with what the brokers accept"
_LOGIN = "check sasl.mechanism, sasl.username and sasl.password in the Cluster's spec.client"
_FINAL = (
    ("Connection refused", _NOT_OPENED[0], _PORTS),
    ("Failed to resolve(?!.*Temporary)", _NOT_OPENED[1], _NAMES),
    ("SSL_HANDSHAKE: .*closed by peer", "the listener has no TLS", _LISTENER),
    ("SSL_HANDSHAKE: |SSL routines", "TLS handshake failed", _TLS),
    ("AUTH_.* mechanisms:$", "the listener has no SASL", _LISTENER),
    ("OAUTHBEARER .*(AUTH_|SASL authentication error)", "the brokers refused the token", _CLAIMS),
    ("AUTH_|SASL authentication error", "authentication failed", _LOGIN),
    ("^(SASL_)?PLAINTEXT .*APIVERSION_QUERY: .*closed by peer", "closed, as a listener with TLS does", _CLOSED),
    ("^(PLAINTEXT|SSL) .*UP: .*closed by peer", "closed, as a listener with SASL does", _CLOSED),
)
"""Failures that no waiting mends: a pattern of protocol, mechanism, state and text; the kind; what to do."""
_AT_ONCE = 16
_EXPIRED = "the certificate of {} has expired or is not valid yet", "renew it, or set this machine's clock"
_OTHER_NAME = (
    "the certificate of {} is for another name ({})",
    "use a name of the certificate in bootstrapServers, and check that the brokers advertise such names",
)
# X509_V_ERR_… of OpenSSL: not yet valid, expired; host name mismatch, IP address mismatch.
_PROBLEMS = {9: _EXPIRED, 10: _EXPIRED, 62: _OTHER_NAME, 64: _OTHER_NAME}
_UNTRUSTED = (
    "the certificate of {} is not trusted ({})",
    "check ssl.ca.location in the Cluster's spec.client: it must contain the authority that signed the certificate",
)


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach one cluster, also from Spark tasks. `timeout_s`: upper bound of every exchange.

    `properties`: librdkafka's names and values. `references`: values of secrets, and the references
    that the manifest writes for them. `unresolved`: properties that hold secrets, with references in
    their place. repr hides all values. `tokens`: a source of `tokens.token_source`, or empty.
    """

    bootstrap_servers: tuple[str, ...] = field(repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    references: Mapping[str, str] = field(default_factory=dict, repr=False)
    unresolved: Mapping[str, str] = field(default_factory=dict, repr=False)
    tokens: str = ""

    def for_tasks(self, *, with_secrets: bool) -> "Connection":
        """Return the connection that tasks get: with its secrets, or with references for `resolve_here`."""
        if with_secrets:
            return replace(self, unresolved={})
        return replace(self, properties={**self.properties, **self.unresolved}, references={})

    def resolve_here(self) -> "Connection":
        """Return the connection with the values that its references have on this machine.

        Raises UnresolvedReference.
        """
        references: dict[str, str] = {}

        def value(match: re.Match[str]) -> str:
            resolved = value_of(match, os.environ)
            references[resolved] = match[0]
            return resolved

        resolved = {name: REFERENCE.sub(value, text) for name, text in self.unresolved.items()}
        return replace(self, properties={**self.properties, **resolved}, references={**self.references, **references})

    @property
    def servers(self) -> str:
        """The bootstrap servers for people, as the manifest writes them."""
        add_references(self.references)
        return ", ".join(map(redact, self.bootstrap_servers))


def create(
    client_class: Callable[..., Client],
    connection: Connection,
    settings: Settings | None = None,
    *,
    logger: "DebugLogger | None" = None,
) -> Client:
    """Open a client. `settings` win over the connection's properties.

    Raises ClusterUnreachable where a property is refused, no token comes, or no thread can be started.
    Futures of an admin client finish without `poll`; the library's log and errors need it. A producer
    asks brokers to create a missing topic, whatever the configuration: check that the topic exists
    before writing.
    """
    add_references(connection.references)
    _LOG.debug("client_class=%s", client_class.__name__)
    timeout_ms = max(1_000, int(connection.timeout_s * 1000))
    configuration = {
        "client.id": "kafka-reconciler",
        # Brokers close idle connections; that is not an event.
        "log.connection.close": False,
        "socket.connection.setup.timeout.ms": min(30_000, timeout_ms),
        # The other strategy, which the library takes where it is not told, forgets how long it waits between two
        # attempts: where no broker answers, it connected, and logged in, up to 2,000 times in a second.
        "metadata.recovery.strategy": "none",
        **connection.properties,
        "socket.timeout.ms": min(300_000, timeout_ms),
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "error_cb": _log_error,
        # Without it AdminClient.list_topics("x") creates the topic x. Producers have none.
        **({} if client_class is Producer else {"allow.auto.create.topics": False}),
        # With it, two threads of the library use a processor for as long as a request of an AdminClient waits for a
        # broker that refuses connections, and a Producer that waits for one logs in eight times in a second. An
        # AdminClient has requests for every broker anyway, and a run has one Producer.
        **({} if client_class is Consumer else {"enable.sparse.connections": False}),
        **(settings or {}),
    }
    if connection.tokens:
        configuration["oauth_cb"] = token_source(connection.tokens, connection.bootstrap_servers)
    # Not on the main thread, where Python delivers signals: the library turns a Ctrl-C that arrives
    # while it reads its properties into a TypeError about a valid property.
    try:
        return submit(lambda: client_class(configuration, logger=logger or DebugLogger())).result()
    # For `aws_iam` it also imports a package of its own.
    except (KafkaException, ValueError, TypeError, ImportError, RuntimeError) as error:
        reason, next_step = reason_of(error), "correct the Cluster's spec.client"
        if "SASL mechanism GSSAPI" in reason:
            next_step = (
                "set another sasl.mechanism, or build confluent-kafka here with a librdkafka that has Kerberos: its wheel "
                "has none"
            )
        raise ClusterUnreachable(f"no client for {connection.servers}: {reason}; {next_step}") from None


def _log_error(error: KafkaError) -> None:
    _LOG.debug("client_error=%s text=%s", error.name(), text_of(error))


def read_timeouts(connection: Connection) -> dict[str, int]:
    """Settings for reads: leave a frozen broker after a third of the timeout, learn new leaders."""
    third_ms = max(1_000, int(connection.timeout_s * 1000 / 3))
    return {"socket.timeout.ms": third_ms, "topic.metadata.refresh.interval.ms": max(1_000, third_ms // 2)}


def cluster_id(connection: Connection) -> str:
    """The cluster's id, which also proves that a broker answers. Raises as `open_client` does."""
    return open_client(connection)[1]


def open_client(
    connection: Connection,
    *,
    patience_s: float = _GRACE_S,
    find_cause: Callable[[Connection, Deadline], str | None] = lambda _connection, _deadline: None,
) -> tuple[AdminClient, str]:
    """A client for reads that a broker has answered, and the cluster's id.

    Raises ClusterUnreachable within `timeout_s`, and after `patience_s` in which every bootstrap server
    failed as no waiting mends; also where no broker accepts connections at the address that it advertises.
    `find_cause`: asked once after `patience_s` without an answer; with a cause, the wait ends.
    """
    started, deadline, give_up = time.monotonic(), Deadline.after(connection.timeout_s), Deadline.after(patience_s)
    attempt = ConnectAttempt(connection)
    asking = _Asking(connection, attempt)
    is_asked, next_client_s, unanswered = False, patience_s, Deadline.after(patience_s)
    try:
        while not deadline.passed:
            metadata = asking.wait(deadline, give_up)
            if metadata is not None:
                _check_advertised(connection, metadata)
                return asking.clients.pop(), str(metadata.cluster_id)
            if unanswered.passed:
                if attempt.names_brokers:
                    asking.end()
                    # Only here: a login has succeeded, and without it, the library would leave the server again.
                    asking = _Asking(connection, attempt, recovery="rebootstrap")
                    # Each client has twice the time of the one before: a slow broker may still answer one of them.
                    next_client_s *= 2
                unanswered = Deadline.after(next_client_s)
                cause = None if is_asked else find_cause(connection, Deadline.after(patience_s))
                is_asked = True
                if cause:
                    raise ClusterUnreachable(f"no broker of {connection.servers} answered: {cause}")
            if give_up.passed and not attempt.may_succeed():
                break
            if give_up.passed or not attempt.is_final:
                give_up = Deadline.after(patience_s)
    finally:
        asking.end()
    waited_s = time.monotonic() - started
    reason, next_step = (attempt.certificate and _diagnose_certificate(connection)) or attempt.explain()
    raise ClusterUnreachable(f"no broker of {connection.servers} answered in {waited_s:.0f} s: {reason}; {next_step}")


class _Asking:
    """A client that asks the bootstrap servers for metadata until it has the cluster's id."""

    def __init__(self, connection: Connection, attempt: "ConnectAttempt", *, recovery: str = "none") -> None:
        settings = {
            **read_timeouts(connection),
            "error_cb": attempt.add_error,
            "log.connection.close": True,
            "metadata.recovery.strategy": recovery,
        }
        self.clients = [create(AdminClient, connection, settings, logger=attempt)]
        self._longest_s = connection.timeout_s / 3
        self._answer: Future[Any] | None = None

    def wait(self, deadline: Deadline, unreached: Deadline) -> Any:
        """Wait a moment, and return the metadata; None: not yet. `unreached`: the end of a call that no server takes."""
        if self._answer is None or self._answer.done():
            # Not describe_cluster: that waits for the controller, and brokers may name a frozen one. It also
            # makes the library try the next server after 50 ms; for the cluster's id alone it waits for 1 s.
            limit_s = min(self._longest_s, deadline.remaining_s)
            if self._answer is None or failed_with(self._answer, {KafkaError._TRANSPORT}):
                limit_s = min(limit_s, unreached.remaining_s)  # a client lives as long as its call
            limit_s = max(_SLICE_S, limit_s)
            self._answer = submit(partial(self.clients[0].list_topics, _INTERNAL_TOPIC, timeout=limit_s))
        # The answer ends the wait; only `poll` delivers errors meanwhile.
        wait([self._answer], timeout=min(_SLICE_S, deadline.remaining_s))
        deliver_events(self.clients[0])
        if failure_of(self._answer) is None and self._answer.result().cluster_id:
            return self._answer.result()
        if self._answer.done():
            time.sleep(_SLICE_S)
        return None

    def end(self) -> None:
        """Drop the client: one that failed would go on connecting, and an error refers to this object."""
        self._answer = None
        release(self.clients)


def release(clients: "list[AdminClient] | dict[str, AdminClient]") -> None:
    """Drop clients in a thread: one with requests to a silent broker takes minutes to end."""
    if clients:
        with suppress(ClusterUnreachable):
            submit(clients.clear)


def _check_advertised(connection: Connection, metadata: Any) -> None:
    """Raise ClusterUnreachable if no broker accepts connections at the address that it advertises.

    A server that answers at such an address is proof enough, and then nothing is tried.
    """
    addresses = sorted(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    answered = re.sub(r"^\w+://|/[^/]*$", "", metadata.orig_broker_name)
    if addresses and answered not in addresses and not accepts(addresses, connection.timeout_s / 3):
        raise ClusterUnreachable(
            f"{connection.servers} answered, but the brokers advertise {redact(first_few(addresses))}, where none of "
            "them accepts a connection: check advertised.listeners of the brokers, or the network"
        )


def accepts(addresses: Sequence[str], patience_s: float) -> bool:
    """Return whether a TCP connection to any of these opens. A name stands for all its addresses."""
    return any(
        future.exception() is None
        for part in batched(addresses, _AT_ONCE)
        for future in as_completed([submit(partial(connect_once, address, patience_s)) for address in part])
    )


def connect_once(address: str, patience_s: float) -> None:
    """Open a TCP connection and close it. Raises as `open_socket`."""
    open_socket(address, patience_s, None).close()


def open_socket(address: str, patience_s: float, context: ssl.SSLContext | None) -> socket.socket:
    """Connect to HOST:PORT, with TLS in a context, whose host name is checked.

    Raises OSError, TimeoutError where nothing answers at all, and ValueError for a nonsensical address.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    raw = socket.create_connection((host, int(port)), timeout=patience_s)
    return raw if context is None else context.wrap_socket(raw, server_hostname=host)


def request_metadata(client: AdminClient, connection: Connection, deadline: Deadline | None) -> None:
    """Make the first call of a new client one for metadata, and wait for its answer, if any comes soon.

    Of clients whose first call was ListOffsets, one in twenty waited for one or three seconds. Waiting
    for the cluster's id does not help. The call creates no topic, because `create` forbids it. Raises
    ClusterUnreachable where no thread can be started.
    """
    remaining_s = connection.timeout_s if deadline is None else deadline.remaining_s
    limit_s = min(_METADATA_MAX_S, connection.timeout_s / 10, remaining_s)
    if limit_s > 0:
        wait([submit(lambda: client.list_topics(_INTERNAL_TOPIC, timeout=limit_s))], timeout=limit_s)


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return Python's TLS with the checks that these properties demand; None: they use no TLS.

    Raises OSError or ValueError where a certificate cannot be loaded: Python reads client
    certificates from PEM files only.
    """
    if not properties.get("security.protocol", "").upper().endswith("SSL"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https") != "none"
    if properties.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pem, location = properties.get("ssl.ca.pem"), properties.get("ssl.ca.location")
    if pem:
        context.load_verify_locations(cadata=pem)
    elif location:
        context.load_verify_locations(**{"capath" if Path(location).is_dir() else "cafile": location})
    else:
        context.load_default_certs()
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    return context


def _diagnose_certificate(connection: Connection) -> tuple[str, str] | None:
    """What is wrong with the first certificate that fails the client's checks, and what to do.

    The client library has one message for all reasons, so Python's own TLS repeats the handshake,
    for the error message only. None: no certificate fails, or no server answers.
    """
    try:
        context = tls_context(connection.properties)
    except (OSError, ValueError):
        return None
    for server in () if context is None else connection.bootstrap_servers:
        try:
            open_socket(server, min(_GRACE_S, connection.timeout_s), context).close()
        except ssl.SSLCertVerificationError as error:
            reason, next_step = _PROBLEMS.get(error.verify_code, _UNTRUSTED)
            reason = redact(reason.format(server, error.verify_message.rstrip(".")))
            return f"TLS handshake failed: {reason}", next_step
        except (OSError, ValueError):
            continue
    return None


class DebugLogger:
    """Sends the library's log lines, dozens per second while a broker is away, to debug only."""

    def log(self, _level: int, message: str, *details: object) -> None:
        """Log at debug level. The signature of `logging.Logger.log`; its level is dropped."""
        _LOG.debug("%s", redact(message % details if details else message))


class ConnectAttempt(DebugLogger):
    """Why no bootstrap server has answered so far, from the library's log and errors.

    The log, because a connection that the broker closes is not an error to the library.
    """

    def __init__(self, connection: Connection) -> None:
        self.certificate = False
        # Whether a broker failed that an answer named: the library leaves the server that gave it, and asks only
        # brokers. A new client asks the bootstrap servers again, whose answer names all brokers.
        self.names_brokers = False
        self._connection = connection
        self._failures: dict[str, tuple[str, str, str | None]] = {}
        """Server → the kind of its last failure, its text, and what to do; None: a later try may succeed."""

    def log(self, _level: int, message: str, *details: object) -> None:
        """Note why a bootstrap server failed, and whether a broker did that an answer named."""
        super().log(_level, message, *details)
        match = _FAILED.fullmatch(message % details if details else message)
        if match and match[2] != "bootstrap":
            self.names_brokers = True
        elif match:
            server, text, state = match[1], match[3].strip(), match[4] or ""
            properties = self._connection.properties
            protocol, mechanism = properties.get("security.protocol", "PLAINTEXT"), properties.get("sasl.mechanism", "")
            subject = f"{protocol.upper()} {mechanism.upper()} {state}: {text}"
            kind, next_step = next(
                ((kind, next_step) for pattern, kind, next_step in _FINAL if re.search(pattern, subject)),
                ("timed out" if "timed out" in text.lower() else "connection failed", None),
            )
            text = _UNANSWERED.sub("it accepts the connection and sends no answer", text)
            self._failures[server] = kind, one_line(f"{server}: {text}"), next_step
            self.certificate = self.certificate or "certificate verify failed" in text

    def add_error(self, error: KafkaError) -> None:
        """Note that no token came, which the log does not say."""
        _log_error(error)
        if error.code() == KafkaError._AUTHENTICATION and "OAUTHBEARER token" in raw_text_of(error):
            next_step = "check the token endpoint and the credentials for it in the Cluster's spec.client"
            self._failures = dict.fromkeys(self._connection.bootstrap_servers, ("no token", text_of(error), next_step))

    @property
    def is_final(self) -> bool:
        """Whether every bootstrap server failed, the last time as no waiting mends."""
        return len(self._failures) >= len(set(self._connection.bootstrap_servers)) and all(
            next_step for _kind, _text, next_step in self._failures.values()
        )

    def may_succeed(self) -> bool:
        """Return whether a later try may succeed, as at another address of a server's name."""
        not_opened = [server for server, (kind, _text, _step) in self._failures.items() if kind in _NOT_OPENED]
        return not self.is_final or accepts(not_opened, _GRACE_S)

    def explain(self) -> tuple[str, str]:
        """Return why no server answered, once for each kind of failure, and what to do."""
        kinds = {kind: (f"{kind} ({text})", step) for kind, text, step in self._failures.values()}
        reasons = "; ".join(reason for reason, _step in kinds.values()) or "no answer"
        steps = "; ".join(dict.fromkeys(step for _reason, step in kinds.values() if step))
        return (
            reasons,
            steps or "check the addresses, that this machine may reach them, and that the brokers are not stuck",
        )
