"""The connection of a Cluster: bootstrap servers, librdkafka properties, references to secrets.

A manifest comes with a pull request, and CI connects with it. So it sets only properties of the list
below, which neither run code nor read files at its choice, and no secret is in Git. What only the
machine can judge (paths, variables, a connection without TLS) is judged in `manifest.secrets`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from reconciler.policies.validation import ValidationIssue, invalid, raise_if_any
from reconciler.references import REFERENCE
from reconciler.text.suggest import did_you_mean
from reconciler.text.validation import is_https_address

_REFERENCE_TEXT = r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^${}]+)\}"
_BROKEN_TEXT = rf"\$\{{(?!{_REFERENCE_TEXT[4:]})"
"""Matches a value in which something begins like a reference and is none."""

_SERVER = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
SERVER_TEXT = rf"^({_REFERENCE_TEXT}|{_SERVER})$"

_SECRET = re.compile(
    r"password|passphrase|secret|credential|\.key\.pem$|^ssl\.key$|token$|basic\.auth|sasl\.oauthbearer\.config$",
    re.IGNORECASE,
)
_LONGEST = 4_096
"""Characters of a text value."""
_LONGEST_SHOWN = 100
_HIGHEST_PORT = 65_535
_CERTIFICATES = re.compile(r"(?:\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----)+\s*")
_USER_INFO = re.compile(r"://[^/@]*@")


class PropertyKind(StrEnum):
    """What the value of a property is, and so how it is checked."""

    SECRET = "secret"  # noqa: S105  a kind, not a password
    """One reference, and nothing else."""
    IDENTITY = "identity"
    """Text that may hold references, such as a user name."""
    CERTIFICATES = "certificates"
    """One reference, or certificates in PEM, which are public."""
    FILE = "file"
    """A path, which has to lie under the folder of secrets or of the system's certificates."""
    SENT_FILE = "sent file"
    """A path, which has to lie under the folder of secrets: a server gets the content."""
    URL = "url"
    """An address that begins with https:// and holds no user."""
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"


_KINDS: Mapping[PropertyKind, str] = {
    PropertyKind.SECRET: """
        sasl.password ssl.key.password ssl.key.pem ssl.keystore.password
        sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret
        sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.assertion.private.key.passphrase
    """,
    PropertyKind.IDENTITY: """
        sasl.username sasl.kerberos.principal sasl.oauthbearer.client.id
        sasl.oauthbearer.client.credentials.client.id
    """,
    PropertyKind.CERTIFICATES: "ssl.ca.pem ssl.certificate.pem https.ca.pem",
    PropertyKind.FILE: """
        ssl.ca.location ssl.certificate.location ssl.key.location ssl.keystore.location ssl.crl.location
        sasl.kerberos.keytab https.ca.location sasl.oauthbearer.assertion.private.key.file
    """,
    PropertyKind.SENT_FILE: "sasl.oauthbearer.assertion.file",
    PropertyKind.URL: "sasl.oauthbearer.token.endpoint.url",
    PropertyKind.TEXT: """
        client.id client.rack sasl.kerberos.service.name sasl.oauthbearer.scope sasl.oauthbearer.extensions
        sasl.oauthbearer.config sasl.oauthbearer.sub.claim.name sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.sub
        ssl.cipher.suites ssl.curves.list ssl.sigalgs.list
    """,
    PropertyKind.NUMBER: """
        broker.address.ttl connections.max.idle.ms metadata.max.age.ms reconnect.backoff.ms
        reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms sasl.kerberos.min.time.before.relogin
        socket.connection.setup.timeout.ms socket.receive.buffer.bytes socket.send.buffer.bytes
        receive.message.max.bytes sasl.oauthbearer.assertion.claim.exp.seconds
        sasl.oauthbearer.assertion.claim.nbf.seconds
    """,
    PropertyKind.BOOLEAN: """
        enable.ssl.certificate.verification socket.keepalive.enable socket.nagle.disable
        sasl.oauthbearer.assertion.claim.jti.include
    """,
}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "broker.address.family": ("any", "v4", "v6"),
    "client.dns.lookup": ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"),
    "sasl.oauthbearer.assertion.algorithm": ("RS256", "ES256"),
    "sasl.oauthbearer.grant.type": ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    "sasl.oauthbearer.metadata.authentication.type": ("azure_imds", "aws_iam"),
    "sasl.oauthbearer.method": ("default", "oidc"),
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
}
"""Properties with a few values."""
_OPENSSL_LIST = re.compile(r"[A-Za-z0-9_.:+!-]+"), "names separated by colons"
_PATTERNS: Mapping[str, tuple[re.Pattern[str], str]] = {
    # librdkafka puts it into a command for the shell.
    "sasl.kerberos.principal": (re.compile(r"[A-Za-z0-9._/@-]+"), "a principal, such as reconciler@EXAMPLE.ORG"),
    # With @SECLEVEL=0 and aNULL, OpenSSL talks to a server without a certificate.
    **dict.fromkeys(("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list"), _OPENSSL_LIST),
}
"""Property → the text that it accepts, also as the value of a reference."""
PROPERTIES: Mapping[str, PropertyKind] = {
    **{name: kind for kind, names in _KINDS.items() for name in names.split()},
    **dict.fromkeys(CHOICES, PropertyKind.TEXT),
}
"""All properties that a manifest may set."""

