"""A plan or results as GitHub workflow commands: annotations at the manifest's line. What a runner reads, so nothing unescaped."""

from collections.abc import Iterator

from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.model.plan import Blocked, Plan
from reconciler.plan.plan_file import digest
from reconciler.report import escape, grouping

MAX_OF_A_SORT = 10
"""GitHub shows no more than ten annotations of one level per step."""


def annotation(level: str, message: str, *, title: str, place: SourceLocation = NOWHERE) -> str:
    """One workflow command: `level` is error, warning or notice."""
    properties = f"title={escape.command_property(escape.escape_sentence(title))}"
    if place.path:
        where = (
            f"file={escape.command_property(escape.escape_sentence(place.path))},line={place.line},col={place.column}"
        )
        properties = f"{where},{properties}"
    return f"::{level} {properties}::{escape.command_data(message)}"


def github(plan: Plan) -> str:
    """Refused limits as errors, blocked subjects and what could not be read as warnings, the totals as a notice."""
    return "".join(f"{row}\n" for row in _plan(plan))


def _plan(plan: Plan) -> Iterator[str]:
    for verdict in plan.refused:
        yield annotation("error", escape.escape_sentence(verdict.message), title=f"limit {verdict.id}")
    for sentence in plan.incomplete[:MAX_OF_A_SORT]:
        yield annotation("warning", escape.escape_sentence(sentence), title="incomplete plan")
    if len(plan.incomplete) > MAX_OF_A_SORT:
        left = f"{len(plan.incomplete) - MAX_OF_A_SORT:,} more facts are missing; the plan lists them"
        yield annotation("warning", left, title="incomplete plan")
    blocked = list(grouping.group_notices((d for d in plan.decisions if isinstance(d, Blocked)), full=False))
    for aside in blocked[:MAX_OF_A_SORT]:
        assert isinstance(aside.first, Blocked)
        told = f"{aside.where}: {escape.escape_sentence(aside.first.reason)}: {escape.escape_sentence(aside.first.next_step)}"
        yield annotation("warning", told, title=f"blocked ({aside.first.code})", place=aside.first.declared_at)
    if len(blocked) > MAX_OF_A_SORT:
        yield annotation(
            "warning", f"{len(blocked) - MAX_OF_A_SORT:,} more are blocked; the plan lists them", title="blocked"
        )
    totals = grouping.totals(grouping.summary(plan.decisions))
    yield annotation("notice", f"{totals} Digest {digest(plan)}", title=f"plan for {plan.cluster}")
