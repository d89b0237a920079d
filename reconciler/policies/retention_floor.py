"""RetentionFloor: which records a topic keeps. Everything about the kind: fields, facts, and how a floor is decided.

Each `keep` rule yields an offset and the floor is the lowest of them, never above the stable end of
the scan: a second rule can only keep more. Then come the consumers that would miss records, and the
clock of `every`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, assert_never

from pydantic import AfterValidator, BaseModel, Field, model_validator

from reconciler.model.block_reason import BlockReason, contradiction, quote_group, unknown_fact
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ConsumerPosition, PartitionFacts, Unknown
from reconciler.operations import Operation
from reconciler.operations.consumers import GroupExcluder, group_excluder, lagging, unknown_consumers, verified_offset
from reconciler.operations.delete_records import (
    AcceptedLag,
    DeleteRecords,
    LagPolicy,
    ObservedPartition,
    Preconditions,
    observe_partition,
)
from reconciler.operations.protection import Protection
from reconciler.operations.topic_checks import (
    cleanup_policy_block,
    system_topic_block,
    unknown_partition,
    unknown_topic,
)
from reconciler.policies.base import STRICT, ExactClaim, Policy, Selection, Subjects, WriteAccess, claims_by_name
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
    matches_pattern,
)
from reconciler.policies.validation import ValidationIssue, raise_cross_field
from reconciler.text.formatting import format_duration, format_instant

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
        raise_cross_field(self._issues())
        return self

    def _issues(self) -> Iterator[ValidationIssue]:
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
        raise_cross_field(self._issues())
        return self

    def _issues(self) -> Iterator[ValidationIssue]:
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

    NEEDS: ClassVar[frozenset[str]] = frozenset({"topics", "groups", "consumers"})
    OPERATION: ClassVar[type[Operation]] = DeleteRecords

    kind: Literal["RetentionFloor"] = Field(description="Which kind of manifest this is.", examples=["RetentionFloor"])
    spec: RetentionFloorSpec = Field(description="Which topics, and what of them stays.")

    @property
    def every_ms(self) -> int | None:
        return self.spec.every_ms

    @property
    def expect_at_most(self) -> int | None:
        return self.spec.expect_at_most

    @property
    def awaited_groups(self) -> tuple[str, ...]:
        return self.spec.keep.unread_by or ()

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.keep.since is not None and self.spec.keep.since > now_ms:
            message = f"`since` lies in the future: {format_instant(self.spec.keep.since)}"
            hint = "every record that exists today would go"
            yield ValidationIssue(code="M206", message=message, at=("spec", "keep", "since"), hint=hint)

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

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        """A `fromOffset` map selects just its own partitions."""
        selected = self.spec.partitions if self.spec.keep.from_offset is None else self.spec.keep.from_offset
        return None if selected is None else frozenset(selected)

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        spec = self.spec
        request = TopicRequest(
            topics=spec.topics,
            except_topics=spec.except_topics or (),
            patterns_skip_underscore=True,
            partitions=self.claimed_partitions(""),
            offsets=True,
            instants_ms=LookupTimes.of(spec.keep, observed_at_ms, spec.drift_after).asked,
            readers=True,
            named_groups=frozenset(spec.keep.unread_by or ()),
            last_purge=spec.every_ms is not None,
        )
        return ScanRequest(topics=(request,), topic_records=True, cluster_records=True)

    def select(self, snapshot: ClusterSnapshot) -> Selection:
        return self._select(
            snapshot.topics.keys(), self.spec.topics, self.spec.except_topics, patterns_skip_underscore=True
        )

    def protection_of(self, name: str, protection: Protection) -> BlockReason | None:
        return protection.of_topic(name)

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """One decision for each selected partition, or for each topic that as a whole does not qualify.

        A partition of which nothing can go (its stable end at or below the log start, as after a purge
        past an open transaction) is satisfied whatever its consumers do.
        """
        since = self.spec.keep.since
        if since is not None and since > snapshot.observed_at_ms:
            yield BlockReason(
                code="B210",
                reason=f"since {format_instant(since)} is in the future: nothing that is there now would be kept",
                next_step="name an instant that has passed, or use newerThan",
            ).blocked(self.address, self.declared_at)
            return
        evaluator = FloorEvaluator.of(self, snapshot)
        selected = self.claimed_partitions("")
        for topic, exact in subjects.items():
            address = self.address_of(topic)
            facts = snapshot.topics.get(topic)
            if facts is None:
                yield unknown_topic(topic, snapshot).blocked(address, self.declared_at)
            elif block := system_topic_block(facts) or cleanup_policy_block(facts):
                yield block.blocked_or_skipped(address, self.declared_at, exact=exact)
            elif isinstance(facts.partitions, Unknown):
                block = unknown_fact(f"the number of partitions of {topic}", facts.partitions)
                yield block.blocked(address, self.declared_at)
            else:
                for number in range(facts.partitions) if selected is None else sorted(selected):
                    partition = TopicPartition(topic, number)
                    if number < facts.partitions:
                        yield evaluator.decide(partition)
                    else:
                        block = unknown_partition(partition, facts.partitions)
                        yield block.blocked_or_skipped(self.address_of(topic, number), self.declared_at, exact=exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupTimes:
    """The instants that a floor asks offsets for, in epoch ms; None: no rule needs that one.

    `newer_than_before` and `lagging` tell where the floor was `driftAfter` ago. Never below 0: brokers read negative timestamps
    as questions of another sort (-1: the end, -2: the start).
    """

    newer_than: int | None
    newer_than_before: int | None
    since: int | None
    lagging: int | None

    @classmethod
    def of(cls, keep: Keep, observed_at_ms: int, drift_after_ms: int) -> "LookupTimes":
        lagging = max(0, observed_at_ms - drift_after_ms)
        return cls(
            newer_than=None if keep.newer_than is None else max(0, observed_at_ms - keep.newer_than),
            newer_than_before=None if keep.newer_than is None else max(0, lagging - keep.newer_than),
            since=None if keep.since is None else max(0, keep.since),
            lagging=None if keep.last is None and keep.unread_by is None else lagging,
        )

    @property
    def asked(self) -> tuple[int, ...]:
        """Sorted, each once: what the scan is asked and what the answers are looked up by."""
        instants = (self.newer_than, self.newer_than_before, self.since, self.lagging)
        return tuple(sorted({instant for instant in instants if instant is not None}))


@dataclass(frozen=True, slots=True)
class RuleOffset:
    """The first offset that one rule keeps. `before`: its offset `driftAfter` ago, the same for a fixed rule.

    `words`: a sentence such as `newerThan 7d resolves to offset 98213`.
    """

    offset: int
    before: int
    name: str
    words: str


def rules(
    keep: Keep, instants: LookupTimes, facts: PartitionFacts, seen: ObservedPartition
) -> tuple[RuleOffset, ...] | BlockReason:
    """Return all rules of `keep` on one partition, in the manifest's order, none above the stable end.

    A BlockReason says why one of them has no offset.
    """
    answers = _answers(instants, facts, seen.stable_end)
    if isinstance(answers, BlockReason):
        return answers
    end = seen.stable_end
    offsets = []
    if instants.newer_than is not None and instants.newer_than_before is not None:
        name = f"newerThan {format_duration(keep.newer_than or 0)}"
        now = answers[instants.newer_than]
        before = answers[instants.newer_than_before]
        offsets.append(RuleOffset(_capped(now, end), _capped(before, end), name, _resolved(name, now, end, "younger")))
    if keep.since is not None and instants.since is not None:
        name = f"since {format_instant(keep.since)}"
        now = answers[instants.since]
        offsets.append(RuleOffset(_capped(now, end), _capped(now, end), name, _resolved(name, now, end, "as new")))
    if keep.last is not None:
        offset = max(0, end - keep.last)
        before = max(0, min(end, _lagging(instants, answers, end)) - keep.last)
        name = f"last {keep.last}"
        offsets.append(RuleOffset(offset, min(offset, before), name, f"{name} begins at offset {offset} (end {end})"))
    if keep.from_offset is not None:
        offset = keep.from_offset[facts.partition.partition]
        if offset > end:
            return BlockReason(
                code="B208",
                reason=f"fromOffset {offset} is above the end {end}: it was meant for another topic or another time",
                next_step="correct the offset; it is never lowered on its own",
            )
        offsets.append(RuleOffset(offset, offset, f"fromOffset {offset}", f"fromOffset says {offset}"))
    if keep.unread_by is not None:
        slowest = _slowest(keep.unread_by, facts, seen)
        if isinstance(slowest, BlockReason):
            return slowest
        position, group = slowest
        offset = min(position, end)
        words = f"unreadBy: group {quote_group(group)} has read up to offset {position}"
        if position > end:
            words += f", above the end {end} of what is committed"
        before = min(offset, _lagging(instants, answers, end))
        offsets.append(RuleOffset(offset, before, f"unreadBy {quote_group(group)}", words))
    return tuple(offsets)


def _answers(instants: LookupTimes, facts: PartitionFacts, end: int) -> Mapping[int, int | None] | BlockReason:
    """The offset for each asked instant. A negative number is "unknown" in a client's answer, never an offset."""
    answers: dict[int, int | None] = {}
    for instant in instants.asked:
        answer = facts.offsets_at.get(instant, NOT_ASKED)
        if isinstance(answer, Unknown):
            return unknown_fact(f"the first offset of {facts.partition} at or after {format_instant(instant)}", answer)
        if answer is not None and answer < 0:
            return contradiction(f"offset {answer} of {facts.partition} for {format_instant(instant)} (end {end})")
        answers[instant] = answer
    return answers


