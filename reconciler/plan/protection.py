"""What loses nothing whatever a policy says: the Cluster's `protect`, the journal's topic, and Kafka's own topics.

Asked when planning and again, with the manifests of that moment, when a plan is applied.
"""

from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.selector import Selector
from reconciler.policies import Cluster


@dataclass(frozen=True, slots=True)
class Protection:
    """The protections of one Cluster manifest."""

    cluster: Cluster
    topics: tuple[Selector, ...]
    groups: tuple[Selector, ...]
    journal: str | None

    @classmethod
    def of(cls, cluster: Cluster) -> "Protection":
        protect = cluster.spec.protect
        return cls(cluster, protect.topics or (), protect.groups or (), cluster.spec.journal.topic)

    def of_records(self, topic: str) -> BlockReason | None:
        """Why `topic` may lose no records; None: nothing protects it."""
        if topic == self.journal:
            return BlockReason(
                code="B201",
                reason=f"{topic} is the journal of this tool: its records are the audit trail and the clock of `every`",
                next_step="take it out of topics; its own retention rules it",
            )
        return self._named(f"topic {topic}", topic, self.topics)

    def of_group(self, group: str) -> BlockReason | None:
        """Why `group` may not be removed; None: nothing protects it."""
        return self._named(f"group {quote_group(group)}", group, self.groups)

    def _named(self, what: str, name: str, selectors: tuple[Selector, ...]) -> BlockReason | None:
        # A name that reads like a glob is meant, too, where it stands: that can only protect more.
        found = next((selector for selector in selectors if selector.matches(name) or selector.text == name), None)
        if found is None:
            return None
        return BlockReason(
            code="B106",
            reason=f"{what} is protected by {self.cluster.address} ({self.cluster.declared_at}): {found.text}",
            next_step="take it out of the policy, or out of protect in a reviewed change of its own",
        )
