"""Secrets are resolved on connecting and not before, and no output shows them."""

import logging
import os
import pickle
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from reconciler.errors import ManifestsInvalid, SecretMissing
from reconciler.kafka.connect import Connection
from reconciler.manifest import diagnostics
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.files import load
from reconciler.manifest.secrets import resolve
from reconciler.policies.cluster import Cluster
from reconciler.references import UnresolvedReference
from reconciler.report.diagnostics import diagnostics_document, write_diagnostics
from tests.golden.wording import mentions
from tests.unit.manifest.broken import NOW_MS, cluster
from tests.unit.manifest.checking import outcome

PLANTED = "planted-4f2c9aa-hunter2"


def loaded(text: str) -> Cluster:
    manifests, reported = outcome({"cluster.yaml": text})
    assert manifests is not None, reported
    return manifests.for_cluster().cluster


def resolved(text: str, secrets: Path | None = None, **environment: str) -> Connection:
    """Return the connection of a Cluster. `secrets`: the folder of secrets."""
    folder = {} if secrets is None else {"RECONCILER_SECRETS_DIR": str(secrets)}
    return resolve(loaded(text), environment=environment | folder)


def missing(text: str, secrets: Path | None = None, **environment: str) -> str:
    with pytest.raises(SecretMissing) as invalid:
        resolved(text, secrets, **environment)
    assert invalid.value.__cause__ is None
    return str(invalid.value)


def with_property(name: str, value: str) -> str:
    return cluster(f"client: {{{name}: '{value}'}}")


def test_references_are_resolved(tmp_path: Path) -> None:
    """`${file:…}` is relative to the folder of secrets; other values are as librdkafka has them."""
    (tmp_path / "password").write_text("s3cret\r\n")
    text = cluster(
        "client:\n  sasl.password: ${file:password}\n  sasl.username: 'reconciler on ${env:KAFKA_HOST} for ${env:KAFKA_USER}'\n"
        "  reconnect.backoff.ms: 3\n  enable.ssl.certificate.verification: true"
    )
    connection = resolved(text, tmp_path, KAFKA_USER="me", KAFKA_HOST="h")
    assert connection.properties == {
        "sasl.username": "reconciler on h for me",
        "sasl.password": "s3cret",
        "reconnect.backoff.ms": "3",
        "enable.ssl.certificate.verification": "true",
    }
    assert connection.bootstrap_servers == ("broker-1:9093",)


@pytest.fixture
def secrets_dir(tmp_path: Path) -> Path:
    """A folder of secrets, with links and a pipe that lead out of it."""
    folder = tmp_path / "secrets"
    (folder / "more").mkdir(parents=True)
    (folder / "password").write_text("s3cret")
    (folder / "more" / "inside").symlink_to("../password")
    (tmp_path / "outside").write_text(PLANTED)
    (folder / "link").symlink_to("../outside")
    (folder / "link-to-folder").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize("name", ["password", "more/inside", "more/../password", "{}/password"])
def test_files_of_the_folder_of_secrets(name: str, secrets_dir: Path) -> None:
    """A path is relative to the folder, or an absolute one in it, as of a mounted secret."""
    connection = resolved(with_property("sasl.password", f"${{file:{name.format(secrets_dir)}}}"), secrets_dir)
    assert connection.properties == {"sasl.password": "s3cret"}


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/passwd", "link", "link-to-folder/outside", "/proc/self/environ", "../secrets/../outside"],
)
@pytest.mark.parametrize(
    ("field", "value"), [("sasl.password", "${{file:{}}}"), ("ssl.key.location", "{}"), ("ssl.ca.location", "{}")]
)
def test_no_manifest_names_another_file(name: str, field: str, value: str, secrets_dir: Path) -> None:
    """A pull request once sent /etc/passwd to a broker of its author."""
    error = missing(with_property(field, value.format(name)), secrets_dir)
    assert f"lies outside of {secrets_dir}" in error
    assert PLANTED not in error


@pytest.mark.parametrize("name", ["pipe", "more", "loop"])
def test_only_regular_files_are_read(name: str, secrets_dir: Path) -> None:
    """A pipe would never end, and no message shows more than the name."""
    error = missing(with_property("sasl.password", f"${{file:{name}}}"), secrets_dir)
    assert f"the file {name} is not a regular file" in error or f"the file {name} cannot be read" in error


