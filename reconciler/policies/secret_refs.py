"""References to what must not stand in Git: `${env:NAME}` and `${file:PATH}`. Where they may stand and how they read.

What they stand for is looked up by load.secrets, on connecting and not before.
"""

import re

from reconciler.policies.validation import ValidationIssue, validation_error

REFERENCE = re.compile(r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[^${}\x00-\x1f]+))\}")
REFERENCE_TEXT = r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^${}]+)\}"
SERVER_TEXT = rf"^({REFERENCE_TEXT}|(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{{1,5}})$"

BROKEN_TEXT = rf"\$\{{(?!{REFERENCE_TEXT[4:]})"
"""Of a value in which something begins like a reference and is none, for schemas."""

_BROKEN = re.compile(BROKEN_TEXT)
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")


def whole_reference(value: str) -> bool:
    """Whether all of `value` is one reference."""
    return REFERENCE.fullmatch(value) is not None


def broken_reference(value: str) -> bool:
    """Whether something in `value` begins like a reference and is none."""
    return _BROKEN.search(value) is not None


def server(value: str) -> str:
    """A bootstrap server as written. Raises for anything but host:port or one reference."""
    if _SERVER.fullmatch(value) or whole_reference(value):
        return value
    if "${" in value:
        raise validation_error(
            ValidationIssue(
                code="M213", message="not a reference", hint="${env:NAME} or ${file:PATH}, as the whole entry"
            )
        )
    raise validation_error(
        ValidationIssue(
            code="M119", message=f"not a bootstrap server: `{value}`", hint="host:port, such as broker-1:9093"
        )
    )
