"""Intersects a plan with a reviewed one.

A reviewed plan only bounds: it is never executed, so its age does not matter. The caller computes
the limits again (limits.with_limits), since less is done than they counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.plan import Decision, Plan
from reconciler.operations import Operation
from reconciler.operations.base import beyond_review
from reconciler.plan.plan_file import SavedPlan


def restrict_to(plan: Plan, reviewed: SavedPlan) -> Plan:
    """Return `plan` without what `reviewed` does not hold.

    Targets become lower, and an action of which nothing is left becomes Blocked (B108).
    """
    if plan.cluster_id == reviewed.cluster_id:
        return replace(plan, decisions=tuple(intersect(plan.decisions, reviewed.actions)))
    block = beyond_review(f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}")
    decisions = (
        block.blocked(decision.address, decision.declared_at) if isinstance(decision, Action) else decision
        for decision in plan.decisions
    )
    return replace(plan, decisions=tuple(decisions))


def intersect(decisions: Iterable[Decision], reviewed: Iterable[Action]) -> Iterator[Decision]:
    """Yield what `reviewed` leaves of `decisions`, one for one, of which it holds one at a time.

    Both are in address order. A decision that is within what was reviewed is the same object, so
    that a bounded plan costs no second plan's memory.
    """
    remaining = iter(reviewed)
    action = next(remaining, None)
    for decision in decisions:
        if not isinstance(decision, Operation):
            yield decision
            continue
        while action is not None and action.address < decision.address:
            action = next(remaining, None)
        is_same = action is not None and action.address == decision.address
        bounded = decision.restrict_to(action if is_same else None)
        if isinstance(bounded, BlockReason):
            yield bounded.blocked(decision.address, decision.declared_at)
        else:
            yield bounded
    for _action in remaining:  # to the end, where a saved plan proves its digest
        pass
