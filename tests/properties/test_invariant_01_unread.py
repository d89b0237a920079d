"""Invariant 1: no action rests on an unknown fact; it becomes Blocked, with the reason."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.action import Action
from reconciler.model.plan import Blocked
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.strategies.planner_inputs import GROUP_FACTS, PARTITION_FACTS, SNAPSHOT_FACTS, PlannerInput, planner_inputs

UNREAD = Unknown("knocked out")


def needed(action: Action, snapshot: ClusterSnapshot) -> list[Any]:
    """Return the facts that every action of this type rests on, whatever the rules of its policy."""
    match action:
        case DeleteRecords():
            facts, topic = snapshot.partitions[action.partition], snapshot.topics[action.partition.topic]
            clock = [facts.last_purge_ms] if action.guard.every_ms is not None else []
            named = [r.topic_id for r in facts.readers if r.group in action.guard.named]  # type: ignore[union-attr]
            return [
                *(getattr(facts, name) for name in PARTITION_FACTS[:-1]),
                *clock,
                *named,
                topic.partitions,
                topic.cleanup_policy,
                snapshot.groups_incomplete,
                snapshot.readers_incomplete,
            ]
        case DeleteGroup():
            group = snapshot.groups[action.group]
            evidence = [group.last_activity_ms, group.newest_record] if action.idle_for_ms else []
            return [group.type, group.state, group.commits, group.commit_topics, group.fingerprint, *evidence]
        case ElectLeader():
            facts = snapshot.partitions[action.partition]
            topic = snapshot.topics[action.partition.topic]
            return [facts.topic_id, facts.leader, facts.replicas, facts.in_sync, topic.partitions]


@given(planner_inputs())
def test_every_fact_that_an_action_rests_on_was_read(planner_input: PlannerInput) -> None:
    """The check reads the snapshot and not the action's own copy of the facts."""
    for action in planner_input.plan().actions:
        assert not [fact for fact in needed(action, planner_input.snapshot) if isinstance(fact, Unknown)], action


def knocked_out(snapshot: ClusterSnapshot, r: Random) -> ClusterSnapshot:
    """Return the snapshot with one more unknown fact, or with several unknown offsets of one
    partition.
    """
    sort = r.choice(("partitions", "offsets", "groups", "topics", "snapshot"))
    if sort in ("partitions", "offsets") and snapshot.partitions:
        key = r.choice(list(snapshot.partitions))
        facts = snapshot.partitions[key]
        if sort == "partitions":
            facts = replace(facts, **{r.choice(PARTITION_FACTS): UNREAD})
        else:
            answers = {i: UNREAD if r.random() < 0.5 else answer for i, answer in facts.offsets_at.items()}
            facts = replace(facts, offsets_at=answers)
        return replace(snapshot, partitions={**snapshot.partitions, key: facts})
    if sort == "groups" and snapshot.groups:
        name = r.choice(list(snapshot.groups))
        return replace(
            snapshot,
            groups={**snapshot.groups, name: replace(snapshot.groups[name], **{r.choice(GROUP_FACTS): UNREAD})},
        )
    if sort == "topics":
        name, fact = r.choice(list(snapshot.topics)), r.choice(("partitions", "cleanup_policy"))
        return replace(snapshot, topics={**snapshot.topics, name: replace(snapshot.topics[name], **{fact: UNREAD})})
    return replace(snapshot, **{r.choice(SNAPSHOT_FACTS): UNREAD})


@given(planner_inputs(), st.integers(0, 2**48))
def test_knowing_less_never_does_more(planner_input: PlannerInput, seed: int) -> None:
    """Every action of the plan with one unknown fact more is also an action of the plan without it."""
    full_plan = planner_input.plan()
    less = replace(planner_input, snapshot=knocked_out(planner_input.snapshot, Random(seed))).plan()
    assert set(less.actions) <= set(full_plan.actions)


@given(planner_inputs(), st.integers(0, 2**48))
def test_what_is_no_longer_done_says_why(planner_input: PlannerInput, seed: int) -> None:
    """An action that needs the fact becomes Blocked with the fact's reason, or its leader is
    tolerated.
    """
    full_plan = planner_input.plan()
    less = replace(planner_input, snapshot=knocked_out(planner_input.snapshot, Random(seed))).plan()
    decided = {decision.address: decision for decision in less.decisions}
    for action in set(full_plan.actions) - set(less.actions):
        parent = replace(action.address, partition=-1)
        decision = decided.get(action.address, decided.get(parent))
        if isinstance(action, ElectLeader) and not isinstance(decision, Blocked):
            continue
        assert isinstance(decision, Blocked), (action, decision)
        assert decision.unread
        assert "knocked out" in decision.reason
