"""Why a subject is not acted upon, before anyone says to whom: planning turns it into Blocked or Skipped, recheck into an Outcome.

Here is the house rule for what does not qualify: an exact name is blocked, a pattern's find is skipped, and a fact that could not
be read blocks whoever selected it. Which subjects qualify is decided per kind.
"""

from dataclasses import dataclass
from typing import Self

from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.snapshot import Unknown
from reconciler.text.escape import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReason:
    """One reason not to act. `code` is in model/block_codes.py; `unread`: because a fact could not be read."""

    code: str
    reason: str
    next_step: str
    unread: bool = False

    @classmethod
    def of(cls, code: str, reason: str, *, next_step: str = "", unread: bool = False) -> Self:
        """Return the reason, with the next step of its code unless it has one of its own."""
        return cls(code=code, reason=reason, next_step=next_step or REASONS[code].next_step, unread=unread)

    def blocked(self, address: Address, declared_at: SourceLocation) -> Blocked:
        """The decision that this subject may not or cannot be acted upon."""
        return Blocked(
            address=address,
            declared_at=declared_at,
            code=self.code,
            reason=self.reason,
            next_step=self.next_step,
            unread=self.unread,
        )

    def blocked_or_skipped(self, address: Address, declared_at: SourceLocation, *, exact: bool) -> Blocked | Skipped:
        """The decision that the subject does not qualify. A pattern's find is skipped, unless that is only what could not be read."""
        if exact or self.unread:
            return self.blocked(address, declared_at)
        return Skipped(address=address, reason=self.reason)


def unknown_fact(what: str, fact: Unknown) -> BlockReason:
    """A needed fact is unread. `what` names it: `log start`, `the commits of group "x"`."""
    return BlockReason.of("B103", f"{what} could not be read: {fact.reason}", unread=True)


def contradiction(what: str) -> BlockReason:
    """Facts of one scan that cannot all be true, such as an end below zero."""
    return BlockReason.of("B104", f"the scan contradicts itself: {what}")


def quote_group(group: str) -> str:
    """A group id in a sentence. Ids are arbitrary text: in these quotes none can look like another, nor like the sentence."""
    return quoted(group)
