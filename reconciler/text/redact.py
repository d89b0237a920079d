"""Replaces the values of secrets by the references that a manifest writes, in texts of libraries.

The values of this process: those of each connection from which a client was opened, and the tokens
of a Spark Connect server.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile

_SHORTEST = 3
"""Shorter values would be found in every text, and hide nothing."""
_SHORTEST_PART = 8
"""Shorter values count as whole words only: a user `kafka` is not part of `librdkafka`."""
_LONG, _CUT = 100, 16
"""Libraries cut texts off: of values longer than _LONG, the first _CUT characters are taken for all."""
_references: dict[str, str] = {}


def add_references(references: Mapping[str, str]) -> None:
    """Remember values, and the reference of each. A value of several lines counts line by line."""
    known = len(_references)
    for value, reference in references.items():
        _references.update((part, reference) for part in (value, *value.splitlines()) if len(part) >= _SHORTEST)
    if len(_references) != known:
        _pattern.cache_clear()


def replace_reference(before: str, value: str, reference: str) -> None:
    """Remember a value of this process in the place of the one before, such as a token that was renewed."""
    add_references({value: reference})
    _references.pop(before, None)
    _pattern.cache_clear()


def redact(text: str) -> str:
    """Return the text with references in the place of their values, the longest value first."""
    if not _references:
        return text
    for value, reference in list(_references.items()):  # another thread may renew a token
        start = text.find(value[:_CUT]) if len(value) > _LONG else -1
        while start >= 0:
            same = takewhile(lambda pair: pair[0] == pair[1], zip(value, text[start:], strict=False))
            text = text[:start] + reference + text[start + len(list(same)) :]
            start = text.find(value[:_CUT], start + len(reference))
    return _pattern().sub(lambda match: _references.get(match[0], "${…}"), text)


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    values = sorted(_references, key=len, reverse=True)
    words = (re.escape(v) if len(v) >= _SHORTEST_PART else rf"(?<!\w){re.escape(v)}(?!\w)" for v in values)
    return re.compile("|".join(words))
