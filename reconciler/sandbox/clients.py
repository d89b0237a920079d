"""The clients behind the workload: quiet, patient with a cluster that has only just started. For sandbox and tests only."""

import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

_LOG = logging.getLogger("reconciler.sandbox.client")
_PAUSE_S = 0.05
_NOT_YET = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.INVALID_REPLICATION_FACTOR,  # fewer brokers are registered yet than replicas are wanted
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
    }
)


def retrying(call: Callable[[], None], deadline_s: float) -> None:
    """Right after a start coordinators and leaders move: those answers mean "not yet"."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            return call()
        except KafkaException as failure:
            if failure.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def admin_client(bootstrap: str) -> AdminClient:
    """Hold on to it: a client that is collected fails its futures."""
    return AdminClient({"bootstrap.servers": bootstrap, "error_cb": ignore_error}, logger=Quiet())


def producer_properties(bootstrap: str) -> dict[str, Any]:
    """Acknowledged by all replicas, and no topic made in passing."""
    return {
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "linger.ms": 5,
        "allow.auto.create.topics": False,
        "error_cb": ignore_error,
    }


def consumer_properties(bootstrap: str, group: str) -> dict[str, Any]:
    """Commits only when told."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "session.timeout.ms": 10_000,
        "error_cb": ignore_error,
    }


def ignore_error(error: KafkaError) -> None:
    """Takes the library's errors off the terminal; calls raise those that matter."""
    _LOG.debug("client_error=%s", error.name())


class Quiet:
    """Stands where the library wants a logger, which otherwise writes to stderr."""

    def log(self, _level: int, message: str, *details: object) -> None:
        _LOG.debug(message, *details)
