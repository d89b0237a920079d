"""A plan: one decision per subject of one cluster, the verdicts of its limits, its source."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

from reconciler.model.action import Action
from reconciler.model.bounds import OMIT_DEFAULT, EpochMs, InstantMs, NonEmpty
from reconciler.model.names import Address, SourceLocation, TopicPartition, format_address
from reconciler.model.snapshot import Lookups, RecordLookup
from reconciler.text.escape import NEXT, quoted

SCAN_AHEAD_MAX_MS = 60_000
"""How far in the future a plan's scan may lie: clocks of machines differ by seconds."""


@dataclass(frozen=True, slots=True)
class Satisfied:
    """The subject is already as desired.

    `reason`: why, in a sentence, only in a plan of a few subjects: a plan of all would grow by a third.
    """

    address: Address
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Right, but not now; never drift. `until_ms`: when a clock allows it; None: no clock does.

    `held_by`: as in Blocked.
    """

    address: Address
    declared_at: SourceLocation
    reason: str
    until_ms: EpochMs | None = None
    held_by: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A pattern selects the subject, and the subject does not qualify. Never drift.

    `code`: as in Blocked.
    """

    address: Address
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """May not or cannot, and what to do next.

    `code`: a key of `block_reason.BLOCK_CODES`. `unread`: a fact could not be read. `held_by`: the
    groups that hold the subject back, in order; once all of them are gone or have read further, more
    may be done. Empty: no groups do, or too many.
    """

    address: Address
    declared_at: SourceLocation
    code: str
    reason: str
    next_step: str
    unread: bool = False
    held_by: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided(Blocked):
    """Blocked until these lookups of a partition are answered; none is asked twice."""

    partition: TopicPartition
    lookups: tuple[RecordLookup, ...]


Decision = Action | Satisfied | Waiting | Skipped | Blocked
_SECTION_OF: Mapping[type, str] = {Waiting: "waiting", Skipped: "skipped", Satisfied: "satisfied"}


def section_of(decision: Decision) -> str:
    """Return the list of the plan file that a decision stands in."""
    if isinstance(decision, Blocked):
        return "unread" if decision.unread else "blocked"
    return _SECTION_OF.get(type(decision), "actions")


def asked_lookups(decisions: Iterable[Decision]) -> Lookups:
    """Return what decisions need to know of the records of partitions; empty: every decision is made."""
    undecided = (decision for decision in decisions if isinstance(decision, Undecided))
    asked = defaultdict[TopicPartition, tuple[RecordLookup, ...]](tuple)
    for decision in undecided:
        asked[decision.partition] += decision.lookups
    return {partition: tuple(dict.fromkeys(lookups)) for partition, lookups in asked.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitVerdict:
    """One limit, applied to the plan. Numbers are counts or percents, as the limit's name says.

    `observed` None: it could not be computed, which refuses. `passed`: within the limit, or waived.
    `worst`: the policy that caused most of it. `waivers`: those that were used.
    """

    id: NonEmpty
    limit: float
    observed: float | None
    passed: bool
    message: str
    worst: Address | None = None
    waivers: tuple["UsedWaiver", ...] = ()

    def __post_init__(self) -> None:
        if not all(math.isfinite(number) for number in (self.limit, self.observed or 0)):
            raise ValueError(f"limit {self.id}: {self.observed} of {self.limit} are not two finite numbers")

    @property
    def cause(self) -> str:
        """The message without the advice, for a line beside a report that has it."""
        return self.message.partition(NEXT)[0]

    @property
    def unit(self) -> str:
        """` %` of a share, otherwise nothing: the names of limits say which they are."""
        return " %" if "Percent" in self.id else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedWaiver:
    """A waiver that a limit's verdict rests on."""

    name: str
    policy: Address
    limit: str
    value: float
    expires_ms: InstantMs
    declared_at: SourceLocation


MANIFEST_SUFFIXES = (".yaml", ".yml")
"""How the names of manifests end, in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A file that the plan was made from, and the sha256 (hex) of its bytes."""

    path: str
    sha256: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"sha256 is {quoted(self.sha256)}, expected 64 hexadecimal digits")


