"""Connections to the shared brokers, and guarded brokers, for all files of this folder."""

from collections.abc import Iterator

import pytest

from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from tests.kafka.secured import pytest_runtest_teardown, sasl_broker, tls_broker

__all__ = ["gateway", "pytest_runtest_teardown", "sasl_broker", "tls_broker"]


@pytest.fixture
def gateway(connection: Connection) -> Iterator[KafkaGateway]:
    gateway = KafkaGateway(KafkaSession(connection))
    yield gateway
    gateway.session.close()
