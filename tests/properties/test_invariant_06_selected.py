"""Invariant 6, for the planner: a policy touches only subjects that it selects."""

import fnmatch
import re
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.outcome import Status
from reconciler.model.plan import sort_decisions
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner, recheck
from reconciler.policies import GroupRemoval, LeaderPolicy, RetentionFloor
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, planner_inputs


def matches_selector(text: str, name: str) -> bool:
    """A second implementation of selectors, independent of the program."""
    if text.startswith("regex:"):
        return re.search(rf"\A(?:{text.removeprefix('regex:')})\Z", name) is not None
    return text == name or ("*" in text and fnmatch.fnmatchcase(name, text))


@given(planner_inputs())
def test_each_action_is_selected_by_its_policy(planner_input: PlannerInput) -> None:
    """An action matches a name or pattern, no exception, its policy's partitions, and a scanned
    subject.
    """
    by_address = {policy.address: policy for policy in planner_input.policies}
    for action in planner_input.plan().actions:
        policy = by_address[action.address.policy_address]
        assert action.mode is policy.mode
        assert action.declared_at == policy.declared_at
        match policy, action:
            case RetentionFloor(), DeleteRecords(partition=partition):
                spec = policy.spec
                assert any(matches_selector(s.text, partition.topic) for s in spec.topics)
                assert not any(matches_selector(s.text, partition.topic) for s in spec.except_topics or ())
                assert spec.partitions is None or partition.partition in spec.partitions
                assert spec.keep.from_offset is None or partition.partition in spec.keep.from_offset
                assert partition in planner_input.snapshot.partitions
            case LeaderPolicy(), ElectLeader(partition=partition):
                spec = policy.spec
                if spec.partitions is not None:
                    assert partition.partition in spec.partitions[partition.topic]
                else:
                    assert any(matches_selector(s.text, partition.topic) for s in spec.topics or ())
                assert action.election is spec.election
                assert partition in planner_input.snapshot.partitions
            case GroupRemoval(), DeleteGroup(group=group):
                assert any(matches_selector(s.text, group) for s in policy.spec.groups)
                assert not any(matches_selector(s.text, group) for s in policy.spec.except_groups or ())
                assert group in planner_input.snapshot.groups
            case _:
                raise AssertionError(f"{policy.address} may not do {action}")


@given(planner_inputs())
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


@given(planner_inputs())
def test_every_selected_live_subject_has_one_decision(planner_input: PlannerInput) -> None:
    """Every topic and group that a policy selects has a decision, alone or together with its
    policy.
    """
    decided_addresses = {decision.address for decision in planner_input.plan().decisions}
    for policy in planner_input.policies:
        if policy.address in decided_addresses:
            continue
        of_policy = {address.name for address in decided_addresses if address.policy_address == policy.address}
        match policy:
            case RetentionFloor():
                names = [
                    name
                    for name in planner_input.snapshot.topics
                    if any(
                        matches_selector(s.text, name) and not (s.is_pattern and name.startswith("_"))
                        for s in policy.spec.topics
                    )
                    and not any(matches_selector(s.text, name) for s in policy.spec.except_topics or ())
                ]
            case LeaderPolicy():
                named_partitions = policy.spec.partitions
                names = [
                    name
                    for name in planner_input.snapshot.topics
                    if (
                        name in named_partitions
                        if named_partitions is not None
                        else any(matches_selector(s.text, name) for s in policy.spec.topics or ())
                    )
                ]
            case GroupRemoval():
                names = [
                    name
                    for name in planner_input.snapshot.groups
                    if any(matches_selector(s.text, name) for s in policy.spec.groups)
                    and not any(matches_selector(s.text, name) for s in policy.spec.except_groups or ())
                ]
        assert set(names) <= of_policy


@given(planner_inputs(), st.integers(0, 2**48))
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
        assert any(matches_selector(s.text, action.address.name) for s in policy.selectors)
    for outcome in checked.outcomes:
        if outcome.action.address.policy_address not in by_address:
            assert outcome.status in (Status.BLOCKED, Status.SATISFIED)
