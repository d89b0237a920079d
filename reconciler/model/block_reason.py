"""Reasons not to act on a subject, and their codes with the texts of `explain CODE`.

A subject that does not qualify is blocked where its exact name selected it, and skipped where a
pattern did; a fact that could not be read always blocks. B1xx any policy, B2xx retention floors,
B3xx group removals. A code keeps its meaning for ever; a new meaning is a new code. The texts are in
block_codes.md: each heading has the code, its origin unless that is the cluster, and the title.
"""

from enum import StrEnum
from typing import TypeVar

from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Skipped, Undecided
from reconciler.model.snapshot import RecordLookup, Unknown
from reconciler.text.catalogue import read_catalogue
from reconciler.text.escape import NEXT

T = TypeVar("T")


class BlockReason(Exception):
    """A reason not to act on a subject. Checks raise it; it blocks in plans and ends actions.

    `code`: a key of BLOCK_CODES, with a next step unless `next_step` says another. `unread`: a fact
    could not be read. `held_by`: the groups that hold the subject back, in order.
    """

    def __init__(
        self, code: str, reason: str, *, next_step: str = "", unread: bool = False, held_by: tuple[str, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.next_step = next_step or BLOCK_CODES[code].next_step
        self.unread = unread
        self.held_by = held_by

    def blocked(self, address: Address, declared_at: SourceLocation) -> Blocked:
        """Return the decision that the subject may not or cannot be acted upon."""
        return Blocked(address=address, declared_at=declared_at, **vars(self))

    def blocked_or_skipped(self, address: Address, declared_at: SourceLocation, *, exact: bool) -> Blocked | Skipped:
        """Return that the subject does not qualify. `exact`: an exact name selected it."""
        if exact or self.unread:
            return self.blocked(address, declared_at)
        return Skipped(address=address, code=self.code, reason=self.reason)


class LookupNeeded(BlockReason):
    """A decision needs to know more of a partition's records: the caller answers, and asks for it again."""

    def __init__(self, partition: TopicPartition, lookups: tuple[RecordLookup, ...]) -> None:
        super().__init__("B103", f"records of {partition} were not looked up", unread=True)
        self.partition = partition
        self.lookups = lookups

    def blocked(self, address: Address, declared_at: SourceLocation) -> Blocked:
        return Undecided(address=address, declared_at=declared_at, **vars(self))


SILENT = "B109"
"""The code of all that waits for a broker's answer: its subjects have one reason, and fold."""


def unread(code: str, reason: str, fact: Unknown, *, next_step: str = "") -> BlockReason:
    """Return the reason that a fact was not read: this one, or that of a silent broker, whose subjects fold.

    Where the fact itself says what to do, as that of a journal does, that is the next step.
    """
    code, reason, next_step = (SILENT, fact.reason, "") if fact.silent else (code, reason, next_step)
    reason, _, step = reason.partition(NEXT)
    return BlockReason(code, reason, next_step=step or next_step, unread=True)


def unknown_fact(what: str, fact: Unknown) -> BlockReason:
    """Return the reason that a needed fact is unknown. `what`: its name, such as `log start`."""
    return unread("B103", f"{what} could not be read: {fact.reason}", fact)


def known(fact: T | Unknown, what: str, subject: object = "") -> T:
    """Return a fact. Raises BlockReason for Unknown, named by `what` and `subject`."""
    if isinstance(fact, Unknown):
        raise unknown_fact(f"{what} {subject}".rstrip(), fact)
    return fact


def contradiction(what: str) -> BlockReason:
    """Return the reason that facts of one scan cannot all be true, such as an end below zero."""
    return BlockReason("B104", f"the scan contradicts itself: {what}")


class Origin(StrEnum):
    """Where a reason lies, which decides how `apply` ends an action that a new decision blocks.

    MANIFESTS: nobody asks for the action any more. UNREAD: another try may read what is missing.
    CLUSTER: the cluster changed since the plan.
    """

    MANIFESTS = "manifests"
    UNREAD = "unread"
    CLUSTER = "cluster"


BLOCK_CODES = read_catalogue("reconciler.model", "block_codes.md")


def origin_of(code: str) -> Origin:
    """Return where the reason of a code lies."""
    return Origin(BLOCK_CODES[code].word or Origin.CLUSTER)
