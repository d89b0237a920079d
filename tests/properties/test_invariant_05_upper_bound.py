"""Invariant 5, for the planner: what remains of a saved plan is within the saved action of its address, and
within what the manifests of now decide, whatever changed.
"""

from hypothesis import given

from reconciler.model.action import Action
from reconciler.model.block_reason import Origin, origin_of
from reconciler.model.outcome import Status
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.ports import Election
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, GroupState
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner
from reconciler.plan.targets import with_parents
from tests.repeats import at_least
from tests.strategies.planner_inputs import PlannerInput, later_days

BY_ORIGIN = {
    Origin.MANIFESTS: Status.BLOCKED,
    Origin.UNREAD: Status.NOT_ATTEMPTED,
    Origin.CLUSTER: Status.STALE,
}


@at_least(400)
@given(later_days)
def test_every_action_of_a_saved_plan_has_one_result(days: tuple[PlannerInput, PlannerInput]) -> None:
    """It remains, or has one outcome without a request; both are in the order of the plan.

    What the planner blocks now ends by its code, with its reason, and what was not read with its next step: nothing else decides about facts.
    """
    first_day, later_day = days
    plan = first_day.plan()
    checked = later_day.recheck(plan)
    remaining = [action.address for action in checked.remaining]
    outcomes = [outcome.action for outcome in checked.outcomes]
    assert remaining == [action.address for action in plan.actions if action.address in remaining]
    assert outcomes == [action for action in plan.actions if action.address not in remaining]
    assert all(outcome.sends == 0 and outcome.removed_max == 0 for outcome in checked.outcomes)
    assert set(checked.done) <= set(checked.outcomes)
    asked = frozenset(action.address for action in plan.actions)
    _selections, decided = planner.decide(later_day.rules, later_day.snapshot, addresses=asked)
    now = {decision.address: decision for decision in decided}
    for outcome in checked.outcomes:
        decision = next((now[at] for at in with_parents(outcome.action.address) if at in now), None)
        if isinstance(decision, Blocked | Skipped) and outcome not in checked.done:
            is_unread = isinstance(decision, Blocked) and decision.unread
            status = Status.NOT_ATTEMPTED if is_unread else BY_ORIGIN[origin_of(decision.code)]
            text = f"{decision.reason} ({decision.code})"
            if isinstance(decision, Blocked) and status is Status.NOT_ATTEMPTED:  # the saved plan goes on after it
                text += f". Next: {decision.next_step.removesuffix(', then plan again')}"
            assert (outcome.status, outcome.detail) == (status, text)


@at_least(400)
@given(later_days)
def test_what_remains_is_within_what_was_saved_and_what_is_decided_now(days: tuple[PlannerInput, PlannerInput]) -> None:
    """Each action is compared with the saved one, with that of a plan of the later day, and with the facts of that day."""
    first_day, later_day = days
    plan = first_day.plan()
    saved = {action.address: action for action in plan.actions}
    remaining = later_day.recheck(plan).remaining
    now = {action.address: action for action in later_day.plan().actions} if remaining else {}
    for action in remaining:
        bound = saved[action.address]
        check_is_within(action, bound)
        if isinstance(action, DeleteRecords) and isinstance(bound, DeleteRecords):
            assert set(action.guard.accepted) <= set(bound.guard.accepted)
        check_is_decided_now(action, now[action.address])
        check_does_no_more(action, bound, later_day.snapshot)


def check_is_within(action: Action, saved: Action) -> None:
    """No higher target, no group that may skip more, no other topic, group or election."""
    assert action.subject == saved.subject
    match action, saved:
        case DeleteRecords(), DeleteRecords() as bound:
            assert action.before_offset <= bound.before_offset
            assert action.records_max <= bound.records_max
            assert action.seen.topic_id == bound.seen.topic_id
            # Groups of exceptGroups bind nothing, and no check looks at them.
            watched, skips = {reader.group for reader in action.guard.watched}, dict(bound.skips)
            assert all(records <= skips.get(group, 0) for group, records in action.skips if group in watched)
            assert (action.guard.named, action.guard.except_groups, action.guard.every_ms) == (
                bound.guard.named,
                bound.guard.except_groups,
                bound.guard.every_ms,
            )
        case DeleteGroup(), DeleteGroup() as bound:
            assert (action.seen.type, action.seen.fingerprint) == (bound.seen.type, bound.seen.fingerprint)
            assert action.idle_for_ms >= bound.idle_for_ms
            assert bound.seen.newest_record in (None, action.seen.newest_record)
        case ElectLeader(), ElectLeader() as bound:
            assert (action.election, action.leader_wanted) == (bound.election, bound.leader_wanted)
            assert (action.seen.topic_id, action.seen.replicas) == (bound.seen.topic_id, bound.seen.replicas)
        case _:
            raise AssertionError(f"{action} was saved as {saved}")


def check_is_decided_now(action: Action, decided: Action) -> None:
    """A plan of the later day has the action, and a target that is no lower."""
    if isinstance(action, DeleteRecords):
        assert isinstance(decided, DeleteRecords)
        assert action.before_offset <= decided.before_offset
    else:
        assert action == decided


def check_does_no_more(action: Action, saved: Action, snapshot: ClusterSnapshot) -> None:
    """By the facts of the later day, it deletes no more records than planned, ignores no other consumer, and skips
    no more of its records.
    """
    match action, saved:
        case DeleteRecords(), DeleteRecords() as bound:
            facts = snapshot.partitions[action.partition]
            assert facts.topic_id == bound.seen.topic_id
            assert isinstance(facts.log_start, int)
            assert isinstance(facts.last_stable_offset, int)
            assert isinstance(facts.high_watermark, int)
            assert facts.log_start < action.before_offset <= facts.last_stable_offset
            assert facts.log_start >= bound.seen.log_start
            assert action.before_offset - facts.log_start <= bound.records_max
            # As the planner sees it: read before the last stable offset, it may be the lower number.
            assert max(facts.high_watermark, facts.last_stable_offset) >= bound.seen.high_watermark
            planned_skips = dict(bound.skips)
            assert not isinstance(facts.readers, tuple) or all(
                action.before_offset - max(reader.committed, facts.log_start) <= planned_skips.get(reader.group, 0)
                for reader in facts.readers
                if not any(Selector(text).matches(reader.group) for text in bound.guard.except_groups)
            )
        case DeleteGroup(), DeleteGroup() as bound:
            group = snapshot.groups[bound.group]
            assert group.listed
            assert group.state is GroupState.EMPTY
            assert (group.type, group.fingerprint) == (bound.seen.type, bound.seen.fingerprint)
        case ElectLeader(), ElectLeader() as bound:
            facts = snapshot.partitions[bound.partition]
            assert facts.replicas == bound.seen.replicas
            assert facts.leader is None or bound.election is Election.PREFERRED
