"""Selectors of topics and groups in manifests: exact names, globs and `regex:…`."""

import fnmatch
import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

_GLOB = frozenset("*?[")
_WILDCARD = re.compile(r"[*?[\]]")


@dataclass(frozen=True, slots=True, order=True)
class Selector:
    """One selector as written.

    `regex:`, in RE2's syntax, must match the whole name: a forgotten `$` then selects less, never
    more. Raises ValueError for an empty selector and for a regular expression that RE2 refuses.
    """

    text: str
    name: str | None = field(init=False, repr=False, compare=False, default=None)
    """The only name that it selects; None: it is a pattern."""
    _pattern: Any = field(init=False, repr=False, compare=False, default=None)
    """A glob compiled by `re`, a regular expression by RE2; None: an exact name."""

    def __post_init__(self) -> None:
        if not self.text or self.text == "regex:":
            raise ValueError("empty selector")
        pattern = None
        if self.text.startswith("regex:"):
            pattern = _compile_regex(self.text.removeprefix("regex:"))
        elif _GLOB.intersection(self.text):
            pattern = re.compile(fnmatch.translate(self.text))
        object.__setattr__(self, "_pattern", pattern)
        if pattern is None:
            object.__setattr__(self, "name", self.text)

    @classmethod
    def literal(cls, name: str) -> "Selector":
        """Return the selector of exactly this name, also where a group id reads like a pattern."""
        if not name.startswith("regex:") and not _GLOB.intersection(name):
            return cls(name)
        # Never compiled: a plan may hold 100,000 such names, and each would be matched with all others.
        selector = object.__new__(cls)
        for attribute, value in (("text", f"regex:{re.escape(name)}"), ("name", name), ("_pattern", None)):
            object.__setattr__(selector, attribute, value)
        return selector

    @property
    def is_pattern(self) -> bool:
        return self.name is None

    def matches(self, name: str) -> bool:
        if self._pattern is None:
            return self.name == name
        # RE2's wrapper counts the characters of a text, which takes thrice as long as the matching of bytes.
        return self._pattern.fullmatch(name if isinstance(self._pattern, re.Pattern) else name.encode()) is not None


def _compile_regex(pattern: str) -> Any:
    """Compile a pattern for which no name takes long: any client may create names."""
    import re2  # Spark's tasks import this module, match no selector, and need not have RE2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.dot_nl = True  # a group may have a newline in its name: what protects `billing.*` protects it, too
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"not a regular expression: {error.args[0].decode(errors='replace')}") from error


def may_share_name(first: Selector, second: Selector) -> bool:
    """Whether two selectors may select one name, of this cluster or of a later one. In doubt True."""
    for one, other in ((first, second), (second, first)):
        if one.name is not None:
            return other.matches(one.name)
    if any(selector.text.startswith("regex:") for selector in (first, second)):
        return True
    ours, theirs = (_WILDCARD.split(selector.text) for selector in (first, second))
    # What is written before the first wildcard and behind the last one is in every name that they select.
    begins = ours[0].startswith(theirs[0]) or theirs[0].startswith(ours[0])
    return begins and (ours[-1].endswith(theirs[-1]) or theirs[-1].endswith(ours[-1]))


class SelectorSet:
    """Several selectors, compiled: a look-up takes as long for 100,000 exact names as for one."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._selectors = tuple(selectors)
        # The first of equal ones: `covering` promises the manifest's order.
        numbered = tuple(enumerate(self._selectors))[::-1]
        self._by_name = {selector.name: index for index, selector in numbered if selector.name is not None}
        self._by_text = {selector.text: index for index, selector in numbered}
        self._patterns = tuple((index, s) for index, s in enumerate(self._selectors) if s.is_pattern)

    @property
    def names(self) -> Set[str]:
        """The names that exact selectors select."""
        return self._by_name.keys()

    @property
    def has_patterns(self) -> bool:
        return bool(self._patterns)

    def matches_pattern(self, name: str) -> bool:
        return any(pattern.matches(name) for _index, pattern in self._patterns)

    def matches(self, name: str) -> bool:
        return name in self._by_name or self.matches_pattern(name)

    def covering(self, name: str) -> Selector | None:
        """Return the first selector that selects `name`, or is a pattern written just like it."""
        by_pattern = next((index for index, pattern in self._patterns if pattern.matches(name)), None)
        indexes = (self._by_name.get(name), self._by_text.get(name), by_pattern)
        first = min((index for index in indexes if index is not None), default=None)
        return None if first is None else self._selectors[first]


def select(
    names: Iterable[str],
    selectors: Iterable[Selector],
    *,
    excluding: Iterable[Selector] = (),
    patterns_skip_underscore: bool = False,
) -> dict[str, bool]:
    """Return the selected names, sorted, each with whether an *exact* selector named it.

    `patterns_skip_underscore`: no pattern selects a name that starts with `_`, because system
    topics look ordinary to a client. An exact name wins over a pattern. `excluding` wins over both,
    and also leaves out a name that is written just like one of its patterns. Without patterns, a set of
    `names` is never walked through.
    """
    included, excluded = SelectorSet(selectors), SelectorSet(excluding)
    names = names if isinstance(names, Set) else frozenset(names)
    if not included.has_patterns:
        candidates = [name for name in included.names if name in names and excluded.covering(name) is None]
        return dict.fromkeys(sorted(candidates), True)
    selected: dict[str, bool] = {}
    for name in sorted(names):
        is_exact, may_match = name in included.names, not (patterns_skip_underscore and name.startswith("_"))
        if (is_exact or (may_match and included.matches_pattern(name))) and excluded.covering(name) is None:
            selected[name] = is_exact
    return selected
