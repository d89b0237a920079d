"""RetentionFloor: which records a topic keeps. Everything about the kind: fields, needs, and how a floor is decided.

Each `keep` rule yields an offset and the floor is the lowest of them, never above the stable end of the scan. A second rule can
only keep more.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from reconciler.model.block_reason import BlockReason, unknown_fact
from reconciler.model.names import TopicPartition
from reconciler.model.plan import Decision
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.snapshot import ClusterSnapshot, TopicFacts, Unknown
from reconciler.operations.delete_records import LagPolicy
from reconciler.operations.topic_checks import system_topic_block, unknown_partition, unknown_topic
from reconciler.policies.base import STRICT, ExactClaim, Policy, WriteAccess, claims_by_name
from reconciler.policies.fields import (
    PATTERN_TEXT,
    AtLeastOne,
    Count,
    Duration,
    GroupNames,
    Instant,
    Offsets,
    Partitions,
    Selectors,
    TopicSelectors,
    format_instant,
    matches_pattern,
)
from reconciler.policies.floor_partition import FloorEvaluator
from reconciler.policies.floor_rules import LookupTimes
from reconciler.policies.validation import ValidationIssue, raise_cross_field

DEFAULT_EVERY_MS = 30_000
"""Kafka Streams' `repartition.purge.interval.ms`."""

_RULES = ("newerThan", "since", "last", "fromOffset", "unreadBy")


TopicId = Annotated[
    str,
    AfterValidator(matches_pattern(r"[A-Za-z0-9_-]{22}", "22 characters, as kafka-topics --describe prints it")),
    Field(json_schema_extra={"pattern": "^[A-Za-z0-9_-]{22}$"}),
]


class Keep(BaseModel):
    """What stays. At least one rule; everything that any rule keeps stays."""

    model_config = STRICT | {
        "json_schema_extra": {
            "anyOf": [{"required": [rule]} for rule in _RULES],
            "dependentRequired": {"topicId": ["fromOffset"]},
        }
    }

    newer_than: Duration | None = Field(
        default=None, description="Records younger than this at the time of the scan.", examples=["7d"]
    )
    since: Instant | None = Field(
        default=None,
        description="Records from this instant on; an instant in the future is refused.",
        examples=["2026-11-01T00:00:00Z"],
    )
    last: AtLeastOne | None = Field(
        default=None, description="The last N offsets of each partition.", examples=[1_000_000]
    )
    from_offset: Offsets | None = Field(
        default=None,
        description="The first offset kept, by partition; exact topic names only. Selects just the partitions it names.",
        examples=[{"0": 1200, "1": 900}],
    )
    topic_id: TopicId | None = Field(
        default=None,
        description="With fromOffset on one topic: the incarnation of the topic that the offsets were read from.",
        examples=["6J3kzQ5hTgmPq0T9oYfR1w"],
    )
    unread_by: GroupNames | None = Field(
        default=None,
        description="Whatever one of these groups has not yet committed past.",
        examples=[["billing", "shipping"]],
    )

    @model_validator(mode="after")
    def _rules(self) -> Self:
        raise_cross_field(self._problems())
        return self

    def _problems(self) -> Iterator[ValidationIssue]:
        if not any((self.newer_than is not None, self.since is not None, self.last, self.from_offset, self.unread_by)):
            hint = f"say what stays: {', '.join(_RULES)}"
            yield ValidationIssue(code="M214", message="`keep` holds no rule, so nothing would stay", hint=hint)
        if self.topic_id is not None and self.from_offset is None:
            message = "`topicId` pins the offsets of `fromOffset`, and there are none"
            yield ValidationIssue(
                code="M204", message=message, at=("topicId",), hint="add fromOffset or leave topicId out"
            )


_ANY_PATTERN = {"properties": {"topics": {"contains": {"pattern": PATTERN_TEXT}}}, "required": ["topics"]}
_FROM_OFFSET = {"properties": {"keep": {"required": ["fromOffset"]}}, "required": ["keep"]}
_TOPIC_ID = {"properties": {"keep": {"required": ["topicId"]}}, "required": ["keep"]}
_SPEC_SCHEMA: dict[str, Any] = {
    "allOf": [
        {"if": _ANY_PATTERN, "then": {"required": ["expectAtMost"], "not": _FROM_OFFSET}},
        {"if": _FROM_OFFSET, "then": {"not": {"required": ["partitions"]}}},
        {"if": _TOPIC_ID, "then": {"properties": {"topics": {"maxItems": 1}}}},
        {"properties": {"topics": {"items": {"not": {"pattern": r"^__[a-zA-Z0-9._-]*$"}}}}},
    ]
}


