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

    def shuffled(items: Iterable[T]) -> list[T]:
        shuffled_items = list(items)
        r.shuffle(shuffled_items)
        return shuffled_items

    planned = planner_input.plan()
    facts = replace(
        planner_input.snapshot,
        topics=dict(shuffled(planner_input.snapshot.topics.items())),
        groups=dict(shuffled(planner_input.snapshot.groups.items())),
        partitions={
            name: replace(facts, offsets_at=dict(shuffled(facts.offsets_at.items())))
            for name, facts in shuffled(planner_input.snapshot.partitions.items())
        },
    )
    again = replace(
        planner_input,
        policies=tuple(shuffled(planner_input.policies)),
        waivers=tuple(shuffled(planner_input.waivers)),
        snapshot=facts,
    ).plan()
    assert again == planned
    assert plan_file.digest(again) == plan_file.digest(planned)


@given(planner_inputs())
def test_a_plan_made_later_of_the_same_facts_is_the_same(planner_input: PlannerInput) -> None:
    """Time comes only from the snapshot: a recheck at another time changes only clocks and expiry."""
    planned = planner_input.plan()
    assert planner_input.plan() == planned
    early, late = (
        recheck.recheck(planned, planner_input.cluster, planner_input.waivers, planner_input.snapshot, NOW_MS + later)
        for later in (0, 3_600_000)
    )
    assert set(early.remaining) <= set(late.remaining)
    assert early.limits == late.limits or early.remaining != late.remaining
