"""Suggests the closest known name for an error message; nothing is corrected automatically."""

import difflib
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import Any

from reconciler.text.escape import display_name

NAMES_MAX = 2_000
"""Among more names, a command that asks about many words gets no suggestion."""
_LONGEST = 249
"""Longer words are not typing mistakes, and the comparison takes quadratic time."""


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


def question(
    closest: str | None, *, before: str = "", otherwise: str = "", quote: Callable[[str], str] = display_name
) -> str:
    """Return the question whether the closest name was meant, after `before`; without one, `otherwise`."""
    return f"{before}did you mean {quote(closest)}?" if closest else otherwise


def suggestion(word: str, candidates: Iterable[str], **words: Any) -> str:
    """Return the question whether the closest candidate was meant. `words`: as in `question`."""
    return question(did_you_mean(word, candidates), **words)


def suggestion_of_many(word: str, names: Collection[str], **words: Any) -> str:
    """Return the suggestion for one of many words: none among so many names that the search takes minutes."""
    return suggestion(word, names if len(names) < NAMES_MAX else (), **words)


def backticks(name: str) -> str:
    """Quote a name as messages about manifests do."""
    return f"`{name}`"
