"""Suggests the closest known name for an error message; nothing is corrected automatically."""

import difflib
import unicodedata
from collections.abc import Iterable

from reconciler.text.escape import display_name

_LONGEST = 249
"""Longer words are no typing mistakes, and the comparison takes quadratic time."""


def _plain(text: str) -> str:
    """Return a text without what typing changes: case, separators, the Unicode form of a letter."""
    return unicodedata.normalize("NFKC", text).lower().replace("-", "").replace("_", "")


def did_you_mean(word: str, candidates: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the candidate closest to `word`, or None. Case, `-`, `_` and order hardly count.

    `cutoff`: the least similarity of other candidates, from 0 to 1 (equal).
    """
    if not word or len(word) > _LONGEST:
        return None
    known = sorted({candidate for candidate in candidates if candidate != word and len(candidate) <= _LONGEST})
    # sorted: swapped letters, which difflib would rate no higher than another ending
    for form in (_plain, sorted):
        for candidate in known:
            if form(candidate) == form(word):
                return candidate
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def suggestion(word: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """Return the question whether the closest candidate was meant, or `otherwise`."""
    closest = did_you_mean(word, candidates)
    return f"did you mean {display_name(closest)}?" if closest else otherwise