REFUSED = {
    "bootstrap.servers": "write bootstrapServers",
    "metadata.broker.list": "write bootstrapServers",
    "sasl.mechanisms": "write sasl.mechanism",
    **dict.fromkeys(("group.id", "group.instance.id", "group.protocol"), "the tool joins no group"),
    **dict.fromkeys(("enable.auto.commit", "enable.auto.offset.store"), "the tool never commits"),
    "auto.offset.reset": "an offset out of range is an error, never another offset",
    "isolation.level": "only read_committed shows the last stable offset",
    "allow.auto.create.topics": "no read creates anything",
    "enable.partition.eof": "the tool reads to the end and sets this itself",
    "transactional.id": "the journal is written without transactions",
    **dict.fromkeys(("acks", "request.required.acks"), "the journal needs every in-sync replica before a request"),
    **dict.fromkeys(("test.mock.num.brokers", "test.mock.broker.rtt"), "a mock cluster has no such operations"),
    **dict.fromkeys(("plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers"), "it loads code"),
    "sasl.kerberos.kinit.cmd": "it runs a command",
}
"""Property → why it is always refused, also with EXTRA."""
_CALLBACK = re.compile(r"_cb$|^logger$|^opaque$|^(default_)?topic_conf$")

EXTRA = "RECONCILER_CLIENT_EXTRA"
"""The variable with which an operator allows more properties, separated by commas."""
INSECURE = "RECONCILER_ALLOW_INSECURE"
"""The variable with which an operator allows connections without protection, as to a sandbox."""
_UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
"""Tokens without a signature, which only an operator allows."""
_PROTECTED_MECHANISMS = ("PLAIN", "OAUTHBEARER")
"""Mechanisms that send the secret to the server, whatever server it is."""

SCHEMA: dict[str, Any] = {
    "propertyNames": {"enum": sorted(PROPERTIES)},
    "properties": {
        **{name: {"enum": list(choices)} for name, choices in CHOICES.items()},
        **{
            name: {
                "type": "string",
                "pattern": f"^{_REFERENCE_TEXT}$",
                "title": "Secret",
                "description": "A secret: ${env:NAME} or ${file:PATH}, never the secret itself.",
                "examples": ["${env:KAFKA_PASSWORD}"],
            }
            for name, kind in PROPERTIES.items()
            if kind is PropertyKind.SECRET
        },
    },
}


def is_reference(value: str) -> bool:
    """Whether the complete value is one reference."""
    return REFERENCE.fullmatch(value) is not None


def is_server(value: str) -> bool:
    """Whether the text is host:port."""
    return re.fullmatch(_SERVER, value) is not None and int(value.rpartition(":")[2]) <= _HIGHEST_PORT


def fits(name: str, value: str) -> bool:
    """Whether the property accepts the value of a reference."""
    return name not in _PATTERNS or _PATTERNS[name][0].fullmatch(value) is not None


def validate_server(value: str) -> str:
    """Accept host:port or one reference as a bootstrap server."""
    if is_server(value) or is_reference(value):
        return value
    if "${" in value:
        raise invalid("M213", "not a reference", "${env:NAME} or ${file:PATH}, as the whole entry")
    raise invalid("M119", f"not a bootstrap server: `{value}`", "host:port, such as broker-1:9093")


def is_secret_property(name: str) -> bool:
    """Whether the property holds a secret."""
    return _SECRET.search(name) is not None


def holds_credentials(value: str) -> bool:
    """Whether the value is a URL with a user or a password in it."""
    return _USER_INFO.search(value) is not None


def _client_value(value: Any) -> str | int | bool:
    if isinstance(value, str | int):
        return value
    raise invalid("M114", "expected text, a whole number, or true or false")


ClientValue = Annotated[
    str | int | bool,
    PlainValidator(_client_value),
    WithJsonSchema(
        {
            "type": ["string", "integer", "boolean"],
            "not": {"type": "string", "pattern": f"{_BROKEN_TEXT}|{_USER_INFO.pattern}"},
        }
    ),
]


