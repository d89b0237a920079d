"""RetentionFloor: which records a topic keeps.

Each `keep` rule yields an offset and the floor is the lowest of them, never above the last stable offset of
the scan: a second rule can only keep more. Then come the consumers that would miss records, and the
clock of `every`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field

from reconciler.model.block_reason import SILENT, BlockReason, LookupNeeded, contradiction, known, unknown_fact
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Decision, Satisfied, Waiting
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, KeptForever, PartitionFacts, Unknown
from reconciler.operations import Operation
from reconciler.operations.consumers import name_consumer, unknown_consumers, verified_offset
from reconciler.operations.delete_records import DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.operations.delete_records.preconditions import observe_partition
from reconciler.operations.offsets_without_records import Counted, count_records, known_records
from reconciler.operations.touchable import check_not_kept_forever, check_records_deletable, listed_topic
from reconciler.policies import fields
from reconciler.policies.base import Guards, ManifestModel, Policy, Subjects, first_pattern, reviewed_only_schema
from reconciler.policies.fields import optional, required, where
from reconciler.policies.floor_consumers import FloorConsumers, FloorTarget
from reconciler.policies.timestamps import Hold, TimeRule, check_ages, find_hold, find_marker, has_none_since
from reconciler.policies.validation import FieldPath, ValidationIssue
from reconciler.text.escape import quoted
from reconciler.text.formatting import format_duration, format_instant

DEFAULT_EVERY_MS = 30_000
"""Kafka Streams' `repartition.purge.interval.ms`."""

_NAMES_OF_NO_GROUP = (
    ("\N{SNOWMAN} no group has this name",),
    ("qzjxq", "kwvyk"),
    ("qz-jx", "kw-vy"),
    ("QZJXQ", "KWVYK"),
)
"""Patterns that match all names of a part are about no group in particular, as `*`, `[a-z]*` and `regex:[^_].*`."""

_OTHERS = 16
"""Partitions of a topic that lose nothing, of which a share looks at the largest; the rest count for nothing."""
_REPARTITION = "-repartition"
"""How the names of topics end that Kafka Streams keeps for ever and purges itself."""
_RULES = ("newerThan", "since", "last", "fromOffset", "unreadBy")


TopicId = Annotated[
    str,
    AfterValidator(fields.matches_pattern(r"[A-Za-z0-9_-]{22}", "22 characters, as kafka-topics --describe prints it")),
    Field(json_schema_extra={"pattern": "^[A-Za-z0-9_-]{22}$"}),
]


