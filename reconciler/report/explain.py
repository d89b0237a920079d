"""Builds the explanation of a decision: the facts, the rule, the arithmetic, and what apply tests again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from reconciler.errors import UsageError
from reconciler.model.action import Action
from reconciler.model.block_codes import REASONS
from reconciler.model.description import Fact
from reconciler.model.names import Address, format_address, format_location
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.base import Operation
from reconciler.report.plan import count_decisions, describe_policy, format_state
from reconciler.report.tree import Item, Report, Section
from reconciler.text import formatting
from reconciler.text.escape import display_name
from reconciler.text.phrase import escaped_name, name, sentence
from reconciler.text.suggest import did_you_mean

FULL_MAX = 5
"""Decisions of one topic or policy that are explained where the address covers more than one."""


def explain_report(plan: Plan, address: Address) -> Report:
    """The decision at that address, or those of a topic or policy. Raises UsageError where there is none."""
    decisions = [
        decision
        for decision in plan.decisions
        if address in (decision.address, replace(decision.address, partition=-1), decision.address.policy_address)
    ]
    shown = escaped_name(format_address(address))
    if not decisions:
        near = did_you_mean(str(address), (str(decision.address) for decision in plan.decisions))
        hint = f"did you mean {display_name(near)}?" if near else "`show --full` lists what it decides"
        raise UsageError(f"the plan decides nothing at {shown.text}; {hint}")
    others = len(decisions) - FULL_MAX
    return Report(
        headline=(shown, f": {count_decisions(decisions)}") if others > 0 else (),
        sections=tuple(
            Section(
                heading=(escaped_name(format_address(decision.address)), f": {format_state(decision)}"),
                items=(Item(facts=tuple(_facts(plan, decision))),),
                labelled=False,
            )
            for decision in decisions[:FULL_MAX]
        ),
        footer=((f"and {others:,} more; name one of them to see it",),) if others > 0 else (),
    )


def _facts(plan: Plan, decision: Decision) -> Iterator[Fact]:
    if not isinstance(decision, Satisfied | Skipped):
        mode = f", mode {decision.mode}" if isinstance(decision, Action) else ""
        yield "Declared", (escaped_name(format_location(decision.declared_at)), mode)
    if not isinstance(decision, Satisfied):
        yield "Because", (sentence(decision.reason),)
    match decision:
        case Waiting(until_ms=int(until_ms)):
            until = formatting.until(until_ms, now_ms=plan.observed_at_ms)
            yield "Until", (f"{formatting.format_time(until_ms)}, {until}",)
        case Blocked(code=code):
            yield "Next", (sentence(decision.next_step),)
            title = f": {REASONS[code].title}" if code in REASONS else ""
            yield "Code", (name(code), f"{title} (`reconciler explain {display_name(code)}` says more)")
        case Action():
            yield from cast(Operation, decision).explain()
            yield "Drift", ("counts as drift" if decision.drift else "does not count as drift yet",)
    yield from describe_policy(plan, decision.address.policy_address)
    yield "Seen at", (formatting.format_time(plan.observed_at_ms),)
