"""Invariant 14: a time rule deletes no record whose age a lookup finds to be unknown or too young.

And a floor that anything holds back, such as an open transaction or a timestamp of the future, is never
called in sync.
"""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Blocked, Decision, Satisfied, Waiting
from reconciler.operations.delete_records import DeleteRecords
from tests.repeats import at_least
from tests.strategies.facts import DAY, NOW_MS, floor, planned, snapshot, topic
from tests.strategies.logs import LATEST_MS, Entry, Log, logs

YEAR_2001_MS = 978_307_200_000
INSTANT_MS = NOW_MS - 7 * DAY


def decide(log: Log, **spec: object) -> Decision:
    policy = floor(keep={"newerThan": "7d"}, **spec)
    transactions = [topic("__transaction_state", internal=True)] if log.has_transactions else []
    facts = snapshot(log.facts(policy.spec.instants_ms(NOW_MS)), topic(), *transactions)
    (decision,) = planned(policy, facts).decisions
    return decision


@at_least(200)
@given(logs())
def test_what_goes_is_provably_old(log: Log) -> None:
    """The first record and the last one, and every record up to a young one where brokers find none."""
    decision = decide(log)
    if not isinstance(decision, DeleteRecords):
        return
    gone = log.records(log.log_start, decision.before_offset)
    for record in (*gone[:1], *gone[-1:]):
        assert YEAR_2001_MS <= record.timestamp_ms < INSTANT_MS, record
    assert all(record.timestamp_ms < INSTANT_MS for record in gone)


@at_least(200)
@given(logs(), st.sampled_from(["1s", "1h", "60d"]))
def test_a_floor_that_is_held_is_not_in_sync(log: Log, drift_after: str) -> None:
    """Whatever record it stops at: one of the future, or one of an open transaction before old ones."""
    decision = decide(log, driftAfter=drift_after)
    stop = log.offset_at(INSTANT_MS, end=log.stable)
    future = stop is not None and log.entries[stop][1] > LATEST_MS
    uncommitted = log.offset_at(INSTANT_MS, end=len(log.entries))
    is_due = uncommitted is None or uncommitted > log.stable or log.entries[uncommitted][1] > LATEST_MS
    transaction = log.stable < len(log.entries) and stop is None and is_due
    if future or transaction:
        assert not isinstance(decision, Satisfied)
        if not isinstance(decision, DeleteRecords):
            assert isinstance(decision, Waiting) or decision.code in ("B216", "B217")
    elif not isinstance(decision, DeleteRecords | Blocked):
        assert isinstance(decision, Satisfied), "a busy topic without old records is not held"


_DAYS = st.lists(st.sampled_from([0, 2, 30]), max_size=4)


@at_least(200)
@given(_DAYS, _DAYS, _DAYS, st.sampled_from([{"newerThan": "7d"}, {"last": 4}]))
def test_a_young_transaction_does_not_hang(
    purged: list[int], committed: list[int], behind: list[int], keep: dict[str, object]
) -> None:
    """Whatever its segments still have of a purge: the advice was to abort the transaction of a producer that works."""
    days = [*purged, *committed, 0, *behind]
    entries = tuple((Entry.RECORD, NOW_MS - day * DAY) for day in days)
    log = Log(entries, len(purged), len(purged) + len(committed), kept=len(purged))
    policy = floor(keep=keep, driftAfter="1d")
    facts = log.facts(policy.spec.instants_ms(NOW_MS), readers=())
    (decision,) = planned(policy, snapshot(facts, topic(), topic("__transaction_state", internal=True))).decisions
    assert not isinstance(decision, Blocked) or decision.code != "B217", decision


@at_least(200)
@given(st.lists(st.sampled_from([2, 30]), min_size=1, max_size=4), st.sampled_from([-20_000, 30]))
def test_a_transaction_that_hangs_is_named(committed: list[int], purged: int) -> None:
    """Also where its segment still has a timestamp of the future, in which every search by time ends for ever."""
    days = [purged, *committed, 2, 2]
    entries = tuple((Entry.RECORD, NOW_MS - day * DAY) for day in days)
    log = Log(entries, 1, 1 + len(committed), kept=1)
    policy = floor(keep={"last": len(committed)}, driftAfter="1d")
    facts = log.facts(policy.spec.instants_ms(NOW_MS), readers=())
    (decision,) = planned(policy, snapshot(facts, topic(), topic("__transaction_state", internal=True))).decisions
    assert isinstance(decision, Blocked)
    assert decision.code == "B217"


@at_least(200)
@given(st.lists(st.integers(5, 11), min_size=1, max_size=12), st.integers(0, 11), st.integers(0, 11))
def test_a_floor_is_late_if_its_first_record_is(days: list[int], log_start: int, kept: int) -> None:
    """Whatever the brokers still have of what a purge took."""
    entries = tuple((Entry.RECORD, NOW_MS - day * DAY) for day in sorted(days, reverse=True))
    log_start = min(log_start, len(entries) - 1)
    log = Log(entries, log_start, len(entries), kept=min(kept, log_start))
    decision = decide(log, driftAfter="1d")
    if isinstance(decision, DeleteRecords):
        assert decision.drift is (log.entries[log.log_start][1] < INSTANT_MS - DAY)


@given(logs(stamps=st.sampled_from([NOW_MS - days * DAY for days in (8, 30)])))
def test_old_records_go(log: Log) -> None:
    """The invariant is not empty: with plausible timestamps everything old goes."""
    decision = decide(log)
    if log.stable > log.log_start:
        assert isinstance(decision, DeleteRecords)
        assert decision.before_offset == log.stable
