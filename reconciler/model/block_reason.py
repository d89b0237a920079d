"""Reasons not to act on a subject. Planning turns one into Blocked or Skipped, recheck into an Outcome.

A subject that does not qualify is blocked where its exact name selected it, and skipped where a pattern did. A fact that could
not be read always blocks. Which subjects qualify is decided per kind.
"""

from dataclasses import asdict, dataclass
from typing import Self

from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.snapshot import Unknown
from reconciler.text.escape import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReason:
    """One reason not to act. `code`: a key of `block_codes.REASONS`; `unread`: because a fact could not be read."""

    code: str
    reason: str
    next_step: str
    unread: bool = False

    @classmethod
    def of(cls, code: str, reason: str, *, next_step: str = "", unread: bool = False) -> Self:
        """Return the reason, with the next step of its code unless it has one of its own."""
        return cls(code=code, reason=reason, next_step=next_step or REASONS[code].next_step, unread=unread)

    def blocked(self, address: Address, declared_at: SourceLocation) -> Blocked:
        """Return the decision that the subject may not or cannot be acted upon."""
        return Blocked(address=address, declared_at=declared_at, **asdict(self))

    def blocked_or_skipped(self, address: Address, declared_at: SourceLocation, *, exact: bool) -> Blocked | Skipped:
        """Return the decision that the subject does not qualify. `exact`: an exact name selected it, and no pattern."""
        if exact or self.unread:
            return self.blocked(address, declared_at)
        return Skipped(address=address, reason=self.reason)


def unknown_fact(what: str, fact: Unknown) -> BlockReason:
    """Return the reason that a needed fact is unknown. `what` names it: `log start`, `the commits of group "x"`."""
    return BlockReason.of("B103", f"{what} could not be read: {fact.reason}", unread=True)


def contradiction(what: str) -> BlockReason:
    """Return the reason that facts of one scan cannot all be true, such as an end below zero."""
    return BlockReason.of("B104", f"the scan contradicts itself: {what}")


def quote_group(group: str) -> str:
    """Quote a group id for a sentence. Ids are arbitrary text: quoted, none looks like another or like the sentence."""
    return quoted(group)
