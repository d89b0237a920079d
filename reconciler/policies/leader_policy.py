"""LeaderPolicy: which replica leads. Everything about the kind: fields, needs, and when an election is right."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from reconciler.model.block_reason import BlockReason, unknown_fact
from reconciler.model.election import Election
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations import Operation
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership
from reconciler.operations.protection import Protection
from reconciler.operations.topic_checks import leadership, unknown_partition, unknown_topic
from reconciler.policies.base import STRICT, ExactClaim, Policy, Selection, Subjects, WriteAccess, claims_by_name
from reconciler.policies.fields import TOPIC_TEXT, Partitions, Percent, TopicName, TopicSelectors
from reconciler.policies.validation import ValidationIssue, raise_cross_field

_SPEC_SCHEMA: dict[str, Any] = {
    "if": {"properties": {"election": {"const": "unclean"}}, "required": ["election"]},
    "then": {
        "required": ["partitions"],
        "not": {"anyOf": [{"required": ["topics"]}, {"required": ["exceptTopics"]}]},
    },
    "else": {"required": ["topics"], "not": {"required": ["partitions"]}},
}


class LeaderPolicySpec(BaseModel):
    """The body of a LeaderPolicy."""

    model_config = STRICT | {"json_schema_extra": _SPEC_SCHEMA}

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

    @model_validator(mode="after")
    def _rules(self) -> Self:
        raise_cross_field(self._issues())
        return self

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

    def exact_claims(self) -> Iterator[ExactClaim]:
        yield from claims_by_name("topics", self.spec.topics or (), self.spec.except_topics)
        for topic, numbers in (self.spec.partitions or {}).items():
            yield ExactClaim(topic, numbers, ("spec", "partitions", topic))

    def write_access(self) -> WriteAccess:
        return WriteAccess(resource="cluster")

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        """Metadata only: no offsets, so no Spark."""
        spec = self.spec
        if spec.partitions is not None:
            exact = sorted(spec.partitions.items())
            return ScanRequest(
                topics=tuple(TopicRequest(topics=(Selector(topic),), partitions=frozenset(ns)) for topic, ns in exact)
            )
        return ScanRequest(topics=(TopicRequest(topics=spec.topics or (), except_topics=spec.except_topics or ()),))

    def select(self, snapshot: ClusterSnapshot) -> Selection:
        if self.spec.partitions is not None:
            return self._select(snapshot.topics.keys(), tuple(map(Selector, self.spec.partitions)), None)
        return self._select(snapshot.topics.keys(), self.spec.topics or (), self.spec.except_topics)

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        """Moving a leader loses nothing, electing one that is out of sync loses records."""
        return protection.of_topic(name) if self.spec.election is Election.UNCLEAN else None

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        return None if self.spec.partitions is None else frozenset(self.spec.partitions[name])

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """One decision for each selected partition, or for each topic whose partitions are not known.

        `tolerance` is measured per broker, over all partitions of these subjects that prefer it: where
        less than that share is led by another broker, all of them are satisfied.
        """
        observed: list[tuple[Address, TopicPartition, ObservedLeadership]] = []
        unknown_count: float = 0
        for topic in subjects:
            for number, found in _leaderships(self, topic, snapshot):
                address = self.address_of(topic, number)
                if isinstance(found, BlockReason):
                    if found.unread:  # of a whole topic the number of partitions is unknown
                        unknown_count += 1 if number >= 0 else math.inf
                    yield found.blocked(address, self.declared_at)
                else:
                    observed.append((address, TopicPartition(topic, number), found))
        if self.spec.election is Election.UNCLEAN:
            for address, partition, leadership_ in observed:
                yield _unclean(self, address, partition, leadership_, snapshot.brokers)
            return
        tolerated = _tolerated([leadership_ for _, _, leadership_ in observed], unknown_count, self.spec.tolerance)
        for address, partition, leadership_ in observed:
            leader, preferred = leadership_.leader, leadership_.replicas[0]
            if leader == preferred or (leader is not None and preferred in tolerated):
                yield Satisfied(address)
            else:
                yield _preferred(self, address, partition, leadership_, snapshot.brokers)


def _leaderships(
    policy: LeaderPolicy, topic: str, snapshot: ClusterSnapshot
) -> Iterator[tuple[int, ObservedLeadership | BlockReason]]:
    """What is known of each selected partition of `topic`, by number; -1: one objection for the whole topic."""
    facts = snapshot.topics.get(topic)
    if facts is None:
        yield -1, unknown_topic(topic, snapshot)
        return
    if isinstance(facts.partitions, Unknown):
        yield -1, unknown_fact(f"the number of partitions of {topic}", facts.partitions)
        return
    wanted = policy.spec.partitions
    for number in range(facts.partitions) if wanted is None else sorted(wanted[topic]):
        partition = TopicPartition(topic, number)
        if number < facts.partitions:
            yield number, leadership(partition, snapshot.partitions.get(partition))
        else:
            yield number, unknown_partition(partition, facts.partitions)


def _tolerated(known: Iterable[ObservedLeadership], doubtful: float, tolerance: float) -> set[int]:
    """Brokers of whose preferred partitions too few are led elsewhere. Doubtful ones count as led rightly: less is done, not more."""
    if tolerance == 0:
        return set()
    preferring: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for seen in known:
        preferring[seen.replicas[0]] += 1
        elsewhere[seen.replicas[0]] += seen.leader is not None and seen.leader != seen.replicas[0]
    return {b for b, count in preferring.items() if 100 * elsewhere[b] < tolerance * (count + doubtful)}


def _preferred(
    policy: LeaderPolicy, address: Address, partition: TopicPartition, seen: ObservedLeadership, alive: tuple[int, ...]
) -> Decision:
    wanted = seen.replicas[0]
    led = "has no leader" if seen.leader is None else f"is led by {seen.leader}"
    if wanted not in alive or wanted not in seen.in_sync:
        missing = "is not alive" if wanted not in alive else "is not in sync"
        reason = f"{partition} {led}; its preferred leader, broker {wanted}, {missing}"
        return Waiting(address=address, declared_at=policy.declared_at, reason=reason)
    return ElectLeader(
        address=address,
        declared_at=policy.declared_at,
        reason=f"{led}, and broker {wanted}, the first replica, is alive and in sync",
        mode=policy.mode,
        partition=partition,
        election=Election.PREFERRED,
        leader_wanted=wanted,
        seen=seen,
    )


def _unclean(
    policy: LeaderPolicy, address: Address, partition: TopicPartition, seen: ObservedLeadership, alive: tuple[int, ...]
) -> Decision:
    """Only for a partition that nothing else can bring back: leaderless, and no in-sync replica alive to lead it without loss."""
    if seen.leader is not None:
        return Satisfied(address)
    candidates = [broker for broker in seen.replicas if broker in alive]
    clean = [broker for broker in candidates if broker in seen.in_sync]
    if clean or not candidates:
        why = (
            f"broker {clean[0]} is alive and in sync, so it will lead without loss" if clean else "no replica is alive"
        )
        return Waiting(address=address, declared_at=policy.declared_at, reason=f"{partition} has no leader; {why}")
    lost = f"what only {_listed(seen.in_sync)} had is lost" if seen.in_sync else "what is lost is not known"
    return ElectLeader(
        address=address,
        declared_at=policy.declared_at,
        reason=f"leaderless in this scan, since when is not known (a restarting broker looks just the same); "
        f"alive, but not in sync: {_listed(candidates)}; {lost}",
        mode=policy.mode,
        partition=partition,
        election=Election.UNCLEAN,
        leader_wanted=None,
        seen=seen,
    )


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
