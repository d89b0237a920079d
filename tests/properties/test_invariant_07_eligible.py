"""Invariant 7: only eligible groups are removed and only eligible topics are truncated.

A group is removed only if it is listed, of a declared type, EMPTY and idle by evidence; with
`idleFor: 0s` and its exact name it needs no evidence. Internal and compacted topics are never
truncated, nor are topics with an underscore that a pattern selects.
"""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.action import Action
from reconciler.model.plan import Plan, sort_decisions
from reconciler.model.ports import Election
from reconciler.model.snapshot import GroupFacts, GroupState, GroupType, TopicFacts, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.policies import GroupRemoval, RetentionFloor
from tests.strategies.examples import purge, removal
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import MAX_OFFSET, PlannerInput, example, planner_inputs


def check_group(planner_input: PlannerInput, name: str) -> GroupFacts:
    """Check what holds for each group that may be removed, and return its facts."""
    group = planner_input.snapshot.groups[name]
    assert (group.listed, group.state) == (True, GroupState.EMPTY)
    assert group.type in (GroupType.CLASSIC, GroupType.CONSUMER)
    assert not any(s.matches(name) for s in planner_input.cluster.spec.protect.groups or ())
    return group


def check_topic(planner_input: PlannerInput, name: str) -> TopicFacts:
    """Check what holds for each topic that may lose records, and return its facts."""
    topic = planner_input.snapshot.topics[name]
    check_unprotected(planner_input, name)
    assert not topic.internal
    assert not topic.name.startswith("__")
    assert isinstance(topic.cleanup_policy, frozenset)
    assert "delete" in topic.cleanup_policy
    return topic


def check_unprotected(planner_input: PlannerInput, topic: str) -> None:
    assert topic != planner_input.cluster.spec.journal.topic
    assert not any(s.matches(topic) for s in planner_input.cluster.spec.protect.topics or ())


@given(planner_inputs)
def test_only_eligible_groups_are_removed(planner_input: PlannerInput) -> None:
    by_address = {policy.address: policy for policy in planner_input.policies}
    for action in planner_input.plan().actions:
        if not isinstance(action, DeleteGroup):
            continue
        policy = by_address[action.address.policy_address]
        assert isinstance(policy, GroupRemoval)
        group = check_group(planner_input, action.group)
        assert group.type in policy.spec.types
        exact = any(not s.is_pattern and s.text == action.group for s in policy.spec.groups)
        if policy.spec.idle_for == 0:
            assert exact
        else:
            assert isinstance(group.last_activity_ms, int)
            assert NOW_MS - group.last_activity_ms >= policy.spec.idle_for
            assert action.seen.last_activity_ms == group.last_activity_ms
            assert action.seen.newest_record == group.newest_record is not None


@given(planner_inputs)
def test_only_eligible_topics_lose_records(planner_input: PlannerInput) -> None:
    by_address = {policy.address: policy for policy in planner_input.policies}
    for action in planner_input.plan().actions:
        if isinstance(action, ElectLeader) and action.election is Election.UNCLEAN:
            check_unprotected(planner_input, action.partition.topic)
        if isinstance(action, DeleteRecords):
            topic = check_topic(planner_input, action.partition.topic)
            policy = by_address[action.address.policy_address]
            assert isinstance(policy, RetentionFloor)
            if topic.name.startswith("_"):
                assert any(not s.is_pattern and s.text == topic.name for s in policy.spec.topics)


def forge_plan(planner_input: PlannerInput, r: Random) -> Plan:
    """Return a plan that no policy creates, as if a user edited the file.

    It deletes records of every partition and removes every group, under names and guards of real policies.
    """
    snapshot = planner_input.snapshot
    floors = [policy for policy in planner_input.policies if isinstance(policy, RetentionFloor)]
    removals = [policy.metadata.name for policy in planner_input.policies if isinstance(policy, GroupRemoval)]
    actions: list[Action] = []
    for at in snapshot.partitions if floors else ():
        policy = r.choice(floors)
        actions.append(
            purge(
                at.topic,
                at.partition,
                policy=policy.metadata.name,
                log_start=0,
                last_stable_offset=10**6,
                high_watermark=0,
                before_offset=r.randint(1, 2 * MAX_OFFSET),
                consumers=policy.spec.consumers,
                named=tuple(sorted(policy.awaited_groups)),
                except_groups=tuple(sorted(selector.text for selector in policy.spec.except_groups or ())),
                every_ms=policy.every_ms,
            )
        )
    for name, group in snapshot.groups.items() if removals else ():
        type_ = r.choice(list(GroupType)) if isinstance(group.type, Unknown) else group.type
        evidence = {"last_activity_ms": 1, "newest_record": (0, 1)} if type_ is GroupType.STREAMS else {}
        actions.append(
            removal(
                name,
                policy=r.choice(removals),
                idle_for_ms=0,
                type=type_,
                fingerprint=str(group.fingerprint),
                **({"last_activity_ms": None, "newest_record": None} | evidence),
            )
        )
    return replace(planner_input.plan(), decisions=sort_decisions(actions))


@given(planner_inputs, st.integers(0, 2**48))
def test_no_plan_file_bypasses_these_rules(planner_input: PlannerInput, seed: int) -> None:
    """Only eligible subjects remain, whatever a user wrote into the file."""
    check_forged(planner_input, Random(seed))


def test_forged_actions_remain() -> None:
    """Without any, the property would hold for nothing."""
    counts = [check_forged(example(Random(seed)), Random(seed)) for seed in range(200)]
    assert sum(count > 0 for count in counts) >= 20


def check_forged(planner_input: PlannerInput, r: Random) -> int:
    """Check what remains of a forged plan, and return how many actions do."""
    remaining = planner_input.recheck(forge_plan(planner_input, r)).remaining
    for action in remaining:
        match action:
            case DeleteRecords(partition=partition):
                check_topic(planner_input, partition.topic)
            case DeleteGroup(group=name):
                check_group(planner_input, name)
    return len(remaining)
