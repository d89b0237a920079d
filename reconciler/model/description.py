"""What an operation says about its actions in reports, independent of medium and layout."""

from dataclasses import dataclass

from reconciler.text.phrase import Phrase

Fact = tuple[str, Phrase]
"""A label and what is known. An empty label continues the fact above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One action, or many actions of one topic.

    `change`: what moves, from where to where; empty where `loss` says it all. `loss`: what is lost at
    most; empty: nothing. `notes`: why, for a report in full. `risks`: what follows for others and
    means a loss; `unknowns`: facts that are not known.
    """

    subject: Phrase
    change: Phrase = ()
    loss: Phrase = ()
    notes: tuple[Phrase, ...] = ()
    risks: tuple[Phrase, ...] = ()
    unknowns: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChange:
    """How an action's size differs from another plan's. `details`: a line for each moved number."""

    larger: bool
    summary: Phrase
    details: tuple[str, ...]
