"""One warm process of Spark for all tests of this folder.

Scans run on the shared brokers, on topics and groups with unique names.
"""

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.scan.engine_choice import Engine
from reconciler.scan.scan import scan

Scan = Callable[..., ClusterSnapshot]


def scan_now(session: KafkaSession, needs: ScanRequest, engine: Engine, **options: Any) -> ClusterSnapshot:
    """Return a snapshot of this moment. `options`: other arguments of a scan than its defaults here."""
    defaults = {
        "observed_at_ms": time.time_ns() // 1_000_000,
        "last_purges": {},
        "progress": lambda *_step: None,
    }
    return scan(needs, session, engine=engine, **(defaults | options))


@pytest.fixture
def servers(cluster: SandboxCluster) -> str:
    """The bootstrap servers of the shared brokers."""
    return cluster.bootstrap_servers


@pytest.fixture
def scanned(connection: Connection, engine: Engine) -> Scan:
    """`scanned(needs)` returns a snapshot of the shared cluster with the warm Spark. Options: as of `scan_now`."""

    def run(needs: ScanRequest, **options: Any) -> ClusterSnapshot:
        with closing(KafkaSession(connection)) as session:
            return scan_now(session, needs, engine, **options)

    return run


@pytest.fixture
def unique() -> str:
    """A prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