def test_certificates_of_the_system_need_no_secret(secrets_dir: Path) -> None:
    (location,) = [path for path in ("/etc/ssl/certs", "/etc/pki/tls/certs") if Path(path).is_dir()][:1]
    connection = resolved(with_property("ssl.ca.location", location), secrets_dir)
    assert connection.properties == {"ssl.ca.location": str(Path(location).resolve())}


def test_a_file_that_is_sent_lies_in_the_folder_of_secrets(secrets_dir: Path) -> None:
    """A token endpoint gets the content of an assertion file: a key below /etc/ssl is not for it."""
    text = (
        "client:\n  sasl.mechanism: OAUTHBEARER\n  sasl.oauthbearer.method: oidc\n  sasl.oauthbearer.assertion.file: "
    )
    (secrets_dir / "assertion").write_text("a.b.c")
    connection = resolved(cluster(text + "assertion"), secrets_dir)
    assert connection.properties["sasl.oauthbearer.assertion.file"] == str((secrets_dir / "assertion").resolve())
    for path in ("/etc/ssl/openssl.cnf", "/etc/passwd", "/etc/ssl"):
        assert mentions(missing(cluster(text + path), secrets_dir), "M501", f"the file {path}")


@pytest.mark.parametrize(
    ("identity", "service"),
    [
        ("tokens: msk-iam", "b-1.shop.x1y2.c2.kafka.eu-central-1.amazonaws.com:9098"),
        ("tokens: msk-iam", "boot-x1y2.c1.kafka-serverless.us-east-1.amazonaws.com:9098"),
        ("tokens: gcp", "bootstrap.shop.europe-west1.managedkafka.project.cloud.goog:9092"),
        ("azure_imds", "shop.servicebus.windows.net:9093"),
        ("aws_iam", None),
    ],
)
def test_the_identity_of_the_machine_goes_to_its_cloud_only(identity: str, service: str | None) -> None:
    """No reference allows it to leave, so the names of the service do, or RECONCILER_ALLOW_SERVERS."""
    by_client = "\n  sasl.oauthbearer.method: oidc\n  sasl.oauthbearer.metadata.authentication.type: "
    is_field = identity.startswith("tokens")
    text = cluster(
        "client:\n  security.protocol: SASL_SSL\n  sasl.mechanism: OAUTHBEARER"
        + ("\n" + identity if is_field else by_client + identity)
    )
    assert "broker-1:9093 is not one of " in missing(text)
    assert "allows: nothing is sent there" in missing(text.replace("broker-1", "evil.compute.amazonaws.com"))
    assert resolved(text, **{SERVERS: "broker-?:*"}).bootstrap_servers == ("broker-1:9093",)
    if service:
        connection = resolved(text.replace("broker-1:9093", service))
        assert connection.tokens == (identity.removeprefix("tokens: ") if is_field else "")


def test_only_allowed_variables_are_read() -> None:
    """A pull request names the variable of another secret of the job."""
    text = cluster("client: {sasl.password: '${env:AWS_SECRET_ACCESS_KEY}', sasl.username: '${env:KAFKA_USER}'}")
    error = missing(text, AWS_SECRET_ACCESS_KEY=PLANTED, KAFKA_USER="me")
    assert "spec.client.sasl.password: the variable AWS_SECRET_ACCESS_KEY may not be read: only KAFKA_* may" in error
    assert PLANTED not in error
    allowed = {"RECONCILER_ALLOW_ENV": "KAFKA_*, AWS_*", "AWS_SECRET_ACCESS_KEY": "x", "KAFKA_USER": "me"}
    assert resolved(text, **allowed).properties["sasl.password"] == "x"