def content_hashes(files: Iterable[ManifestFile]) -> tuple[str, ...]:
    """Return the sha256 (hex) of each file's bytes, sorted: names and order of files mean nothing."""
    return tuple(sorted(file.sha256 for file in files))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the manifests came from. `commit` None: no checkout. `dirty`: it has other manifests.

    `author`: of the commit, any text; None: not known.
    """

    commit: NonEmpty | None = None
    dirty: bool = False
    manifests: tuple[ManifestFile, ...] = ()
    author: NonEmpty | None = field(default=None, metadata=OMIT_DEFAULT)

    @property
    def unchanged_commit(self) -> str | None:
        """The commit that has these manifests; None: not known, or they differ from it."""
        return None if self.dirty else self.commit


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInfo:
    """What reports show about a policy besides its decisions."""

    policy: Address
    owner: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """A warning: the manifest selects or guards nothing, or names something that looks misspelt. No decision."""

    policy: Address
    declared_at: SourceLocation
    reason: str
    next_step: str


class Change(StrEnum):
    """How a manifest differs from the one of the same address in the base."""

    NEW = "new"
    CHANGED = "changed"
    REMOVED = "removed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field of a manifest by its path, such as `keep.newerThan`, with its values as text.

    `values`: empty: it is not set any more. `before`: in the base; None: the same, or there is no
    base.
    """

    name: str
    values: tuple[str, ...]
    before: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a manifest says about later runs. `change` None: there is no base to compare with."""

    address: Address
    declared_at: SourceLocation
    change: Change | None
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be done to one cluster, and what not. `decisions`: sorted by address.

    `incomplete`: sentences that say what could not be read; empty: everything was. `unseen`: sentences
    that say what the server hides from every scan. `targets`:
    addresses that the plan was narrowed to; empty: all. `unmatched`: policies that probably mean
    something else, in address order. `continuous`: policies that later runs carry out without
    another review. `rule_changes`: manifests of limits, protections, waivers and the connection, and
    policies that hold a continuous one back, that differ from the base.
    """

    cluster: str
    cluster_id: str
    observed_at_ms: int
    expires_at_ms: int
    decisions: tuple[Decision, ...]
    limits: tuple[LimitVerdict, ...] = ()
    source: Source = field(default_factory=Source)
    targets: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    unseen: tuple[str, ...] = field(default=(), metadata=OMIT_DEFAULT)
    unmatched: tuple[Unmatched, ...] = ()
    notes: tuple[PolicyInfo, ...] = ()
    continuous: tuple[Rule, ...] = ()
    rule_changes: tuple[Rule, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """Everything there is to apply, in address order."""
        return tuple(d for d in self.decisions if isinstance(d, Action))

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """Every subject that is blocked or could not be read, in address order."""
        return tuple(d for d in self.decisions if isinstance(d, Blocked))

    @property
    def asked(self) -> Lookups:
        """The lookups of records that some decisions wait for."""
        return asked_lookups(self.decisions)

    @property
    def owners(self) -> Mapping[Address, str]:
        """The owner of each policy with a note; empty: its manifest names none."""
        return {note.policy: note.owner or "" for note in self.notes}

    def has_expired(self, now_ms: int) -> bool:
        return now_ms >= self.expires_at_ms

    @property
    def refused(self) -> tuple[LimitVerdict, ...]:
        """The limits that refuse this plan; empty: none."""
        return tuple(verdict for verdict in self.limits if not verdict.passed)


def sort_decisions(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return the decisions in address order. Raises ValueError where two are about one subject."""
    # a key of plain values: comparing a million Address objects takes many times as long
    key = attrgetter("address.kind", "address.policy", "address.name", "address.partition")
    ordered = tuple(decisions)
    if any(first >= second for first, second in pairwise(map(key, ordered))):  # sorting holds all keys at once
        ordered = tuple(sorted(ordered, key=key))
        for first, second in pairwise(ordered):
            if first.address == second.address:
                raise ValueError(f"two decisions for {format_address(first.address)}")
    return ordered
