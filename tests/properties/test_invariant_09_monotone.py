"""Invariant 9: a tighter limit adds no action, a further `keep` rule raises no floor.

The intersection with a reviewed plan never adds or enlarges an action, and a waiver allows no more
than its value.
"""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic.alias_generators import to_snake

from reconciler.errors import PlanUnusable
from reconciler.model.action import Action
from reconciler.model.names import Address
from reconciler.model.plan import Decision, Plan, Satisfied
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import limits, plan_file
from reconciler.plan.diff import ActionDiff, compare
from reconciler.plan.plan_file import approved_fields
from reconciler.plan.review import restrict_to
from reconciler.plan.rules import RuleSet
from tests.properties.test_invariant_05_upper_bound import check_is_within
from tests.repeats import at_least
from tests.strategies import examples, facts
from tests.strategies.examples import unchecked
from tests.strategies.planner_inputs import (
    PlannerInput,
    cluster,
    floor,
    keep,
    later_days,
    limit_spec,
    planner_inputs,
    requested_instants,
    seeded,
    snapshot,
    two_days,
)

limit_specs = seeded(limit_spec)


def with_limits(planner_input: PlannerInput, spec: dict[str, Any]) -> PlannerInput:
    """The same input with these limits."""
    cluster_spec = planner_input.cluster.spec
    changed = cluster_spec.limits.model_copy(update={to_snake(key): value for key, value in spec.items()})
    cluster = planner_input.cluster.model_copy(update={"spec": cluster_spec.model_copy(update={"limits": changed})})
    return replace(planner_input, cluster=cluster)


def refused_by(planner_input: PlannerInput) -> set[str]:
    """Return the limits that refuse the plan."""
    return {verdict.id for verdict in planner_input.plan().refused}


@given(planner_inputs)
def test_waivers_allow_no_more_than_their_values(planner_input: PlannerInput) -> None:
    """What a plan does stays within the larger of the limit and the waivers that it rests on."""
    for verdict in planner_input.plan().limits:
        if verdict.passed:
            assert verdict.observed is not None
            assert verdict.observed <= max(verdict.limit, sum(waiver.value for waiver in verdict.waivers))


@given(
    limit=st.integers(0, 9),
    removed=st.lists(st.integers(0, 9), min_size=2, max_size=3),
    waived=st.lists(st.integers(0, 12), max_size=2),
)
def test_a_waiver_caps_the_total(limit: int, removed: list[int], waived: list[int]) -> None:
    """With a limit of 50 and a waiver of 40, a plan of 90 passed. `removed`: groups, by policy; the
    first policies have a waiver.
    """
    actions = [
        examples.removal(f"{number}-{index}", policy=f"p{index}")
        for index, count in enumerate(removed)
        for number in range(count)
    ]
    waivers = [
        facts.waiver(f"GroupRemoval/p{index}", "groups", value, name=f"w{index}") for index, value in enumerate(waived)
    ]
    cluster = facts.cluster(limits={"groups": limit})
    verdict = next(
        v for v in limits.verdicts(actions, RuleSet(cluster, waivers=waivers), facts.snapshot()) if v.id == "groups"
    )
    total, without_waiver = sum(removed), sum(removed[len(waived) :])
    if verdict.passed:
        assert total <= max(limit, sum(waived))
        assert without_waiver <= limit
    if total <= limit:
        assert verdict.passed


@given(planner_inputs, limit_specs, limit_specs)
def test_limits_never_change_the_decisions(
    planner_input: PlannerInput, limits: dict[str, int], other_limits: dict[str, int]
) -> None:
    """Limits refuse a plan; they do not select actions."""
    assert (
        with_limits(planner_input, limits).plan().decisions == with_limits(planner_input, other_limits).plan().decisions
    )


@given(planner_inputs, limit_specs, st.integers(0, 100))
def test_a_tighter_limit_refuses_no_less(planner_input: PlannerInput, spec: dict[str, int], difference: int) -> None:
    tight = {key: max(0, value - difference) for key, value in spec.items()}
    assert refused_by(with_limits(planner_input, spec)) <= refused_by(with_limits(planner_input, tight))


@given(planner_inputs)
def test_a_removed_waiver_refuses_no_less(planner_input: PlannerInput) -> None:
    assume(planner_input.waivers)
    assert refused_by(planner_input) <= refused_by(replace(planner_input, waivers=planner_input.waivers[1:]))


@given(planner_inputs, st.randoms(use_true_random=True))
def test_a_removed_action_refuses_no_more(planner_input: PlannerInput, random: Random) -> None:
    """An intersection makes no limit worse; the totals of percentages stay the same."""
    actions = planner_input.plan().actions
    rules, some = RuleSet(planner_input.cluster), [a for a in actions if random.random() < 0.5]
    verdicts_of_some = limits.verdicts(some, rules, planner_input.snapshot)
    verdicts_of_all = limits.verdicts(actions, rules, planner_input.snapshot)
    assert {v.id for v in verdicts_of_some if not v.passed} <= {v.id for v in verdicts_of_all if not v.passed}


