"""Builds librdkafka clients: no auto-created topics, no log noise, bounded timeouts.

Decided here: properties that no manifest may override, and why a cluster does not answer.
"""

import logging
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from reconciler.errors import ClusterUnreachable
from reconciler.kafka.futures import Deadline, deliver_events, failure_of, raw_text_of, reason_of, submit, text_of
from reconciler.references import REFERENCE, value_of
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
_HANDSHAKES = {
    KafkaError._AUTHENTICATION: ("authentication failed", "sasl.mechanism, sasl.username and sasl.password"),
    KafkaError._SSL: ("TLS handshake failed", "security.protocol and ssl.ca.location"),
}
"""Errors that no waiting mends: their kind, and what to check."""
_KINDS = {"refused": "connection refused", "resolve": "name not found", "timed out": "timed out"}
"""Kinds of the other errors, by a word of their text."""
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
    their place. repr hides all values.
    """

    bootstrap_servers: tuple[str, ...] = field(repr=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    references: Mapping[str, str] = field(default_factory=dict, repr=False)
    unresolved: Mapping[str, str] = field(default_factory=dict, repr=False)

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


def create(client_class: Callable[..., Client], connection: Connection, settings: Settings | None = None) -> Client:
    """Open a client. `settings` win over the connection's properties.

    Raises ClusterUnreachable where a property is refused, or no thread can be started. Futures of an admin client finish without
    `poll`; the library's log and errors need it. A producer asks brokers to create a missing topic,
    whatever the configuration: check that the topic exists before writing.
    """
    add_references(connection.references)
    _LOG.debug("client_class=%s", client_class.__name__)
    timeout_ms = max(1_000, int(connection.timeout_s * 1000))
    configuration = {
        "client.id": "kafka-reconciler",
        # Brokers close idle connections; that is no event.
        "log.connection.close": False,
        "socket.connection.setup.timeout.ms": min(30_000, timeout_ms),
        **connection.properties,
        "socket.timeout.ms": min(300_000, timeout_ms),
        "bootstrap.servers": ",".join(connection.bootstrap_servers),
        "error_cb": _log_error,
        # Without it AdminClient.list_topics("x") creates the topic x. Producers have none.
        **({} if client_class is Producer else {"allow.auto.create.topics": False}),
        **(settings or {}),
    }
    # Not on the main thread, where Python delivers signals: the library turns a Ctrl-C that arrives
    # while it reads its properties into a TypeError about a valid property.
    try:
        return submit(lambda: client_class(configuration, logger=DebugLogger())).result()
    except (KafkaException, ValueError, TypeError) as error:
        raise ClusterUnreachable(
            f"no client for {connection.servers}: {reason_of(error)}; correct the Cluster's spec.client"
        ) from None


def _log_error(error: KafkaError) -> None:
    _LOG.debug("client_error=%s text=%s", error.name(), text_of(error))


def read_timeouts(connection: Connection) -> dict[str, int]:
    """Settings for reads: leave a frozen broker after a third of the timeout, learn new leaders."""
    third_ms = max(1_000, int(connection.timeout_s * 1000 / 3))
    return {"socket.timeout.ms": third_ms, "topic.metadata.refresh.interval.ms": max(1_000, third_ms // 2)}


def coordinator_settings() -> Settings:
    """Settings for requests to group coordinators: forget a coordinator a second after its last use.

    The library remembers the coordinators of about ten groups for metadata.max.age.ms, and the answer
    NOT_COORDINATOR does not make it look them up again: the request is repeated until it times out.
    """
    return {"metadata.max.age.ms": 1_000}


def cluster_id(connection: Connection) -> str:
    """The cluster's id, which also proves that a broker answers. Raises as `open_client` does."""
    return open_client(connection)[1]


def open_client(connection: Connection) -> tuple[AdminClient, str]:
    """A client for reads that a broker has answered, and the cluster's id.

    Raises ClusterUnreachable within `timeout_s`, and within three seconds of a failed handshake.
    """
    started = time.monotonic()
    errors = ConnectErrors(Deadline.after(connection.timeout_s))
    client = create(AdminClient, connection, {**read_timeouts(connection), "error_cb": errors.add})
    # Not describe_cluster: that waits for the controller, and brokers may name a frozen one.
    answer = submit(lambda: client.cluster_id(timeout=connection.timeout_s))
    while not answer.done() and not errors.deadline.passed:
        # The answer ends the wait; only `poll` delivers errors meanwhile.
        wait([answer], timeout=min(_SLICE_S, errors.deadline.remaining_s))
        deliver_events(client)
    deliver_events(client)
    if failure_of(answer) is None and answer.result():
        return client, str(answer.result())
    waited_s = time.monotonic() - started
    diagnosis = _diagnose_certificate(connection) if errors.certificate else None
    reason, next_step = diagnosis or (errors.reason, errors.next_step)
    raise ClusterUnreachable(f"no broker of {connection.servers} answered in {waited_s:.0f} s: {reason}; {next_step}")


def request_metadata(client: AdminClient, connection: Connection, *, deadline: Deadline | None = None) -> None:
    """Make the first call of a new client one for metadata, and wait for its answer, if any comes soon.

    Of clients whose first call was ListOffsets, one in twenty waited for one or three seconds. Waiting
    for the cluster's id does not help. The call creates no topic, because `create` forbids it. Raises
    ClusterUnreachable where no thread can be started.
    """
    limit_s = min(_METADATA_MAX_S, connection.timeout_s / 10)
    if deadline is not None:
        limit_s = min(limit_s, deadline.remaining_s)
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
    limit_s = min(_GRACE_S, connection.timeout_s)
    if context is None:
        return None
    for server in connection.bootstrap_servers:
        host, _, port = server.rpartition(":")
        host = host.strip("[]")
        try:
            with socket.create_connection((host, int(port)), timeout=limit_s) as raw:
                context.wrap_socket(raw, server_hostname=host).close()
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


class ConnectErrors:
    """The library's errors during a connection attempt; the last error that explains it wins.

    `deadline`: of the attempt. An error that no waiting mends brings it forward.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.reason = "no answer"
        self.next_step = "check the addresses, and that this machine may reach them"
        self.certificate = False

    def add(self, error: KafkaError) -> None:
        """Add an error. Timeouts and "all brokers down" explain less than earlier errors."""
        _log_error(error)
        text, code = raw_text_of(error), error.code()
        kind = next((kind for word, kind in _KINDS.items() if word in text.lower()), "connection failed")
        if code in _HANDSHAKES:
            kind, properties = _HANDSHAKES[code]
            self.deadline = min(self.deadline, Deadline.after(_GRACE_S))
            self.next_step = f"check {properties} in the Cluster's spec.client"
        if code == KafkaError._ALL_BROKERS_DOWN or (code == KafkaError._TIMED_OUT and self.reason != "no answer"):
            return
        self.reason = f"{kind} ({redact(text)})"
        self.certificate = self.certificate or "certificate verify failed" in text
