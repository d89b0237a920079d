"""Cluster manifests: the sentences of the documentation about their fields."""

import json
from typing import Any

import pytest

from reconciler.policies.client_properties import REFUSED
from reconciler.policies.cluster import Cluster
from tests.unit.manifest.broken import cluster, manifest
from tests.unit.manifest.checking import accepted, codes, diagnostics_of


def load_cluster(text: str) -> Cluster:
    return accepted(text).for_cluster().cluster


def test_every_field_of_the_design() -> None:
    """The fields of the example have the values that its comments describe."""
    spec = load_cluster(
        cluster(
            "client:\n  security.protocol: SASL_SSL\n  sasl.mechanism: SCRAM-SHA-512\n  sasl.username: reconciler\n"
            "  sasl.password: ${env:KAFKA_PASSWORD}\n  socket.keepalive.enable: true\n  reconnect.backoff.ms: 3\n"
            'protect:\n  topics: ["payments.*"]\n  groups: [billing]\n'
            "limits: {topics: 51, recordsPercentPerTopic: 91, recordsPercent: 51.5, groups: 21, groupsPercent: 51, "
            "elections: 1_001, uncleanElections: 0}\njournal: {topic: _reconciler.journal}"
        )
    ).spec
    assert spec.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert spec.bootstrap_servers == ("broker-1:9093",)
    assert spec.client["sasl.password"] == "${env:KAFKA_PASSWORD}"
    assert (spec.client["socket.keepalive.enable"], spec.client["reconnect.backoff.ms"]) == (True, 3)
    assert spec.protect.topics is not None
    assert spec.protect.topics[0].matches("payments.eu")
    assert (spec.limits.elections, spec.limits.records_percent) == (1001, 51.5)
    assert spec.journal.topic == "_reconciler.journal"


def test_limits_have_the_defaults_of_the_design() -> None:
    """ "per plan; the values shown are the defaults"; "journal … default: a file"."""
    spec = load_cluster(cluster()).spec
    assert spec.limits.model_dump(by_alias=True) == {
        "topics": 50,
        "recordsPercentPerTopic": 90,
        "recordsPercent": 50,
        "groups": 20,
        "groupsPercent": 50,
        "elections": 1000,
        "uncleanElections": 0,
    }
    assert spec.journal.topic is None
    assert (spec.protect.topics, spec.protect.groups) == (None, None)


def row(codes: str, spec: str = "", *, server: str = "broker-1:9093", **environ: str) -> Any:
    """Return a Cluster, the codes of its errors and the variables of the machine."""
    text = cluster(spec).replace("broker-1:9093", server)
    return pytest.param(text, codes.split(), environ, id=f"{codes or 'valid'} {spec or server}"[:90])


def client(properties: str) -> str:
    return f"client: {{{properties}}}"


BEARER = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER"
IN_CLEAR = "security.protocol: SASL_PLAINTEXT, sasl.mechanism: "
URL = "sasl.oauthbearer.token.endpoint.url"
UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
ALLOWED, INSECURE = "RECONCILER_CLIENT_EXTRA", {"RECONCILER_ALLOW_INSECURE": "1"}

