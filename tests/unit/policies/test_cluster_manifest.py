"""Cluster manifests: the sentences of the documentation about their fields."""

import json

import pytest

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.policies.client_properties import REFUSED
from reconciler.policies.cluster import Cluster
from tests.unit.manifest.broken import cluster, manifest
from tests.unit.manifest.checking import outcome


def diagnostics_of(text: str) -> tuple[Diagnostic, ...]:
    _, diagnostics = outcome({"cluster.yaml": text})
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic.code != "M403")


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in diagnostics_of(text)]


def load_cluster(text: str) -> Cluster:
    loaded, diagnostics = outcome({"cluster.yaml": text})
    assert loaded is not None, diagnostics
    return loaded.for_cluster().cluster


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


def test_cluster_id_and_servers_are_required() -> None:
    """ "clusterId … required"."""
    assert codes(manifest("Cluster", "prod-eu", "protect: {groups: [a]}")) == ["M113", "M113"]
    assert codes(cluster(cluster_id="''")) == ["M116"]
    assert codes(cluster(cluster_id="7")) == ["M115"]


def test_a_cluster_has_no_metadata_cluster() -> None:
    """A Cluster belongs to no other Cluster."""
    assert codes(cluster().replace("{name: prod-eu}", "{name: prod-eu, cluster: prod-us}")) == ["M112"]


@pytest.mark.parametrize(
    "server", ["broker-1:9093", "10.0.0.1:9092", "'[::1]:9092'", "'${env:SERVERS}'", "'${file:s}'"]
)
def test_servers(server: str) -> None:
    """Bootstrap servers are host:port or a reference."""
    assert codes(cluster().replace("broker-1:9093", server)) == []


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("broker-1", "M119"),
        ("'broker-1:'", "M119"),
        ("'a:1,b:2'", "M119"),
        ("'PLAINTEXT://a:1'", "M119"),
        ("'${env:}'", "M213"),
        ("'${SERVERS}'", "M213"),
        ("'${env:A}:9092'", "M213"),
        ("9092", "M115"),
    ],
)
def test_invalid_servers(server: str, expected: str) -> None:
    """`validate` reports them, before any timeout."""
    assert codes(cluster().replace("broker-1:9093", server)) == [expected]


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", "'a ${env:X}'", "'${env:X}y'", "7", "true", "'${X}'"])
def test_a_literal_secret_is_refused(name: str, value: str) -> None:
    """ "a literal secret is refused", with its position, and no output shows it."""
    (only,) = diagnostics_of(cluster(f"client:\n  {name}: {value}"))
    assert only.code == "M211"
    assert (only.location.line, only.location.column) == (8, 5 + len(name) + 2)
    assert "hunter2" not in str(only)
    assert codes(cluster(f"client: {{{name}: '${{env:X}}'}}")) == []


def test_credentials_in_a_url_are_a_secret() -> None:
    """A URL may contain a password."""
    text = cluster("client: {sasl.oauthbearer.token.endpoint.url: 'https://me:hunter2@idp/token'}")
    (only,) = diagnostics_of(text)
    assert only.code == "M211"
    assert "hunter2" not in str(only)
    assert codes(text.replace("me:hunter2@", "")) == []


@pytest.mark.parametrize("name", [*REFUSED, "error_cb", "oauth_cb", "logger", "default_topic_conf", "''"])
def test_reserved_properties(name: str) -> None:
    """Properties on which a guarantee depends, or which would run code from a pull request, are
    refused.
    """
    assert codes(cluster(f"client: {{{name}: x}}")) == ["M212"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1.5", "M115"), ("[a]", "M114"), ("{a: 1}", "M114"), ("'${env}'", "M213"), ("'x ${env:1}'", "M213")],
)
def test_client_values(value: str, expected: str) -> None:
    """Values are text, whole numbers and truth values; a text that begins like a reference must be
    a reference.
    """
    assert codes(cluster(f"client: {{client.id: {value}}}")) == [expected]


def test_references_may_stand_inside_other_text() -> None:
    """The name of a user may contain a reference."""
    assert codes(cluster("client: {sasl.username: 'reconciler-${env:KAFKA_USER}'}")) == []


