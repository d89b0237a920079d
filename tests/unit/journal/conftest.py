"""No test here waits for the disk."""

from tests.fakes.disk import no_waiting_for_the_disk

__all__ = ["no_waiting_for_the_disk"]
