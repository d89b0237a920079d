"""Invariant 5, for the planner: after a recheck, no more remains than the plan says, whatever
changed.
"""

from hypothesis import given

from reconciler.model.ports import Election
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupState
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import recheck
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, two_days


@given(two_days())
def test_a_recheck_returns_unchanged_actions_of_the_plan(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The order is that of the plan, and every action of the plan has exactly one result."""
    first_day, later_day = days
    plan = first_day.plan()
    checked = recheck.recheck(
        plan, later_day.cluster, later_day.policies, later_day.waivers, later_day.snapshot, NOW_MS + 5
    )
    finished = {outcome.action.address for outcome in checked.outcomes}
    assert checked.remaining == tuple(action for action in plan.actions if action.address not in finished)
    assert len(checked.outcomes) + len(checked.remaining) == len(plan.actions)
    assert all(outcome.sends == 0 and outcome.removed_max == 0 for outcome in checked.outcomes)


@given(two_days())
def test_a_rechecked_action_does_no_more_than_the_plan(days: tuple[PlannerInput, PlannerInput]) -> None:
    """No action deletes more records than planned, ignores another consumer, or skips more of its
    records.
    """
    first_day, later_day = days
    plan = first_day.plan()
    for action in recheck.recheck(
        plan, later_day.cluster, later_day.policies, later_day.waivers, later_day.snapshot, NOW_MS + 5
    ).remaining:
        match action:
            case DeleteRecords():
                facts = later_day.snapshot.partitions[action.partition]
                assert facts.topic_id == action.seen.topic_id
                assert isinstance(facts.log_start, int)
                assert action.before_offset - facts.log_start <= action.records_max
                planned_skips = dict(action.skips)
                assert not isinstance(facts.readers, tuple) or all(
                    action.before_offset - max(reader.committed, facts.log_start) <= planned_skips.get(reader.group, 0)
                    for reader in facts.readers
                    if not any(Selector(text).matches(reader.group) for text in action.guard.except_groups)
                )
            case DeleteGroup():
                group = later_day.snapshot.groups[action.group]
                assert group.listed
                assert group.state is GroupState.EMPTY
                assert (group.type, group.fingerprint) == (action.seen.type, action.seen.fingerprint)
            case ElectLeader():
                facts = later_day.snapshot.partitions[action.partition]
                assert facts.replicas == action.seen.replicas
                assert facts.leader is None or action.election is Election.PREFERRED