def _capped(answer: int | None, end: int) -> int:
    return end if answer is None else min(answer, end)


def _lagging(instants: LookupTimes, answers: Mapping[int, int | None], end: int) -> int:
    assert instants.lagging is not None
    return _capped(answers[instants.lagging], end)


def _resolved(name: str, answer: int | None, end: int, than: str) -> str:
    if answer is None:
        return f"{name}: no record is {than}, so up to the end {end}"
    if answer > end:
        return f"{name} resolves to offset {answer}, above the end {end} of what is committed"
    return f"{name} resolves to offset {answer}"


def _slowest(named: tuple[str, ...], facts: PartitionFacts, seen: ObservedPartition) -> tuple[int, str] | BlockReason:
    """Return (position, group) of the named group that has read least; each must prove its position."""
    if isinstance(facts.readers, Unknown):
        return unknown_fact(f"the groups that read {facts.partition}", facts.readers)
    position_by_group: dict[str, ConsumerPosition] = {reader.group: reader for reader in facts.readers}
    positions = []
    for group in named:
        position = verified_offset(group, position_by_group.get(group), facts, seen.topic_id, seen.high_watermark)
        if isinstance(position, BlockReason):
            return position
        positions.append((position, group))
    return min(positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorEvaluator:
    """One policy on one snapshot: what holds for all of its partitions, worked out once."""

    policy: RetentionFloor
    snapshot: ClusterSnapshot
    instants: LookupTimes
    is_excluded: GroupExcluder
    blind_spot: BlockReason | None
    guard: Preconditions

    @classmethod
    def of(cls, policy: RetentionFloor, snapshot: ClusterSnapshot) -> Self:
        spec = policy.spec
        is_excluded = group_excluder(spec.except_groups or ())
        return cls(
            policy=policy,
            snapshot=snapshot,
            instants=LookupTimes.of(spec.keep, snapshot.observed_at_ms, spec.drift_after),
            is_excluded=is_excluded,
            blind_spot=unknown_consumers(snapshot, is_excluded),
            guard=Preconditions(
                consumers=spec.consumers,
                named=tuple(sorted(spec.keep.unread_by or ())),
                except_groups=tuple(sorted(selector.text for selector in spec.except_groups or ())),
                every_ms=spec.every_ms,
            ),
        )

    def decide(self, partition: TopicPartition) -> Decision:
        """From facts to the decision: what the rules say, which consumers would miss records, whether it is time."""
        decision = self._decide(partition, self.snapshot.partitions.get(partition))
        if isinstance(decision, BlockReason):
            address = self.policy.address_of(partition.topic, partition.partition)
            return decision.blocked(address, self.policy.declared_at)
        return decision

    def _decide(self, partition: TopicPartition, facts: PartitionFacts | None) -> Decision | BlockReason:
        keep = self.policy.spec.keep
        address = self.policy.address_of(partition.topic, partition.partition)
        observed = observe_partition(partition, facts)
        if isinstance(observed, BlockReason):
            return observed
        assert facts is not None
        if keep.topic_id is not None and keep.topic_id != observed.topic_id:
            return BlockReason(
                code="B209",
                reason=f"{partition.topic} has topic id {observed.topic_id}, the manifest's offsets are for {keep.topic_id}",
                next_step="the topic was deleted and made again: read its offsets anew and correct topicId",
            )
        from_offset = None if keep.from_offset is None else keep.from_offset[partition.partition]
        if observed.stable_end <= observed.log_start and (from_offset is None or from_offset <= observed.stable_end):
            return Satisfied(address)
        offsets = rules(keep, self.instants, facts, observed)
        if isinstance(offsets, BlockReason):
            return offsets
        lowest = min(offsets, key=lambda rule: rule.offset)
        if lowest.offset <= observed.log_start:
            return Satisfied(address)
        target = self._respect_consumers(lowest.offset, facts, observed)
        if isinstance(target, BlockReason):
            return target
        before_offset, accepted, clamp = target
        if before_offset <= observed.log_start:
            return Satisfied(address)
        others = (f"{rule.name} alone: {rule.offset}" for rule in offsets if rule is not lowest)
        reason = "; ".join((lowest.words, *others, *clamp))
        if self.guard.every_ms is not None:
            waiting = self._wait_for_clock(address, facts, self.guard.every_ms, reason)
            if waiting is not None:
                return waiting
        return DeleteRecords(
            address=address,
            declared_at=self.policy.declared_at,
            reason=reason,
            mode=self.policy.mode,
            partition=partition,
            before_offset=before_offset,
            seen=observed,
            guard=replace(self.guard, accepted=accepted) if accepted else self.guard,
            vouched=keep.unread_by is not None and self.guard.consumers is LagPolicy.BLOCK and not accepted,
            # A fixed floor always counts as drift, a moving one once it was due `driftAfter` ago.
            drift=observed.log_start < min(before_offset, *(rule.before for rule in offsets)),
        )

    def _respect_consumers(
        self, floor: int, facts: PartitionFacts, observed: ObservedPartition
    ) -> tuple[int, tuple[AcceptedLag, ...], tuple[str, ...]] | BlockReason:
        """Return target, consumers that skip records and may, and words about a clamp; or which group is behind."""
        if self.blind_spot is not None:
            return self.blind_spot
        if isinstance(facts.readers, Unknown):
            return unknown_fact(f"the groups that read {facts.partition}", facts.readers)
        if isinstance(facts.readers_below, Unknown):
            return unknown_fact(f"the groups that read {facts.partition}", facts.readers_below)
        if floor > facts.readers_below:
            return BlockReason(
                code="B213",
                reason=f"readers were looked for below offset {facts.readers_below} only, and the floor is {floor}",
                next_step="let the scan look at all readers up to the end, then plan again",
                unread=True,
            )
        behind = lagging(facts.readers, floor, frozenset(self.guard.named))
        excluded = tuple(reader for reader in behind if self.is_excluded(reader.group))
        others = tuple(reader for reader in behind if not self.is_excluded(reader.group))
        match self.guard.consumers:
            case LagPolicy.BLOCK:
                if others:
                    return _lag_block(others, floor, observed.log_start)
                return floor, _accepted(excluded, floor), ()
            case LagPolicy.CLAMP:
                if not others:
                    return floor, _accepted(excluded, floor), ()
                last = _furthest_behind(others)
                words = f"clamped to {last.committed}, where group {quote_group(last.group)} stands"
                return last.committed, _accepted(excluded, last.committed), (words,)
            case LagPolicy.IGNORE:
                return floor, _accepted(behind, floor), ()
            case _:
                assert_never(self.guard.consumers)

    def _wait_for_clock(
        self, address: Address, facts: PartitionFacts, every_ms: int, reason: str
    ) -> Waiting | BlockReason | None:
        """More than `every` has passed since the last purge: sooner is not allowed, later is fine (Kafka
        Streams' `repartition.purge.interval.ms`).
        """
        last = facts.last_purge_ms
        if isinstance(last, Unknown):
            return unknown_fact(f"when {facts.partition} was last purged", last)
        if last is None or self.snapshot.observed_at_ms - last > every_ms:
            return None
        return Waiting(
            address=address,
            declared_at=self.policy.declared_at,
            reason=f"{reason}; last purged at {format_instant(last)}, and purges of a partition are at least "
            f"{format_duration(every_ms)} apart",
            until_ms=last + every_ms + 1,
        )


def _furthest_behind(readers: tuple[ConsumerPosition, ...]) -> ConsumerPosition:
    return min(readers, key=lambda reader: (reader.committed, reader.group))


def _lag_block(readers: tuple[ConsumerPosition, ...], floor: int, log_start: int) -> BlockReason:
    last = _furthest_behind(readers)
    skipped = floor - max(last.committed, log_start)
    where = "has no position here, but reads the topic," if last.implied else f"is at {last.committed}"
    more = len(readers) - 1
    others = "" if not more else "; 1 more group is behind" if more == 1 else f"; {more:,} more groups are behind"
    return BlockReason(
        code="B204",
        reason=f"group {quote_group(last.group)} {where} and would skip {skipped:,} records below {floor}{others}",
        next_step="let it catch up, say consumers: clamp, or name it in exceptGroups",
    )


def _accepted(readers: tuple[ConsumerPosition, ...], before_offset: int) -> tuple[AcceptedLag, ...]:
    return tuple(sorted(AcceptedLag(r.group, r.committed) for r in readers if r.committed < before_offset))
