"""Invariant 10: no action on a subject that two policies select.

A floor also claims the groups whose offsets it waits for.
"""

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st

from reconciler.model.action import Mode
from reconciler.model.plan import Blocked
from reconciler.operations.delete_group import DeleteGroup
from reconciler.policies import RetentionFloor
from tests.properties.test_invariant_06_selected import Subject, claimed_subjects, subject_at
from tests.strategies.planner_inputs import PlannerInput, planner_inputs


def count_claims(planner_input: PlannerInput) -> Counter[Subject]:
    return Counter(
        subject for policy in planner_input.policies for subject in claimed_subjects(policy, planner_input.snapshot)
    )


@given(planner_inputs, st.sets(st.sampled_from(Mode), min_size=1))
def test_a_subject_of_two_policies_has_no_action(planner_input: PlannerInput, modes: set[Mode]) -> None:
    """This holds also if the targets select only one of the two policies."""
    claims = count_claims(planner_input)
    for action in planner_input.plan(modes=modes).actions:
        assert action.mode in modes
        assert claims[subject_at(action.address)] == 1


@given(planner_inputs, st.sets(st.sampled_from(Mode), min_size=1))
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


@given(planner_inputs)
def test_only_real_conflicts_are_blocked(planner_input: PlannerInput) -> None:
    """Block B105 appears only if another policy of the kind claims the same subject."""
    claims = count_claims(planner_input)
    exact_names = Counter(
        (policy.address.kind, selector.text)
        for policy in planner_input.policies
        for selector in policy.selectors
        if not selector.is_pattern
    )
    for decision in planner_input.plan().decisions:
        if isinstance(decision, Blocked) and decision.code == "B105":
            kind, name, number = subject_at(decision.address)
            conflicts = [
                subject
                for subject, count in claims.items()
                if count > 1 and subject[:2] == (kind, name) and (number < 0 or subject[2] in (number, -1))
            ]
            assert conflicts or exact_names[kind, name] > 1, decision