@pytest.mark.parametrize(
    "name",
    [
        "client.id",
        "ssl.ca.location",
        "security.protocol",
        "sasl.oauthbearer.token.endpoint.url",
        "client.rack",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.claim.sub",
    ],
)
def test_references_stand_in_secrets_and_names_only(name: str) -> None:
    """A variable of CI in the name of a client, or in an address, leaves the machine."""
    assert codes(cluster(f"client: {{{name}: '${{env:KAFKA_PASSWORD}}'}}")) == ["M213"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("internal.termination.signal", "9"),
        ("debug", "all"),
        ("log_level", "7"),
        ("statistics.interval.ms", "1"),
        ("my.api.token", "'${env:X}'"),
    ],
)
def test_only_listed_properties_may_be_set(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them killed the process, others sent files and identities away. An operator allows more."""
    assert codes(cluster(f"client: {{{name}: {value}}}")) == ["M212"]
    monkeypatch.setenv("RECONCILER_CLIENT_EXTRA", f"x, {name}")
    assert codes(cluster(f"client: {{{name}: {value}}}")) == []


@pytest.mark.parametrize("name", [*REFUSED, "error_cb"])
def test_no_operator_allows_what_a_guarantee_depends_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_CLIENT_EXTRA", name)
    assert codes(cluster(f"client: {{{name}: x}}")) == ["M212"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "TLS"),
        ("sasl.mechanism", "SCRAM"),
        ("reconnect.backoff.ms", "-1"),
        ("reconnect.backoff.ms", "1s"),
        ("socket.keepalive.enable", "maybe"),
        ("sasl.oauthbearer.token.endpoint.url", "http://idp/token"),
        ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
        ("sasl.oauthbearer.token.endpoint.url", "https://"),
        ("sasl.oauthbearer.token.endpoint.url", "'https://[broken/'"),
        ("client.id", '"a\\nb"'),
        ("client.id", "x" * 5_000),
        ("sasl.kerberos.principal", "'ci; touch /tmp/x'"),
        ("sasl.kerberos.principal", "'$(id)${env:KAFKA_X}'"),
        ("ssl.cipher.suites", "'aNULL:@SECLEVEL=0'"),
        ("ssl.sigalgs.list", "'a b'"),
        ("ssl.ca.pem", "nothing"),
        ("https.ca.pem", "nothing"),
        ("sasl.oauthbearer.metadata.authentication.type", "gcp"),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", "1h"),
        ("ssl.ca.pem", "'${env:KAFKA_A}${env:KAFKA_B}'"),
    ],
)
def test_values_of_client_properties(name: str, value: str) -> None:
    """Each kind of property has its validator."""
    assert codes(cluster(f"client: {{{name}: {value}}}")) == ["M218"]


@pytest.mark.parametrize(
    "client",
    [
        "{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN}",
        "{security.protocol: SASL_PLAINTEXT, sasl.mechanism: OAUTHBEARER, sasl.oauthbearer.method: oidc}",
        "{security.protocol: SSL, enable.ssl.certificate.verification: false}",
        "{security.protocol: SSL, enable.ssl.certificate.verification: 'False'}",
        "{security.protocol: SSL, ssl.endpoint.identification.algorithm: none}",
    ],
)
def test_only_the_machine_allows_a_connection_without_protection(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With PLAIN the server gets the password in clear text."""
    assert codes(cluster(f"client: {client}")) == ["M219"]
    monkeypatch.setenv("RECONCILER_ALLOW_INSECURE", "1")
    assert codes(cluster(f"client: {client}")) == []


BEARER = "client: {security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (BEARER + "}", "OAUTHBEARER without a source of tokens"),
        (BEARER + ", sasl.oauthbearer.method: default}", "OAUTHBEARER without a source of tokens"),
        (BEARER + ", sasl.oauthbearer.method: oidc}\ntokens: gcp", "two sources of tokens"),
        (
            "client: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}\ntokens: gcp",
            "`tokens` without OAUTHBEARER",
        ),
        ("tokens: msk-iam", "`tokens` without OAUTHBEARER"),
    ],
)
def test_tokens_have_one_source(spec: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a source no broker answered, and the error was a timeout. An operator allows unsecured tokens."""
    (only,) = diagnostics_of(cluster(spec))
    assert (only.code, only.message) == ("M220", message)
    assert codes(cluster(BEARER + "}\ntokens: msk-iam")) == []
    assert codes(cluster(BEARER + ", sasl.oauthbearer.method: oidc}")) == []
    monkeypatch.setenv("RECONCILER_CLIENT_EXTRA", "enable.sasl.oauthbearer.unsecure.jwt")
    assert codes(cluster(BEARER + ", enable.sasl.oauthbearer.unsecure.jwt: true}")) == []


def test_the_source_of_tokens_belongs_to_the_connection() -> None:
    """A pull request cannot have the machine's identity sent: it names no module, and is told of a change."""
    assert codes(cluster("tokens: my.module:callback")) == ["M118"]
    assert codes(cluster("client: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: OAUTHBEARER}\ntokens: gcp")) == [
        "M219"
    ]
    trusted, proposed = (load_cluster(cluster(BEARER + "}\ntokens: " + name)) for name in ("gcp", "msk-iam"))
    assert proposed.connection_changes(trusted) == ("tokens",)
    assert proposed.connect_as(trusted).spec.tokens == "gcp"


def test_consumer_offsets_are_hidden_or_nothing_is_said() -> None:
    """One spelling: another value could not mean that they are read, which is what leaving it out means."""
    assert codes(cluster("consumerOffsets: visible")) == ["M118"]
    assert load_cluster(cluster("consumerOffsets: hidden")).hides_consumer_offsets
    assert not load_cluster(cluster("protect: {groups: [a]}")).hides_consumer_offsets


def test_mechanisms_that_keep_the_secret_need_no_tls() -> None:
    assert codes(cluster("client: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: SCRAM-SHA-512}")) == []
    assert codes(cluster("client: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN}")) == []


@pytest.mark.parametrize(
    "name",
    [
        "SASL.PASSWORD",
        "Security.Protocol",
        "' sasl.password'",
        "'sasl.password '",
        '"sasl.password\\n"',
        "sasl.mechanisms",
    ],
)
def test_another_spelling_of_a_property_is_none(name: str) -> None:
    assert codes(cluster(f"client: {{{name}: x}}")) in (["M212"], ["M108"])


@pytest.mark.parametrize(
    "server",
    [
        "'${env:KAFKA_A},evil:9092'",
        "'evil:9092,${env:KAFKA_A}'",
        "'${env:KAFKA_A}:9092'",
        "'SASL_PLAINTEXT://evil:9092'",
        "'[::1%eth0]:9092'",
        "'broker-1:9092 '",
        "broker-1:65536",
    ],
)
def test_no_server_stands_beside_a_reference_or_a_protocol(server: str) -> None:
    assert codes(cluster().replace("broker-1:9093", server)) in (["M213"], ["M119"])


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


def test_client_keys_are_names() -> None:
    """For a property that YAML reads as a number the hint says to quote it."""
    assert codes(cluster("client: {7: x}")) == ["M115"]


def test_all_problems_of_client_are_reported() -> None:
    """A literal secret is also reported if another field of the manifest is wrong."""
    text = cluster("client: {sasl.password: a, group.id: b}\nlimits: {topics: -1}")
    assert sorted(codes(text)) == ["M119", "M211", "M212"]


@pytest.mark.parametrize("topic", ["a/b", ".", "'a*'", "7"])
def test_journal_topic_is_a_name(topic: str) -> None:
    """The journal is one topic, with an exact name."""
    assert codes(cluster(f"journal: {{topic: {topic}}}")) == ["M115" if topic == "7" else "M119"]


@pytest.mark.parametrize(
    "limits", ["{topics: 1.5}", "{recordsPercent: 101}", "{recordsPercent: -1}", "{elections: -1}"]
)
def test_limits_are_numbers_in_range(limits: str) -> None:
    """Counts are whole numbers, percentages are between 0 and 100."""
    assert codes(cluster(f"limits: {limits}")) in (["M119"], ["M114"])
