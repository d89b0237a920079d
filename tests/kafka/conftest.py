"""Connections to the shared brokers, and guarded brokers, for all files of this folder."""

from collections.abc import Iterator

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from tests.kafka.secured import pytest_runtest_teardown, sasl_broker, tls_broker

__all__ = ["connection", "gateway", "pytest_runtest_teardown", "sasl_broker", "tls_broker"]


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)


@pytest.fixture
def gateway(connection: Connection) -> Iterator[KafkaGateway]:
    gateway = KafkaGateway(KafkaSession(connection))
    yield gateway
    gateway.session.close()
