"""Intersects a plan with a reviewed one, which only bounds; its age does not matter."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.plan import Decision, Plan
from reconciler.operations import Operation
from reconciler.operations.base import beyond_review
from reconciler.plan.diff import pair_up
from reconciler.plan.plan_file import SavedPlan


def restrict_to(plan: Plan, reviewed: SavedPlan) -> Plan:
    """Return what `plan` and `reviewed` both do; an action without a rest is Blocked (B108)."""
    if plan.cluster_id == reviewed.cluster_id:
        return replace(plan, decisions=tuple(intersect(plan.decisions, reviewed.actions)))
    block = beyond_review(f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}")
    decisions = (
        block.blocked(decision.address, decision.declared_at) if isinstance(decision, Action) else decision
        for decision in plan.decisions
    )
    return replace(plan, decisions=tuple(decisions))


def intersect(decisions: Iterable[Decision], reviewed: Iterable[Action]) -> Iterator[Decision]:
    """Yield what `reviewed` leaves of `decisions`, one for one; both are in address order.

    A decision within what was reviewed is the same object, so a bounded plan costs no memory.
    """
    for decision, action in pair_up(decisions, reviewed):
        bounded = decision.restrict_to(action) if isinstance(decision, Operation) else decision
        if isinstance(bounded, BlockReason):
            yield bounded.blocked(decision.address, decision.declared_at)
        elif bounded is not None:
            yield bounded
