"""The clock of the brokers, which stamps the run's own intents, against that of the machine."""

import pytest

from reconciler.apply.context import Tuning
from reconciler.apply.results import exit_code
from reconciler.journal.entry import Event
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from tests.fakes.cluster import FakeCluster, cluster_of_orders
from tests.fakes.runs import FakeClock, RunResult, context, intercept, new_journal, purge, removal, run
from tests.golden.wording import mentions

AT = TopicPartition("orders", 0)
LIMIT_MS, DAY_MS = 5 * 60_000, 86_400_000


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = cluster_of_orders()
    cluster.commit("billing", {AT: 80})
    return cluster


def apply(cluster: FakeCluster, ahead_ms: int | None, *, seconds: float = 0, needs_stamps: bool = False) -> RunResult:
    """Remove a group and records, with brokers whose clock is ahead of this machine's by so much.

    They stamp the end of each storing, which takes `seconds`; `ahead_ms` None: they do not.
    """
    clock, journal = FakeClock(), new_journal()

    def stamp(_stored: None) -> int | None:
        clock.sleep(seconds)
        return None if ahead_ms is None else clock() + ahead_ms

    intercept(journal.store, "append", change=stamp)
    actions = [removal(cluster, "billing"), purge(cluster, AT, 60)]
    return run(cluster, actions, journal=journal, clock=clock, needs_stamps=needs_stamps)


@pytest.mark.parametrize("ahead_ms", [-2 * DAY_MS, -LIMIT_MS - 1, LIMIT_MS + 1, 2 * DAY_MS])
def test_a_clock_that_the_brokers_contradict_stops_the_run(cluster: FakeCluster, ahead_ms: int) -> None:
    """Two days ahead, a group that had committed seconds before was idle. The journal says: not sent."""
    result = apply(cluster, ahead_ms)
    assert [(outcome.status, outcome.sends) for outcome in result.outcomes] == [(Status.NOT_ATTEMPTED, 0)] * 2
    assert (cluster.requests, exit_code(result.outcomes)) == ([], 1)
    reason = result.outcomes[0].detail
    assert mentions(reason, "2027-01-15T08:00:00Z", "2 d apart" if abs(ahead_ms) > DAY_MS else "5 min apart")
    assert mentions(reason, "more than 5m", "set the clock that is wrong, then plan again")
    assert [(entry.event, entry.sends) for entry in result.journal.entries()] == [
        (Event.INTENT, None),
        (Event.OUTCOME, 0),
    ]
    assert result.journal.open_intents("sha256:plan") == {}


@pytest.mark.parametrize("ahead_ms", [-LIMIT_MS, 0, LIMIT_MS, None])
def test_a_clock_within_five_minutes_and_a_journal_without_stamps_stop_nothing(
    cluster: FakeCluster, ahead_ms: int | None
) -> None:
    """A reviewed plan may be applied with a journal that nothing stamps: it proves nothing about clocks."""
    assert [outcome.status for outcome in apply(cluster, ahead_ms).outcomes] == [Status.APPLIED] * 2


def test_a_journal_that_takes_long_is_no_wrong_clock(cluster: FakeCluster) -> None:
    """The stamp lies between the beginning and the end of storing, which may take ten minutes."""
    result = apply(cluster, -LIMIT_MS - 100_000, seconds=200)
    assert [outcome.status for outcome in result.outcomes] == [Status.APPLIED] * 2


def test_a_continuous_run_needs_the_stamps_of_the_brokers(cluster: FakeCluster) -> None:
    """No person has looked at what a wrong clock would select."""
    outcomes = apply(cluster, None, needs_stamps=True).outcomes
    assert [(outcome.status, outcome.sends) for outcome in outcomes] == [(Status.NOT_ATTEMPTED, 0)] * 2
    assert mentions(outcomes[0].detail, "do not stamp", "message.timestamp.type=LogAppendTime", "reconciler doctor")
    assert cluster.requests == []
    assert [outcome.status for outcome in apply(cluster, 0, needs_stamps=True).outcomes] == [Status.APPLIED] * 2


@pytest.mark.parametrize(("reading_s", "readings"), [(0, 31), (1, 3), (10, 1), (-0.1, 31)])
def test_an_effect_is_awaited_by_the_clock_and_by_count(cluster: FakeCluster, reading_s: float, readings: int) -> None:
    """For three seconds, also where each reading takes long; a clock that is set back makes no wait without an end."""
    clock = FakeClock()
    polls = context(cluster, clock=clock, tuning=Tuning(effect_wait_ms=3_000)).polls()
    assert sum(clock.sleep(reading_s) is None for _ in polls) == readings