SERVERS = {
    # Host and port, or a reference; `validate` reports the others, before any timeout.
    "": ["broker-1:9093", "10.0.0.1:9092", "'[::1]:9092'", "'${env:SERVERS}'", "'${file:s}'"],
    "M115": ["9092"],
    "M119": ["broker-1", "'broker-1:'", "'a:1,b:2'", "'PLAINTEXT://a:1'", "'SASL_PLAINTEXT://evil:9092'"],
    "M119 ": ["'[::1%eth0]:9092'", "'broker-1:9092 '", "broker-1:65536"],
    # No server stands beside a reference.
    "M213": ["'${env:}'", "'${SERVERS}'", "'${env:A}:9092'"],
    "M213 ": ["'${env:KAFKA_A},evil:9092'", "'evil:9092,${env:KAFKA_A}'", "'${env:KAFKA_A}:9092'"],
}
CLIENT = {
    "": [
        # The name of a user may contain a reference.
        "sasl.username: 'reconciler-${env:KAFKA_USER}'",
        # Mechanisms that keep the secret need no TLS.
        f"{IN_CLEAR}SCRAM-SHA-512",
        "security.protocol: SASL_SSL, sasl.mechanism: PLAIN",
        f"{BEARER}, sasl.oauthbearer.method: oidc",
    ],
    # Values are text, whole numbers and truth values.
    "M114": ["client.id: [a]", "client.id: {a: 1}"],
    # For a property that YAML reads as a number the hint says to quote it.
    "M115": ["client.id: 1.5", "7: x"],
    "M212": [
        # A guarantee depends on them, or they would run code from a pull request.
        *(f"{name}: x" for name in (*REFUSED, "error_cb", "oauth_cb", "logger", "default_topic_conf", "''")),
        # Another spelling of a property is none.
        *(f"{name}: x" for name in ("SASL.PASSWORD", "Security.Protocol", "sasl.mechanisms")),
        *(f"{name}: x" for name in ("' sasl.password'", "'sasl.password '", '"sasl.password\\n"')),
    ],
    "M213": [
        # A text that begins like a reference must be a reference.
        "client.id: '${env}'",
        "client.id: 'x ${env:1}'",
        # A variable of CI in the name of a client, or in an address, leaves the machine.
        "client.id: '${env:KAFKA_PASSWORD}'",
        "ssl.ca.location: '${env:KAFKA_PASSWORD}'",
        "security.protocol: '${env:KAFKA_PASSWORD}'",
        f"{URL}: '${{env:KAFKA_PASSWORD}}'",
        "client.rack: '${env:KAFKA_PASSWORD}'",
        "sasl.oauthbearer.config: '${env:KAFKA_PASSWORD}'",
        "sasl.oauthbearer.assertion.file: '${env:KAFKA_PASSWORD}'",
        "sasl.oauthbearer.assertion.claim.sub: '${env:KAFKA_PASSWORD}'",
    ],
    # Each kind of property has its validator.
    "M218": [
        "security.protocol: TLS",
        "sasl.mechanism: SCRAM",
        "reconnect.backoff.ms: -1",
        "reconnect.backoff.ms: 1s",
        "socket.keepalive.enable: maybe",
        f"{URL}: http://idp/token",
        f"{URL}: file:///etc/passwd",
        f"{URL}: https://",
        f"{URL}: 'https://[broken/'",
        'client.id: "a\\nb"',
        f"client.id: {'x' * 5_000}",
        "sasl.kerberos.principal: 'ci; touch /tmp/x'",
        "sasl.kerberos.principal: '$(id)${env:KAFKA_X}'",
        "ssl.cipher.suites: 'aNULL:@SECLEVEL=0'",
        "ssl.sigalgs.list: 'a b'",
        "ssl.ca.pem: nothing",
        "https.ca.pem: nothing",
        "sasl.oauthbearer.metadata.authentication.type: gcp",
        "sasl.oauthbearer.assertion.claim.exp.seconds: 1h",
        "ssl.ca.pem: '${env:KAFKA_A}${env:KAFKA_B}'",
    ],
}
INSECURE_CLIENTS = [
    # With PLAIN the server gets the password in clear text.
    f"{IN_CLEAR}PLAIN",
    f"{IN_CLEAR}OAUTHBEARER, sasl.oauthbearer.method: oidc",
    "security.protocol: SSL, enable.ssl.certificate.verification: false",
    "security.protocol: SSL, enable.ssl.certificate.verification: 'False'",
    "security.protocol: SSL, ssl.endpoint.identification.algorithm: none",
]
# One of them killed the process, others sent files and identities away. An operator allows more.
UNLISTED = {
    "internal.termination.signal": "9",
    "debug": "all",
    "log_level": "7",
    "statistics.interval.ms": "1",
    "my.api.token": "'${env:X}'",
}


