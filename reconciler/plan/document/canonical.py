"""JSON text as plan files and digests use it: pure ASCII, one line, every control character escaped, nothing that is not JSON.

ASCII on purpose: names come from the cluster, and `cat plan.json` must be harmless whatever they hold, in a CI log, too.
"""

import json
from typing import Any

from reconciler.text.escape import harmless_json

_LINE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(", ", ": ")).encode
_CANONICAL = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def line(value: Any) -> str:
    """One line of a plan file, fields in the order given. Raises ValueError for NaN, infinity and text that is not Unicode."""
    return harmless_json(_proven(_LINE(value), value))


def canonical(value: Any) -> str:
    """The one text that a value has: sorted fields, no spaces. Raises ValueError like `line`."""
    return _proven(_CANONICAL(value), value)


def _proven(encoded: str, value: Any) -> str:
    # A high and a low surrogate that stand side by side would come back as one character: two names, one text.
    if "\\ud" in encoded and json.loads(encoded) != json.loads(json.dumps(value, ensure_ascii=False)):
        raise ValueError("a name or text holds halves of a surrogate pair, which JSON cannot tell from the whole")
    return encoded.replace("\x7f", "\\u007f")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise ValueError("a field stands there twice, so two readers could read two things")
    return row


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODE = json.JSONDecoder(object_pairs_hook=_refuse_twice, parse_constant=_refuse_constant).decode


def parse(text: str) -> Any:
    """The value of a JSON text. Raises ValueError for anything that is not exactly one JSON value, and for repeated fields."""
    try:
        return _DECODE(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
