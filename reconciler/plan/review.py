"""A plan held against a reviewed one: the intersection of both. What differs between two plans is in diff.py.

A reviewed plan only bounds. It is never executed, so its age does not matter and nothing in it can make a result larger. Limits are
judged anew by the caller (limits.judged), since less is done than they counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason
from reconciler.model.plan import Decision, Plan
from reconciler.operations import Operation
from reconciler.operations.base import beyond_review


class Reviewed(Protocol):
    """What a plan is held against: a Plan, or a saved one (plan_file.PlanFile) whose actions stream by, in address order."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def actions(self) -> Iterable[Action]: ...


def restrict_to(plan: Plan, reviewed: Reviewed) -> Plan:
    """`plan` without what `reviewed` does not hold: lower targets, and Blocked (B108) where nothing is left that was reviewed."""
    if plan.cluster_id != reviewed.cluster_id:
        elsewhere = beyond_review(
            f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}"
        )
        return replace(plan, decisions=tuple(_all_blocked(plan.decisions, elsewhere)))
    return replace(plan, decisions=tuple(intersect(plan.decisions, reviewed.actions)))


def _all_blocked(decisions: Iterable[Decision], why: BlockReason) -> Iterator[Decision]:
    for decision in decisions:
        if isinstance(decision, Action):
            yield why.blocked(decision.address, decision.declared_at)
        else:
            yield decision


def intersect(decisions: Iterable[Decision], reviewed: Iterable[Action]) -> Iterator[Decision]:
    """What `reviewed` leaves of `decisions`, one for one. One pass over both, in address order; one of each is held at a time.

    A decision that is within what was reviewed comes out as the same object, so that a bounded plan costs no second plan's memory.
    """
    known = iter(reviewed)
    following = next(known, None)
    for decision in decisions:
        while following is not None and following.address < decision.address:
            following = next(known, None)
        same = following is not None and following.address == decision.address
        yield _bounded(decision, following if same else None)
    for _left in known:  # to the end, where a saved plan proves its digest
        pass


def _bounded(decision: Decision, reviewed: Action | None) -> Decision:
    if not isinstance(decision, Operation):
        return decision
    bounded = decision.restrict_to(reviewed)
    return bounded.blocked(decision.address, decision.declared_at) if isinstance(bounded, BlockReason) else bounded
