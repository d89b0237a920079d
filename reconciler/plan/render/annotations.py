"""A plan or results as GitHub workflow commands: annotations at the manifest's line. What a runner reads, so nothing unescaped."""

from collections.abc import Iterator

from reconciler.model.names import NOWHERE, Place
from reconciler.model.plan import Blocked, Plan
from reconciler.plan.document.digest import digest
from reconciler.plan.render import folds, safe

MAX_OF_A_SORT = 10
"""GitHub shows no more than ten annotations of one level per step."""


def annotation(level: str, message: str, *, title: str, place: Place = NOWHERE) -> str:
    """One workflow command: `level` is error, warning or notice."""
    properties = f"title={safe.command_property(safe.prose(title))}"
    if place.path:
        where = f"file={safe.command_property(safe.prose(place.path))},line={place.line},col={place.column}"
        properties = f"{where},{properties}"
    return f"::{level} {properties}::{safe.command_data(message)}"


def github(plan: Plan) -> str:
    """Refused limits as errors, blocked subjects and what could not be read as warnings, the totals as a notice."""
    return "".join(f"{row}\n" for row in _plan(plan))


def _plan(plan: Plan) -> Iterator[str]:
    for verdict in plan.refused:
        yield annotation("error", safe.prose(verdict.message), title=f"limit {verdict.id}")
    for sentence in plan.incomplete[:MAX_OF_A_SORT]:
        yield annotation("warning", safe.prose(sentence), title="incomplete plan")
    if len(plan.incomplete) > MAX_OF_A_SORT:
        left = f"{len(plan.incomplete) - MAX_OF_A_SORT:,} more facts are missing; the plan lists them"
        yield annotation("warning", left, title="incomplete plan")
    blocked = list(folds.asides((d for d in plan.decisions if isinstance(d, Blocked)), full=False))
    for aside in blocked[:MAX_OF_A_SORT]:
        assert isinstance(aside.first, Blocked)
        told = f"{aside.where}: {safe.prose(aside.first.reason)}: {safe.prose(aside.first.next_step)}"
        yield annotation("warning", told, title=f"blocked ({aside.first.code})", place=aside.first.declared_at)
    if len(blocked) > MAX_OF_A_SORT:
        yield annotation(
            "warning", f"{len(blocked) - MAX_OF_A_SORT:,} more are blocked; the plan lists them", title="blocked"
        )
    totals = folds.totals(folds.summary(plan.decisions))
    yield annotation("notice", f"{totals} Digest {digest(plan)}", title=f"plan for {plan.cluster}")
