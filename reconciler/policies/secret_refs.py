"""References to secrets, `${env:NAME}` and `${file:PATH}`, and bootstrap servers, which may be one.

`manifest.secrets` resolves them when the program connects.
"""

import re

from reconciler.policies.validation import invalid

REFERENCE = re.compile(r"\$\{(?:env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>[^${}\x00-\x1f]+))\}")
REFERENCE_TEXT = r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^${}]+)\}"
"""The same for schemas."""

_SERVER = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
SERVER_TEXT = rf"^({REFERENCE_TEXT}|{_SERVER})$"

BROKEN_TEXT = rf"\$\{{(?!{REFERENCE_TEXT[4:]})"
"""Matches a value in which something begins like a reference and is none."""


def is_reference(value: str) -> bool:
    """Whether the complete value is one reference."""
    return REFERENCE.fullmatch(value) is not None


def server(value: str) -> str:
    """Accept host:port or one reference as a bootstrap server."""
    if re.fullmatch(_SERVER, value) or is_reference(value):
        return value
    if "${" in value:
        raise invalid("M213", "not a reference", "${env:NAME} or ${file:PATH}, as the whole entry")
    raise invalid("M119", f"not a bootstrap server: `{value}`", "host:port, such as broker-1:9093")