class Keep(ManifestModel):
    """What stays. At least one rule; everything that any rule keeps stays."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [rule]} for rule in _RULES],
            "dependentRequired": {"topicId": ["fromOffset"]},
            "not": where("newerThan", {"pattern": fields.ZERO_TEXT}),
        }
    )

    newer_than: fields.Duration | None = optional("Records younger than this at the time of the scan.", "7d")
    since: fields.Instant | None = optional(
        "Records from this instant on; an instant in the future is refused.", "2026-11-01T00:00:00Z"
    )
    last: fields.AtLeastOne | None = optional("The last N offsets of each partition.", 1_000_000)
    from_offset: fields.Offsets | None = optional(
        "The first offset kept, by partition; exact topic names only. Selects just the partitions it names.",
        {"0": 1200, "1": 900},
    )
    topic_id: TopicId | None = optional(
        "With fromOffset on one topic: the id of the topic that the offsets were read from.", "6J3kzQ5hTgmPq0T9oYfR1w"
    )
    unread_by: fields.GroupNames | None = optional(
        "Records that one of these groups has not read: those from its committed offset on.", ["billing", "shipping"]
    )

    def _issues(self) -> Iterator[ValidationIssue]:
        if all(rule is None for name, rule in self if name != "topic_id"):
            hint = f"say what stays: {', '.join(_RULES)}"
            yield ValidationIssue("M214", "`keep` holds no rule, so nothing would stay", hint=hint)
        if self.newer_than == 0:
            message = "`newerThan: 0s` keeps nothing: every record is older than now"
            yield ValidationIssue("M217", message, ("newerThan",), "how old a record may become, such as 7d")
        if self.topic_id is not None and self.from_offset is None:
            message = "`topicId` pins the offsets of `fromOffset`, and there are none"
            yield ValidationIssue("M204", message, ("topicId",), "add fromOffset or leave topicId out")


_ANY_PATTERN = where("topics", {"contains": {"pattern": fields.PATTERN_TEXT}})
_FROM_OFFSET = where("keep", {"required": ["fromOffset"]})
_TOPIC_ID = where("keep", {"required": ["topicId"]})
_UNPINNED = where("keep", {"required": ["fromOffset"], "not": {"required": ["topicId"]}})
_EXCEPTS_ALL = where("exceptGroups", {"contains": {"pattern": r"^(\*+|regex:\.\*)$"}})
_SPEC_SCHEMA: dict[str, Any] = {
    "allOf": [
        {"if": _ANY_PATTERN, "then": {"required": ["expectAtMost"], "not": _FROM_OFFSET}},
        {"if": _FROM_OFFSET, "then": {"not": {"required": ["partitions"]}}},
        {"if": _TOPIC_ID, "then": {"properties": {"topics": {"maxItems": 1}}}},
        {"properties": {"topics": {"items": {"not": {"pattern": r"^__[a-zA-Z0-9._-]*$"}}}}},
    ]
}


class RetentionFloorSpec(ManifestModel):
    """The body of a RetentionFloor."""

    model_config = ConfigDict(json_schema_extra=_SPEC_SCHEMA)

    topics: fields.TopicSelectors = required(
        "Topics that may lose records: exact names, globs or regex:…. No pattern selects a name with a leading _.",
        ["clicks-*"],
    )
    except_topics: fields.TopicSelectors | None = optional(
        "Never these, also where topics matches them.", ["clicks-audit"]
    )
    expect_at_most: fields.Count | None = optional("Topics matched; required beside a pattern, more is refused.", 40)
    partitions: fields.Partitions | None = optional("Only these; default: all.", [0, 1])
    keep: Keep = required("What stays: at least one rule. A record may go if no rule keeps it.", {"newerThan": "7d"})
    consumers: LagPolicy = optional(
        "When another group is still behind the floor: block, clamp the floor to it, or ignore it.",
        "block",
        LagPolicy.BLOCK,
        strict=False,
    )
    except_groups: fields.Selectors | None = optional("Groups whose positions do not count.", ["console-consumer-*"])
    every: fields.Duration | None = optional(
        "Least time between two purges of a partition; default 30s with unreadBy, none otherwise.", "30s"
    )
    drift_after: fields.Duration = optional(
        "How far a moving floor may lag before it counts as drift.", "24h", "24h", validate_default=True
    )

    def lagging_ms(self, observed_at_ms: int) -> int:
        """Return when `driftAfter` began, at least 0: -1 asks for the end, -2 for the start."""
        return max(0, observed_at_ms - self.drift_after)

    def time_rules(self, observed_at_ms: int) -> Iterator[TimeRule]:
        """Yield the rules about timestamps, without what the brokers answer to them."""
        lagging_ms, newer_than, since = self.lagging_ms(observed_at_ms), self.keep.newer_than, self.keep.since
        if newer_than is not None:
            instants = max(0, observed_at_ms - newer_than), max(0, lagging_ms - newer_than)
            yield TimeRule(f"newerThan {format_duration(newer_than)}", *instants, age_ms=newer_than)
        if since is not None:
            yield TimeRule(f"since {format_instant(since)}", max(0, since), max(0, since))

    def instants_ms(self, observed_at_ms: int) -> tuple[int, ...]:
        """Return the instants that the rules need offsets for, for now and for `driftAfter` ago."""
        instants = {at for rule in self.time_rules(observed_at_ms) for at in (rule.instant_ms, rule.before_ms)}
        if self.keep.last is not None or self.keep.unread_by is not None:
            instants.add(self.lagging_ms(observed_at_ms))
        return tuple(sorted(instants))

    def _issues(self) -> Iterator[ValidationIssue]:
        for index, selector in enumerate(self.topics):
            if not selector.is_pattern and selector.text.startswith("__"):
                message = f"`{selector.text}` is a system topic and may never lose records"
                yield ValidationIssue("M205", message, ("topics", index), "leave it out")
        yield from self._unbounded_pattern("topics", self.topics, self.expect_at_most)
        if self.keep.from_offset is None:
            return
        pattern = first_pattern(self.topics)
        if pattern is not None:
            message = "`fromOffset` needs exact topic names: an offset means nothing on another topic"
            hint = f"name each topic that `{self.topics[pattern].text}` stands for"
            yield ValidationIssue("M202", message, ("keep", "fromOffset"), hint, on_key=True)
        if self.partitions is not None:
            message, hint = "`fromOffset` selects its own partitions", "leave partitions out"
            yield ValidationIssue("M203", message, ("partitions",), hint, on_key=True)
        if self.keep.topic_id is not None and len(self.topics) > 1:
            message, hint = f"one `topicId` cannot pin {len(self.topics)} topics", "one manifest for each topic"
            yield ValidationIssue("M204", message, ("keep", "topicId"), hint)


class RetentionFloor(Policy):
    """Which records of which topics stay; the rest may go."""

    model_config = ConfigDict(json_schema_extra=reviewed_only_schema({"anyOf": [_UNPINNED, _EXCEPTS_ALL]}))

    OPERATION: ClassVar[type[Operation]] = DeleteRecords
    PATTERNS_SKIP_UNDERSCORE: ClassVar[bool] = True

    kind: Literal["RetentionFloor"] = Field(description="Which kind of manifest this is.", examples=["RetentionFloor"])
    spec: RetentionFloorSpec = Field(description="Which topics, and what of them stays.")

    @property
    def every_ms(self) -> int | None:
        needs_clock = self.spec.every is None and self.spec.keep.unread_by is not None
        return DEFAULT_EVERY_MS if needs_clock else self.spec.every

    @property
    def guards(self) -> Guards:
        return {**super().guards, "exceptGroups": ("groups", self.spec.except_groups or ())}

    @property
    def awaited_groups(self) -> tuple[str, ...]:
        return self.spec.keep.unread_by or ()

    @property
    def waits_for_consumers(self) -> bool:
        return self.spec.consumers is not LagPolicy.IGNORE

    def reviewed_only(self) -> Iterator[tuple[FieldPath, str, str]]:
        keep = self.spec.keep
        if keep.from_offset is not None and keep.topic_id is None:
            yield ("spec", "keep", "fromOffset"), "a new topic of that name has the same offsets", "add topicId"
        patterns = [selector for selector in self.spec.except_groups or () if selector.is_pattern]
        for names in _NAMES_OF_NO_GROUP:
            covering = {pattern.text for name in names for pattern in patterns if pattern.matches(name)}
            if all(any(pattern.matches(name) for pattern in patterns) for name in names):
                message = f"`exceptGroups: [{', '.join(sorted(covering))}]` excepts groups of any name"
                yield ("spec", "exceptGroups"), message, "name the groups that may skip records"
                break

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.keep.since is not None and self.spec.keep.since > now_ms:
            instant = format_instant(self.spec.keep.since)
            message = f"`since` lies in the future: {instant}, so every record that exists today would go"
            hint = "name an instant that has passed, or use newerThan"
            yield ValidationIssue("M206", message, ("spec", "keep", "since"), hint)

    def claimed_partitions(self, name: str) -> frozenset[int] | None:
        selected = self.spec.partitions if self.spec.keep.from_offset is None else self.spec.keep.from_offset
        return None if selected is None else frozenset(selected)

    def scan_request(self, observed_at_ms: int) -> ScanRequest:
        spec = self.spec
        request = TopicRequest(
            topics=self.selectors,
            except_topics=self.excluding,
            patterns_skip_underscore=self.PATTERNS_SKIP_UNDERSCORE,
            partitions=self.claimed_partitions(""),
            offsets=True,
            instants_ms=spec.instants_ms(observed_at_ms),
            readers=True,
            named_groups=frozenset(spec.keep.unread_by or ()),
            every_ms=self.every_ms,
            records=True,
        )
        return ScanRequest(topics=(request,), topic_records=True, cluster_records=True)

    def decide(self, subjects: Subjects, snapshot: ClusterSnapshot) -> Iterable[Decision]:
        """Yield a decision for each selected partition, or for each topic that does not qualify.

        A partition that can lose nothing is satisfied without a check of its consumers. Its
        last stable offset is at or below the log start, as after a purge past an open transaction.
        """
        since = self.spec.keep.since
        if since is not None and since > snapshot.observed_at_ms:
            reason = f"since {format_instant(since)} is in the future: nothing that is there now would be kept"
            yield BlockReason("B210", reason).blocked(self.address, self.declared_at)
            return
        evaluator = FloorEvaluator(self, snapshot)
        for topic, exact in subjects.items():
            try:
                facts = listed_topic(topic, snapshot)
                check_records_deletable(facts, exact=exact)
                if not exact and not (self.awaited_groups and topic.endswith(_REPARTITION)):
                    check_not_kept_forever(facts)
                decisions = dict[Address, Decision]()
                for partition, missing in self.partitions(facts):
                    address = self.address_of(topic, partition.partition)
                    try:
                        decisions[address] = (
                            evaluator.decide(address, partition)
                            if missing is None
                            else missing.blocked_or_skipped(address, self.declared_at, exact=exact)
                        )
                    except BlockReason as error:
                        decisions[address] = error.blocked(address, self.declared_at)
                deletions = (decision for decision in decisions.values() if isinstance(decision, DeleteRecords))
                if losing := {deletion.partition.partition for deletion in deletions if deletion.has_share}:
                    decisions |= evaluator.ask_for_gaps(topic, losing)
                yield from decisions.values()
            except BlockReason as error:
                yield error.blocked_or_skipped(self.address_of(topic), self.declared_at, exact=exact)


@dataclass(frozen=True, slots=True)
class RuleOffset:
    """The first offset that a rule keeps.

    `before`: the one of `driftAfter` ago, the same for a fixed rule; None: a search by time found no record from then
    on. `words`: why, in a sentence. `time`: of a rule about timestamps.
    """

    offset: int
    before: int | None
    name: str
    words: str
    time: TimeRule | None = None


class FloorEvaluator:
    """One policy on one snapshot, with what is the same for all of its partitions."""

    def __init__(self, policy: RetentionFloor, snapshot: ClusterSnapshot) -> None:
        spec = policy.spec
        self.policy = policy
        self.keep = spec.keep
        self.snapshot = snapshot
        self.unknown_with_excluded = unknown_consumers(snapshot, lambda _group: False)
        self.has_transactions = snapshot.may_have_transactions
        self.guard = Preconditions(
            consumers=spec.consumers,
            named=tuple(sorted(spec.keep.unread_by or ())),
            except_groups=tuple(sorted(selector.text for selector in spec.except_groups or ())),
            every_ms=policy.every_ms,
        )
        self.consumers = FloorConsumers(self.guard, snapshot)

    def ask_for_gaps(self, topic: str, losing: Collection[int]) -> dict[Address, Decision]:
        """Return the partitions of which a share needs to know more: those that lose records, and the largest others."""
        asked, of = dict[Address, Decision](), self.snapshot.topics[topic]
        partitions = known(of.partitions, "the number of partitions of", topic)
        if not self.has_transactions or not of.records_min:  # no total counts a record of a compacted topic
            return asked
        read = [facts for n in range(partitions) if (facts := self.snapshot.partitions.get(TopicPartition(topic, n)))]
        others = sorted((facts for facts in read if facts.partition.partition not in losing), key=_size, reverse=True)
        for facts in (*(f for f in read if f.partition.partition in losing), *others[:_OTHERS]):
            try:
                count_records(facts, partitions)
            except LookupNeeded as needed:
                address = self.policy.address_of(topic, facts.partition.partition)
                asked[address] = needed.blocked(address, self.policy.declared_at)
        return asked

    def decide(self, address: Address, partition: TopicPartition) -> Decision:
        """Return what the rules, the consumers and the clock say of one partition. Raises BlockReason."""
        declared_at, facts = self.policy.declared_at, self.snapshot.partitions.get(partition)
        observed = observe_partition(partition, facts)
        assert facts is not None
        log_start, end, now_ms = observed.log_start, observed.last_stable_offset, self.snapshot.observed_at_ms
        rules = [] if self._keeps_all(partition, observed) else list(self._rules(facts, observed))
        # Of two equal ones, a rule that no timestamp of the future holds back.
        nothing_to_lose = RuleOffset(end, end, "the floor", f"what is committed ends at {end}")
        lowest = min(rules, key=lambda rule: (rule.offset, rule.time is not None), default=nothing_to_lose)
        hold = self._find_hold(lowest, facts, observed)
        target = (
            None
            if lowest.offset <= log_start
            else self.consumers.respect(lowest.offset, facts, observed.log_of(partition))
        )
        if target is None or (target.before_offset <= log_start and not target.holding):
            if hold is None:
                stays = "" if target is None else target.stays
                words = filter(None, (lowest.words, stays, f"the log starts at {log_start}"))
                return Satisfied(address, "; ".join(words))
            if hold.overdue:
                raise BlockReason("B217", hold.words, next_step=hold.next_step)
            return Waiting(address=address, declared_at=declared_at, reason=hold.words)
        reason = "; ".join(self._reasons(rules, lowest, hold, target, partition.topic))
        if target.before_offset <= log_start:  # nothing may go until the groups of a clamp have read more
            if self._is_overdue(rules, facts, observed):
                _words, next_step = self.consumers.advice(target.holding)
                raise BlockReason("B204", reason, next_step=next_step, held_by=target.held_by)
            return Waiting(address=address, declared_at=declared_at, reason=reason, held_by=target.held_by)
        every_ms = self.guard.every_ms
        last_ms = None if every_ms is None else known(facts.last_purge, f"when {partition} was last purged")
        # More than `every` has to pass, as with Kafka Streams' `repartition.purge.interval.ms`.
        if every_ms is not None and last_ms is not None and now_ms - last_ms <= every_ms:
            apart = f"purges of a partition are at least {format_duration(every_ms)} apart"
            reason = f"{reason}; last purged at {format_instant(last_ms)}, and {apart}"
            until_ms = last_ms + every_ms + 1
            return Waiting(
                address=address, declared_at=declared_at, reason=reason, until_ms=until_ms, held_by=target.held_by
            )
        times = [rule.time for rule in rules if rule.time is not None]
        has_markers = self._may_have_markers(observed)
        if keeping := check_ages(facts, observed, target.before_offset, times, now_ms, has_markers=has_markers):
            return Satisfied(address, f"{keeping.words} keeps the first record; the log starts at {log_start}")
        return self._deletion(address, facts, observed, rules, target, reason, hold)

    def _is_overdue(self, rules: Sequence[RuleOffset], facts: PartitionFacts, observed: ObservedPartition) -> bool:
        """Return whether all rules have let the first record go for longer than `driftAfter`. Raises LookupNeeded."""
        if observed.log_start >= min(rule.offset if rule.before is None else rule.before for rule in rules):
            return False
        now_ms = self.snapshot.observed_at_ms
        lagging_ms = self.policy.spec.lagging_ms(now_ms)
        times = (rule.time for rule in rules if rule.before is None)
        instants = (lagging_ms if time is None else time.before_ms for time in times)
        return all(has_none_since(facts, observed, instant_ms, now_ms) for instant_ms in instants)

    def _may_have_markers(self, observed: ObservedPartition) -> bool:
        # A finished transaction leaves no other trace than the cluster's topic of them.
        return self.has_transactions or observed.last_stable_offset < observed.high_watermark

    def _keeps_all(self, partition: TopicPartition, observed: ObservedPartition) -> bool:
        """Return whether nothing is there to lose, whatever the rules say. Raises BlockReason."""
        keep, end = self.keep, observed.last_stable_offset
        if keep.topic_id is not None and keep.topic_id != observed.topic_id:
            pinned = f"the manifest's offsets are for {keep.topic_id}"
            raise BlockReason("B209", f"{partition.topic} has topic id {observed.topic_id}, {pinned}")
        from_offset = None if keep.from_offset is None else keep.from_offset[partition.partition]
        is_settled = keep.unread_by is not None or observed.high_watermark <= end
        return end <= observed.log_start and is_settled and (from_offset is None or from_offset <= end)

    def _reasons(
        self, rules: Sequence[RuleOffset], lowest: RuleOffset, hold: Hold | None, target: FloorTarget, topic: str
    ) -> Iterator[str]:
        """Yield why the target is what it is: the lowest rule, the others, a clamp, and what else a reader should know."""
        yield lowest.words
        yield from (f"{rule.name} alone: {rule.offset}" for rule in rules if rule is not lowest)
        if target.holding:
            words, _next_step = self.consumers.advice(target.holding)
            yield f"{name_consumer(target.holding[0])} still needs everything from {target.before_offset}{words}"
        if target.stays:
            yield target.stays
        facts = self.snapshot.topics.get(topic)
        if facts is not None and facts.kept_forever is KeptForever.BROKER:
            yield "the brokers' default keeps it for ever (the topic itself sets nothing)"
        if hold is not None:
            yield hold.words

    def _deletion(
        self,
        address: Address,
        facts: PartitionFacts,
        observed: ObservedPartition,
        rules: Sequence[RuleOffset],
        target: FloorTarget,
        reason: str,
        hold: Hold | None,
    ) -> DeleteRecords:
        """Return the deletion of what lies below a target, with what bounds its effect."""
        before_offset = target.before_offset
        topic = self.snapshot.topics.get(facts.partition.topic)
        # An excepted group with an unknown position may miss records, so the rule answers for none.
        consumed_by_named = (
            self.keep.unread_by is not None
            and self.guard.consumers is LagPolicy.BLOCK
            and not target.accepted
            and self.unknown_with_excluded(facts.partition.topic) is None
        )
        is_compacted = topic is None or isinstance(topic.cleanup_policy, Unknown) or "compact" in topic.cleanup_policy
        may_have_aborted = self._may_have_markers(observed)
        # No share counts the records of the others.
        is_counted = may_have_aborted and not is_compacted and not consumed_by_named
        counted = known_records(self.snapshot, facts.partition) if is_counted else Counted()
        return DeleteRecords(
            address=address,
            declared_at=self.policy.declared_at,
            reason="; ".join((reason, counted.words)) if counted.words else reason,
            mode=self.policy.mode,
            partition=facts.partition,
            before_offset=before_offset,
            seen=observed,
            guard=replace(self.guard, accepted=target.accepted) if target.accepted else self.guard,
            consumed_by_named=consumed_by_named,
            # A fixed floor always counts as drift, a moving one once it was due `driftAfter` ago.
            drift=self._is_overdue(rules, facts, observed),
            caveat="; ".join(filter(None, (self.consumers.caveat(facts.partition.topic), hold.caveat if hold else ""))),
            may_have_gaps=is_compacted or may_have_aborted,
            gaps=counted.gaps,
            held_by=target.held_by,
        )

    def _find_hold(self, lowest: RuleOffset, facts: PartitionFacts, observed: ObservedPartition) -> Hold | None:
        """Return what else than a group keeps the floor from rising; None: nothing does.

        An open transaction holds `last` and `unreadBy`, too, which count from the last stable offset. Without
        a time rule, only one that is open since before `driftAfter` does: busy topics always have one.
        """
        last, end, high_watermark = self.keep.last, observed.last_stable_offset, observed.high_watermark
        now_ms, from_offset = self.snapshot.observed_at_ms, self.keep.from_offset
        if lowest.time is not None:
            hold = find_hold(facts, observed, lowest.time, now_ms)
            return hold or (find_marker(facts, observed, lowest.time, now_ms) if self.has_transactions else None)
        if high_watermark <= end or (last is not None and high_watermark - last <= observed.log_start):
            return None  # it keeps everything anyway
        if from_offset is not None and from_offset[facts.partition.partition] <= max(lowest.offset, observed.log_start):
            return None  # so does this one
        if lowest.offset < end and (last is None or lowest.offset != max(0, end - last)):
            return None  # a group of unreadBy
        # Also of a partition that has nothing to lose, whose rules are not asked.
        times = (rule.time for rule in self._time_rules(facts, end) if rule.time is not None)
        holds = [find_hold(facts, observed, time, now_ms) for time in times]
        if holds:
            return holds[0] if all(hold is not None and hold.is_transaction for hold in holds) else None
        if last is None and self.keep.unread_by is None:
            return None
        lagging_ms = self.policy.spec.lagging_ms(now_ms)
        committed, purged_ms = _offset_at(facts, lagging_ms, end), facts.last_purge
        if committed is not None and committed < end:
            return None
        if isinstance(purged_ms, int) and purged_ms >= lagging_ms:
            return None  # it took the markers, and with them the times at which earlier transactions ended
        hold = find_hold(facts, observed, TimeRule(lowest.name, now_ms, lagging_ms), now_ms)
        return hold if hold is not None and hold.overdue else None

    def _time_rules(self, facts: PartitionFacts, end: int) -> Iterator[RuleOffset]:
        """Yield the offset of each rule about timestamps, up to the end. Raises BlockReason."""
        for rule in self.policy.spec.time_rules(self.snapshot.observed_at_ms):
            answer = _offset_at(facts, rule.instant_ms, end)
            than = "as new" if rule.age_ms is None else "younger"
            words = f": no record is {than}, so up to the end {end}"
            words = words if answer is None else f" resolves to {_offset_text(answer, end)}"
            offset, before = end if answer is None else min(answer, end), _capped(facts, rule.before_ms, end)
            yield RuleOffset(offset, before, rule.words, rule.words + words, replace(rule, answer=answer))

    def _rules(self, facts: PartitionFacts, observed: ObservedPartition) -> Iterator[RuleOffset]:
        """Yield each rule's offset, in the manifest's order, up to the end. Raises BlockReason."""
        keep, end = self.keep, observed.last_stable_offset
        lagging_ms = self.policy.spec.lagging_ms(self.snapshot.observed_at_ms)
        yield from self._time_rules(facts, end)
        if keep.last is not None:
            name, offset = f"last {keep.last}", max(0, end - keep.last)
            words = f"{name} begins at offset {offset} (end {end})"
            before = _capped(facts, lagging_ms, end)
            yield RuleOffset(offset, None if before is None else max(0, before - keep.last), name, words)
        if keep.from_offset is not None:
            offset = keep.from_offset[facts.partition.partition]
            if offset > end:
                reason = f"fromOffset {offset} is above the end {end}: it was meant for another topic or another time"
                if offset > observed.high_watermark:
                    raise BlockReason("B208", reason)
                reason = f"fromOffset {offset} is above offset {end}, since which a transaction is open"
                raise BlockReason(
                    "B208", reason, next_step="wait for its end, or correct the offset, which is never lowered"
                )
            yield RuleOffset(offset, offset, f"fromOffset {offset}", f"fromOffset says {offset}")
        if keep.unread_by is not None:
            known_readers = known(facts.readers, "the groups that read", facts.partition)
            readers = {reader.group: reader for reader in known_readers}
            block = self.consumers.unknown(facts.partition.topic)
            if block is not None and block.code == SILENT and not readers.keys() >= set(keep.unread_by):
                raise block.with_traceback(None)  # a silent broker may know the position that is missing
            log, absence = observed.log_of(facts.partition), self.consumers.absence
            position, group = min(
                (verified_offset(group, readers.get(group), log, absence=absence(group)), group)
                for group in keep.unread_by
            )
            offset, name = min(position, end), f"unreadBy {quoted(group)}"
            words = f"unreadBy: group {quoted(group)} has read up to {_offset_text(position, end)}"
            yield RuleOffset(offset, _capped(facts, lagging_ms, offset), name, words)


def _size(facts: PartitionFacts) -> int:
    start, end = facts.log_start, facts.last_stable_offset
    return 0 if isinstance(start, Unknown) or isinstance(end, Unknown) else end - start


def _offset_at(facts: PartitionFacts, instant_ms: int, end: int) -> int | None:
    """Return the scan's offset for an instant. Raises BlockReason for Unknown and below 0."""
    answer = facts.offsets_at.get(instant_ms, NOT_ASKED)
    if isinstance(answer, Unknown):
        what = f"the first offset of {facts.partition} at or after {format_instant(instant_ms)}"
        raise unknown_fact(what, answer)
    if answer is not None and answer < 0:
        what = f"offset {answer} of {facts.partition} for {format_instant(instant_ms)} (end {end})"
        raise contradiction(what)
    return answer


def _capped(facts: PartitionFacts, instant_ms: int, end: int) -> int | None:
    answer = _offset_at(facts, instant_ms, end)
    return None if answer is None else min(answer, end)


def _offset_text(offset: int, end: int) -> str:
    return f"offset {offset}" + (f", above the end {end} of what is committed" if offset > end else "")
