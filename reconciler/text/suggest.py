"""The nearest right word to a wrong one, for error messages. Suggests; never decides: nothing is corrected on its behalf."""

import difflib
from collections.abc import Iterable

_LONGEST = 249
"""Longer words are nobody's typing mistake, and the comparison is quadratic."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None. Letter case, `-` and `_` count as small slips.

    The answer depends on the set of candidates only, not on their order.
    """
    if not word or len(word) > _LONGEST:
        return None
    known = sorted({candidate for candidate in candidates if candidate != word and len(candidate) <= _LONGEST})
    plain, letters = _plain(word), sorted(word)
    for candidate in known:
        if _plain(candidate) == plain:
            return candidate
    for candidate in known:
        if sorted(candidate) == letters:  # swapped letters: the comparison below would like any other ending as much
            return candidate
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return near[0] if near else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")
