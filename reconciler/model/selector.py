"""Selectors of topics and groups in manifests: exact names, globs and `regex:…`."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True, order=True)
class Selector:
    """One selector as written.

    `regex:` must match the whole name: a forgotten `$` then selects less, never more. Raises
    ValueError for an empty selector and for a regular expression that does not compile.
    """

    text: str
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not self.text or self.text == "regex:":
            raise ValueError("empty selector")
        pattern = None
        if self.text.startswith("regex:"):
            try:
                pattern = re.compile(self.text.removeprefix("regex:"))
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"not a regular expression: {error}") from error
        elif _GLOB.intersection(self.text):
            pattern = re.compile(fnmatch.translate(self.text))
        object.__setattr__(self, "_pattern", pattern)

    @classmethod
    def literal(cls, name: str) -> "Selector":
        """Return the selector of exactly this name, also where a group id reads like a pattern."""
        plain = not name.startswith("regex:") and not _GLOB.intersection(name)
        return cls(name if plain else f"regex:{re.escape(name)}")

    @property
    def is_pattern(self) -> bool:
        """True for globs and regular expressions, False for an exact name."""
        return self._pattern is not None

    def matches(self, name: str) -> bool:
        """Whether the selector selects `name`."""
        return self.text == name if self._pattern is None else self._pattern.fullmatch(name) is not None


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
    and also leaves out a name that is written just like one of its patterns.
    """
    selectors, excluded = tuple(selectors), tuple(excluding)
    exact = {s.text for s in selectors if not s.is_pattern}
    patterns = [s for s in selectors if s.is_pattern]
    selected: dict[str, bool] = {}
    for name in sorted(set(names)):
        by_pattern = not (patterns_skip_underscore and name.startswith("_")) and any(p.matches(name) for p in patterns)
        if (name in exact or by_pattern) and not any(e.matches(name) or e.text == name for e in excluded):
            selected[name] = name in exact
    return selected
