"""Pauses Python's garbage collector, which visits all objects again and again while many are created."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class _Pauses:
    """The number of present pauses of all threads, and whether the collector was enabled before the first."""

    count: int = 0
    was_enabled: bool = False
    lock: Lock = field(default_factory=Lock)


_pauses = _Pauses()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause it, for all threads, while many objects are created that all stay and hold no cycles."""
    with _pauses.lock:
        if _pauses.count == 0:
            _pauses.was_enabled = gc.isenabled()
            gc.disable()
        _pauses.count += 1
    try:
        yield
    finally:
        with _pauses.lock:
            _pauses.count -= 1
            if _pauses.count == 0 and _pauses.was_enabled:
                gc.enable()
