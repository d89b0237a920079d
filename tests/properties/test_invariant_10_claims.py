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
from tests.properties.test_invariant_06_selected import matches_selector
from tests.strategies.planner_inputs import PlannerInput, planner_inputs

Subject = tuple[str, str, int]


def claimed_subjects(policy: Policy, snapshot: ClusterSnapshot) -> set[Subject]:
    """Compute every (kind, name, partition) that a policy claims, with a slow algorithm; groups
    have partition -1.
    """
    numbers = range(3)
    match policy:
        case RetentionFloor(spec=spec):
            return {
                ("floor", name, number)
                for name in snapshot.topics
                if any(
                    matches_selector(s.text, name) and not (s.is_pattern and name.startswith("_")) for s in spec.topics
                )
                and not any(matches_selector(s.text, name) for s in spec.except_topics or ())
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
                    any(matches_selector(s.text, name) for s in spec.topics or ())
                    if spec.partitions is None
                    else number in spec.partitions.get(name, ())
                )
            }
        case GroupRemoval(spec=spec):
            return {
                ("group", name, -1)
                for name in snapshot.groups
                if any(matches_selector(s.text, name) for s in spec.groups)
                and not any(matches_selector(s.text, name) for s in spec.except_groups or ())
            }


def subject_kind(action: object) -> str:
    return {"DeleteRecords": "floor", "DeleteGroup": "group", "ElectLeader": "leader"}[type(action).__name__]


@given(planner_inputs(), st.sets(st.sampled_from(Mode), min_size=1))
def test_a_subject_of_two_policies_has_no_action(planner_input: PlannerInput, modes: set[Mode]) -> None:
    """This holds also if the targets select only one of the two policies."""
    claims = Counter(
        subject for policy in planner_input.policies for subject in claimed_subjects(policy, planner_input.snapshot)
    )
    for action in planner_input.plan(modes=modes).actions:
        assert action.mode in modes
        name, number = (
            (action.group, -1)
            if isinstance(action, DeleteGroup)
            else (action.partition.topic, action.partition.partition)
        )
        assert claims[subject_kind(action), name, number] == 1


@given(planner_inputs(), st.sets(st.sampled_from(Mode), min_size=1))
def test_a_group_that_a_floor_waits_for_is_not_removed(planner_input: PlannerInput, modes: set[Mode]) -> None:
    """A floor claims the commits of each group in unreadBy, also if the targets do not select the
    floor.
    """
    awaited_groups = {
        group
        for policy in planner_input.policies
        if isinstance(policy, RetentionFloor)
        for group in policy.spec.keep.unread_by or ()
    }
    for decision in planner_input.plan(modes=modes).decisions:
        if isinstance(decision, DeleteGroup):
            assert decision.group not in awaited_groups
        elif isinstance(decision, Blocked) and decision.code == "B306":
            assert decision.address.name in awaited_groups
            event("a removal is blocked")


@given(planner_inputs())
def test_only_real_conflicts_are_blocked(planner_input: PlannerInput) -> None:
    """Block B105 appears only if another policy of the kind claims the same subject."""
    claims = Counter(
        subject for policy in planner_input.policies for subject in claimed_subjects(policy, planner_input.snapshot)
    )
    exact_names = Counter((policy.address.kind, s) for policy in planner_input.policies for s in _exact_names(policy))
    for decision in planner_input.plan().decisions:
        if isinstance(decision, Blocked) and decision.code == "B105":
            kind = {"RetentionFloor": "floor", "GroupRemoval": "group", "LeaderPolicy": "leader"}[decision.address.kind]
            name, number = decision.address.name, decision.address.partition
            conflicts = [
                subject
                for subject, count in claims.items()
                if count > 1 and subject[:2] == (kind, name) and (number < 0 or subject[2] in (number, -1))
            ]
            assert conflicts or exact_names[decision.address.kind, name] > 1, decision


def _exact_names(policy: Policy) -> list[str]:
    match policy:
        case RetentionFloor(spec=spec):
            return [s.text for s in spec.topics if not s.is_pattern]
        case LeaderPolicy(spec=spec):
            return [s.text for s in spec.topics or () if not s.is_pattern] + list(spec.partitions or ())
        case GroupRemoval(spec=spec):
            return [s.text for s in spec.groups if not s.is_pattern]
