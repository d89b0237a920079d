"""Invariant 10: no action on a subject that two policies select.

A floor also claims the groups whose offsets it waits for.
"""

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from reconciler.model.action import Mode
from reconciler.model.plan import Blocked
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.delete_group import DeleteGroup
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from tests.properties.test_invariant_06_selected import meant
from tests.strategies.planner_inputs import PlannerInput, planner_inputs

Subject = tuple[str, str, int]


def claimed(policy: Policy, snapshot: ClusterSnapshot) -> set[Subject]:
    """Compute every (kind, name, partition) that a policy claims, with a slow algorithm; groups
    have partition -1.
    """
    numbers = range(3)
    match policy:
        case RetentionFloor(spec=spec):
            return {
                ("floor", name, number)
                for name in snapshot.topics
                if any(meant(s.text, name) and not (s.is_pattern and name.startswith("_")) for s in spec.topics)
                and not any(meant(s.text, name) for s in spec.except_topics or ())
                for number in numbers
                if (spec.partitions is None or number in spec.partitions)
                and (spec.keep.from_offset is None or number in spec.keep.from_offset)
            }
        case LeaderPolicy(spec=spec):
            return {
                ("leader", name, number)
                for name in snapshot.topics
                for number in numbers
                if (
                    any(meant(s.text, name) for s in spec.topics or ())
                    if spec.partitions is None
                    else number in spec.partitions.get(name, ())
                )
            }
        case GroupRemoval(spec=spec):
            return {
                ("group", name, -1)
                for name in snapshot.groups
                if any(meant(s.text, name) for s in spec.groups)
                and not any(meant(s.text, name) for s in spec.except_groups or ())
            }


def sort_of(action: object) -> str:
    return {"DeleteRecords": "floor", "DeleteGroup": "group", "ElectLeader": "leader"}[type(action).__name__]


@given(planner_inputs(), st.sets(st.sampled_from(Mode), min_size=1))
def test_a_subject_of_two_policies_is_left_alone(planner_input: PlannerInput, modes: set[Mode]) -> None:
    """This holds also if the targets select only one of the two policies."""
    claims = Counter(
        subject for policy in planner_input.policies for subject in claimed(policy, planner_input.snapshot)
    )
    for action in planner_input.plan(modes=modes).actions:
        assert action.mode in modes
        name, number = (
            (action.group, -1)
            if isinstance(action, DeleteGroup)
            else (action.partition.topic, action.partition.partition)
        )
        assert claims[sort_of(action), name, number] == 1


@given(planner_inputs(), st.sets(st.sampled_from(Mode), min_size=1))
def test_a_group_that_a_floor_waits_for_is_not_removed(planner_input: PlannerInput, modes: set[Mode]) -> None:
    """A floor claims the commits of each group in unreadBy, also if the targets do not select the
    floor.
    """
    awaited = {
        group
        for policy in planner_input.policies
        if isinstance(policy, RetentionFloor)
        for group in policy.spec.keep.unread_by or ()
    }
    for decision in planner_input.plan(modes=modes).decisions:
        if isinstance(decision, DeleteGroup):
            assert decision.group not in awaited
        elif isinstance(decision, Blocked) and decision.code == "B306":
            assert decision.address.name in awaited
            event("a removal is held up")


@given(planner_inputs())
def test_nothing_is_blocked_for_a_quarrel_that_is_none(planner_input: PlannerInput) -> None:
    """Block B105 appears only if another policy of the kind claims the same subject."""
    claims = Counter(
        subject for policy in planner_input.policies for subject in claimed(policy, planner_input.snapshot)
    )
    exact = Counter((policy.address.kind, s) for policy in planner_input.policies for s in _exact(policy))
    for decision in planner_input.plan().decisions:
        if isinstance(decision, Blocked) and decision.code == "B105":
            kind = {"RetentionFloor": "floor", "GroupRemoval": "group", "LeaderPolicy": "leader"}[decision.address.kind]
            name, number = decision.address.name, decision.address.partition
            quarrels = [
                subject
                for subject, count in claims.items()
                if count > 1 and subject[:2] == (kind, name) and (number < 0 or subject[2] in (number, -1))
            ]
            assert quarrels or exact[decision.address.kind, name] > 1, decision


def _exact(policy: Policy) -> list[str]:
    match policy:
        case RetentionFloor(spec=spec):
            return [s.text for s in spec.topics if not s.is_pattern]
        case LeaderPolicy(spec=spec):
            return [s.text for s in spec.topics or () if not s.is_pattern] + list(spec.partitions or ())
        case GroupRemoval(spec=spec):
            return [s.text for s in spec.groups if not s.is_pattern]
