"""The outcome of an attempt says that nothing was done only where nothing can have been done."""

import pytest

from reconciler.model.outcome import Status
from reconciler.operations import DeleteGroup
from reconciler.operations.attempt import Attempt
from tests.strategies.examples import purge, removal


@pytest.mark.parametrize("status", [Status.FAILED, Status.NOT_ATTEMPTED, Status.STALE, Status.BLOCKED])
def test_what_may_have_been_carried_out_has_failed(status: Status) -> None:
    assert Attempt(action=purge(), possible=True).outcome(status, "why").status is Status.FAILED


def test_what_was_never_sent_cannot_have_failed() -> None:
    assert Attempt(action=purge()).outcome(Status.FAILED, "why").status is Status.NOT_ATTEMPTED
    assert Attempt(action=purge(), sends=1).outcome(Status.FAILED, "why").status is Status.FAILED


@pytest.mark.parametrize(
    ("commits", "sizes"), [((40_000, 60_000, 1), [2, 1]), ((200_000, 1), [1, 1]), ((1,) * 5, [2, 2, 1])]
)
def test_a_batch_of_removals_is_bounded_in_groups_and_in_commits(commits: tuple[int, ...], sizes: list[int]) -> None:
    """Commits are read in seconds, and held in memory; one group may have any number."""
    attempts = [Attempt(action=removal(f"g{at}", commits=number)) for at, number in enumerate(commits)]
    (lane,) = DeleteGroup.batches(attempts, 2)
    assert [len(batch) for batch in lane] == sizes
