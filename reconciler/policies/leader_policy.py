"""LeaderPolicy: which replica leads. The fields of the kind, and when an election is right."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from reconciler.model.block_reason import BlockReason
from reconciler.model.names import TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.ports import Election
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations import Operation
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership, observe_leadership
from reconciler.operations.touchable import Protection, listed_topic
from reconciler.policies import fields
from reconciler.policies.base import ExactClaim, ManifestModel, Policy, Subjects, reviewed_only_schema
from reconciler.policies.fields import optional, where
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.text.formatting import broker_ids

_UNCLEAN = where("election", {"const": "unclean"})
_SPEC_SCHEMA: dict[str, Any] = {
    "if": _UNCLEAN,
    "then": {"required": ["partitions"], "not": {"anyOf": [{"required": ["topics"]}, {"required": ["exceptTopics"]}]}},
    "else": {"required": ["topics"], "not": {"required": ["partitions"]}},
}


class LeaderPolicySpec(ManifestModel):
    """The body of a LeaderPolicy."""

    model_config = ConfigDict(json_schema_extra=_SPEC_SCHEMA)

    topics: fields.TopicSelectors | None = optional(
        "For a preferred election: exact names, globs or regex:…; internal topics included.", ["*"]
    )
    except_topics: fields.TopicSelectors | None = optional("Never these, also where topics matches them.", ["payments"])
    expect_at_most: fields.Count | None = optional("Topics selected; more is refused. 0: none is expected.", 50)
    partitions: Annotated[dict[fields.TopicName, fields.Partitions], Field(min_length=1)] | None = optional(
        "For an unclean election, and only for one: exactly these partitions.",
        {"orders": [3]},
        json_schema_extra={"propertyNames": {"pattern": fields.TOPIC_TEXT}},
    )
    election: Election = optional(
        "preferred: the first replica leads. unclean: any replica alive, records may be lost.",
        "preferred",
        Election.PREFERRED,
        strict=False,
    )
    tolerance: fields.Percent = optional(
        "Percent, per broker: below this share of its preferred partitions led elsewhere, all is satisfied.", 0, 0
    )

    def _issues(self) -> Iterator[ValidationIssue]:
        misplaced: dict[str, Any] = {"partitions": self.partitions}
        election, hint = "unclean elections", "name topics instead"
        if self.election is Election.UNCLEAN:
            misplaced = {"topics": self.topics, "exceptTopics": self.except_topics}
            election, hint = "preferred elections", "an unclean election names exact partitions"
            if self.partitions is None:
                message = "an unclean election loses records, so it needs exact `partitions`"
                yield ValidationIssue("M209", message, ("election",), "partitions: {orders: [3]}")
        for key, value in misplaced.items():
            if value is not None:
                yield ValidationIssue("M209", f"`{key}` is for {election}", (key,), hint, on_key=True)
        if self.election is Election.PREFERRED and self.topics is None:
            yield ValidationIssue("M209", "a preferred election needs `topics`", hint='topics: ["*"] for all')


class LeaderPolicy(Policy):
    """The leader that each partition should have."""

    model_config = ConfigDict(json_schema_extra=reviewed_only_schema(_UNCLEAN))

    OPERATION: ClassVar[type[Operation]] = ElectLeader

    kind: Literal["LeaderPolicy"] = Field(description="Which kind of manifest this is.", examples=["LeaderPolicy"])
    spec: LeaderPolicySpec = Field(description="Which partitions, and who should lead them.")

    def reviewed_only(self) -> Iterator[tuple[FieldPath, str, str]]:
        if self.spec.election is Election.UNCLEAN:
            yield ("spec", "election"), "an unclean election loses records", "mode: merge"

    @property
    def selectors(self) -> tuple[Selector, ...]:
        if self.spec.partitions is not None:
            return tuple(map(Selector, self.spec.partitions))
        return self.spec.topics or ()

    @property
    def compares_subjects(self) -> bool:
        """`tolerance` is a share of all partitions that prefer a broker."""
        return self.spec.tolerance > 0

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        return None if self.spec.partitions is None else frozenset(self.spec.partitions.get(name, ()))

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
        """Yield a decision for each selected partition, or for each topic with unknown partitions.

        Where less than `tolerance` of what prefers a broker is led elsewhere, all is satisfied.
        """
        leaderships: dict[TopicPartition, ObservedLeadership] = {}
        unknown_count: float = 0
        for topic in subjects:
            try:
                partitions = list(self.partitions(listed_topic(topic, snapshot)))
            except BlockReason as error:
                unknown_count += math.inf if error.unread else 0
                yield error.blocked(self.address_of(topic), self.declared_at)
                continue
            for partition, missing in partitions:
                try:
                    if missing is not None:
                        raise missing
                    leaderships[partition] = observe_leadership(partition, snapshot.partitions.get(partition))
                except BlockReason as error:
                    unknown_count += error.unread
                    yield error.blocked(self.address_of(topic, partition.partition), self.declared_at)
        tolerated = _brokers_within(self.spec.tolerance, leaderships.values(), unknown_count)
        for partition, observed in leaderships.items():
            yield self._decide(partition, observed, snapshot, tolerated)

    def _decide(
        self, partition: TopicPartition, observed: ObservedLeadership, snapshot: ClusterSnapshot, tolerated: set[int]
    ) -> Decision:
        address = self.address_of(partition.topic, partition.partition)
        preferred, unclean = observed.replicas[0], self.spec.election is Election.UNCLEAN
        if observed.leader is not None and (unclean or observed.leader == preferred or preferred in tolerated):
            return Satisfied(address, f"broker {observed.leader} leads; the first replica is on broker {preferred}")
        # Without a quorum no controller fences a broker that is down. That one is silent never makes an election unclean.
        answering = tuple(broker for broker in snapshot.brokers if broker not in snapshot.silent_brokers)
        elect, reason = _unclean(observed, snapshot.brokers) if unclean else _preferred(observed, answering)
        if not elect:
            return Waiting(address=address, declared_at=self.declared_at, reason=f"{partition} {reason}")
        return ElectLeader(
            address=address,
            declared_at=self.declared_at,
            reason=reason,
            mode=self.mode,
            partition=partition,
            election=self.spec.election,
            leader_wanted=None if unclean else preferred,
            seen=observed,
        )


def _preferred(observed: ObservedLeadership, alive: tuple[int, ...]) -> tuple[bool, str]:
    """Return whether the first replica can be elected, and why."""
    preferred = observed.replicas[0]
    leader = "has no leader" if observed.leader is None else f"is led by {observed.leader}"
    if preferred in alive and preferred in observed.in_sync:
        return True, f"{leader}, and broker {preferred}, the first replica, is alive and in sync"
    missing = "is not alive" if preferred not in alive else "is not in sync"
    # Without the number of the present leader, all that wait for one broker have the same reason.
    others = leader if observed.leader is None else "is led by another broker"
    return False, f"{others}; its preferred leader, broker {preferred}, {missing}"


def _unclean(observed: ObservedLeadership, alive: tuple[int, ...]) -> tuple[bool, str]:
    """Return whether every leader loses records, since no in-sync replica is alive, and why."""
    candidates = [broker for broker in observed.replicas if broker in alive]
    in_sync = [broker for broker in candidates if broker in observed.in_sync]
    if in_sync:
        return False, f"has no leader; broker {in_sync[0]} is alive and in sync, so it will lead without loss"
    if not candidates:
        return False, "has no leader; no replica is alive"
    loss = f"what only {broker_ids(observed.in_sync)} had is lost" if observed.in_sync else "what is lost is not known"
    reason = "leaderless in this scan, since when is not known (a restarting broker looks just the same)"
    return True, f"{reason}; alive, but not in sync: {broker_ids(candidates)}; {loss}"


def _brokers_within(tolerance: float, leaderships: Collection[ObservedLeadership], unknown_count: float) -> set[int]:
    """Return the brokers with less than `tolerance` percent of their partitions led elsewhere.

    Theirs are those that prefer them; unknown ones count as led by them: less is done, not more.
    """
    if tolerance == 0:
        return set()
    preferring = Counter(observed.replicas[0] for observed in leaderships)
    displaced = (observed for observed in leaderships if observed.leader not in (None, observed.replicas[0]))
    elsewhere = Counter(observed.replicas[0] for observed in displaced)
    return {broker for broker, n in preferring.items() if 100 * elsewhere[broker] < tolerance * (n + unknown_count)}
