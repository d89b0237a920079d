"""Invariant 4, on paper: apply, then plan again on an unchanged cluster at the same observed_at: no action. Apply twice: the second
changes nothing. The broker's side of it is in the stateful test and in the tests with real brokers.
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
from tests.strategies.worlds import World, worlds


def applied(snapshot: ClusterSnapshot, actions: tuple[Action, ...]) -> ClusterSnapshot:
    """The facts of a scan of the same cluster at the same instant after these actions were carried out."""
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


@given(worlds())
def test_a_plan_that_was_applied_leaves_nothing_to_do(world: World) -> None:
    """Everything settles at once. (What an election makes readable for the first time is for the next plan.)"""
    planned = world.plan()
    after = replace(world, snapshot=applied(world.snapshot, planned.actions))
    assert after.plan().actions == ()


@given(worlds())
def test_applying_the_same_plan_again_finds_it_done(world: World) -> None:
    """Each action that held before is satisfied now, unless the absence of its group is not proven."""
    planned = world.plan()
    first = recheck.recheck(planned, world.cluster, world.waivers, world.snapshot, NOW_MS + 1)
    assert first.remaining == planned.actions, "on an unchanged cluster everything that was planned goes on"
    after = applied(world.snapshot, planned.actions)
    second = recheck.recheck(planned, world.cluster, world.waivers, after, NOW_MS + 1)
    assert second.remaining == ()
    for outcome in second.outcomes:
        unproven = isinstance(outcome.action, DeleteGroup) and after.groups_incomplete is not None
        assert outcome.status is (Status.FAILED if unproven else Status.SATISFIED), outcome
