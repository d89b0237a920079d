"""How a step that takes long says how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Takes the step that runs now, in words, and how far it is.

    `state`: what changes while it runs, such as `3 of 40`. `done` and `total` fill a bar; `total` 0:
    the step does not count.
    """

    def __call__(self, step: str, state: str = "", done: int = 0, total: int = 0, /) -> None: ...


def no_progress(*_step: object) -> None:
    """Tell nobody."""
