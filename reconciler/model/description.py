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
    means a loss.
    """

    subject: Phrase
    change: Phrase = ()
    loss: Phrase = ()
    notes: tuple[Phrase, ...] = ()
    risks: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeChange:
    """How an action's size differs from another plan's. `details`: a line for each moved number."""

    larger: bool
    summary: Phrase
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMove:
    """How the log start of one partition moves, for a picture of its offsets.

    `last_stable_offset`, `high_watermark`: the ends of the log. `removed`: the most records that go.
    `records`: what a share is taken of. `skips`: (group, committed offset, records that it skips at most) of
    the groups that stand below `new_start`, those that skip most first. `required`: groups that must have
    read up to it. `limits`: ids of those that bound the share of the topic that is removed. `noun`: what is
    counted, records or offsets.
    """

    log_start: int
    new_start: int
    last_stable_offset: int
    high_watermark: int
    removed: int
    records: int
    skips: tuple[tuple[str, int, int], ...]
    required: tuple[str, ...]
    limits: tuple[str, ...]
    noun: str


@dataclass(frozen=True, slots=True)
class LeaderMove:
    """The brokers that lead one partition. `before` None: leaderless; `after` None: any replica."""

    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleGroup:
    """Since when a group is idle, epoch milliseconds; None: no evidence was asked for.

    `required_ms`: how long it has to be idle. `commits`: its committed offsets.
    """

    group: str
    idle_since_ms: int | None
    required_ms: int
    commits: int


Figure = OffsetMove | LeaderMove | IdleGroup
"""What a report can draw of an action."""
