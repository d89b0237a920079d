"""One warm Spark session for all tests of this folder.

Scans run on the shared brokers, on topics and groups with unique names.
"""

import time
import uuid
from collections.abc import Callable, Mapping

import pytest

from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.sandbox.cluster import Cluster
from reconciler.scan.scan import SparkTarget, scan

Scan = Callable[..., ClusterSnapshot]


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return Connection(tuple(cluster.bootstrap_servers.split(",")), timeout_s=20.0)


@pytest.fixture
def scanned(connection: Connection, engine: SparkTarget) -> Scan:
    """`scanned(needs)` returns a snapshot of the shared cluster from the warm session."""

    def run(
        needs: ScanRequest,
        *,
        last_purges: Mapping[TopicPartition, int] | Unknown | None = None,
        progress: Callable[[str], None] = lambda _message: None,
    ) -> ClusterSnapshot:
        return scan(
            needs,
            KafkaSession(connection),
            observed_at_ms=time.time_ns() // 1_000_000,
            last_purges={} if last_purges is None else last_purges,
            engine=engine,
            progress=progress,
        )

    return run


@pytest.fixture
def unique() -> str:
    """A prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"
