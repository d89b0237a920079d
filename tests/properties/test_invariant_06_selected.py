"""Invariant 6, for the planner: a policy touches only subjects that it selects."""

import fnmatch
import re

from hypothesis import given

from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner, recheck
from reconciler.policies import GroupRemoval, LeaderPolicy, RetentionFloor
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, planner_inputs


def meant(text: str, name: str) -> bool:
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
                assert any(meant(s.text, partition.topic) for s in spec.topics)
                assert not any(meant(s.text, partition.topic) for s in spec.except_topics or ())
                assert spec.partitions is None or partition.partition in spec.partitions
                assert spec.keep.from_offset is None or partition.partition in spec.keep.from_offset
                assert partition in planner_input.snapshot.partitions
            case LeaderPolicy(), ElectLeader(partition=partition):
                spec = policy.spec
                if spec.partitions is not None:
                    assert partition.partition in spec.partitions[partition.topic]
                else:
                    assert any(meant(s.text, partition.topic) for s in spec.topics or ())
                assert action.election is spec.election
                assert partition in planner_input.snapshot.partitions
            case GroupRemoval(), DeleteGroup(group=group):
                assert any(meant(s.text, group) for s in policy.spec.groups)
                assert not any(meant(s.text, group) for s in policy.spec.except_groups or ())
                assert group in planner_input.snapshot.groups
            case _:
                raise AssertionError(f"{policy.address} may not do {action}")


@given(planner_inputs())
def test_nothing_is_asked_that_no_policy_selects(planner_input: PlannerInput) -> None:
    """A plan requests the policies' selectors, a recheck the plan's own subjects; no request is
    empty.
    """
    needs = planner.scan_request(planner_input.policies, NOW_MS)
    for topics in needs.topics:
        assert topics.topics
        assert topics.partitions is None or topics.partitions
    for groups in needs.groups:
        assert groups.groups
    planned = planner_input.plan()
    again = recheck.scan_request(planned)
    requested = {(s.text, n) for need in again.topics for s in need.topics for n in need.partitions or ()}
    acted = {
        (action.partition.topic, action.partition.partition)
        for action in planned.actions
        if isinstance(action, DeleteRecords | ElectLeader)
    }
    assert requested == acted
    removed = {action.group for action in planned.actions if isinstance(action, DeleteGroup)}
    assert sum(len(need.groups) for need in again.groups) == len(removed)
    assert all(any(s.matches(name) for need in again.groups for s in need.groups) for name in removed)


@given(planner_inputs())
def test_every_selected_live_subject_has_one_decision(planner_input: PlannerInput) -> None:
    """Every topic and group that a policy selects has a decision, alone or together with its
    policy.
    """
    decided = {decision.address for decision in planner_input.plan().decisions}
    for policy in planner_input.policies:
        if policy.address in decided:
            continue
        of_policy = {address.name for address in decided if address.policy_address == policy.address}
        match policy:
            case RetentionFloor():
                names = [
                    name
                    for name in planner_input.snapshot.topics
                    if any(
                        meant(s.text, name) and not (s.is_pattern and name.startswith("_")) for s in policy.spec.topics
                    )
                    and not any(meant(s.text, name) for s in policy.spec.except_topics or ())
                ]
            case LeaderPolicy():
                exact = policy.spec.partitions
                names = [
                    name
                    for name in planner_input.snapshot.topics
                    if (
                        name in exact
                        if exact is not None
                        else any(meant(s.text, name) for s in policy.spec.topics or ())
                    )
                ]
            case GroupRemoval():
                names = [
                    name
                    for name in planner_input.snapshot.groups
                    if any(meant(s.text, name) for s in policy.spec.groups)
                    and not any(meant(s.text, name) for s in policy.spec.except_groups or ())
                ]
        assert set(names) <= of_policy
