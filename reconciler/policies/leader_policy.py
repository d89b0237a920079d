"""LeaderPolicy: which replica leads. The fields of the kind, and when an election is right."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from reconciler.model.block_reason import BlockReason
from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import Operation
from reconciler.operations.checks import SubjectBlocked, listed_topic
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership, observe_leadership
from reconciler.operations.protection import Protection
from reconciler.policies.base import ExactClaim, Policy, Spec, Subjects
from reconciler.policies.fields import TOPIC_TEXT, Partitions, Percent, TopicName, TopicSelectors
from reconciler.policies.validation import ValidationIssue

_SPEC_SCHEMA: dict[str, Any] = {
    "if": {"properties": {"election": {"const": "unclean"}}, "required": ["election"]},
    "then": {
        "required": ["partitions"],
        "not": {"anyOf": [{"required": ["topics"]}, {"required": ["exceptTopics"]}]},
    },
    "else": {"required": ["topics"], "not": {"required": ["partitions"]}},
}


class LeaderPolicySpec(Spec):
    """The body of a LeaderPolicy."""

    model_config = ConfigDict(json_schema_extra=_SPEC_SCHEMA)

    topics: TopicSelectors | None = Field(
        default=None,
        description="For a preferred election: exact names, globs or regex:…; internal topics included.",
        examples=[["*"]],
    )
    except_topics: TopicSelectors | None = Field(
        default=None, description="Never these, whatever topics says.", examples=[["payments"]]
    )
    partitions: Annotated[dict[TopicName, Partitions], Field(min_length=1)] | None = Field(
        default=None,
        description="For an unclean election, and only for one: exactly these partitions.",
        examples=[{"orders": [3]}],
        json_schema_extra={"propertyNames": {"pattern": TOPIC_TEXT}},
    )
    election: Election = Field(
        default=Election.PREFERRED,
        strict=False,
        description="preferred: the first replica leads. unclean: any replica alive, records may be lost.",
        examples=["preferred"],
    )
    tolerance: Percent = Field(
        default=0,
        description="Percent, per broker: below this share of its preferred partitions led elsewhere, all is satisfied.",
        examples=[0],
    )

    def _issues(self) -> Iterator[ValidationIssue]:
        if self.election is Election.UNCLEAN:
            if self.partitions is None:
                hint = "partitions: {orders: [3]}"
                message = "an unclean election loses records, so it needs exact `partitions`"
                yield ValidationIssue(code="M209", message=message, at=("election",), hint=hint)
            for key, value in (("topics", self.topics), ("exceptTopics", self.except_topics)):
                if value is not None:
                    message = f"`{key}` is for preferred elections"
                    hint = "an unclean election names exact partitions"
                    yield ValidationIssue(code="M209", message=message, at=(key,), hint=hint, on_key=True)
            return
        if self.partitions is not None:
            message = "`partitions` is for unclean elections"
            yield ValidationIssue(
                code="M209", message=message, at=("partitions",), hint="name topics instead", on_key=True
            )
        if self.topics is None:
            message = "a preferred election needs `topics`"
            yield ValidationIssue(code="M209", message=message, hint='topics: ["*"] for all')


class LeaderPolicy(Policy):
    """The leader that each partition should have."""

    OPERATION: ClassVar[type[Operation]] = ElectLeader

    kind: Literal["LeaderPolicy"] = Field(description="Which kind of manifest this is.", examples=["LeaderPolicy"])
    spec: LeaderPolicySpec = Field(description="Which partitions, and who should lead them.")

    @property
    def selectors(self) -> tuple[Selector, ...]:
        if self.spec.partitions is not None:
            return tuple(map(Selector, self.spec.partitions))
        return self.spec.topics or ()

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        return None if self.spec.partitions is None else frozenset(self.spec.partitions[name])

    def exact_claims(self) -> Iterator[ExactClaim]:
        if self.spec.partitions is None:
            return super().exact_claims()
        exact = self.spec.partitions.items()
        return (ExactClaim(topic, numbers, ("spec", "partitions", topic)) for topic, numbers in exact)

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        """Metadata only: no offsets, so no Spark."""
        if self.spec.partitions is None:
            return ScanRequest(topics=(TopicRequest(topics=self.selectors, except_topics=self.excluding),))
        exact = sorted(self.spec.partitions.items())
        return ScanRequest(
            topics=tuple(TopicRequest(topics=(Selector(topic),), partitions=frozenset(ns)) for topic, ns in exact)
        )

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        """Moving a leader loses nothing, electing one that is out of sync loses records."""
        return protection.of_topic(name) if self.spec.election is Election.UNCLEAN else None

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """One decision for each selected partition, or for each topic whose partitions are not known.

        `tolerance` is measured per broker, over all partitions of these subjects that prefer it: where
        less than that share is led by another broker, all of them are satisfied.
        """
        leaderships: dict[TopicPartition, ObservedLeadership] = {}
        unknown_count: float = 0
        for topic in subjects:
            try:
                partitions = list(self.partitions(listed_topic(topic, snapshot)))
            except SubjectBlocked as error:
                unknown_count += math.inf if error.block.unread else 0
                yield error.block.blocked(self.address_of(topic), self.declared_at)
                continue
            for partition, block in partitions:
                if block is None:
                    try:
                        leaderships[partition] = observe_leadership(partition, snapshot.partitions.get(partition))
                    except SubjectBlocked as error:
                        block = error.block
                if block is not None:
                    unknown_count += block.unread
                    yield block.blocked(self.address_of(topic, partition.partition), self.declared_at)
        tolerated = _brokers_within(self.spec.tolerance, leaderships.values(), unknown_count)
        for partition, observed in leaderships.items():
            preferred = observed.replicas[0]
            if self.spec.election is Election.UNCLEAN:
                yield self._unclean(partition, observed, snapshot.brokers)
            elif observed.leader is not None and (observed.leader == preferred or preferred in tolerated):
                yield self._satisfied(partition)
            else:
                yield self._preferred(partition, observed, snapshot.brokers)

    def _preferred(self, partition: TopicPartition, observed: ObservedLeadership, alive: tuple[int, ...]) -> Decision:
        preferred = observed.replicas[0]
        leader = "has no leader" if observed.leader is None else f"is led by {observed.leader}"
        if preferred in alive and preferred in observed.in_sync:
            reason = f"{leader}, and broker {preferred}, the first replica, is alive and in sync"
            return self._election(partition, observed, reason)
        missing = "is not alive" if preferred not in alive else "is not in sync"
        return self._waiting(partition, f"{leader}; its preferred leader, broker {preferred}, {missing}")

    def _unclean(self, partition: TopicPartition, observed: ObservedLeadership, alive: tuple[int, ...]) -> Decision:
        """Elect only where no leader can come back without loss: leaderless, and no in-sync replica is alive."""
        if observed.leader is not None:
            return self._satisfied(partition)
        candidates = [broker for broker in observed.replicas if broker in alive]
        in_sync = [broker for broker in candidates if broker in observed.in_sync]
        if in_sync:
            why = f"broker {in_sync[0]} is alive and in sync, so it will lead without loss"
            return self._waiting(partition, f"has no leader; {why}")
        if not candidates:
            return self._waiting(partition, "has no leader; no replica is alive")
        lost = f"what only {_listed(observed.in_sync)} had is lost" if observed.in_sync else "what is lost is not known"
        reason = "leaderless in this scan, since when is not known (a restarting broker looks just the same)"
        reason += f"; alive, but not in sync: {_listed(candidates)}; {lost}"
        return self._election(partition, observed, reason)

    def _satisfied(self, partition: TopicPartition) -> Satisfied:
        return Satisfied(self.address_of(partition.topic, partition.partition))

    def _waiting(self, partition: TopicPartition, reason: str) -> Waiting:
        address = self.address_of(partition.topic, partition.partition)
        return Waiting(address=address, declared_at=self.declared_at, reason=f"{partition} {reason}")

    def _election(self, partition: TopicPartition, observed: ObservedLeadership, reason: str) -> ElectLeader:
        return ElectLeader(
            address=self.address_of(partition.topic, partition.partition),
            declared_at=self.declared_at,
            reason=reason,
            mode=self.mode,
            partition=partition,
            election=self.spec.election,
            leader_wanted=observed.replicas[0] if self.spec.election is Election.PREFERRED else None,
            seen=observed,
        )


def _brokers_within(tolerance: float, leaderships: Iterable[ObservedLeadership], unknown_count: float) -> set[int]:
    """Return the brokers with less than `tolerance` percent of their preferred partitions led elsewhere.

    Partitions that are not known count as led by their preferred leader: less is done, not more.
    """
    if tolerance == 0:
        return set()
    preferring: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for observed in leaderships:
        preferred = observed.replicas[0]
        preferring[preferred] += 1
        elsewhere[preferred] += observed.leader is not None and observed.leader != preferred
    return {
        broker for broker, count in preferring.items() if 100 * elsewhere[broker] < tolerance * (count + unknown_count)
    }


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
