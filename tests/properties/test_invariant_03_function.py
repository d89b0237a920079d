"""Invariant 3: the plan is a function of manifests and snapshot.

The order of manifests and of dictionaries and the wall clock change nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan import plan_file, recheck
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, planner_inputs

T = TypeVar("T")


@given(planner_inputs(), st.integers(0, 2**48))
def test_no_order_changes_a_plan(planner_input: PlannerInput, seed: int) -> None:
    """The order of policies, waivers, topics, groups and partitions is random; consumers are sorted
    by contract.
    """
    r = Random(seed)

    def shuffle(items: Iterable[T]) -> list[T]:
        shuffled_items = list(items)
        r.shuffle(shuffled_items)
        return shuffled_items

    plan = planner_input.plan()
    facts = replace(
        planner_input.snapshot,
        topics=dict(shuffle(planner_input.snapshot.topics.items())),
        groups=dict(shuffle(planner_input.snapshot.groups.items())),
        partitions={
            name: replace(facts, offsets_at=dict(shuffle(facts.offsets_at.items())))
            for name, facts in shuffle(planner_input.snapshot.partitions.items())
        },
    )
    second_plan = replace(
        planner_input,
        policies=tuple(shuffle(planner_input.policies)),
        waivers=tuple(shuffle(planner_input.waivers)),
        snapshot=facts,
    ).plan()
    assert second_plan == plan
    assert plan_file.digest(second_plan) == plan_file.digest(plan)


@given(planner_inputs())
def test_the_same_facts_give_the_same_plan_later(planner_input: PlannerInput) -> None:
    """Time comes only from the snapshot: a recheck at another time changes only purge intervals and
    expiry.
    """
    plan = planner_input.plan()
    assert planner_input.plan() == plan
    first_check, second_check = (
        recheck.recheck(
            plan,
            planner_input.cluster,
            planner_input.policies,
            planner_input.waivers,
            planner_input.snapshot,
            NOW_MS + delay_ms,
        )
        for delay_ms in (0, 3_600_000)
    )
    assert set(first_check.remaining) <= set(second_check.remaining)
    assert first_check.limits == second_check.limits or first_check.remaining != second_check.remaining
