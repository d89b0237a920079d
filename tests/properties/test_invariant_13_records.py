"""Invariant 13: a group is behind a target only if a record lies between its position and the target.

A record is what a read-committed consumer is given: transaction markers and aborted records are none.
They stay all the same where a group goes on there: Kafka resets a consumer below the log start. The same
holds for the check right before the request.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Blocked, Satisfied, Waiting
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.observation import Observation
from reconciler.operations.offsets_without_records import count_records
from tests.repeats import at_least
from tests.strategies.facts import DAY, NOW_MS, SECOND, floor, group, planned, reader, snapshot, topic
from tests.strategies.logs import LATEST_MS, Entry, Log, logs


@at_least(200)
@given(logs(), st.integers(0, 15), st.integers(1, 3), st.sampled_from(["block", "clamp"]))
def test_a_group_is_behind_by_records_only(log: Log, position: int, last: int, consumers: str) -> None:
    position = min(position, len(log.entries))
    policy = floor(keep={"last": last}, consumers=consumers, driftAfter="1s")
    facts = log.facts(policy.spec.instants_ms(NOW_MS), readers=(reader("billing", position),))
    target = log.stable - last
    if target <= log.log_start:
        return
    behind = log.records(max(position, log.log_start), target)
    (decision,) = planned(policy, snapshot(facts, topic(), group("billing"))).decisions
    goes_on = min(max(position, log.log_start), target)
    if behind and (consumers == "block" or goes_on == log.log_start):
        committed = [ms for _entry, ms in log.entries[log.log_start : log.stable]]
        found = log.offset_at(NOW_MS - SECOND, end=log.stable)
        if consumers == "clamp" and found is not None:
            assert isinstance(decision, Blocked if log.log_start < found - last else Waiting)
        # The search ended before it: all is late, unless something committed is as new, and not of the future.
        elif consumers == "clamp" and not any(NOW_MS - SECOND <= ms <= LATEST_MS for ms in committed):
            assert isinstance(decision, Blocked)
        if isinstance(decision, Waiting):
            assert consumers == "clamp"
            return
        assert isinstance(decision, Blocked), decision
        assert decision.code == "B204"
        return
    if goes_on == log.log_start:
        assert isinstance(decision, Satisfied) or (isinstance(decision, Blocked) and decision.code == "B217")
        return
    assert isinstance(decision, DeleteRecords), decision
    assert decision.before_offset == goes_on
    seen = Observation(observed_at_ms=NOW_MS, partitions={facts.partition: facts})
    assert decision.recheck(seen) is None
    moved_back = replace(facts, readers=(reader("billing", max(0, position - 1)),))
    failure = decision.recheck(Observation(observed_at_ms=NOW_MS, partitions={facts.partition: moved_back}))
    assert position > decision.before_offset or failure is not None


def _log(records: int, gap: int, more: int) -> Log:
    old = NOW_MS - 8 * DAY
    entries = [(Entry.RECORD, old)] * records + [(Entry.ABORTED, old)] * gap + [(Entry.RECORD, old)] * more
    return Log(tuple(entries), 0, len(entries))


@at_least(200)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200), st.integers(0, 40)), min_size=1, max_size=3),
    st.integers(1, 300),
)
def test_no_share_counts_a_large_gap(parts: list[tuple[int, int, int]], last: int) -> None:
    """Aborted records hid that a floor took all others, before, between and behind them, and beside them."""
    partitions = [_log(*part) for part in parts]
    policy = floor(keep={"last": last}, consumers="ignore", driftAfter="1s")
    at = dict.fromkeys(policy.spec.instants_ms(NOW_MS))
    facts = [replace(log.facts((), readers=(), number=number), offsets_at=at) for number, log in enumerate(partitions)]
    offsets = sum(log.stable for log in partitions)
    orders = topic(partitions=len(parts), records=offsets, records_min=offsets)
    others = 1_000  # of topics that lose nothing
    transactions = topic("__transaction_state", internal=True)
    plan = planned(policy, snapshot(*facts, orders, transactions, cluster_records=offsets + others))
    removed = sum(max(0, log.stable - last) for log in partitions)
    if not removed:
        assert plan.actions == ()
        return
    # Of fewer than 20 offsets, only the ends are looked at.
    sizes = [(gap, records + gap + more) for records, gap, more in parts]
    unseen = sum(gap for gap, size in sizes if size < 20 or 4 * gap <= size + 3)
    records = sum(records + more for records, _gap, more in parts)
    shares = {limit.id: limit.observed for limit in plan.limits}
    observed, of_cluster = shares["recordsPercentPerTopic"], shares["recordsPercent"]
    assert observed is not None
    assert of_cluster is not None
    assert of_cluster >= 100 * removed / max(records + unseen + others, removed) - 1e-9
    assert observed >= 100 * removed / max(records + unseen, removed) - 1e-9
    if not any(gap for _records, gap, _more in parts):
        assert observed == 100 * removed / offsets


def test_no_share_counts_the_gaps_of_a_producer_that_fails_again_and_again() -> None:
    old = NOW_MS - 8 * DAY
    log = Log((*([(Entry.RECORD, old)] * 10 + [(Entry.ABORTED, old)] * 1_000) * 30,), 0, 30_300)
    for number, partitions in ((0, 1), *((number, 7) for number in range(7))):
        counted = count_records(log.facts((), readers=(), number=number), partitions)
        assert (counted.records, counted.gaps) == (0, 30_300)
        assert "0 of 30,300 offsets" in counted.words