def with_another_rule(r: Random) -> tuple[PlannerInput, PlannerInput]:
    """A floor and the same floor with one more rule, on the same facts."""
    policy = floor(r)
    rules = policy.spec.keep
    more = {
        name: value for name, value in type(rules).model_validate(keep(r, exact=False)) if getattr(rules, name) is None
    }
    stricter_spec = policy.spec.model_copy(update={"keep": rules.model_copy(update=more)})
    stricter_policy = policy.model_copy(update={"spec": stricter_spec})
    facts = snapshot(r, requested_instants((policy, stricter_policy)))
    planner_input = PlannerInput(cluster(r), (policy,), (), facts)
    return planner_input, replace(planner_input, policies=(stricter_policy,))


@given(seeded(with_another_rule))
def test_another_rule_never_raises_a_floor(inputs: tuple[PlannerInput, PlannerInput]) -> None:
    """On the same facts, satisfied partitions stay satisfied, and no deletion goes further."""
    planner_input, stricter_input = inputs
    decision_by_address = {decision.address: decision for decision in planner_input.plan().decisions}
    for action in stricter_input.plan().actions:
        assert isinstance(action, DeleteRecords)
        decision = decision_by_address[action.address]
        assert not isinstance(decision, Satisfied)
        if isinstance(decision, DeleteRecords):
            assert action.before_offset <= decision.before_offset


def by_address(plan: Plan) -> dict[Address, Action]:
    return {action.address: action for action in plan.actions}


def check_restriction(plan: Plan, reviewed: Plan) -> None:
    """The plan and the reviewed plan bound every action of the intersection."""
    result = restrict_to(plan, reviewed)
    for action in result.actions:
        check_is_within(action, by_address(plan)[action.address])
        check_is_within(action, by_address(reviewed)[action.address])
    assert [d.address for d in result.decisions] == [d.address for d in plan.decisions]


@given(two_days)
def test_a_reviewed_plan_never_adds_or_enlarges(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The same policies with the facts of another day."""
    plan, reviewed = (day.plan() for day in days)
    check_restriction(plan, reviewed)
    assert restrict_to(plan, plan) == plan


@at_least(400)
@given(later_days)
def test_a_plan_by_other_manifests_never_adds_or_enlarges(days: tuple[PlannerInput, PlannerInput]) -> None:
    """The plan of now is restricted to one of earlier facts and policies."""
    reviewed, plan = (day.plan() for day in days)
    check_restriction(plan, reviewed)


def tamper(plan: Plan, r: Random) -> Plan:
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


@given(two_days, st.integers(0, 2**48), st.booleans())
def test_a_tampered_plan_never_adds_or_enlarges(days: tuple[PlannerInput, PlannerInput], seed: int, same: bool) -> None:
    """The bound holds whatever the reviewed file contains."""
    plan = days[0].plan()
    reviewed = tamper(days[0 if same else 1].plan(), Random(seed))
    check_restriction(plan, reviewed)


@at_least(400)
@given(later_days, st.integers(0, 2**48))
def test_deciding_a_tampered_plan_again_never_adds_or_enlarges(
    days: tuple[PlannerInput, PlannerInput], seed: int
) -> None:
    """Whatever the saved file contains, it and the plan of now bound each action that remains."""
    first_day, later_day = days
    saved = replace(tamper(first_day.plan(), Random(seed)), expires_at_ms=2**60)
    try:
        remaining = later_day.recheck(saved).remaining
    except PlanUnusable:
        subjects = [(type(action), action.address.name, action.address.partition) for action in saved.actions]
        assert len(set(subjects)) < len(subjects), "it is refused only for two actions on one subject"
        return
    bounds, now = by_address(saved), by_address(later_day.plan())
    for action in remaining:
        check_is_within(action, bounds[action.address])
        decided = now[action.address]
        assert type(action) is type(decided)
        assert not isinstance(decided, DeleteRecords) or action.before_offset <= decided.before_offset


@given(two_days)
def test_a_comparison_is_empty_exactly_where_the_digests_agree(days: tuple[PlannerInput, PlannerInput]) -> None:
    """An action that is gone, or blocked now, in one direction is new in the other.

    The exception is a log with another start: a lower target is larger, and a higher one is not
    reported.
    """
    old_plan, new_plan = (day.plan() for day in days)
    entries = list(compare(old_plan, new_plan).entries())
    reported = [
        entry
        for entry in entries
        if not log_start_differs(entry) or approved_fields(required(entry.old)) != approved_fields(required(entry.new))
    ]
    assert (not reported) == (plan_file.digest(old_plan) == plan_file.digest(new_plan))
    assert all(entry.change.value == "larger" for entry in entries if entry not in reported)
    opposite = {"new": "gone", "gone": "new", "larger": "smaller", "smaller": "larger", "changed": "changed"}
    forth, back = (
        {e.address: "gone" if e.change.value == "blocked" else e.change.value for e in of if not log_start_differs(e)}
        for of in (entries, compare(new_plan, old_plan).entries())
    )
    assert {address: opposite[change] for address, change in forth.items()} == back


def log_start_differs(entry: ActionDiff) -> bool:
    """Return whether both plans delete records of the partition, from different log starts."""
    old, new = entry.old, entry.new
    return (
        isinstance(old, DeleteRecords) and isinstance(new, DeleteRecords) and old.seen.log_start != new.seen.log_start
    )


def required(action: Action | None) -> Action:
    assert action is not None
    return action
