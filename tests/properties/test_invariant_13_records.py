"""Invariant 13: a group is behind a target only if a record lies between its position and the target.

A record is what a read-committed consumer is given: transaction markers and aborted records are none.
They stay all the same where a group goes on there: Kafka resets a consumer below the log start. The same
holds for the check right before the request.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Blocked, Satisfied
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.observation import Observation
from tests.repeats import at_least
from tests.strategies.facts import NOW_MS, floor, group, planned, reader, snapshot, topic
from tests.strategies.logs import Log, logs


@at_least(200)
@given(logs(), st.integers(0, 15), st.integers(1, 3), st.sampled_from(["block", "clamp"]))
def test_a_group_is_behind_by_records_only(log: Log, position: int, last: int, consumers: str) -> None:
    position = min(position, len(log.entries))
    facts = log.facts((), readers=(reader("billing", position),))
    policy = floor(keep={"last": last}, consumers=consumers, driftAfter="1s")
    facts = replace(facts, offsets_at=dict.fromkeys(policy.spec.instants_ms(NOW_MS)))
    target = log.stable - last
    if target <= log.log_start:
        return
    behind = log.records(max(position, log.log_start), target)
    (decision,) = planned(policy, snapshot(facts, topic(), group("billing"))).decisions
    goes_on = min(max(position, log.log_start), target)
    if behind and (consumers == "block" or goes_on == log.log_start):
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


@at_least(200)
@given(logs(), st.integers(1, 10))
def test_a_share_counts_no_gap_at_either_end_of_what_stays(log: Log, last: int) -> None:
    """Aborted records behind the others hid that a floor took all of them."""
    target = log.stable - last
    if target <= log.log_start:
        return
    facts = log.facts((), readers=())
    policy = floor(keep={"last": last}, consumers="ignore", driftAfter="1s")
    facts = replace(facts, offsets_at=dict.fromkeys(policy.spec.instants_ms(NOW_MS)))
    of_transactions = topic("__transaction_state", internal=True)
    records = log.stable - log.log_start
    plan = planned(policy, snapshot(facts, topic(records=records, records_min=records), of_transactions))
    kept = log.records(target, log.stable)
    counted = kept[-1].offset - kept[0].offset + 1 if kept else 0
    removed = target - log.log_start
    observed = next(limit.observed for limit in plan.limits if limit.id == "recordsPercentPerTopic")
    assert observed == 100 * removed / (removed + counted)
