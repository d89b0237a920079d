"""Pauses of the garbage collector that overlap in several threads."""

import gc
from contextlib import ExitStack

import pytest

from reconciler.model.garbage import gc_paused


@pytest.mark.parametrize("enabled", [True, False])
def test_overlapping_pauses_leave_the_collector_as_it_was(enabled: bool) -> None:
    """The pause that began first may end first: the last one that ends enables the collector."""
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        first, second = ExitStack(), ExitStack()
        first.enter_context(gc_paused())
        second.enter_context(gc_paused())
        first.close()
        assert not gc.isenabled()
        second.close()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
