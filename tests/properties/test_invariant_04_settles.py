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
from reconciler.plan import recheck
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, planner_inputs


def applied(snapshot: ClusterSnapshot, actions: tuple[Action, ...]) -> ClusterSnapshot:
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


@given(planner_inputs())
def test_a_plan_that_was_applied_leaves_nothing_to_do(planner_input: PlannerInput) -> None:
    """All actions settle at once, except those whose facts only an election makes readable."""
    planned = planner_input.plan()
    after = replace(planner_input, snapshot=applied(planner_input.snapshot, planned.actions))
    assert after.plan().actions == ()


@given(planner_inputs())
def test_applying_the_same_plan_again_finds_it_done(planner_input: PlannerInput) -> None:
    """Each remaining action is satisfied now, unless the absence of its group is not proven."""
    planned = planner_input.plan()
    first = recheck.recheck(planned, planner_input.cluster, planner_input.waivers, planner_input.snapshot, NOW_MS + 1)
    assert first.remaining == planned.actions, "on an unchanged cluster everything that was planned goes on"
    after = applied(planner_input.snapshot, planned.actions)
    second = recheck.recheck(planned, planner_input.cluster, planner_input.waivers, after, NOW_MS + 1)
    assert second.remaining == ()
    for outcome in second.outcomes:
        unproven = isinstance(outcome.action, DeleteGroup) and after.groups_incomplete is not None
        assert outcome.status is (Status.FAILED if unproven else Status.SATISFIED), outcome
