"""Taking up a run that was interrupted: what the journal says had begun and never ended is told apart from what nobody had touched.

Nothing is sent on the journal's word, and nothing left out: the cluster alone says what is left to do. The journal says whose doing it was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.journal.entry import JournalEntry
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome


def progress_message(begun: Mapping[Address, JournalEntry]) -> str:
    """One line for the progress; empty where no run was interrupted."""
    if not begun:
        return ""
    runs = ", ".join(sorted({entry.run_id for entry in begun.values()}))
    return f"taking up what was interrupted (run {runs}): {len(begun):,} actions had begun, and are read back first"


def annotate_interrupted(
    outcomes: Iterable[Outcome], begun: Mapping[Address, JournalEntry]
) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
    """All outcomes of the recheck, and those of them that end what an earlier run had begun; the latter belong in the journal."""
    every, ending = [], []
    for outcome in outcomes:
        entry = begun.get(outcome.action.address)
        if entry is not None:
            outcome = replace(
                outcome, detail=f"{outcome.detail}; run {entry.run_id}, which was interrupted, may have sent it"
            )
            ending.append(outcome)
        every.append(outcome)
    return tuple(every), tuple(ending)
