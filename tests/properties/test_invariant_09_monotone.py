"""Invariant 9: a tighter limit adds no action, a further `keep` rule raises no floor.

The intersection with a reviewed plan never adds or enlarges an action.
"""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from reconciler.model.action import Action
from reconciler.model.names import Address
from reconciler.model.plan import Decision, Plan, Satisfied
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import limits, plan_file
from reconciler.plan.diff import ActionDiff, compare
from reconciler.plan.plan_file import approved_fields as bound
from reconciler.plan.review import restrict_to
from tests.strategies.examples import unchecked
from tests.strategies.planner_inputs import (
    PlannerInput,
    cluster,
    floor,
    instants_of,
    keep,
    limit_spec,
    planner_inputs,
    seeded,
    snapshot,
    two_days,
)

limit_specs = seeded(limit_spec)


def limited(planner_input: PlannerInput, spec: dict[str, Any]) -> PlannerInput:
    """The same input with these limits."""
    old = planner_input.cluster.spec
    changed = old.limits.model_copy(update={_snake(key): value for key, value in spec.items()})
    cluster = planner_input.cluster.model_copy(update={"spec": old.model_copy(update={"limits": changed})})
    return replace(planner_input, cluster=cluster)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@given(planner_inputs(), limit_specs, limit_specs)
def test_limits_never_change_what_a_plan_holds(
    planner_input: PlannerInput, first: dict[str, int], second: dict[str, int]
) -> None:
    """Limits refuse a plan; they do not select actions."""
    assert limited(planner_input, first).plan().decisions == limited(planner_input, second).plan().decisions


@given(planner_inputs(), limit_specs, st.integers(0, 100))
def test_a_tighter_limit_never_lets_more_pass(planner_input: PlannerInput, spec: dict[str, int], less: int) -> None:
    loose, tight = (
        limited(planner_input, spec),
        limited(planner_input, {key: max(0, value - less) for key, value in spec.items()}),
    )
    refused = {verdict.id for verdict in loose.plan().refused}
    assert refused <= {verdict.id for verdict in tight.plan().refused}


@given(planner_inputs())
def test_a_waiver_less_never_lets_more_pass(planner_input: PlannerInput) -> None:
    assume(planner_input.waivers)
    refused = {verdict.id for verdict in planner_input.plan().refused}
    assert refused <= {
        verdict.id for verdict in replace(planner_input, waivers=planner_input.waivers[1:]).plan().refused
    }


@given(planner_inputs(), st.randoms(use_true_random=True))
def test_an_action_less_never_refuses_more(planner_input: PlannerInput, random: Random) -> None:
    """An intersection makes no limit worse; the totals of percentages stay the same."""
    actions = planner_input.plan().actions
    fewer = limits.verdicts(
        [a for a in actions if random.random() < 0.5], planner_input.cluster, (), planner_input.snapshot
    )
    every = limits.verdicts(actions, planner_input.cluster, (), planner_input.snapshot)
    assert {v.id for v in fewer if not v.passed} <= {v.id for v in every if not v.passed}


def with_another_rule(r: Random) -> tuple[PlannerInput, PlannerInput]:
    """A floor and the same floor with one more rule, on the same facts."""
    less = floor(r)
    rules = keep(r, exact=False)
    old = less.spec.keep
    extra = {
        _snake(key): getattr(type(old).model_validate({key: value}), _snake(key))
        for key, value in rules.items()
        if getattr(old, _snake(key)) is None
    }
    more = less.model_copy(update={"spec": less.spec.model_copy(update={"keep": old.model_copy(update=extra)})})
    facts = snapshot(r, instants_of((less, more)))
    floor_world = PlannerInput(cluster(r), (less,), (), facts)
    return floor_world, replace(floor_world, policies=(more,))


@given(seeded(with_another_rule))
def test_another_rule_never_raises_a_floor(pair: tuple[PlannerInput, PlannerInput]) -> None:
    """On the same facts, satisfied partitions stay satisfied, and no deletion goes further."""
    less, more = pair
    decided = {decision.address: decision for decision in less.plan().decisions}
    for action in more.plan().actions:
        assert isinstance(action, DeleteRecords)
        old = decided[action.address]
        assert not isinstance(old, Satisfied)
        if isinstance(old, DeleteRecords):
            assert action.before_offset <= old.before_offset


