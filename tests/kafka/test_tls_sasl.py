"""TLS and SASL end to end: it works by both mechanisms, each fault is one clear line, and no output ever holds a secret."""

import json
import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from reconciler.sandbox.client import wait_until
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.java import find_java
from reconciler.sandbox.security import SecureAccess, Security
from tests.command import reconciler_process

pytestmark = pytest.mark.brokers

PASSWORD = "c0rrecthorsebattery"
WRONG = "wr0nghorsebattery"
SECURE = "listener.name.secure"
KEYSTORE = re.compile(rf"^{re.escape(SECURE)}\.ssl\.keystore\.password=(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """One broker behind TLS whose certificate may be exchanged while it runs. `doctor` is a super user: rights are another test's."""
    properties = {
        "super.users": "User:ANONYMOUS;User:doctor",
        f"{SECURE}.ssl.allow.dn.changes": "true",
        f"{SECURE}.ssl.allow.san.changes": "true",
    }
    security = Security({"doctor": PASSWORD}, tls=True)
    cluster = start(1, name="tls", heap_mib=256, security=security, properties=properties)
    try:
        yield cluster
    finally:
        stop(cluster)


def access(cluster: Cluster) -> SecureAccess:
    assert cluster.secure is not None
    return cluster.secure


def plan(
    folder: Path, cluster: Cluster, *words: str, password: str = PASSWORD, **more: str
) -> subprocess.CompletedProcess[str]:
    """A plan of all leaders, which needs nothing but the connection; `more`: client properties, `_` for `.`."""
    properties = access(cluster).client("doctor") | {"sasl.password": "${env:KAFKA_PASSWORD}"}
    properties |= {name.replace("_", "."): value for name, value in more.items()}
    (folder / "manifests").mkdir(exist_ok=True)
    (folder / "manifests" / "all.yaml").write_text(
        f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: guarded}}
spec:
  clusterId: {cluster.cluster_id}
  bootstrapServers: ["{access(cluster).bootstrap_servers}"]
  client: {json.dumps(properties)}
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: preferred}}
spec: {{topics: ["*"]}}
"""
    )
    done = reconciler_process(folder, "plan", "--timeout", "20", *words, KAFKA_PASSWORD=password)
    for secret in (PASSWORD, WRONG):
        assert secret not in done.stdout + done.stderr
    return done


def one_error(done: subprocess.CompletedProcess[str]) -> str:
    """The only line that a failed command printed."""
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("error: no broker of 127.0.0.1:")
    return line


def present(cluster: Cluster, name: str, *options: str) -> str:
    """Make the broker show another certificate, and answer where it is for clients to trust."""
    [server] = cluster.dir.glob("server-1.properties")
    found = KEYSTORE.search(server.read_text())
    assert found is not None
    store, certificate = cluster.dir / f"{name}.p12", cluster.dir / f"{name}.pem"
    keytool = find_java().resolve().parent / "keytool"
    at = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass:env", "STORE"]
    for words in (
        ["-genkeypair", *at, "-keyalg", "EC", "-groupname", "secp256r1", *options],
        ["-exportcert", "-rfc", *at, "-file", str(certificate)],
    ):
        subprocess.run(
            [keytool, *words], env=os.environ | {"STORE": found[1]}, check=True, capture_output=True, timeout=60
        )
    entry = ConfigEntry(f"{SECURE}.ssl.keystore.location", str(store), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)
    host, port = access(cluster).bootstrap_servers.split(":")
    wanted = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    wait_until(
        lambda: ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port)), timeout=10)) == wanted,
        60,
        "the broker to show its new certificate",
    )
    return str(certificate)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_plan_over_tls_by_either_mechanism(guarded: Cluster, tmp_path: Path, mechanism: str) -> None:
    """The manifest's client properties reach the brokers, the password only through the environment."""
    done = plan(tmp_path, guarded, "-q", sasl_mechanism=mechanism)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Cluster guarded")


def test_a_wrong_password_is_one_line_without_it(guarded: Cluster, tmp_path: Path) -> None:
    """It says what to check, within seconds; not even -v shows a password."""
    told = one_error(plan(tmp_path, guarded, "-q", password=WRONG))
    assert "authentication failed" in told
    assert "check sasl.mechanism, sasl.username and sasl.password" in told
    verbose = plan(tmp_path, guarded, "-v", password=WRONG)
    assert verbose.returncode == 1


def test_a_missing_password_names_the_variable(guarded: Cluster, tmp_path: Path) -> None:
    """An empty variable is no password: the manifest and the variable are named before anything is tried."""
    done = plan(tmp_path, guarded, "-q", password="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "KAFKA_PASSWORD is empty" in done.stderr


def test_an_unknown_authority_is_one_line(guarded: Cluster, tmp_path: Path) -> None:
    """A broker whose certificate nobody vouches for is not spoken to, and the setting to check is named."""
    stranger = present(guarded, "stranger", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "5")
    assert stranger != str(access(guarded).certificate)
    told = one_error(plan(tmp_path, guarded, "-q"))
    assert "is not trusted (" in told
    assert "check ssl.ca.location" in told


def test_an_expired_certificate_is_one_line(guarded: Cluster, tmp_path: Path) -> None:
    """Expired is said to be expired, not to be untrusted."""
    expired = present(
        guarded,
        "expired",
        *("-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-startdate", "-10d", "-validity", "5"),
    )
    told = one_error(plan(tmp_path, guarded, "-q", ssl_ca_location=expired))
    assert "has expired or is not valid yet; renew it" in told


def test_a_certificate_for_another_name_is_one_line(guarded: Cluster, tmp_path: Path) -> None:
    """A trusted certificate of another host is told as such, with what bootstrapServers has to say."""
    elsewhere = present(
        guarded, "elsewhere", *("-dname", "CN=kafka.example.org", "-ext", "san=dns:kafka.example.org", "-validity", "5")
    )
    told = one_error(plan(tmp_path, guarded, "-q", ssl_ca_location=elsewhere))
    assert "is for another name (" in told
    assert "use a name of the certificate in bootstrapServers" in told
    unchecked = {"ssl_endpoint_identification_algorithm": "none", "ssl_ca_location": elsewhere}
    assert plan(tmp_path, guarded, "-q", **unchecked).returncode == 0
