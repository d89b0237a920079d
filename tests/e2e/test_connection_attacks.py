"""Manifests of a pull request that would send something away, or end the process.

Each attack runs as a command against a listener on loopback, which speaks as much of Kafka's
protocol and of HTTP as the attack needs. Before manifests were bound to listed properties and
confined references, each of these listeners got what the test has planted.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests.build import cluster_manifest, waiver
from tests.command import environment, reconciler, reconciler_process, run_process
from tests.e2e.workspace import Workspace, floor, leaders
from tests.fakes.listener import Listener

PLANTED = "planted-4f2c9aa-hunter2"
SASL = {"sasl.username": "ci", "sasl.password": "${env:KAFKA_PASSWORD}"}
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
}


def write(
    folder: Path, servers: str, properties: dict[str, Any], *, cluster_id: str = CLUSTER_ID, more: str = ""
) -> Path:
    """Write a Cluster and a policy that every cluster has a plan for."""
    folder.mkdir(parents=True)
    lines = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in properties.items())
    cluster = cluster_manifest(servers, limits="", cluster_id=cluster_id, name="prod")
    (folder / "cluster.yaml").write_text(cluster + (f"  client:\n{lines}" if lines else "") + more)
    (folder / "leaders.yaml").write_text(leaders("'*'"))
    return folder


ATTACKS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "the password goes to changed servers": (
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **SASL},
        {"M219": "security.protocol"},
    ),
    "the client's secret goes to a token endpoint": (
        {
            **OIDC,
            "sasl.oauthbearer.client.id": "ci",
            "sasl.oauthbearer.client.secret": "${env:KAFKA_PASSWORD}",
            "sasl.oauthbearer.token.endpoint.url": "http://LISTENER/token",
        },
        {"M218": "sasl.oauthbearer.token.endpoint.url"},
    ),
    "a file goes to a token endpoint": (
        {
            **OIDC,
            "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "sasl.oauthbearer.assertion.file": "SECRET",
            "sasl.oauthbearer.token.endpoint.url": "http://LISTENER/token",
        },
        {"M218": "sasl.oauthbearer.token.endpoint.url"},
    ),
    "the identity of the machine is fetched": (
        {
            **OIDC,
            "sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "sasl.oauthbearer.config": "${env:KAFKA_QUERY}",
            "sasl.oauthbearer.token.endpoint.url": "http://LISTENER/metadata/identity",
        },
        {"M213": "sasl.oauthbearer.config", "M218": "sasl.oauthbearer.token.endpoint.url"},
    ),
    "the process is killed": ({"internal.termination.signal": 9}, {"M212": "internal.termination.signal"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_property_is_an_error_with_its_place(listener: Listener, tmp_path: Path, attack: str) -> None:
    """Exit 1, code and line of each property, and no connection."""
    properties, expected = ATTACKS[attack]
    (tmp_path / "secret").write_text(PLANTED)
    replacements = {"LISTENER": listener.address, "SECRET": str(tmp_path / "secret")}
    for word, replacement in replacements.items():
        properties = json.loads(json.dumps(properties).replace(word, replacement))
    write(tmp_path / "manifests", listener.address, properties)
    variables = {"KAFKA_PASSWORD": PLANTED, "KAFKA_QUERY": f"query=resource={PLANTED}"}
    run = reconciler_process if "internal.termination.signal" in properties else reconciler
    result = run(tmp_path, "plan", "--timeout", "5", **variables)
    assert (listener.connections, listener.received) == (0, b"")
    assert result.returncode == 1, result.stderr
    lines = (tmp_path / "manifests" / "cluster.yaml").read_text().splitlines()
    for code, name in expected.items():
        line = next(number for number, text in enumerate(lines, 1) if text.strip().startswith(f"{name}:"))
        assert f"error[{code}]" in result.stderr
        assert f"manifests/cluster.yaml:{line}:" in result.stderr
    assert PLANTED not in result.stdout + result.stderr


@pytest.mark.parametrize("reference", ["${file:/etc/passwd}", "${file:../secret}", "${file:link}", "${env:AWS_SECRET}"])
@pytest.mark.parametrize("is_server", [False, True])
def test_a_reference_out_of_its_place_is_read_by_nothing(
    listener: Listener, tmp_path: Path, reference: str, is_server: bool
) -> None:
    """As the name of a user, a file is sent in clear text also with SCRAM. Exit 1 with M501."""
    (tmp_path / "secret").write_text(PLANTED)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "link").symlink_to("../secret")
    servers = f"{listener.address},{reference}" if is_server else listener.address
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        **SASL,
        "sasl.username": "ci" if is_server else reference,
    }
    write(tmp_path / "manifests", servers, properties)
    variables = {"KAFKA_PASSWORD": "x", "AWS_SECRET": PLANTED, "RECONCILER_SECRETS_DIR": str(tmp_path / "secrets")}
    result = reconciler(tmp_path, "plan", "--timeout", "5", **variables)
    assert (listener.connections, listener.received) == (0, b"")
    assert result.returncode == 1, result.stderr
    assert "M501 Cluster/prod (manifests/cluster.yaml:1)" in result.stderr
    assert ("spec.bootstrapServers[1]" if is_server else "spec.client.sasl.username") in result.stderr
    assert PLANTED not in result.stdout + result.stderr
    assert "root:" not in result.stdout + result.stderr


SECURE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **SASL}
TOKEN_ENDPOINT = {
    **OIDC,
    "sasl.oauthbearer.client.id": "${env:KAFKA_PASSWORD}",
    "sasl.oauthbearer.client.secret": "${env:KAFKA_PASSWORD}",
    "sasl.oauthbearer.token.endpoint.url": "https://LISTENER/token",
}


def new_brokers(value: int, hours: float) -> str:
    return waiver("Cluster/prod", "connection", value, name="new-brokers, reason: we move", hours=hours)


@pytest.mark.parametrize(
    ("properties", "cluster_id", "more", "fields"),
    [
        ({}, CLUSTER_ID, "", "bootstrapServers"),
        (SECURE, CLUSTER_ID, "", "bootstrapServers, client.sasl.mechanism, client.sasl.password, client.sasl.username"),
        (TOKEN_ENDPOINT, CLUSTER_ID, "", "client.sasl.oauthbearer.token.endpoint.url"),
        ({}, "id-of-another-cluster", "  journal: {topic: forged}\n", "bootstrapServers, clusterId, journal"),
    ],
)
def test_a_proposed_connection_is_shown_and_not_followed(
    cluster: SandboxCluster,
    listener: Listener,
    tmp_path: Path,
    properties: dict[str, str],
    cluster_id: str,
    more: str,
    fields: str,
) -> None:
    """The plan is one of the trusted brokers; exit 3, until a waiver that has not expired allows it."""
    write(tmp_path / "trusted", cluster.bootstrap_servers, {}, cluster_id=cluster.cluster_id)
    properties = json.loads(json.dumps(properties).replace("LISTENER", listener.address))
    proposed = write(tmp_path / "proposed", listener.address, properties, cluster_id=cluster_id, more=more)
    command = ["plan", "proposed", "--connect-as", "trusted", "--output-file", "md=plan.md"]
    changed = "connects elsewhere after the merge ("
    for text, code in (("", 3), (new_brokers(1_000, -1), 3), (new_brokers(0, 1), 3), (new_brokers(1_000, 1), 0)):
        (proposed / "waiver.yaml").write_text(text) if text else None
        result = reconciler(tmp_path, *command, KAFKA_PASSWORD=PLANTED)
        assert result.returncode == code, result.stderr
        assert f"({cluster.cluster_id})" in result.stdout
        for document in (result.stdout, (tmp_path / "plan.md").read_text()):
            first = next(line for line in document.splitlines() if changed in line or "LeaderPolicy/" in line)
            assert changed in first
            assert all(f"{field}" in first for field in fields.split(", "))
        assert PLANTED not in result.stdout + result.stderr
        assert (listener.connections, listener.received) == (0, b"")
    assert "Waiver/new-brokers" in result.stdout
    (proposed / "waiver.yaml").unlink()
    for words in ("doctor", "journal", "scan --out facts"):
        refused = reconciler(
            tmp_path, *words.split(), "proposed", KAFKA_PASSWORD=PLANTED, RECONCILER_CONNECTION="trusted"
        )
        assert refused.returncode == 3, refused.stderr
        assert "connects elsewhere" in refused.stderr
    assert (listener.connections, listener.received) == (0, b"")


@pytest.mark.spark
def test_no_module_of_the_checkout_runs(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A pull request with a folder named pyspark once ran in Spark's workers, beside the secrets."""
    write(tmp_path / "manifests", cluster.bootstrap_servers, {}, cluster_id=cluster.cluster_id)
    unique = Workspace(cluster, tmp_path).create_topic(0)
    (tmp_path / "manifests" / "floor.yaml").write_text(floor(unique, "keep: {newerThan: 7d}"))
    planted = tmp_path / "planted"
    for name in ("pyspark", "reconciler", "confluent_kafka", "pyarrow", "json", "sitecustomize"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(planted)!r}, 'a').write({name!r})")
    script = Path(sys.executable).with_name("reconciler")
    result = run_process(tmp_path, script, "plan", env=environment(RECONCILER_ENGINE="spark"))
    assert result.returncode == 0, result.stderr
    assert not planted.exists(), planted.read_text()
