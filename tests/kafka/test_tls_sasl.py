"""TLS and SASL end to end: both mechanisms work, each fault is one clear line, no output has a
secret.
"""

import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from reconciler.companions.sandbox.client import wait_until
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.java import find_java
from tests.build import policy
from tests.command import reconciler
from tests.kafka.secured import SECURE, SUPER_USER, USERS, access, write_manifests
from tests.kafka.test_connect import PLAINTEXT, SSL, assert_protocol_is_named

pytestmark = pytest.mark.brokers

PASSWORD = USERS[SUPER_USER]
WRONG = "wr0nghorsebattery"
QUICK_START = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
KEYSTORE = re.compile(rf"^{re.escape(SECURE)}\.ssl\.keystore\.password=(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def secure_cluster(tls_broker: SandboxCluster) -> Iterator[SandboxCluster]:
    """One broker with TLS, which gets its first certificate back at the end.

    The user is a super user, because another test covers permissions.
    """
    yield tls_broker
    show_certificate(tls_broker, None)


def plan(
    folder: Path,
    cluster: SandboxCluster,
    *arguments: str,
    password: str = PASSWORD,
    insecure: bool = False,
    **client_properties: str,
) -> subprocess.CompletedProcess[str]:
    """A plan of all leaders, which needs only the connection.

    `client_properties` have `_` for `.` in their names. `insecure`: allowed by the environment.
    """
    properties = access(cluster).client(SUPER_USER) | {"sasl.password": "${env:KAFKA_PASSWORD}"}
    properties |= {name.replace("_", "."): value for name, value in client_properties.items()}
    write_manifests(folder, cluster, properties, policy("LeaderPolicy", "preferred", 'topics: ["*"]'))
    environment = {"KAFKA_PASSWORD": password, "RECONCILER_SECRETS_DIR": str(cluster.dir)}
    environment |= {"RECONCILER_ALLOW_INSECURE": "1"} if insecure else {}
    result = reconciler(folder, "plan", "--timeout", "20", *arguments, **environment)
    for secret in (PASSWORD, WRONG):
        assert secret not in result.stdout + result.stderr
    return result


def one_error(result: subprocess.CompletedProcess[str]) -> str:
    """The only line that a failed command printed."""
    assert (result.returncode, result.stdout) == (1, ""), result.stdout
    assert result.stderr.startswith("error: guarded: no broker of 127.0.0.1:")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.rstrip()


def change_certificate(cluster: SandboxCluster, name: str, *options: str) -> str:
    """Change the broker's certificate, and return the file that clients must trust."""
    [server] = cluster.dir.glob("server-1.properties")
    match = KEYSTORE.search(server.read_text())
    assert match is not None
    store, certificate = cluster.dir / f"{name}.p12", cluster.dir / f"{name}.pem"
    keytool = find_java().resolve().parent / "keytool"
    at = ["-alias", "broker", "-keystore", str(store), "-storetype", "PKCS12", "-storepass:env", "STORE"]
    generate = ["-genkeypair", *at, "-keyalg", "EC", "-groupname", "secp256r1", *options]
    subprocess.run(
        [keytool, *QUICK_START, *generate],
        env=os.environ | {"STORE": match[1]},
        check=True,
        capture_output=True,
        timeout=60,
    )
    certificate.write_text(show_certificate(cluster, store))
    return str(certificate)


def show_certificate(cluster: SandboxCluster, store: Path | None) -> str:
    """Make the broker show another certificate, and return it. None: that of its start."""
    address = ("127.0.0.1", int(access(cluster).bootstrap_servers.rpartition(":")[2]))
    before = ssl.get_server_certificate(address, timeout=10)
    operation = AlterConfigOpType.DELETE if store is None else AlterConfigOpType.SET
    entry = ConfigEntry(f"{SECURE}.ssl.keystore.location", str(store), incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    shown: set[str] = set()

    def is_changed() -> bool:
        # Each network thread of the broker changes its certificate by itself, and takes connections in turn.
        shown.clear()
        shown.update(ssl.get_server_certificate(address, timeout=10) for _ in range(8))
        return before not in shown

    wait_until(is_changed, 60, "the broker to show its new certificate")
    [new] = shown
    return new


def test_a_listener_of_another_protocol_is_named(tls_broker: SandboxCluster) -> None:
    """Nothing or TLS alone where the listener wants TLS and SASL: test_connect.py has the other listeners."""
    server = access(tls_broker).bootstrap_servers
    assert_protocol_is_named(server, PLAINTEXT, "closed, as a listener with TLS does")
    trusted = {**SSL, "ssl.ca.location": str(access(tls_broker).certificate)}
    assert_protocol_is_named(server, trusted, "closed, as a listener with SASL does")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_plan_over_tls_by_either_mechanism(secure_cluster: SandboxCluster, tmp_path: Path, mechanism: str) -> None:
    """The brokers get the manifest's client properties, with the password from the environment."""
    result = plan(tmp_path, secure_cluster, "-q", sasl_mechanism=mechanism)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Cluster guarded")


def test_a_wrong_password_is_one_line_without_it(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """The error names the thing to check, within seconds; even -v shows no password."""
    message = one_error(plan(tmp_path, secure_cluster, "-q", password=WRONG))
    assert "authentication failed" in message
    assert "check sasl.mechanism, sasl.username and sasl.password" in message
    verbose = plan(tmp_path, secure_cluster, "-v", password=WRONG)
    assert verbose.returncode == 1


def test_a_missing_password_names_the_variable(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """An empty variable is not a password: the error names the manifest and the variable before any
    connection.
    """
    result = plan(tmp_path, secure_cluster, "-q", password="")
    assert (result.returncode, result.stdout) == (1, "")
    assert "KAFKA_PASSWORD is empty" in result.stderr


HERE, ELSEWHERE = "san=ip:127.0.0.1", "san=dns:kafka.example.org"


@pytest.mark.parametrize(
    ("name", "options", "is_trusted", "words"),
    [
        (HERE, (), False, ("is not trusted (", "check ssl.ca.location")),
        (HERE, ("-startdate", "-10d"), True, ("has expired or is not valid yet; renew it",)),
        (ELSEWHERE, (), True, ("is for another name (", "use a name of the certificate in bootstrapServers")),
    ],
    ids=["unknown authority", "expired", "another name"],
)
def test_a_certificate_that_is_not_valid_is_one_line(
    secure_cluster: SandboxCluster,
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
    is_trusted: bool,
    words: tuple[str, ...],
) -> None:
    """The client does not talk to such a broker. The error names the setting to check, or says that the certificate
    is expired, or of another host, not that it is untrusted. The name is checked, unless the environment says so.
    """
    subject = ("-dname", "CN=broker", "-ext", name, *options, "-validity", "5")
    certificate = change_certificate(secure_cluster, tmp_path.name, *subject)
    assert certificate != str(access(secure_cluster).certificate)
    properties = {"ssl_ca_location": certificate} if is_trusted else {}
    message = one_error(plan(tmp_path, secure_cluster, "-q", **properties))
    assert all(text in message for text in words), message
    if name == HERE:
        return
    without_name_check = {"ssl_endpoint_identification_algorithm": "none", "ssl_ca_location": certificate}
    refused = plan(tmp_path, secure_cluster, "-q", **without_name_check)
    assert (refused.returncode, "error[M219]" in refused.stderr) == (1, True)
    assert plan(tmp_path, secure_cluster, "-q", insecure=True, **without_name_check).returncode == 0
