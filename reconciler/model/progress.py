"""How a step that takes long says how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Takes the step that runs now, in words. `done` and `total` fill a bar; `total` 0: the step does not count."""

    def __call__(self, message: str, done: int = 0, total: int = 0, /) -> None: ...
