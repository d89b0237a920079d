"""What an unquoted scalar is. Only readings that every reader of YAML shares: the rest is refused rather than guessed.

YAML 1.1 and 1.2 disagree on 017, 0x1F, 1e3 and +5, and on yes and no, which stay text here as in 1.2. Digits in groups of three,
as in 1_000_000, are a number in this language, and text to readers that go by YAML 1.2: the schema allows for both.
"""

import re
from typing import Any

from reconciler.manifest.nodes import BROKEN

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,40})|[1-9][0-9]{0,2}(_[0-9]{3}){1,12}")
_FRACTION = re.compile(r"-?(0|[1-9][0-9]{0,40})\.[0-9]{1,40}")
_DISPUTED = re.compile(
    r"[-+]?(0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+|\.(inf|Inf|INF)"
    r"|([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?)"
    r"|\.(nan|NaN|NAN)"
)
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), BROKEN),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC = frozenset("-+.0123456789")


def value_of(text: str) -> Any:
    """The value of an unquoted scalar; BROKEN where it is null, which the language does not have, or a disputed number."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return BROKEN if _DISPUTED.fullmatch(text) else text


def is_null(text: str) -> bool:
    """Whether this unquoted scalar is null."""
    return _CONSTANTS.get(text) is BROKEN
