"""Which topics and groups may be touched: what protects them, and which topics lose no records."""

from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason, known, unread
from reconciler.model.names import Address, SourceLocation
from reconciler.model.selector import Selector, SelectorSet
from reconciler.model.snapshot import ClusterSnapshot, KeptForever, TopicFacts
from reconciler.text.escape import quoted
from reconciler.text.suggest import suggestion_of_many


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The protections of one Cluster manifest, and its location. `journal`: the journal's topic.

    A pattern protects also the name that is written like it: that can only protect more.
    """

    cluster: Address
    declared_at: SourceLocation
    topics: SelectorSet
    groups: SelectorSet
    journal: str | None

    def of_topic(self, topic: str) -> BlockReason | None:
        """Return why `topic` may lose no records; None: nothing protects it."""
        if topic == self.journal:
            reason = f"{topic} is the journal of this tool: its records are the audit trail and the clock of `every`"
            return BlockReason("B201", reason, next_step="take it out of topics; its own retention rules it")
        return self._protected(f"topic {topic}", self.topics.covering(topic))

    def of_group(self, group: str) -> BlockReason | None:
        """Return why `group` may not be removed; None: nothing protects it."""
        return self._protected(f"group {quoted(group)}", self.groups.covering(group))

    def _protected(self, subject: str, selector: Selector | None) -> BlockReason | None:
        if selector is None:
            return None
        reason = f"{subject} is protected by {self.cluster} ({self.declared_at}): {selector.text}"
        return BlockReason("B106", reason)


def listed_topic(topic: str, snapshot: ClusterSnapshot) -> TopicFacts:
    """Return the facts of a topic. Raises BlockReason if it is absent or hidden by ACLs."""
    facts = snapshot.topics.get(topic)
    if facts is not None:
        return facts
    hidden = snapshot.topics_incomplete
    state = "not on the cluster, or hidden from this principal" if hidden is None else f"not listed: {hidden.reason}"
    hint = suggestion_of_many(topic, snapshot.topics, before="; ", quote=quoted)
    reason = f"topic {topic} is {state}{hint}"
    raise BlockReason("B101", reason) if hidden is None else unread("B101", reason, hidden)


def system_topic_block(facts: TopicFacts) -> BlockReason | None:
    """Return the block of Kafka's own topics: no name and no pattern makes them lose records."""
    if not facts.is_system:
        return None
    reason = f"{facts.name} belongs to Kafka itself: losing records of it can destroy a cluster's state"
    return BlockReason("B201", reason)


def check_records_deletable(facts: TopicFacts, *, exact: bool) -> None:
    """Raise BlockReason for Kafka's own topics, or without delete in cleanup.policy (KIP-107).

    `exact` False: a pattern selects the topic, and patterns select no changelogs.
    """
    if block := system_topic_block(facts):
        raise block
    policy = known(facts.cleanup_policy, "the cleanup policy of", facts.name)
    if "delete" not in policy:
        reason = f"cleanup.policy of {facts.name} is {','.join(sorted(policy)) or 'empty'}"
        who = "brokers" if policy else "brokers before Kafka 4.2"  # KAFKA-19112: empty means that no record expires
        raise BlockReason("B202", f"{reason}: {who} delete no records of it")
    if "compact" in policy and not exact:
        raise BlockReason("B214", f"{facts.name} is compacted, and only a pattern selects it")


def check_not_kept_forever(facts: TopicFacts) -> None:
    """Raise BlockReason for a topic that its own configuration keeps for ever: only an exact name takes it.

    What reads such a topic, as Debezium its schema history and ksqlDB its commands, has no group.
    """
    if known(facts.kept_forever, "the retention of", facts.name) is KeptForever.TOPIC:
        reason = (
            f"{facts.name} keeps records for five years or more by its own retention.ms, and only a pattern selects it"
        )
        raise BlockReason("B215", reason)