def no_larger(action: Action, bound: Action) -> bool:
    """The action has the same subject and topic id, and is not larger."""
    if isinstance(action, DeleteRecords):
        skips = dict(bound.skips) if isinstance(bound, DeleteRecords) else {}
        return (
            isinstance(bound, DeleteRecords)
            and action.partition == bound.partition
            and action.seen.topic_id == bound.seen.topic_id
            and action.before_offset <= bound.before_offset
            and action.records_max <= bound.records_max
            and all(records <= skips.get(group, 0) for group, records in action.skips)
        )
    return type(action) is type(bound) and _request(action) == _request(bound)


def _request(action: Any) -> tuple[object, ...]:
    if hasattr(action, "group"):
        return (action.group, action.seen.type, action.seen.fingerprint)
    return (action.partition, action.election, action.leader_wanted, action.seen.replicas, action.seen.topic_id)


def bounded_by(result: Plan, plan: Plan, reviewed: Plan) -> None:
    """Assert that the plan and the reviewed plan bound every action of `result`."""
    planned_actions, reviewed_actions = (
        {action.address: action for action in compared_plan.actions} for compared_plan in (plan, reviewed)
    )
    for action in result.actions:
        assert no_larger(action, planned_actions[action.address])
        assert no_larger(action, reviewed_actions[action.address])
    assert [d.address for d in result.decisions] == [d.address for d in plan.decisions]


@given(two_days())
def test_a_reviewed_plan_never_adds_or_enlarges(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The same policies with the facts of another day."""
    plan, reviewed = (day.plan() for day in days)
    bounded_by(restrict_to(plan, reviewed), plan, reviewed)
    assert restrict_to(plan, plan) == plan


def tampered(plan: Plan, r: Random) -> Plan:
    """Edit a plan as a user could edit a file: change numbers, swap addresses, remove actions."""
    addresses = [decision.address for decision in plan.decisions]
    edited: dict[Address, Decision] = {}
    for decision in plan.decisions:
        if isinstance(decision, DeleteRecords):
            observed = replace(decision.seen, log_start=r.choice((0, decision.seen.log_start, 10**6)))
            guard = replace(decision.guard, accepted=r.choice(((), decision.guard.accepted)))
            offset = r.choice((1, decision.before_offset, decision.before_offset + r.randint(-9, 9), 10**9))
            decision = unchecked(decision, seen=observed, before_offset=offset, guard=guard)
        if r.random() < 0.2:
            decision = unchecked(decision, address=r.choice(addresses))
        if r.random() < 0.9:
            edited[decision.address] = decision
    return replace(plan, decisions=tuple(edited[address] for address in sorted(edited)), expires_at_ms=0)


@given(two_days(), st.integers(0, 2**48), st.booleans())
def test_a_tampered_plan_never_adds_or_enlarges(days: tuple[PlannerInput, PlannerInput], seed: int, same: bool) -> None:
    """The bound holds whatever the reviewed file contains."""
    plan = days[0].plan()
    reviewed = tampered(days[0 if same else 1].plan(), Random(seed))
    bounded_by(restrict_to(plan, reviewed), plan, reviewed)


@given(two_days())
def test_a_comparison_is_empty_exactly_where_the_digests_agree(days: tuple[PlannerInput, PlannerInput]) -> None:
    """An action that is gone in one direction is new in the other.

    The exception is a log with another start: a lower target is larger, and a higher one is not
    reported.
    """
    old, new = (day.plan() for day in days)
    entries = list(compare(old, new).entries())
    reported = [
        entry for entry in entries if not log_moved(entry) or bound(required(entry.old)) != bound(required(entry.new))
    ]
    assert (not reported) == (plan_file.digest(old) == plan_file.digest(new))
    assert all(entry.change.value == "larger" for entry in entries if entry not in reported)
    flip = {"new": "gone", "gone": "new", "larger": "smaller", "smaller": "larger", "changed": "changed"}
    assert [(e.address, flip[e.change.value]) for e in entries if not log_moved(e)] == [
        (e.address, e.change.value) for e in compare(new, old).entries() if not log_moved(e)
    ]


def log_moved(entry: ActionDiff) -> bool:
    """Whether both plans delete records there, from different log starts."""
    old, new = entry.old, entry.new
    return (
        isinstance(old, DeleteRecords) and isinstance(new, DeleteRecords) and old.seen.log_start != new.seen.log_start
    )


def required(action: Action | None) -> Action:
    assert action is not None
    return action
