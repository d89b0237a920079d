"""Pauses Python's garbage collector, which visits all objects again and again while many are created."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses: list[bool] = []
"""For each present pause of all threads, whether the collector was enabled before it."""


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause it, for all threads, while many objects are created that all stay and hold no cycles."""
    with _lock:
        _pauses.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:  # the first entry is the last to go, whichever pause ends last
            if _pauses.pop() and not _pauses:
                gc.enable()
