"""Invariant 4, for the planner: after an apply, the next plan at the same observed_at has no
action.

A second apply changes nothing. The stateful test and the tests with real brokers cover the brokers'
part.
"""

from dataclasses import replace

from hypothesis import given

from reconciler.model.action import Action
from reconciler.model.outcome import Status
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.strategies.planner_inputs import PlannerInput, planner_inputs


def apply_effects(snapshot: ClusterSnapshot, actions: tuple[Action, ...]) -> ClusterSnapshot:
    """Return the facts of a scan of the same cluster at the same instant, after these actions."""
    partitions, groups = dict(snapshot.partitions), dict(snapshot.groups)
    for action in actions:
        match action:
            case DeleteRecords():
                partitions[action.partition] = replace(partitions[action.partition], log_start=action.before_offset)
            case DeleteGroup():
                del groups[action.group]
            case ElectLeader():
                leader = action.leader_wanted or action.seen.replicas[-1]
                partitions[action.partition] = replace(partitions[action.partition], leader=leader)
    return replace(snapshot, partitions=partitions, groups=groups)


@given(planner_inputs)
def test_no_action_remains_after_an_apply(planner_input: PlannerInput) -> None:
    plan = planner_input.plan()
    next_input = replace(planner_input, snapshot=apply_effects(planner_input.snapshot, plan.actions))
    assert next_input.plan().actions == ()


@given(planner_inputs)
def test_a_second_apply_finds_every_action_satisfied(planner_input: PlannerInput) -> None:
    """Each remaining action is satisfied now, unless the absence of its group is not proven."""
    plan = planner_input.plan()
    first_check = planner_input.recheck(plan)
    assert [unwatched(action) for action in first_check.remaining] == [unwatched(action) for action in plan.actions], (
        "on an unchanged cluster every action remains"
    )
    snapshot_after = apply_effects(planner_input.snapshot, plan.actions)
    second_check = replace(planner_input, snapshot=snapshot_after).recheck(plan)
    assert second_check.remaining == ()
    proven = []
    for outcome in second_check.outcomes:
        unproven = isinstance(outcome.action, DeleteGroup) and snapshot_after.groups_incomplete is not None
        assert outcome.status is (Status.NOT_ATTEMPTED if unproven else Status.SATISFIED), outcome
        proven += [] if unproven else [outcome]
    assert second_check.done == tuple(proven)


def unwatched(action: Action) -> Action:
    """The action without the positions of groups of exceptGroups, which no check looks at."""
    if not isinstance(action, DeleteRecords):
        return action
    return replace(action, guard=replace(action.guard, accepted=action.guard.watched))