def test_the_environment_is_read_on_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validating needs no secret: the value is the one of the moment of connecting."""
    monkeypatch.delenv("KAFKA_SECRET_OF_TEST", raising=False)
    reported = loaded(with_property("sasl.password", "${env:KAFKA_SECRET_OF_TEST}"))
    monkeypatch.setenv("KAFKA_SECRET_OF_TEST", "late")
    assert resolve(reported).properties == {"sasl.password": "late"}


def test_one_variable_may_hold_several_servers() -> None:
    """bootstrapServers may be references, too; one variable may hold several, comma-separated."""
    text = cluster().replace("broker-1:9093", "'${env:KAFKA_SERVERS}', 'c:3'")
    assert resolved(text, KAFKA_SERVERS="a:1, b:2,").bootstrap_servers == ("a:1", "b:2", "c:3")


def test_all_unresolved_references_are_reported_at_once(tmp_path: Path) -> None:
    """The error names manifest, key, and variable or file of each reference, and no value."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "latin").write_bytes("Zoë".encode("latin-1"))
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    text = cluster(
        "client:\n  sasl.password: ${env:KAFKA_A}\n  ssl.key.password: ${env:KAFKA_B}\n  ssl.key.pem: ${file:nowhere}\n"
        "  ssl.keystore.password: ${file:empty}\n  sasl.username: ${file:latin}\n  ssl.ca.pem: ${file:large}"
    ).replace("broker-1:9093", "'${env:KAFKA_C}'")
    head, *reasons = missing(text, tmp_path, KAFKA_B="").split("; ")
    assert head.startswith("M501 Cluster/prod-eu (cluster.yaml:1): spec.bootstrapServers[0]: ")
    assert mentions(head, "variable KAFKA_C")
    for reason, field, *facts in zip(
        reasons,
        ("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.username", "ssl.ca.pem"),
        ("variable KAFKA_A", "variable KAFKA_B", "file nowhere", "file empty", "file latin", "file large"),
        ("set", "empty", "No such file or directory", "empty", "UTF-8", "large"),
        strict=True,
    ):
        assert mentions(reason, f"spec.client.{field}", *facts)


def test_repr_hides_values() -> None:
    """Neither repr nor str of the connection shows a value, and resolving puts none into the Cluster."""
    manifest = loaded(with_property("sasl.password", "${env:KAFKA_P}"))
    connection = resolve(manifest, environment={"KAFKA_P": PLANTED})
    assert connection.properties["sasl.password"] == PLANTED
    assert PLANTED not in f"{connection!r} {connection!s} {manifest.model_dump_json()}"
    assert isinstance(pickle.loads(pickle.dumps(connection)), Connection)


LITERAL = {
    "in its place": f"client: {{sasl.password: {PLANTED}}}",
    "quoted": f'client: {{sasl.password: "{PLANTED}"}}',
    "in a block": f"client:\n  ssl.key.pem: |\n    -----BEGIN\n    {PLANTED}\n    -----END",
    "folded": f"client:\n  sasl.password: >-\n    a\n    {PLANTED}",
    "as a list": f"client:\n  sasl.password: [{PLANTED}]",
    "as a mapping": f"client:\n  sasl.password: {{a: {PLANTED}}}",
    "at the wrong level": f"sasl.password: {PLANTED}",
    "beside another error": f"client: {{group.id: x, sasl.password: {PLANTED}, zzz: [1]}}",
    "beside an unknown field": f"clent: {{sasl.password: {PLANTED}}}",
    "as an alias": f"client: {{sasl.password: *{PLANTED}}}",
    "as an anchor": f"client: {{sasl.password: &{PLANTED} x}}",
    "as a tag": f"client: {{sasl.password: !{PLANTED} x}}",
    "twice": f"client: {{sasl.password: {PLANTED}, sasl.password: {PLANTED}2}}",
    "with an invisible character": f"client: {{sasl.password: {PLANTED}\u200b}}",
    "with a half reference": f"client: {{sasl.password: '${{env:X}}{PLANTED}'}}",
    "in a URL": f"client: {{sasl.oauthbearer.token.endpoint.url: 'https://me:{PLANTED}@idp/'}}",
    "before a break": f"client:\n  sasl.password: {PLANTED}\n  a: [",
    "in the break": f"client: {{sasl.password: {PLANTED} ]",
    "in an open quote": f"client:\n  sasl.password: '{PLANTED}\n  a: b",
    "in an open block": f"client:\n  ssl.key.pem: |\n    {PLANTED}\n   \t{PLANTED}: [",
    "merged": f"<<: {{client: {{sasl.password: {PLANTED}}}}}",
    "under a key that is none": f"client: {{[sasl.password]: {PLANTED}, *x : {PLANTED}, ~: {PLANTED}}}",
    "twice in a mapping": f"client: {{a: 1}}\nclient: {{sasl.password: {PLANTED}}}",
    "too deep": f"client: {{sasl.password: {'[' * 20}{PLANTED}",
    "in a broken URL": f"client: {{url: 'https://me:{PLANTED}@idp/', a: [",
}
WRONG_PLACES = (
    # A missing blank makes one key of both; text instead of a mapping; other letter case.
    f"client: {{sasl.mechanism: PLAIN, sasl.password:{PLANTED}}}",
    f'client: "sasl.password={PLANTED}"',
    f"client: ['sasl.password = {PLANTED} and {PLANTED}']",
    f"client: {{Sasl.Password: {PLANTED}}}",
    f"client:\n  SASL.PASSWORD : {PLANTED} # {PLANTED}",
    f"sasl.password={PLANTED}: x",
    f"sasl.password={PLANTED}: {{a: b}}",
    f"client: {{sasl.password={PLANTED}: {{a: b}}}}",
    f"client:\n  sasl.password={PLANTED}: !x {PLANTED}",
    f"client:\n  sasl.password {PLANTED}",
    f'client: "sasl.password", "{PLANTED}"',
    f"client: [[sasl.password, {PLANTED}]]",
    f"client: {{sasl.mechanism: PLAIN, ssl.key.password {PLANTED}}}",
    f"client: {{ssl.key:{PLANTED}}}",
    f"client: {{security.protocol: SSL, ssl.key.pem {PLANTED}: x, sasl.oauthbearer.config {PLANTED}}}",
)


