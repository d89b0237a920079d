"""Replaces the values of secrets by the references that a manifest writes, in texts of the client library.

The values of this process: those of each connection from which a client was opened.
"""

from collections.abc import Mapping

_SHORTEST = 3
"""Shorter values would be found in every text, and hide nothing."""
_references: dict[str, str] = {}


def add_references(references: Mapping[str, str]) -> None:
    """Remember values, and the reference of each. A value of several lines counts line by line."""
    for value, reference in references.items():
        _references.update((part, reference) for part in (value, *value.splitlines()) if len(part) >= _SHORTEST)


def redact(text: str) -> str:
    """Return the text with references in the place of their values, the longest value first."""
    for value in sorted(_references, key=len, reverse=True):
        text = text.replace(value, _references[value])
    return text