class RetentionFloorSpec(BaseModel):
    """The body of a RetentionFloor."""

    model_config = STRICT | {"json_schema_extra": _SPEC_SCHEMA}

    topics: TopicSelectors = Field(
        description="Topics that may lose records: exact names, globs or regex:…. No pattern selects a name with a leading _.",
        examples=[["clicks-*"]],
    )
    except_topics: TopicSelectors | None = Field(
        default=None, description="Never these, whatever topics says.", examples=[["clicks-audit"]]
    )
    expect_at_most: Count | None = Field(
        default=None, description="Topics matched; required beside a pattern, more is refused.", examples=[40]
    )
    partitions: Partitions | None = Field(default=None, description="Only these; default: all.", examples=[[0, 1]])
    keep: Keep = Field(
        description="What stays: at least one rule. Only what no rule keeps may go.", examples=[{"newerThan": "7d"}]
    )
    consumers: LagPolicy = Field(
        default=LagPolicy.BLOCK,
        strict=False,
        description="When another group is still behind the floor: block, clamp the floor to it, or ignore it.",
        examples=["block"],
    )
    except_groups: Selectors | None = Field(
        default=None, description="Groups whose positions are not looked at.", examples=[["console-consumer-*"]]
    )
    every: Duration | None = Field(
        default=None,
        description="Least time between two purges of a partition; default 30s with unreadBy, none otherwise.",
        examples=["30s"],
    )
    drift_after: Duration = Field(
        default="24h",
        validate_default=True,
        description="How far a moving floor may lag before it counts as drift.",
        examples=["24h"],
    )

    @property
    def every_ms(self) -> int | None:
        """Least time between two purges of a partition; None: no clock."""
        if self.every is None and self.keep.unread_by is not None:
            return DEFAULT_EVERY_MS
        return self.every

    @model_validator(mode="after")
    def _rules(self) -> Self:
        raise_cross_field(self._problems())
        return self

    def _problems(self) -> Iterator[ValidationIssue]:
        patterns = [index for index, selector in enumerate(self.topics) if selector.is_pattern]
        for index, selector in enumerate(self.topics):
            if not selector.is_pattern and selector.text.startswith("__"):
                message = f"`{selector.text}` is a system topic and may never lose records"
                yield ValidationIssue(code="M205", message=message, at=("topics", index), hint="leave it out")
        if patterns and self.expect_at_most is None:
            message = f"`{self.topics[patterns[0]].text}` is a pattern and `expectAtMost` is missing"
            hint = "add expectAtMost: how many topics it may match"
            yield ValidationIssue(code="M201", message=message, at=("topics", patterns[0]), hint=hint)
        if self.keep.from_offset is None:
            return
        if patterns:
            message = "`fromOffset` needs exact topic names: an offset means nothing on another topic"
            hint = f"`{self.topics[patterns[0]].text}` is a pattern"
            yield ValidationIssue(code="M202", message=message, at=("keep", "fromOffset"), hint=hint, on_key=True)
        if self.partitions is not None:
            message = "`fromOffset` selects its own partitions"
            yield ValidationIssue(
                code="M203", message=message, at=("partitions",), hint="leave partitions out", on_key=True
            )
        if self.keep.topic_id is not None and len(self.topics) > 1:
            message = f"one `topicId` cannot pin {len(self.topics)} topics"
            yield ValidationIssue(
                code="M204", message=message, at=("keep", "topicId"), hint="one manifest for each topic"
            )


