"""An operation that only tests have: it sets `cleanup.policy` of a topic, in one file."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.description import Description, Fact
from reconciler.model.names import Address
from reconciler.model.outcome import Status
from reconciler.model.ports import ItemResult
from reconciler.model.snapshot import ClusterSnapshot, TopicFacts
from reconciler.operations.base import Limit, LimitUsage, Operation, beyond_review
from reconciler.operations.error_meanings import ErrorTable, Right
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.operations.sendable import Effect, RunContext
from reconciler.text.phrase import name
from tests.fakes.cluster import FakeCluster

ALTERED_TOPICS = Limit("altered_topics", 2, "topics altered")


class ClusterWithConfigs(FakeCluster):
    """The fake cluster with the gateway method of this operation and a method to read the result."""

    def read_cleanup(self, topics: Iterable[str]) -> Mapping[str, TopicFacts]:
        return {
            topic: TopicFacts(
                name=topic,
                topic_id=self.topics[topic].topic_id,
                internal=False,
                partitions=len(self.topics[topic].partitions),
                cleanup_policy=self.topics[topic].cleanup,
            )
            for topic in topics
            if topic in self.topics
        }

    def alter_cleanup(self, cleanups: Mapping[str, str]) -> Mapping[str, ItemResult]:
        for topic, cleanup in cleanups.items():
            self.topics[topic].cleanup = frozenset({cleanup})
        return dict.fromkeys(cleanups, ItemResult("NONE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTopic:
    """The topic as the scan saw it."""

    topic_id: str
    cleanup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCleanup(Operation):
    """Set the cleanup policy of one topic."""

    OPERATION: ClassVar[str] = "alter_cleanup"
    API: ClassVar[tuple[str, int, int]] = ("IncrementalAlterConfigs", 44, 0)
    TITLE: ClassVar[str] = "alteration"
    HEADING: ClassVar[str] = "cleanup policies altered"
    DRIFT_TYPE: ClassVar[str] = "cleanup"
    DRIFT_TEXT: ClassVar[str] = "the cleanup policy is another one"
    LIMITS: ClassVar[tuple[Limit, ...]] = (ALTERED_TOPICS,)
    BATCH_SIZE: ClassVar[int] = 10
    APPLIED: ClassVar[str] = "altered, shown by the configuration"
    SATISFIED: ClassVar[str] = "the policy is set already"
    ERRORS: ClassVar[ErrorTable] = {}
    RIGHT: ClassVar[Right] = Right("ALTER_CONFIGS", "topic")

    topic: str
    cleanup: str
    seen: ObservedTopic

    def __post_init__(self) -> None:
        self.check_subject(self.topic)

    @property
    def irreversible(self) -> bool:
        return False

    def request(self) -> Mapping[str, str | int]:
        return {"topic": self.topic, "cleanup": self.cleanup}

    def approved(self) -> Mapping[str, object]:
        return {"topic_id": self.seen.topic_id, "cleanup": self.seen.cleanup}

    def impact(self) -> Mapping[str, object]:
        return {"records_removed_max": 0}

    def describe(self) -> Description:
        return Description(subject=(name(self.topic),), change=(f"{self.seen.cleanup} to {self.cleanup}",))

    @classmethod
    def count_effects(cls, addresses: Collection[Address]) -> str:
        return f"policies of {len(addresses)} topics altered"

    def explain(self) -> tuple[Fact, ...]:
        return (("Request", (f"cleanup.policy={self.cleanup}",)), ("Undo", ("possible",)))

    def limit_usage(self) -> Iterator[LimitUsage]:
        yield LimitUsage(ALTERED_TOPICS)

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, AlterCleanup) or reviewed.cleanup != self.cleanup:
            return beyond_review("the reviewed plan does not set this policy")
        return self

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.topics.get(self.topic)
        is_set = facts is not None and facts.cleanup_policy == frozenset({self.cleanup})
        return "the policy is set already" if is_set else None

    def check(self, observation: Observation) -> None:
        facts = observation.topics.get(self.topic)
        if facts is None or facts.topic_id != self.seen.topic_id:
            raise RecheckFailure(Status.STALE, f"topic {self.topic} is gone")
        known(facts.cleanup_policy, "the cleanup policy")
        if self.effect(observation).missing is None:
            raise RecheckFailure(Status.SATISFIED, "the policy is set already")

    @classmethod
    def observe(cls, actions: Sequence["AlterCleanup"], context: RunContext) -> Observation:
        gateway: Any = context.gateway
        topics = gateway.read_cleanup([action.topic for action in actions])
        return Observation(observed_at_ms=context.clock(), topics=topics)

    @classmethod
    def call_gateway(cls, actions: Sequence["AlterCleanup"], gateway: Any) -> Mapping[str, ItemResult]:
        results: Mapping[str, ItemResult] = gateway.alter_cleanup({action.topic: action.cleanup for action in actions})
        return results

    def effect(self, observation: Observation) -> Effect:
        facts = observation.topics.get(self.topic)
        if facts is None:
            return Effect(None, "the topic is gone")
        missing = "the configuration shows another policy"
        reached = facts.cleanup_policy == frozenset({self.cleanup})
        return Effect(f"cleanup.policy {facts.cleanup_policy}", None if reached else missing)
