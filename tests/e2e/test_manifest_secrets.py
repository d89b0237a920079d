"""A secret of a manifest is used for the connection and appears in no output, log or file."""

import time
from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests.command import reconciler

pytestmark = pytest.mark.brokers

SECRET = "secret-4f2c9aa-hunter2"
DAY_MS = 86_400_000


def test_no_output_of_a_run_has_the_secret(cluster: SandboxCluster, tmp_path: Path) -> None:
    """validate, plan, show, apply, results, journal and the scan's export, with full logging, show
    no secret.
    """
    topic = f"secret-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=1, replication=1)])
    old_record = Record(b"old", timestamp_ms=int(time.time() * 1000) - 30 * DAY_MS)
    client.produce(cluster.bootstrap_servers, topic, {0: [old_record] * 10})
    (tmp_path / "password").write_text(SECRET)
    (tmp_path / "manifests.yaml").write_text(
        "apiVersion: reconciler/v1\nkind: Cluster\nmetadata: {name: local}\n"
        f"spec:\n  clusterId: {CLUSTER_ID}\n  bootstrapServers: ['${{env:KAFKA_BOOTSTRAP_SERVERS}}']\n"
        "  client:\n    security.protocol: PLAINTEXT\n    sasl.username: me\n"
        "    sasl.password: ${env:KAFKA_PASSWORD}\n    ssl.key.password: ${file:password}\n"
        "  limits: {recordsPercent: 100, recordsPercentPerTopic: 100}\n"
        "---\napiVersion: reconciler/v1\nkind: RetentionFloor\nmetadata: {name: old}\n"
        f"spec:\n  topics: [{topic}]\n  keep: {{newerThan: 7d}}\n"
    )
    outputs = ""
    for arguments in (
        ("validate", "manifests.yaml"),
        ("plan", "manifests.yaml", "--out", "plan.json", "-o", "json"),
        ("show", "plan.json", "-o", "md"),
        ("scan", "manifests.yaml", "--out", "facts"),
        ("apply", "plan.json", "manifests.yaml", "--results", "results.json"),
        ("journal", "manifests.yaml"),
        ("doctor", "manifests.yaml"),
    ):
        result = reconciler(
            tmp_path,
            *(*arguments, "-v", "--log-format", "json"),
            KAFKA_BOOTSTRAP_SERVERS=cluster.bootstrap_servers,
            KAFKA_PASSWORD=SECRET,
            RECONCILER_SECRETS_DIR=str(tmp_path),
        )
        assert result.returncode == 0 or arguments[0] == "doctor", f"{arguments}: {result.stderr}"
        outputs += result.stdout + result.stderr
    files = {path for path in tmp_path.rglob("*") if path.is_file() and path.name != "password"}
    assert {"plan.json", "results.json"} <= {path.name for path in files}
    assert SECRET not in outputs
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []
