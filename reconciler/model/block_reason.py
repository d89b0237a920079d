"""Why a subject is not acted upon, before anyone says to whom: planning turns it into Blocked or Skipped, recheck into an Outcome.

Here is the house rule for what does not qualify: an exact name is blocked, a pattern's find is skipped, and a fact that could not
be read blocks whoever selected it. Which subjects qualify is decided per kind.
"""

from dataclasses import dataclass

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.snapshot import Unknown
from reconciler.text.escape import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReason:
    """One reason not to act. `code` is in model/reasons.py; `unread`: because a fact could not be read."""

    code: str
    reason: str
    next_step: str
    unread: bool = False

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
    return BlockReason(
        code="B103",
        reason=f"{what} could not be read: {fact.reason}",
        next_step="see that brokers are up and that the rights to read are there (`doctor` tells), then plan again",
        unread=True,
    )


def contradiction(what: str) -> BlockReason:
    """Facts of one scan that cannot all be true, such as an end below zero."""
    return BlockReason(
        code="B104",
        reason=f"the scan contradicts itself: {what}",
        next_step="plan again; if it stays, compare with Kafka's own tools before trusting either",
    )


def quote_group(group: str) -> str:
    """A group id in a sentence. Ids are arbitrary text: in these quotes none can look like another, nor like the sentence."""
    return quoted(group)
