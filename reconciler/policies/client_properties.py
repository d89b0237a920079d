"""The connection of a Cluster: bootstrap servers, librdkafka properties, references to secrets.

Refused are literal secrets, properties that the tool sets itself because a guarantee depends on
them, and properties that run code: a manifest comes with a pull request, and CI plans it.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from reconciler.policies.validation import ValidationIssue, invalid, raise_if_any

REFERENCE = re.compile(r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[^${}\x00-\x1f]+))\}")
"""A secret outside of Git: `${env:NAME}` or `${file:PATH}`. `manifest.secrets` resolves it."""
_REFERENCE_TEXT = r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^${}]+)\}"
_BROKEN_TEXT = rf"\$\{{(?!{_REFERENCE_TEXT[4:]})"
"""Matches a value in which something begins like a reference and is none."""

_SERVER = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
SERVER_TEXT = rf"^({_REFERENCE_TEXT}|{_SERVER})$"

_SECRET = re.compile(
    r"password|passphrase|secret|credential|\.key\.pem$|^ssl\.key$|token$|basic\.auth|sasl\.oauthbearer\.config$",
    re.IGNORECASE,
)

_USER_INFO = re.compile(r"://[^/@]*@")

_REFUSED = {
    "bootstrap.servers": "write bootstrapServers",
    "metadata.broker.list": "write bootstrapServers",
    **dict.fromkeys(("group.id", "group.instance.id", "group.protocol"), "the tool joins no group"),
    **dict.fromkeys(("enable.auto.commit", "enable.auto.offset.store"), "the tool never commits"),
    "auto.offset.reset": "an offset out of range is an error, never another offset",
    "isolation.level": "only read_committed shows the stable end",
    "allow.auto.create.topics": "no read creates anything",
    "enable.partition.eof": "the tool reads to the end and sets this itself",
    "transactional.id": "the journal is written without transactions",
    **dict.fromkeys(("acks", "request.required.acks"), "the journal needs every in-sync replica before a request"),
    **dict.fromkeys(("test.mock.num.brokers", "test.mock.broker.rtt"), "a mock cluster has no such operations"),
    **dict.fromkeys(("plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers"), "it loads code"),
    "sasl.kerberos.kinit.cmd": "it runs a command",
}
"""Property → why a manifest may not set it."""
_CALLBACK = re.compile(r"_cb$|^logger$|^opaque$|^(default_)?topic_conf$")

RESERVED = tuple(sorted(_REFUSED))

SCHEMA: dict[str, Any] = {
    "propertyNames": {"minLength": 1, "not": {"anyOf": [{"enum": list(RESERVED)}, {"pattern": _CALLBACK.pattern}]}},
    "patternProperties": {
        _SECRET.pattern: {
            "type": "string",
            "pattern": f"^{_REFERENCE_TEXT}$",
            "title": "Secret",
            "description": "A secret: ${env:NAME} or ${file:PATH}, never the secret itself.",
            "examples": ["${env:KAFKA_PASSWORD}"],
        }
    },
}


def is_reference(value: str) -> bool:
    """Whether the complete value is one reference."""
    return REFERENCE.fullmatch(value) is not None


def validate_server(value: str) -> str:
    """Accept host:port or one reference as a bootstrap server."""
    if re.fullmatch(_SERVER, value) or is_reference(value):
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
    """Refuse the properties with all issues at once. No message shows a value."""
    raise_if_any(issue for name, value in properties.items() for issue in _issues(name, value))
    return properties


def _issues(name: str, value: str | int | bool) -> Iterator[ValidationIssue]:
    text = value if isinstance(value, str) else ""
    if reason := _REFUSED.get(name):
        yield ValidationIssue("M212", f"`{name}` may not be set", (name,), reason, on_key=True)
    elif not name or _CALLBACK.search(name):
        yield ValidationIssue("M212", f"`{name}` is not a property of the client library", (name,), on_key=True)
    elif is_secret_property(name):
        if not is_reference(text):
            hint = "write ${env:NAME} or ${file:PATH}, and change it, for Git keeps the old value"
            yield ValidationIssue("M211", f"a literal secret in `{name}`", (name,), hint)
    elif holds_credentials(text):
        hint = "keep the user and the password of a URL out of Git: ${env:NAME} as the whole value"
        yield ValidationIssue("M211", f"a literal secret in `{name}`", (name,), hint)
    elif re.search(_BROKEN_TEXT, text):
        yield ValidationIssue("M213", "not a reference", (name,), "${env:NAME} or ${file:PATH}")
