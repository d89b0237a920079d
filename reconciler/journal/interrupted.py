"""Marks actions that an interrupted run may already have sent.

The journal decides no request: the cluster alone says what remains to be done. The journal tells
which run may have sent it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status

_UNDECIDED = (Status.NOT_ATTEMPTED, Status.WAITING)
"""Outcomes that say nothing about the request of another run."""


def open_intents(entries: Iterable[JournalEntry], plan_digest: str) -> dict[Address, JournalEntry]:
    """The newest intent of each action of the plan that has no later outcome, in whichever run."""
    intents: dict[Address, dict[str, JournalEntry]] = {}
    for entry in entries:
        if entry.plan_digest != plan_digest:
            continue
        by_run = intents.setdefault(entry.address, {})
        if entry.event is Event.INTENT:
            by_run.pop(entry.run_id, None)
            by_run[entry.run_id] = entry
        elif entry.sends == 0 and entry.status in _UNDECIDED:
            by_run.pop(entry.run_id, None)
        else:
            by_run.clear()
    return {address: list(by_run.values())[-1] for address, by_run in intents.items() if by_run}


def progress_message(intents: Mapping[Address, JournalEntry]) -> str:
    """One line about interrupted runs; empty where there is none."""
    if not intents:
        return ""
    runs = ", ".join(sorted({entry.run_id for entry in intents.values()}))
    return (
        f"run {runs} was interrupted: {len(intents):,} actions of it have an intent and no outcome; "
        "their subjects are read back first"
    )


def annotate_interrupted(
    outcomes: Iterable[Outcome], intents: Mapping[Address, JournalEntry]
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """All outcomes of the recheck, and those that end an interrupted action.

    The second part belongs in the journal, which otherwise shows these actions as open for ever.
    """
    annotated, ended = [], []
    for outcome in outcomes:
        intent = intents.get(outcome.action.address)
        if intent is not None:
            detail = f"{outcome.detail}; run {intent.run_id}, which was interrupted, may have sent it"
            outcome = replace(outcome, detail=detail)
            ended.append(outcome)
        annotated.append(outcome)
    return tuple(annotated), tuple(ended)
