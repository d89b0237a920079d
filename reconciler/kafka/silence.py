"""Finds brokers that do not answer, so that one sentence names them and no missing right is suspected.

Most calls of the library do not say which broker they waited for, so each broker is asked once more.
"""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import ConfigResource, ResourceType

from reconciler.kafka.connect import connect_once
from reconciler.kafka.futures import Deadline, batched, code_of, failed_with, failure_of, submit, wait_all
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from reconciler.model.snapshot import Cause, Unknown

_BROKERS_AT_ONCE = 50
_PATIENCE_MIN_S = 5.0
"""A broker on a busy machine takes seconds for its first DescribeConfigs."""
_CONNECT_S = 3.0
_FENCED_S = 9.0
"""The controllers fence a broker without heartbeats after broker.session.timeout.ms."""


def silent_brokers(session: KafkaSession, addresses: Mapping[int, str]) -> dict[int, Unknown]:
    """Return which of these brokers do not answer now, with the reason for facts that they keep.

    `addresses`: host and port by broker id. Each broker gets one DescribeConfigs request (API key 32)
    about itself. A refusal of that is an answer, so no right is needed. Waits for a third of the
    session's timeout, and for at least five seconds. A broker that refuses connections is down; if the
    cluster still names it then, no controller has fenced it. Raises ClusterUnreachable.
    """
    client = session.reader()
    patience_s = max(_PATIENCE_MIN_S, session.timeout_s / 3)
    answers: dict[int, Future[Any]] = {}
    for part in batched(sorted(addresses), _BROKERS_AT_ONCE):
        for broker in part:
            # One call per broker: the library refuses several of them in one call.
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            answers[broker] = client.describe_configs([resource], request_timeout=patience_s)[resource]
        wait_all((client,), (answers[broker] for broker in part), Deadline.after(patience_s + 1.0))
    silent = [broker for broker, answer in answers.items() if not _has_answered(answer)]
    opened = {broker: submit(partial(connect_once, addresses[broker], _CONNECT_S)) for broker in silent}
    failures = {broker: connection.exception() for broker, connection in opened.items()}
    # A frozen process refuses nothing: its queue of connections fills up, and then they time out.
    down = {broker for broker, error in failures.items() if error is not None and not isinstance(error, TimeoutError)}
    named: Collection[int] = ()
    if down and patience_s > _FENCED_S:
        listed = session.call(lambda client, limit_s: client.list_topics(CONSUMER_OFFSETS_TOPIC, timeout=limit_s))
        named = listed.result().brokers if failure_of(listed) is None else ()
    return {
        broker: silence_of(broker, addresses[broker], patience_s, down=broker in down, unfenced=broker in named)
        for broker in silent
    }


def silence_of(broker: int, address: str, patience_s: float, *, down: bool = False, unfenced: bool = False) -> Unknown:
    """Return the reason for facts that a broker keeps. It names its own wait, which is shorter than --timeout."""
    reason = f"broker {broker} ({address}) did not answer a test request within {patience_s:.0f} s"
    if down:
        reason = f"broker {broker} ({address}) is down: it accepts no connection"
    if down and unfenced:
        reason += f", and no controller fenced it within {patience_s:.0f} s, so most controllers may be down"
    return Unknown(reason, Cause.SILENT_BROKER)


def _has_answered(answer: Future[Any]) -> bool:
    """Return whether the broker sent something. Negative codes are the library's own: a timeout, or a
    broker that left the metadata because the controller fenced it.
    """
    if not answer.done():
        return False
    return code_of(answer.exception()) >= 0 or failed_with(answer, {KafkaError._UNSUPPORTED_FEATURE})
