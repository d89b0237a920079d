"""Invariant 2: every DeleteRecords target is absolute, with log_start < target <= last_stable_offset of the scan.

Invariant 5 says the same of a second decision, which only lowers it.
"""

from hypothesis import given

from reconciler.operations.delete_records import DeleteRecords
from tests.strategies.planner_inputs import PlannerInput, floor_inputs


@given(floor_inputs)
def test_a_target_lies_above_the_log_start_and_not_above_the_last_stable_offset(planner_input: PlannerInput) -> None:
    """The bounds come from the scan's facts, so -1 is impossible and records of open transactions
    stay.
    """
    for action in planner_input.plan().actions:
        assert isinstance(action, DeleteRecords)
        facts = planner_input.snapshot.partitions[action.partition]
        assert isinstance(facts.log_start, int)
        assert isinstance(facts.last_stable_offset, int)
        assert 0 <= facts.log_start < action.before_offset <= facts.last_stable_offset
        assert (action.seen.log_start, action.seen.last_stable_offset) == (facts.log_start, facts.last_stable_offset)
        assert action.seen.high_watermark >= facts.last_stable_offset
        assert action.records_max >= 1