def validate_properties(properties: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
    """Refuse the properties with all issues at once. No message shows a value of a secret."""
    issues = [issue for name, value in properties.items() for issue in _issues(name, value)]
    raise_if_any(issues or _transport_issues(properties))
    return properties


def _issues(name: str, value: str | int | bool) -> Iterator[ValidationIssue]:
    text = value if isinstance(value, str) else ""
    kind = PROPERTIES.get(name)
    if reason := REFUSED.get(name):
        yield ValidationIssue("M212", f"`{name}` may not be set", (name,), reason, on_key=True)
    elif not name or _CALLBACK.search(name):
        yield ValidationIssue("M212", f"`{name}` is not a property of the client library", (name,), on_key=True)
    elif kind is None and name not in map(str.strip, os.environ.get(EXTRA, "").split(",")):
        hint = did_you_mean(name, PROPERTIES) or f"an operator allows more with {EXTRA}, where the command runs"
        yield ValidationIssue("M212", f"`{name}` may not be set in a manifest", (name,), hint, on_key=True)
    elif kind is PropertyKind.SECRET or (kind is None and is_secret_property(name)):
        if not is_reference(text):
            hint = "write ${env:NAME} or ${file:PATH}, and change it, for Git keeps the old value"
            yield ValidationIssue("M211", f"a literal secret in `{name}`", (name,), hint)
    elif holds_credentials(text):
        hint = "keep the user and the password of a URL out of Git: sasl.oauthbearer.client.id and .secret hold them"
        yield ValidationIssue("M211", f"a literal secret in `{name}`", (name,), hint)
    elif re.search(_BROKEN_TEXT, text):
        yield ValidationIssue("M213", "not a reference", (name,), "${env:NAME} or ${file:PATH}")
    elif "${" in text and kind not in (PropertyKind.IDENTITY, PropertyKind.CERTIFICATES, None):
        hint = "references stand in secrets, user names, certificates and bootstrapServers"
        yield ValidationIssue("M213", f"`{name}` holds no reference", (name,), hint)
    elif kind is PropertyKind.CERTIFICATES:
        if not is_reference(text) and not _CERTIFICATES.fullmatch(text):  # perhaps a private key, so it is not shown
            hint = "${env:NAME}, ${file:PATH}, or certificates in PEM and nothing else"
            yield ValidationIssue("M218", f"not a value of `{name}`", (name,), hint)
    elif kind is not None and (expected := _expected(name, kind, value)):
        shown = str(value) if len(str(value)) <= _LONGEST_SHOWN else f"{str(value)[:_LONGEST_SHOWN]}…"
        yield ValidationIssue("M218", f"not a value of `{name}`: `{shown}`", (name,), expected)


def _expected(name: str, kind: PropertyKind, value: str | int | bool) -> str:
    """Return what the property expects; empty: the value is valid."""
    text = str(value)
    if choices := CHOICES.get(name):
        return "" if text in choices else f"one of {', '.join(choices)}"
    if kind is PropertyKind.NUMBER and not re.fullmatch("[0-9]{1,10}", text):
        return "a whole number, 0 or more"
    if kind is PropertyKind.BOOLEAN and text.lower() not in ("true", "false"):
        return "true or false"
    if kind is PropertyKind.URL and not is_https_address(text):
        return "an address that begins with https://"
    if name in _PATTERNS and not fits(name, REFERENCE.sub("x", text)):
        return _PATTERNS[name][1]
    is_plain = isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST
    return "" if kind in (PropertyKind.NUMBER, PropertyKind.BOOLEAN) or is_plain else "text of one line"


def _transport_issues(properties: Mapping[str, str | int | bool]) -> Iterator[ValidationIssue]:
    """Yield an issue for each property that leaves a connection, and a secret, without protection."""
    if os.environ.get(INSECURE, "") not in ("", "0"):
        return
    hint = f"an operator allows it with {INSECURE}=1, where the command runs, as for a sandbox"
    mechanism = str(properties.get("sasl.mechanism", "")).upper()
    if properties.get("security.protocol") == "SASL_PLAINTEXT" and mechanism in _PROTECTED_MECHANISMS:
        message = f"{mechanism} without TLS sends the secret to any server that answers"
        yield ValidationIssue("M219", message, ("security.protocol",), f"SASL_SSL; {hint}")
    if str(properties.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        yield ValidationIssue("M219", "no certificate is checked", ("enable.ssl.certificate.verification",), hint)
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        name = "ssl.endpoint.identification.algorithm"
        yield ValidationIssue("M219", "no name of a certificate is checked", (name,), f"https; {hint}")


def token_issues(properties: Mapping[str, str | int | bool], tokens: str | None) -> Iterator[ValidationIssue]:
    """Yield an issue where OAUTHBEARER has no source of tokens, or two. `tokens`: of the Cluster."""
    is_bearer = str(properties.get("sasl.mechanism", "")).upper() == "OAUTHBEARER"
    by_client = properties.get("sasl.oauthbearer.method") == "oidc" or _UNSECURED in properties
    if tokens and not is_bearer:
        hint = "sasl.mechanism: OAUTHBEARER and security.protocol: SASL_SSL, in client"
        yield ValidationIssue("M220", "`tokens` without OAUTHBEARER", ("tokens",), hint)
    elif tokens and by_client:
        yield ValidationIssue("M220", "two sources of tokens", ("tokens",), "keep `tokens`, or oidc in client")
    elif is_bearer and not (tokens or by_client):
        hint = "set `tokens` to msk-iam or gcp, beside client, or sasl.oauthbearer.method to oidc, in client"
        yield ValidationIssue("M220", "OAUTHBEARER without a source of tokens", ("client", "sasl.mechanism"), hint)
