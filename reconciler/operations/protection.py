"""What loses nothing whatever a policy says: the Cluster's `protect`, and the journal's topic.

Asked when a plan is made and again, with the manifests of that moment, when it is applied.
"""

from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.names import Address, SourceLocation
from reconciler.model.selector import Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The protections of one Cluster manifest, with its address and place. `journal`: the journal's topic."""

    cluster: Address
    declared_at: SourceLocation
    topics: tuple[Selector, ...] = ()
    groups: tuple[Selector, ...] = ()
    journal: str | None = None

    def of_topic(self, topic: str) -> BlockReason | None:
        """Return why `topic` may lose no records; None: nothing protects it."""
        if topic == self.journal:
            return BlockReason.of(
                "B201",
                f"{topic} is the journal of this tool: its records are the audit trail and the clock of `every`",
                next_step="take it out of topics; its own retention rules it",
            )
        return self._protected(f"topic {topic}", topic, self.topics)

    def of_group(self, group: str) -> BlockReason | None:
        """Return why `group` may not be removed; None: nothing protects it."""
        return self._protected(f"group {quote_group(group)}", group, self.groups)

    def _protected(self, subject: str, name: str, selectors: tuple[Selector, ...]) -> BlockReason | None:
        # A name that is written just like a pattern counts as matched by it: that can only protect more.
        matching = (selector for selector in selectors if selector.matches(name) or selector.text == name)
        selector = next(matching, None)
        if selector is None:
            return None
        return BlockReason.of("B106", f"{subject} is protected by {self.cluster} ({self.declared_at}): {selector.text}")
