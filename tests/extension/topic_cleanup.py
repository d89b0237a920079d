"""A policy kind that only tests have: the cleanup policy of topics, in one file."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from reconciler.model.block_reason import BlockReason, unknown_fact
from reconciler.model.plan import Decision, Satisfied
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations.base import Operation
from reconciler.operations.protection import Protection
from reconciler.operations.topic_checks import unknown_topic
from reconciler.policies.base import STRICT, ExactClaim, Policy, Selection, Subjects, WriteAccess, claims_by_name
from reconciler.policies.fields import TopicSelectors
from tests.extension.alter_cleanup import AlterCleanup, ObservedTopic


class TopicCleanupSpec(BaseModel):
    """The body of a TopicCleanup."""

    model_config = STRICT

    topics: TopicSelectors = Field(description="Which topics.", examples=[["orders"]])
    cleanup: Literal["delete", "compact"] = Field(description="Their cleanup policy.", examples=["delete"])


class TopicCleanup(Policy):
    """The cleanup policy that topics should have."""

    OPERATION: ClassVar[type[Operation]] = AlterCleanup

    kind: Literal["TopicCleanup"] = Field(description="Which kind of manifest this is.", examples=["TopicCleanup"])
    spec: TopicCleanupSpec = Field(description="Which topics, and their cleanup policy.")

    def exact_claims(self) -> Iterator[ExactClaim]:
        return claims_by_name("topics", self.spec.topics, None)

    def write_access(self) -> WriteAccess:
        return WriteAccess(resource="topic", selectors=self.spec.topics)

    def scan_request(self, observed_at_ms: int) -> ScanRequest:  # noqa: ARG002
        return ScanRequest(topics=(TopicRequest(topics=self.spec.topics, offsets=True),))

    def select(self, snapshot: ClusterSnapshot) -> Selection:
        return self._select(snapshot.topics.keys(), self.spec.topics, None)

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        return protection.of_topic(name)

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        for topic in subjects:
            address = self.address_of(topic)
            facts = snapshot.topics.get(topic)
            if facts is None:
                yield unknown_topic(topic, snapshot).blocked(address, self.declared_at)
            elif isinstance(facts.cleanup_policy, Unknown) or isinstance(facts.topic_id, Unknown):
                unread = facts.cleanup_policy if isinstance(facts.cleanup_policy, Unknown) else facts.topic_id
                assert isinstance(unread, Unknown)
                yield unknown_fact(f"the configuration of {topic}", unread).blocked(address, self.declared_at)
            elif facts.cleanup_policy == frozenset({self.spec.cleanup}):
                yield Satisfied(address)
            else:
                yield AlterCleanup(
                    address=address,
                    declared_at=self.declared_at,
                    reason=f"cleanup.policy is {','.join(sorted(facts.cleanup_policy))}",
                    mode=self.mode,
                    topic=topic,
                    cleanup=self.spec.cleanup,
                    seen=ObservedTopic(topic_id=facts.topic_id, cleanup=",".join(sorted(facts.cleanup_policy))),
                )