@pytest.mark.parametrize(
    ("text", "expected", "environ"),
    [
        *(row(codes, server=server) for codes, servers in SERVERS.items() for server in servers),
        *(row(codes, client(properties)) for codes, clients in CLIENT.items() for properties in clients),
        *(row("M219", client(properties)) for properties in INSECURE_CLIENTS),
        *(row("", client(properties), **INSECURE) for properties in INSECURE_CLIENTS),
        *(row("M212", client(f"{name}: {value}")) for name, value in UNLISTED.items()),
        *(row("", client(f"{name}: {value}"), **{ALLOWED: f"x, {name}"}) for name, value in UNLISTED.items()),
        # No operator allows what a guarantee depends on.
        *(row("M212", client(f"{name}: x"), **{ALLOWED: name}) for name in (*REFUSED, "error_cb")),
        # Tokens have one source; an operator allows unsecured ones.
        row("", f"{client(BEARER)}\ntokens: msk-iam"),
        row("", client(f"{BEARER}, {UNSECURED}: true"), **{ALLOWED: UNSECURED}),
        # A pull request cannot have the machine's identity sent: it names no module.
        row("M118", "tokens: my.module:callback"),
        row("M219", f"{client(IN_CLEAR + 'OAUTHBEARER')}\ntokens: gcp"),
        # A literal secret is also reported if another field of the manifest is wrong.
        row("M211 M212 M119", "client: {sasl.password: a, group.id: b}\nlimits: {topics: -1}"),
        # The journal is one topic, with an exact name.
        *(row("M119", f"journal: {{topic: {topic}}}") for topic in ("a/b", ".", "'a*'")),
        row("M115", "journal: {topic: 7}"),
        # Counts are whole numbers, percentages are between 0 and 100.
        row("M114", "limits: {topics: 1.5}"),
        *(row("M119", f"limits: {{{limit}}}") for limit in ("recordsPercent: 101", "recordsPercent: -1")),
        row("M119", "limits: {elections: -1}"),
        # Id and servers are required, and a Cluster belongs to no other Cluster.
        (manifest("Cluster", "prod-eu", "protect: {groups: [a]}"), ["M113", "M113"], {}),
        (cluster(cluster_id="''"), ["M116"], {}),
        (cluster(cluster_id="7"), ["M115"], {}),
        (cluster().replace("{name: prod-eu}", "{name: prod-eu, cluster: prod-us}"), ["M112"], {}),
        # One spelling: another value could not mean that they are read, which is what leaving it out means.
        row("M118", "consumerOffsets: visible"),
    ],
)
def test_what_a_cluster_may_say(
    text: str, expected: list[str], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert codes(text) == expected


SECRETS = [
    *("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.client.secret"),
    *("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.pem"),
    "sasl.oauthbearer.assertion.private.key.passphrase",
]
LITERALS = ("hunter2", "'a ${env:X}'", "'${env:X}y'", "7", "true", "'${X}'")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in SECRETS for value in LITERALS),
        # A URL may hold a password.
        (URL, "'https://me:hunter2@idp/token'"),
    ],
)
def test_a_literal_secret_is_refused(name: str, value: str) -> None:
    """ "a literal secret is refused", with its position, and no output shows it."""
    (only,) = diagnostics_of(cluster(f"client:\n  {name}: {value}"))
    assert only.code == "M211"
    assert (only.location.line, only.location.column) == (8, 5 + len(name) + 2)
    assert "hunter2" not in str(only)
    assert codes(cluster(client(f"{name}: '{'https://idp' if name == URL else '${env:X}'}'"))) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (client(BEARER), "OAUTHBEARER without a source of tokens"),
        (client(f"{BEARER}, sasl.oauthbearer.method: default"), "OAUTHBEARER without a source of tokens"),
        (client(f"{BEARER}, sasl.oauthbearer.method: oidc") + "\ntokens: gcp", "two sources of tokens"),
        ("client: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}\ntokens: gcp", "`tokens` without OAUTHBEARER"),
        ("tokens: msk-iam", "`tokens` without OAUTHBEARER"),
    ],
)
def test_tokens_have_one_source(spec: str, message: str) -> None:
    """Without a source no broker answered, and the error was a timeout."""
    (only,) = diagnostics_of(cluster(spec))
    assert (only.code, only.message) == ("M220", message)


def test_a_change_of_the_source_of_tokens_is_told() -> None:
    """It belongs to the connection."""
    trusted, proposed = (load_cluster(cluster(f"{client(BEARER)}\ntokens: {name}")) for name in ("gcp", "msk-iam"))
    assert proposed.connection_changes(trusted) == ("tokens",)
    assert proposed.connect_as(trusted).spec.tokens == "gcp"


def test_consumer_offsets_are_hidden_or_nothing_is_said() -> None:
    assert load_cluster(cluster("consumerOffsets: hidden")).hides_consumer_offsets
    assert not load_cluster(cluster("protect: {groups: [a]}")).hides_consumer_offsets


def test_certificates_stand_in_the_manifest_and_keys_do_not() -> None:
    """Certificates are public. A key that was pasted in their place is not shown."""
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB/+==\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN PRIVATE KEY-----\nMIIBplanted\n-----END PRIVATE KEY-----\n"

    def with_pem(text: str) -> str:
        return cluster(f"client: {{ssl.ca.pem: {json.dumps(text)}}}")

    assert codes(with_pem(certificate * 2)) == []
    for text in (key, certificate + key, key + certificate):
        diagnostics = diagnostics_of(with_pem(text))
        assert [diagnostic.code for diagnostic in diagnostics] == ["M218"]
        assert "planted" not in diagnostics[0].message