def texts_of(error: Exception) -> tuple[str, str, str]:
    return str(error), repr(error), "".join(traceback.format_exception(error))


@pytest.mark.parametrize("spec", [*LITERAL.values(), *WRONG_PLACES], ids=[*LITERAL, *WRONG_PLACES])
def test_no_output_shows_a_planted_secret(
    spec: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A secret in a manifest is refused, and no rendering, repr, traceback or log shows it."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "cluster.yaml").write_text(cluster(spec), encoding="utf-8")
    with pytest.raises(ManifestsInvalid) as invalid:
        load([tmp_path], now_ms=NOW_MS)
    reported = [diagnostic for diagnostic in invalid.value.diagnostics if isinstance(diagnostic, Diagnostic)]
    outputs = [write() for write in diagnostics_document(reported).writers.values()]
    outputs += [repr(reported), *texts_of(invalid.value), caplog.text, *capfd.readouterr()]
    assert reported
    assert PLANTED not in "".join(outputs)


def test_no_output_shows_a_secret_behind_a_reference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The value of a reference is in no error and no traceback, even if another reference fails."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "file").write_text(PLANTED)
    text = cluster(
        "client:\n  sasl.password: ${env:KAFKA_P}\n  ssl.key.password: ${file:file}\n  ssl.key.pem: ${env:KAFKA_GONE}"
    )
    with pytest.raises(SecretMissing) as invalid:
        resolved(text, tmp_path, KAFKA_P=PLANTED)
    assert PLANTED not in "".join([*texts_of(invalid.value), caplog.text, *capfd.readouterr()])


def test_other_lines_of_a_file_with_a_secret_are_shown() -> None:
    """Masking a secret does not change the rest of the line or other lines."""
    _, reported = outcome({"c.yaml": cluster(f"client: {{sasl.password: {PLANTED}, group.id: x}}")})
    assert {diagnostic.source_line for diagnostic in reported if diagnostic.code != "M403"} == {
        f"  client: {{sasl.password: {'*' * len(PLANTED)}, group.id: x}}"
    }
    _, reported = outcome({"c.yaml": cluster("client:\n  sasl.password: ${env:P}\n  a: [")})
    assert [diagnostic.code for diagnostic in reported] == ["M101"]
    assert "not shown" not in write_diagnostics(reported)


@pytest.mark.parametrize("pattern", [diagnostics.LOOKS_SECRET, diagnostics._MASKED], ids=["looks secret", "masked"])
def test_no_line_of_a_pull_request_stalls_the_masking_of_secrets(pattern: re.Pattern[str]) -> None:
    """Repetitions are bounded: secret-like words once took half a minute, in quadratic time."""

    def longest(parsed: Any) -> Iterator[int]:
        for kind, given in parsed:
            if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
                yield given[1]
            for part in given if isinstance(given, tuple | list) else (given,):
                for inner in part if isinstance(part, list) else (part,):
                    if isinstance(inner, sre_parser.SubPattern):
                        yield from longest(inner)

    reported = list(longest(sre_parser.parse(pattern.pattern)))
    assert reported
    assert max(reported) < sre.MAXREPEAT


SERVERS = "RECONCILER_ALLOW_SERVERS"


@pytest.mark.parametrize(
    ("servers", "properties"),
    [
        ("['evil.example.org:9093']", ""),
        ("['a.kafka.example.org:9093', 'evil.example.org:9093']", ""),
        ("['a.kafka.example.org:9094']", ""),
        ("['${env:KAFKA_SERVERS}']", ""),
        ("['a.kafka.example.org:9093']", "sasl.oauthbearer.token.endpoint.url: 'https://evil.example.org/token'"),
        ("['a.kafka.example.org:9093']", "sasl.oauthbearer.token.endpoint.url: 'https://login.example.org:8443/token'"),
    ],
)
def test_no_manifest_names_another_server(servers: str, properties: str) -> None:
    """The machine bounds where credentials go, whatever was merged."""
    text = cluster(f"client: {{{properties}}}").replace("[broker-1:9093]", servers)
    assert servers in text
    allowed = "*.kafka.example.org:9093, login.example.org:443"
    error = missing(text, **{SERVERS: allowed, "KAFKA_SERVERS": "evil.example.org:9093"})
    assert re.search("evil.example.org|9094|8443|KAFKA_SERVERS", error)
    assert (
        "is not one of *.kafka.example.org:9093, login.example.org:443, which RECONCILER_ALLOW_SERVERS allows" in error
    )
    assert resolved(text, **{SERVERS: "", "KAFKA_SERVERS": "b:1"}).bootstrap_servers


def test_allowed_servers_are_used() -> None:
    """Case does not matter in names of hosts; the port of https counts where the URL names none."""
    text = with_property("sasl.oauthbearer.token.endpoint.url", "https://Login.example.org/token")
    connection = resolved(text, **{SERVERS: "BROKER-?:9093,login.example.org:443"})
    assert connection.bootstrap_servers == ("broker-1:9093",)


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [("[fd00::7]:9093", True), ("[fd00::*]:909?", True), ("[FD00::7]:*", True), ("[fd00::8]:9093", False), ("*", True)],
)
def test_the_brackets_of_an_ipv6_address_stand_for_themselves(pattern: str, allowed: bool) -> None:
    """Patterns of file names would read them as a set of characters."""
    text = cluster("").replace("[broker-1:9093]", "['[fd00::7]:9093']")
    if allowed:
        assert resolved(text, **{SERVERS: pattern}).bootstrap_servers == ("[fd00::7]:9093",)
    else:
        assert f"is not one of {pattern}" in missing(text, **{SERVERS: pattern})


def test_tasks_get_references_if_executors_can_resolve_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the option, tasks get the values, because executors have neither variables nor files."""
    text = cluster("client: {sasl.password: '${env:KAFKA_PASSWORD}', sasl.username: 'me on ${env:KAFKA_HOST}'}")
    connection = resolved(text, KAFKA_PASSWORD=PLANTED, KAFKA_HOST="driver")
    assert connection.for_tasks(with_secrets=True).resolve_here().properties == connection.properties
    sent = connection.for_tasks(with_secrets=False)
    assert PLANTED.encode() not in pickle.dumps(sent)
    monkeypatch.setenv("KAFKA_PASSWORD", "of the executor")
    with pytest.raises(UnresolvedReference, match="the variable KAFKA_HOST is not set"):
        sent.resolve_here()
    monkeypatch.setenv("KAFKA_HOST", "executor")
    assert sent.resolve_here().properties == {"sasl.password": "of the executor", "sasl.username": "me on executor"}
