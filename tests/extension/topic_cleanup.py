"""A policy kind that only tests have: the cleanup policy of topics, in one file."""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from pydantic import Field

from reconciler.model.action import Mode
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.plan import Decision, Satisfied
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.operations.base import Operation
from reconciler.operations.touchable import listed_topic
from reconciler.policies.base import ManifestModel, Policy, Subjects
from reconciler.policies.fields import TopicSelectors
from reconciler.policies.validation import ValidationIssue
from tests.extension.alter_cleanup import AlterCleanup, ObservedTopic


class TopicCleanupSpec(ManifestModel):
    """The body of a TopicCleanup."""

    topics: TopicSelectors = Field(description="Which topics.", examples=[["orders"]])
    cleanup: Literal["delete", "compact"] = Field(description="Their cleanup policy.", examples=["delete"])
    until_ms: int | None = Field(default=None, description="A made-up rule about time.", examples=[1])


class TopicCleanup(Policy):
    """The cleanup policy that topics should have."""

    OPERATION: ClassVar[type[Operation]] = AlterCleanup

    kind: Literal["TopicCleanup"] = Field(description="Which kind of manifest this is.", examples=["TopicCleanup"])
    spec: TopicCleanupSpec = Field(description="Which topics, and their cleanup policy.")

    @property
    def every_ms(self) -> int | None:
        return 30_000 if self.mode is Mode.CONTINUOUS else None

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.until_ms is not None and self.spec.until_ms < now_ms:
            yield ValidationIssue(code="M206", message="too late", at=("spec", "untilMs"), hint="a later time")

    def scan_request(self, observed_at_ms: int) -> ScanRequest:  # noqa: ARG002
        return ScanRequest(topics=(TopicRequest(topics=self.spec.topics, offsets=True),))

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        for topic in subjects:
            address = self.address_of(topic)
            try:
                facts = listed_topic(topic, snapshot)
                cleanup_policy = known(facts.cleanup_policy, "the configuration of", topic)
                topic_id = known(facts.topic_id, "the configuration of", topic)
            except BlockReason as error:
                yield error.blocked(address, self.declared_at)
                continue
            if cleanup_policy == frozenset({self.spec.cleanup}):
                yield Satisfied(address)
            else:
                yield AlterCleanup(
                    address=address,
                    declared_at=self.declared_at,
                    reason=f"cleanup.policy is {','.join(sorted(cleanup_policy))}",
                    mode=self.mode,
                    topic=topic,
                    cleanup=self.spec.cleanup,
                    seen=ObservedTopic(topic_id=topic_id, cleanup=",".join(sorted(cleanup_policy))),
                )
