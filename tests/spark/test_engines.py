"""The same scan gives the same snapshot on each engine.

The servers do not have this package: the scan sends its code to them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.sandbox import client
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster
from tests.spark.servers import QUICK_START, standalone

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

SCRIPT = Path(__file__).with_name("scan_once.py")
LIMIT_S = 180


def scan_with(cluster: Cluster, unique: str, engine: str, *conf: str, shipped: bool = True) -> str:
    """The snapshot as text. `shipped`: the workers must have run the code that the scan sent."""
    result = subprocess.run(
        [sys.executable, str(SCRIPT), cluster.bootstrap_servers, unique, f"{unique}-g", engine, *conf],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # Only progress lines may appear: no output of Spark or of the client library.
    *output, code = result.stderr.splitlines()
    assert all(line.split()[0] in {"listing", "waiting", "reading", "read"} for line in output), result.stderr
    assert code.startswith("code from ")
    assert ".zip" in code or not shipped, code
    return result.stdout


def test_engines_agree(cluster: Cluster, spark_server: str, unique: str, tmp_path: Path) -> None:
    """local[2], a Master with two Workers, and a Connect server give one snapshot and no terminal
    output.
    """
    servers = cluster.bootstrap_servers
    client.create_topics(servers, [Topic(unique, partitions=4)])
    records = [Record(b"x", timestamp_ms=1_000 * (number + 1)) for number in range(9)]
    client.produce(servers, unique, dict.fromkeys(range(4), records))
    client.commit(servers, f"{unique}-g", {(unique, number): number for number in range(4)})
    client.commit(servers, f"{unique}-g2", {(unique, 0): 9})
    local = scan_with(cluster, unique, "local[2]", shipped=False)
    assert "ConsumerPosition" in local
    with standalone(tmp_path) as master:
        quick = [f"spark.{process}.extraJavaOptions={QUICK_START}" for process in ("driver", "executor")]
        assert scan_with(cluster, unique, master, "spark.executor.memory=512m", *quick) == local
    assert scan_with(cluster, unique, spark_server) == local
    # The server is warm and already has the same code.
    assert scan_with(cluster, unique, spark_server) == local
