"""Which librdkafka properties a Cluster may carry. Not: what they mean, which is librdkafka's business.

Refused: secrets written out; properties that the tool sets itself because a promise hangs on them; properties that run code,
for a manifest comes with a pull request and a plan of it runs in CI.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from reconciler.policies.secret_refs import BROKEN_TEXT, REFERENCE_TEXT, broken_reference, whole_reference
from reconciler.policies.validation import ValidationIssue, raise_if_any, validation_error

_SECRET = re.compile(
    r"password|passphrase|secret|credential|\.key\.pem$|^ssl\.key$|token$|basic\.auth|sasl\.oauthbearer\.config$",
    re.IGNORECASE,
)

_USER_INFO = re.compile(r"://[^/@]*@")

_SET_BY_TOOL = {
    "bootstrap.servers": "say bootstrapServers",
    "metadata.broker.list": "say bootstrapServers",
    "group.id": "the tool joins no group",
    "group.instance.id": "the tool joins no group",
    "group.protocol": "the tool joins no group",
    "enable.auto.commit": "the tool never commits",
    "enable.auto.offset.store": "the tool never commits",
    "auto.offset.reset": "an offset that is out of range is an error to the tool, never another offset",
    "isolation.level": "a stable end is only known read-committed",
    "allow.auto.create.topics": "no read creates anything",
    "enable.partition.eof": "the tool reads to the end and sets this itself",
    "transactional.id": "the journal is written without transactions",
    "acks": "an intent that is not stored on all replicas in sync is a request not sent",
    "request.required.acks": "an intent that is not stored on all replicas in sync is a request not sent",
    "test.mock.num.brokers": "a mock cluster has none of the three operations",
    "test.mock.broker.rtt": "a mock cluster has none of the three operations",
}
_RUNS_CODE = {
    "plugin.library.paths": "it loads code",
    "ssl.engine.location": "it loads code",
    "ssl.engine.id": "it loads code",
    "ssl.providers": "it loads code",
    "sasl.kerberos.kinit.cmd": "it runs a command",
}
_CALLBACK = re.compile(r"_cb$|^logger$|^opaque$|^(default_)?topic_conf$")

RESERVED = tuple(sorted({*_SET_BY_TOOL, *_RUNS_CODE}))

SCHEMA: dict[str, Any] = {
    "propertyNames": {"minLength": 1, "not": {"anyOf": [{"enum": list(RESERVED)}, {"pattern": _CALLBACK.pattern}]}},
    "patternProperties": {
        _SECRET.pattern: {
            "type": "string",
            "pattern": f"^{REFERENCE_TEXT}$",
            "title": "Secret",
            "description": "A secret: ${env:NAME} or ${file:PATH}, never the secret itself.",
            "examples": ["${env:KAFKA_PASSWORD}"],
        }
    },
}


def is_secret_property(name: str) -> bool:
    """Whether the property of this name holds a secret."""
    return _SECRET.search(name) is not None


def holds_credentials(value: str) -> bool:
    """Whether the value is a URL with a user or a password in it."""
    return _USER_INFO.search(value) is not None


def _client_value(value: Any) -> str | int | bool:
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        raise validation_error(
            ValidationIssue(code="M115", message="expected text, but YAML reads a number here", hint="quote it")
        )
    raise validation_error(ValidationIssue(code="M114", message="expected text, a whole number, or true or false"))


ClientValue = Annotated[
    str | int | bool,
    PlainValidator(_client_value),
    WithJsonSchema(
        {
            "type": ["string", "integer", "boolean"],
            "not": {"type": "string", "pattern": f"{BROKEN_TEXT}|{_USER_INFO.pattern}"},
        }
    ),
]


def checked_properties(properties: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
    """The properties as they are. Raises with every problem there is; no message ever shows a value."""
    raise_if_any(problem for name, value in properties.items() for problem in _problems(name, value))
    return properties


def _problems(name: str, value: str | int | bool) -> Iterator[ValidationIssue]:
    at = (name,)
    if why := _SET_BY_TOOL.get(name) or _RUNS_CODE.get(name):
        yield ValidationIssue(code="M212", message=f"`{name}` may not be set", at=at, hint=why, on_key=True)
    elif not name or _CALLBACK.search(name):
        yield ValidationIssue(
            code="M212", message=f"`{name}` is not a property of the client library", at=at, on_key=True
        )
    elif is_secret_property(name):
        if not (isinstance(value, str) and whole_reference(value)):
            hint = "say ${env:NAME} or ${file:PATH} instead, and change it: Git does not forget"
            yield ValidationIssue(code="M211", message=f"a literal secret in `{name}`", at=at, hint=hint)
    elif isinstance(value, str):
        if holds_credentials(value):
            hint = "keep the user and the password of a URL out of Git: ${env:NAME} as the whole value"
            yield ValidationIssue(code="M211", message=f"a literal secret in `{name}`", at=at, hint=hint)
        elif broken_reference(value):
            yield ValidationIssue(code="M213", message="not a reference", at=at, hint="${env:NAME} or ${file:PATH}")
