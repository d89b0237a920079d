"""The outcome of an attempt says that nothing was done only where nothing can have been done."""

import pytest

from reconciler.model.outcome import Status
from reconciler.operations.attempt import Attempt
from reconciler.text.escape import NEXT
from tests.strategies.examples import purge


@pytest.mark.parametrize("status", [Status.FAILED, Status.NOT_ATTEMPTED, Status.STALE, Status.BLOCKED])
def test_what_may_have_been_carried_out_has_failed(status: Status) -> None:
    assert Attempt(action=purge(), possible=True).outcome(status, "why").status is Status.FAILED


def test_what_was_never_sent_cannot_have_failed() -> None:
    assert Attempt(action=purge()).outcome(Status.FAILED, "why").status is Status.NOT_ATTEMPTED
    assert Attempt(action=purge(), sends=1).outcome(Status.FAILED, "why").status is Status.FAILED


def test_what_to_do_next_comes_last() -> None:
    """`Next: see with reconciler doctor what is wrong with it: the log start could not be read back` advised nothing."""
    attempt = Attempt(action=purge(), sends=1, possible=True, reason="the log start could not be read back")
    cause, _, step = attempt.give_up(f"no acknowledgement in time{NEXT}see with doctor").detail.partition(NEXT)
    assert (cause, step) == ("no acknowledgement in time: the log start could not be read back", "see with doctor")
