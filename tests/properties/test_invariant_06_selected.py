"""Invariant 6, for the planner: a policy touches only subjects that it selects."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import Address
from reconciler.model.outcome import Status
from reconciler.model.plan import sort_decisions
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner, recheck
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, planner_inputs

Subject = tuple[str, str, int]
"""Kind of the policy, name, and number of the partition; -1: a group."""


def matches_selector(text: str, name: str) -> bool:
    """A second implementation of selectors, independent of the program."""
    if text.startswith("regex:"):
        return re.search(rf"\A(?:{text.removeprefix('regex:')})\Z", name) is not None
    return text == name or ("*" in text and fnmatch.fnmatchcase(name, text))


def is_selected(name: str, selectors: Iterable[Selector] | None, excepted: Iterable[Selector] | None = None) -> bool:
    """Return whether a selector means the name, and no exception does."""
    chosen, left_out = (
        any(matches_selector(selector.text, name) for selector in each or ()) for each in (selectors, excepted)
    )
    return chosen and not left_out


def claimed_subjects(policy: Policy, snapshot: ClusterSnapshot) -> set[Subject]:
    """Compute every subject that a policy claims, with a slow algorithm."""
    match policy:
        case RetentionFloor(spec=spec):
            numbers = set(range(3)).intersection(
                *(of for of in (spec.partitions, spec.keep.from_offset) if of is not None)
            )
            names = {
                name
                for name in snapshot.topics
                if is_selected(
                    name, [s for s in spec.topics if not (s.is_pattern and name.startswith("_"))], spec.except_topics
                )
            }
        case LeaderPolicy(spec=spec) if spec.partitions is not None:
            return {
                (policy.address.kind, name, number)
                for name in snapshot.topics
                for number in spec.partitions.get(name, ())
            }
        case LeaderPolicy(spec=spec):
            numbers, names = set(range(3)), {name for name in snapshot.topics if is_selected(name, spec.topics)}
        case GroupRemoval(spec=spec):
            numbers = {-1}
            names = {name for name in snapshot.groups if is_selected(name, spec.groups, spec.except_groups)}
        case _:
            raise AssertionError(policy)
    return {(policy.address.kind, name, number) for name in names for number in numbers}


def subject_at(address: Address) -> Subject:
    return address.kind, address.name, address.partition


@given(planner_inputs)
def test_each_action_is_selected_by_its_policy(planner_input: PlannerInput) -> None:
    """An action is of its policy's operation, and its policy claims its subject, which was scanned."""
    by_address = {policy.address: policy for policy in planner_input.policies}
    for action in planner_input.plan().actions:
        policy = by_address[action.address.policy_address]
        assert action.mode is policy.mode
        assert action.declared_at == policy.declared_at
        assert isinstance(action, policy.OPERATION)
        assert subject_at(action.address) in claimed_subjects(policy, planner_input.snapshot)
        assert action.subject in {**planner_input.snapshot.partitions, **planner_input.snapshot.groups}
        if isinstance(policy, LeaderPolicy):
            assert isinstance(action, ElectLeader)
            assert action.election is policy.spec.election


@given(planner_inputs)
def test_requests_have_only_selected_subjects(planner_input: PlannerInput) -> None:
    """A plan requests the policies' selectors, deciding again the saved plan's subjects; no request is
    empty.
    """
    request = planner.scan_request(planner_input.policies, NOW_MS)
    for topic_request in request.topics:
        assert topic_request.topics
        assert topic_request.partitions is None or topic_request.partitions
    for group_request in request.groups:
        assert group_request.groups
    plan = planner_input.plan()
    again = recheck.scan_request(plan, planner_input.policies, NOW_MS)
    requested = {
        (topic, number)
        for topic_request in again.topics
        if topic_request.offsets  # metadata of all of a policy is requested: it costs nothing, and `tolerance` needs it
        for topic, numbers in (topic_request.only or {}).items()
        for number in numbers or ()
    }
    assert all(topic_request.only is not None for topic_request in again.topics if topic_request.offsets)
    assert requested == {
        (action.partition.topic, action.partition.partition)
        for action in plan.actions
        if isinstance(action, DeleteRecords)
    }
    assert [name for group_request in again.groups for name in sorted(group_request.only or ())] == [
        action.group for action in plan.actions if isinstance(action, DeleteGroup)
    ]


@given(planner_inputs)
def test_every_selected_live_subject_has_one_decision(planner_input: PlannerInput) -> None:
    """Every topic and group that a policy selects has a decision, alone or together with its
    policy.
    """
    decided_addresses = {decision.address for decision in planner_input.plan().decisions}
    for policy in planner_input.policies:
        if policy.address in decided_addresses:
            continue
        decided = {address.name for address in decided_addresses if address.policy_address == policy.address}
        assert {name for _kind, name, _number in claimed_subjects(policy, planner_input.snapshot)} <= decided


@given(planner_inputs, st.integers(0, 2**48))
def test_apply_sends_only_what_the_loaded_policies_ask_for(planner_input: PlannerInput, seed: int) -> None:
    """A policy was removed, or its name is now that of a policy of another kind with the same subjects."""
    r = Random(seed)
    loaded = [policy for policy in planner_input.policies if r.random() < 0.6]
    actions = {}  # by address: a plan has one decision for each
    for action in planner_input.plan().actions:
        other = r.choice((action, *planner_input.policies)).address
        moved = replace(action, address=replace(action.address, kind=other.kind, policy=other.policy))
        actions.setdefault(moved.address, moved)
    plan = replace(planner_input.plan(), decisions=sort_decisions(actions.values()))
    checked = replace(planner_input, policies=tuple(loaded)).recheck(plan)
    by_address = {policy.address: policy for policy in loaded}
    for action in checked.remaining:
        policy = by_address[action.address.policy_address]
        assert isinstance(action, policy.OPERATION)
        assert is_selected(action.address.name, policy.selectors)
    for outcome in checked.outcomes:
        if outcome.action.address.policy_address not in by_address:
            assert outcome.status in (Status.BLOCKED, Status.SATISFIED)
