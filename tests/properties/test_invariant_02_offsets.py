"""Invariant 2: every DeleteRecords target is absolute, with log_start < target <= last_stable_offset of the
scan, and a second decision only lowers it.
"""

from hypothesis import given

from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan.review import restrict_to
from tests.repeats import at_least
from tests.strategies.planner_inputs import PlannerInput, floor_inputs, later_days


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


@at_least(400)
@given(later_days)
def test_a_second_decision_only_lowers_a_target(days: tuple[PlannerInput, PlannerInput]) -> None:
    """An intersection may lower the target, but not to the log start.

    What is sent is not above the saved target, nor above what the later day shows.
    """
    planner_input, other_day = days
    plan = planner_input.plan()
    for action in restrict_to(plan, other_day.plan()).actions:
        if not isinstance(action, DeleteRecords):
            continue
        assert action.seen.log_start < action.before_offset <= action.seen.last_stable_offset
    saved = {action.address: action for action in plan.actions}
    for action in other_day.recheck(plan).remaining:
        if not isinstance(action, DeleteRecords):
            continue
        facts, bound = other_day.snapshot.partitions[action.partition], saved[action.address]
        assert isinstance(facts.log_start, int)
        assert isinstance(facts.last_stable_offset, int)
        assert isinstance(bound, DeleteRecords)
        assert facts.log_start < action.before_offset <= min(bound.before_offset, facts.last_stable_offset)
