"""A bound on the length of Markdown: lines are taken until one does not fit, and what stood open is closed."""

from collections.abc import Iterable

LIMIT_CHARS = 60_000
"""GitHub refuses comments above 65,536 characters."""


class LineLimit:
    """`take` lines while they fit into `chars`, newlines included; `cut` says afterwards whether any was left out."""

    __slots__ = ("_left", "cut")

    def __init__(self, chars: int) -> None:
        self._left = chars
        self.cut = False

    def take(self, rows: Iterable[str]) -> list[str]:
        """The lines that fit. A `<details>` that is cut inside is closed, so that nothing after it is swallowed."""
        taken: list[str] = []
        depth = 0
        for row in rows:
            if len(row) + 1 > self._left:
                self.cut = True
                break
            self._left -= len(row) + 1
            depth += row.startswith("<details>") - (row == "</details>")
            taken.append(row)
        taken += ["", "</details>"] * depth
        return taken