class RetentionFloor(Policy):
    """Which records of which topics stay; the rest may go."""

    kind: Literal["RetentionFloor"] = Field(description="Which kind of manifest this is.", examples=["RetentionFloor"])
    spec: RetentionFloorSpec = Field(description="Which topics, and what of them stays.")

    @property
    def every_ms(self) -> int | None:
        return self.spec.every_ms

    def exact_claims(self) -> Iterator[ExactClaim]:
        numbers = self.spec.partitions if self.spec.keep.from_offset is None else tuple(self.spec.keep.from_offset)
        return claims_by_name("topics", self.spec.topics, self.spec.except_topics, numbers)

    def write_access(self) -> WriteAccess:
        return WriteAccess(
            resource="topic",
            selectors=self.spec.topics,
            excluding=self.spec.except_topics or (),
            patterns_skip_underscore=True,
        )

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.keep.since is not None and self.spec.keep.since > now_ms:
            message = f"`since` lies in the future: {format_instant(self.spec.keep.since)}"
            hint = "every record that exists today would go"
            yield ValidationIssue(code="M206", message=message, at=("spec", "keep", "since"), hint=hint)


Subjects = Mapping[str, bool]
"""Names to decide, each with whether an exact selector named it. An exact name may be one that the cluster does not list."""


def needs(policy: RetentionFloor, observed_at_ms: int) -> ScanRequest:
    """What this floor wants to know, the limits' denominators included."""
    spec = policy.spec
    want = TopicRequest(
        topics=spec.topics,
        except_topics=spec.except_topics or (),
        patterns_skip_underscore=True,
        partitions=partitions_of(spec),
        offsets=True,
        instants_ms=LookupTimes.of(spec.keep, observed_at_ms, spec.drift_after).asked,
        readers=True,
        named_groups=frozenset(spec.keep.unread_by or ()),
        last_purge=spec.every_ms is not None,
    )
    return ScanRequest(topics=(want,), topic_records=True, cluster_records=True)


def partitions_of(spec: RetentionFloorSpec) -> frozenset[int] | None:
    """Partition numbers that the floor selects of each topic; None: all. A `fromOffset` map selects just its own."""
    selected = spec.partitions if spec.keep.from_offset is None else spec.keep.from_offset
    return None if selected is None else frozenset(selected)


def decide(policy: RetentionFloor, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
    """One decision per selected partition, or one per topic where the topic as a whole does not qualify.

    `subjects` are topics. A partition from which nothing can go (its stable end at or below the log start, as after a purge past an
    open transaction) is satisfied whatever its readers do.
    """
    since = policy.spec.keep.since
    if since is not None and since > snapshot.observed_at_ms:
        yield BlockReason(
            code="B210",
            reason=f"since {format_instant(since)} is in the future: nothing that is there now would be kept",
            next_step="name an instant that has passed, or use newerThan",
        ).blocked(policy.address, policy.declared_at)
        return
    floor = FloorEvaluator.of(policy, snapshot)
    wanted = partitions_of(policy.spec)
    for topic, exact in subjects.items():
        address = floor.address(topic)
        facts = snapshot.topics.get(topic)
        if facts is None:
            yield unknown_topic(topic, snapshot).blocked(address, policy.declared_at)
        elif objection := system_topic_block(facts) or cleanup_policy_block(facts):
            yield objection.blocked_or_skipped(address, policy.declared_at, exact=exact)
        elif isinstance(facts.partitions, Unknown):
            objection = unknown_fact(f"the number of partitions of {topic}", facts.partitions)
            yield objection.blocked(address, policy.declared_at)
        else:
            for number in range(facts.partitions) if wanted is None else sorted(wanted):
                partition = TopicPartition(topic, number)
                if number < facts.partitions:
                    yield floor.decide(partition)
                else:
                    objection = unknown_partition(partition, facts.partitions)
                    yield objection.blocked_or_skipped(floor.address(topic, number), policy.declared_at, exact=exact)


def cleanup_policy_block(facts: TopicFacts) -> BlockReason | None:
    """Brokers delete records only where the cleanup policy deletes (KIP-107: POLICY_VIOLATION otherwise)."""
    policy = facts.cleanup_policy
    if isinstance(policy, Unknown):
        return unknown_fact(f"the cleanup policy of {facts.name}", policy)
    if "delete" in policy:
        return None
    return BlockReason(
        code="B202",
        reason=f"cleanup.policy of {facts.name} is {','.join(sorted(policy)) or 'empty'}: brokers delete no records of it",
        next_step="take it out of topics, or give it a cleanup.policy that deletes",
    )
