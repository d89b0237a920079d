"""Invariant 3: the plan is a function of manifests and snapshot.

The order of manifests and of dictionaries and the wall clock change nothing.
"""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.names import Address
from reconciler.plan import plan_file
from reconciler.plan.recheck import Recheck
from tests.strategies.facts import HOUR
from tests.strategies.planner_inputs import PlannerInput, planner_inputs, reordered, shuffled


@given(planner_inputs, st.integers(0, 2**48))
def test_no_order_changes_a_plan(planner_input: PlannerInput, seed: int) -> None:
    """The order of policies, waivers, topics, groups and partitions is random; consumers are sorted
    by contract.
    """
    r, plan = Random(seed), planner_input.plan()
    second_plan = replace(
        planner_input,
        policies=tuple(shuffled(r, planner_input.policies)),
        waivers=tuple(shuffled(r, planner_input.waivers)),
        snapshot=reordered(r, planner_input.snapshot),
    ).plan()
    assert second_plan == plan
    assert plan_file.digest(second_plan) == plan_file.digest(plan)


@given(planner_inputs)
def test_the_same_facts_give_the_same_plan_later(planner_input: PlannerInput) -> None:
    """Time comes only from the snapshot.

    Where an hour later every fact and every answer about an instant are the same, all that remained
    does so: only purge intervals, idle times and the expiry of waivers depend on the clock.
    """
    plan = planner_input.plan()
    assert planner_input.plan() == plan
    delay_ms = HOUR + 1  # no other instant becomes a requested one
    later = replace(
        planner_input.snapshot,
        observed_at_ms=planner_input.snapshot.observed_at_ms + delay_ms,
        partitions={
            name: replace(
                facts, offsets_at={at + delay_ms: answer for at, answer in facts.offsets_at.items()} | facts.offsets_at
            )
            for name, facts in planner_input.snapshot.partitions.items()
        },
    )
    first_check, second_check = planner_input.recheck(plan), replace(planner_input, snapshot=later).recheck(plan)
    assert first_check == planner_input.recheck(plan)
    assert addresses(first_check) <= addresses(second_check)


def addresses(checked: Recheck) -> set[Address]:
    return {action.address for action in checked.remaining}
