"""Property: the value behind a reference of a Cluster is in no output.

It is planted in each property and each server entry that accepts a reference. What prints it is
real: the client library, commands, and a server that quotes what it got.
"""

import json
import string
import traceback
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import ClusterUnreachable, SecretMissing
from reconciler.kafka import connect
from reconciler.manifest.files import source_of, validate_sources
from reconciler.manifest.secrets import resolve
from reconciler.policies.client_properties import EXTRA, PROPERTIES, PropertyKind
from reconciler.policies.cluster import Cluster
from reconciler.text import redact
from tests.build import cluster_manifest, policy, write_manifests
from tests.command import reconciler
from tests.fakes.listener import Listener

HOLDERS = sorted(
    name
    for name, kind in PROPERTIES.items()
    if kind in (PropertyKind.SECRET, PropertyKind.IDENTITY, PropertyKind.CERTIFICATES)
)
QUOTED_BY_THE_LIBRARY = "queued.min.messages"
"""The library's error for this property quotes its value; an operator allows it below."""
TRANSPORTS = (
    {"security.protocol": "SSL"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
    {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
    },
)
WORDS = st.text(string.ascii_letters + string.digits + "-._~!\"'\\$%&/(){}[]<> äß", min_size=1, max_size=40)
VALUES = WORDS.map(lambda word: f"planted{word}planted")
LONG = "planted-" + "long" * 500


def cluster(properties: dict[str, str], servers: tuple[str, ...] = ("127.0.0.1:1",)) -> str:
    return f"{cluster_manifest(','.join(servers), limits='', name='prod')}  client: {json.dumps(properties)}\n"


def load(text: str) -> Cluster:
    return validate_sources([source_of("cluster.yaml", text.encode())], now_ms=0).by_cluster[0].cluster


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTRA, QUOTED_BY_THE_LIBRARY)


@pytest.mark.parametrize("name", [*HOLDERS, QUOTED_BY_THE_LIBRARY])
@pytest.mark.usefixtures("allowed")
def test_no_client_shows_the_value_of_a_property(name: str) -> None:
    """Neither a client that cannot be opened nor the connection's repr does."""
    for transport, value in product(TRANSPORTS, ("planted-4f2c9aa", LONG, "planted\nplanted-line", 'planted "x"')):
        manifest = load(cluster({**transport, name: "${env:KAFKA_X}"}))
        shown = f"{manifest!r} {manifest.model_dump_json()}"
        try:
            connection = resolve(manifest, timeout_s=1, environment={"KAFKA_X": value})
            shown += f"{connection!r} {connection} {connection.servers}"
            connect.create(AdminClient, connection)
        except (ClusterUnreachable, SecretMissing) as error:
            shown += f"{error} {error!r} {''.join(traceback.format_exception(error))}"
        assert name != QUOTED_BY_THE_LIBRARY or "Invalid value" in shown, shown
        for line in value.splitlines():
            assert line not in shown


@given(value=VALUES, before=WORDS, after=WORDS)
@example(value=LONG, before="a", after="b")
def test_no_text_shows_a_value(value: str, before: str, after: str) -> None:
    """Wherever the library quotes it, and where it cuts its text off."""
    redact.add_references({value: "${env:KAFKA_X}"})
    for text in (f"{before}{value}{after}", f"'{value}': {value}", value):
        assert value not in redact.redact(text)
    if len(value) > 100:
        assert redact.redact(f"login of {value[:400]}") == "login of ${env:KAFKA_X}"


@given(host=st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20), count=st.integers(1, 3))
def test_no_text_shows_a_server_behind_a_reference(host: str, count: int) -> None:
    """Also not its host alone, as in the text about a certificate. Each server has its own name."""
    servers = [f"planted-{host}-{number}.example:{9092 + number}" for number in range(count)]
    connection = resolve(
        load(cluster({}, ("${env:KAFKA_SERVERS}", "public:1"))), environment={"KAFKA_SERVERS": ",".join(servers)}
    )
    assert "planted" not in f"{connection!r} {connection.servers}"
    assert "public:1" in connection.servers
    for server in servers:
        assert "planted" not in redact.redact(f"Failed to resolve '{server}': no such host {server.split(':')[0]}")
    assert len({redact.redact(server) for server in servers}) == count


@pytest.mark.parametrize(
    "value",
    ["planted-4f2c9aa", "planted:", ":9092", "planted:99999", "planted:1 planted:2", "SASL_PLAINTEXT://planted:1", ","],
)
def test_a_server_behind_a_reference_is_host_and_port(value: str) -> None:
    """A password in the place of a server would go to the name service; a protocol would end TLS."""
    with pytest.raises(SecretMissing, match="holds no host:port") as missing:
        resolve(load(cluster({}, ("${env:KAFKA_X}",))), environment={"KAFKA_X": value})
    assert "planted" not in str(missing.value)


@pytest.mark.parametrize("value", ["planted-4f2c9aa", "plänted \"'\\ 4f2c9aa", LONG, "planted::4f2c9aa"])
def test_a_server_that_quotes_the_login_shows_nothing(listener: Listener, tmp_path: Path, value: str) -> None:
    """No error, log, drift report or examination has the user or the password, and each names them."""
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "${env:KAFKA_USER}",
        "sasl.password": "${env:KAFKA_PASSWORD}",
    }
    leaders = policy("LeaderPolicy", "all", 'topics: ["*"]')
    write_manifests(tmp_path, "${env:KAFKA_SERVERS}", leaders, more=f"client: {json.dumps(properties)}")
    variables = {
        "KAFKA_SERVERS": listener.address,
        "KAFKA_USER": f"user {value}",
        "KAFKA_PASSWORD": value,
        "RECONCILER_ALLOW_INSECURE": "1",
    }
    for words in ("plan -v --log-format json", "drift -v -o json --output-file md=drift.md", "doctor -v", "journal -v"):
        result = reconciler(tmp_path, *words.split(), "--timeout", "3", **variables)
        written = "".join(path.read_text() for path in tmp_path.glob("*.md"))
        shown = result.stdout + result.stderr + written
        assert listener.connections or words.startswith("journal")
        if not words.startswith("journal"):
            assert "${env:KAFKA_" in shown, shown
        for hidden in (value, json.dumps(value)[1:-1], value[:40], listener.address):
            assert hidden not in shown
