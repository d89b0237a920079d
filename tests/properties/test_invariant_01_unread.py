"""Invariant 1: no action depends on an unknown fact; it becomes Blocked, with the reason."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.action import Action
from reconciler.model.plan import Blocked, Plan
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from tests.strategies.planner_inputs import GROUP_FACTS, PARTITION_FACTS, SNAPSHOT_FACTS, PlannerInput, planner_inputs

UNREAD = Unknown("removed fact")
FACTS = {"partitions": PARTITION_FACTS, "groups": GROUP_FACTS, "topics": ("partitions", "cleanup_policy")}


def required_facts(action: Action, snapshot: ClusterSnapshot) -> list[Any]:
    """Return the facts that an action of this type needs, whatever the rules of its policy."""
    match action:
        case DeleteRecords():
            facts, topic = snapshot.partitions[action.partition], snapshot.topics[action.partition.topic]
            clock = [facts.last_purge] if action.guard.every_ms is not None else []
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


@given(planner_inputs)
def test_an_action_depends_only_on_known_facts(planner_input: PlannerInput) -> None:
    """The check reads the snapshot and not the action's own copy of the facts."""
    for action in planner_input.plan().actions:
        assert not [fact for fact in required_facts(action, planner_input.snapshot) if isinstance(fact, Unknown)], (
            action
        )


def remove_fact(snapshot: ClusterSnapshot, r: Random) -> ClusterSnapshot:
    """Return the snapshot with one more unknown fact, or with several unknown offsets of one
    partition.
    """
    subject_type = r.choice(("partitions", "offsets", "groups", "topics", "snapshot"))
    subjects: dict[Any, Any] = getattr(snapshot, "partitions" if subject_type == "offsets" else subject_type, {})
    if not subjects:
        return replace(snapshot, **{r.choice(SNAPSHOT_FACTS): UNREAD})
    name, facts = r.choice(list(subjects.items()))
    if subject_type == "offsets":
        answers = {i: UNREAD if r.random() < 0.5 else answer for i, answer in facts.offsets_at.items()}
        return replace(snapshot, partitions={**subjects, name: replace(facts, offsets_at=answers)})
    return replace(
        snapshot, **{subject_type: {**subjects, name: replace(facts, **{r.choice(FACTS[subject_type]): UNREAD})}}
    )


def changes_of(plan: Plan) -> set[Action]:
    """The actions without the words for what need not be a record: an incomplete list says less."""
    return {
        replace(action, may_have_gaps=False) if isinstance(action, DeleteRecords) else action for action in plan.actions
    }


@given(planner_inputs, st.integers(0, 2**48))
def test_an_unknown_fact_adds_no_action_and_blocks_with_its_reason(planner_input: PlannerInput, seed: int) -> None:
    """A plan with one more unknown fact has only actions of the plan without it.

    An action that needs the fact becomes Blocked with the fact's reason, or its leader is tolerated.
    """
    full_plan = planner_input.plan()
    reduced_plan = replace(planner_input, snapshot=remove_fact(planner_input.snapshot, Random(seed))).plan()
    assert changes_of(reduced_plan) <= changes_of(full_plan)
    decision_by_address = {decision.address: decision for decision in reduced_plan.decisions}
    for action in changes_of(full_plan) - changes_of(reduced_plan):
        parent = replace(action.address, partition=-1)
        decision = decision_by_address.get(action.address, decision_by_address.get(parent))
        if isinstance(action, ElectLeader) and not isinstance(decision, Blocked):
            continue
        assert isinstance(decision, Blocked), (action, decision)
        assert decision.unread
        assert "removed fact" in decision.reason
