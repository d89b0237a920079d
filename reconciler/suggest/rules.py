"""Finds what a first set of policies could do on a cluster, from the facts of one scan. Pure.

The policies themselves decide: a finding with a manifest is what a policy with exact names,
`consumers: block` and a time of idleness would do now. What a fact does not prove is in
`Section.unknown`, and never a finding.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from reconciler.model.action import Action, Mode
from reconciler.model.block_reason import BlockReason
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import Blocked, Decision, Waiting
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    NOT_ASKED,
    ClusterSnapshot,
    ConsumerPosition,
    GroupFacts,
    GroupState,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.operations import checks
from reconciler.operations.base import DAY_MS
from reconciler.operations.delete_group import GROUPS, GROUPS_PERCENT, DeleteGroup
from reconciler.operations.delete_records import TOPICS, DeleteRecords, LagPolicy
from reconciler.operations.elect_leader import ELECTIONS, ElectLeader
from reconciler.plan import limits
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.cluster import LIMITS, Cluster
from reconciler.policies.fields import NAME_TEXT, TOPIC_TEXT
from reconciler.policies.retention_floor import RetentionFloorSpec
from reconciler.policies.selector_checks import selector_error
from reconciler.suggest.findings import (
    Confidence,
    Draft,
    Finding,
    Kind,
    Section,
    Size,
    Suggestions,
    finding_id,
)
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import approximate_duration, count, first_few, format_duration, format_time, percent

DEFAULT_IDLE_FOR_MS = 3 * DAY_MS
"""Below the seven days after which brokers remove the offsets of an empty group themselves."""
OWNER = "TODO"
"""The owner of each draft, so that a review names one: the program cannot know it."""

_NAMES_MAX = 1_000
"""Selectors of one manifest."""
_LONG_IDLE_MS = 30 * DAY_MS
_HELD_SHARE = 0.1
"""A group that holds back a smaller share of a topic is not behind, but at work."""
_LIMIT_SHARE = 0.1
"""The share of topics and of groups that one plan may touch."""
_REPARTITION = "-repartition"
_CHANGELOG = "-changelog"
_UNSEEN = "consumers without commits in Kafka, such as Spark, Flink and MirrorMaker 2, are invisible"
_LIMIT_FITS: Mapping[str, str] = {
    "topics": "a tenth of the topics",
    "groups": "a tenth of the groups",
    "elections": "what one broker leads where all leaders are preferred ones",
}


def scan_request(observed_at_ms: int) -> ScanRequest:
    """Return everything that the findings rest on. The offsets of topics with `_` are not read."""
    everything = (Selector("*"),)
    floor = RetentionFloorSpec.model_validate(_floor_spec(["any"], ["any"]))
    return ScanRequest(
        topics=(
            TopicRequest(topics=everything),
            TopicRequest(
                topics=everything,
                patterns_skip_underscore=True,
                offsets=True,
                instants_ms=floor.instants_ms(observed_at_ms),
                readers=True,
                all_groups=True,
            ),
        ),
        groups=(GroupRequest(groups=everything, activity=True),),
        topic_records=True,
        cluster_records=True,
    )


def suggest(
    snapshot: ClusterSnapshot,
    *,
    cluster: Cluster,
    policies: Sequence[Policy] = (),
    idle_for_ms: int = DEFAULT_IDLE_FOR_MS,
    ignored: Collection[str] = (),
) -> Suggestions:
    """Return the findings of a snapshot that answers `scan_request`, and the manifests to review.

    `policies`: of the cluster; what they select is left out. `idle_for_ms`: whole seconds, at least
    one. `ignored`: ids that are left out.
    """
    return _Analysis(snapshot, cluster, tuple(policies), idle_for_ms, frozenset(ignored)).result()


@dataclass(slots=True)
class _Collector:
    """Findings of one kind, and what cannot be told: by reason, the subjects."""

    kind: Kind
    ignored_ids: frozenset[str]
    findings: list[Finding] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)

    def is_ignored(self, *subject: str) -> bool:
        """Whether a file leaves this finding out. Remembers that there is one."""
        identifier = finding_id(self.kind, *subject)
        if identifier not in self.ignored_ids:
            return False
        self.ignored.add(identifier)
        return True

    def add(self, *subject: str, title: str, confidence: Confidence, **facts: Any) -> str:
        """Add a finding and return its id."""
        identifier, name = finding_id(self.kind, *subject), subject[0]
        self.findings.append(
            Finding(id=identifier, kind=self.kind, subject=name, title=title, confidence=confidence, **facts)
        )
        return identifier

    def cannot_tell(self, reason: str, subject: str = "") -> None:
        """Say why there is no finding about a subject; empty: about any."""
        subjects = self.unknown.setdefault(reason, [])
        if subject:
            subjects.append(subject)

    def ranked(self) -> list[Finding]:
        """Return the findings, the best first."""
        order = list(Confidence)
        return sorted(
            self.findings, key=lambda f: (order.index(f.confidence), -(f.records or 0), -(f.partitions or 0), f.id)
        )

    def section(self, manifests: Mapping[str, Address]) -> Section:
        """Return the section, with the manifest of each finding id."""
        ranked = [replace(finding, manifest=manifests.get(finding.id)) for finding in self.ranked()]
        unknown = tuple(
            f"{first_few(sorted(subjects))}: {reason}" if subjects else reason
            for reason, subjects in sorted(self.unknown.items())
        )
        return Section(kind=self.kind, findings=tuple(ranked), unknown=unknown, ignored=len(self.ignored))


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """What manifests of one sort have in common. `base`: of their names; `spec`: for some subjects."""

    kind: type[Policy]
    base: str
    spec: Callable[[Sequence[str]], dict[str, Any]]


@dataclass
class _Analysis:
    """One snapshot with what several rules need of it."""

    snapshot: ClusterSnapshot
    cluster: Cluster
    policies: tuple[Policy, ...]
    idle_for_ms: int
    ignored_ids: frozenset[str]
    candidates: dict[str, tuple[_Rule, Sequence[Action]]] = field(default_factory=dict)
    """By finding id: the manifest that could have it, and what that would do now."""
    drafted: dict[str, Finding] = field(default_factory=dict)
    """The findings that the manifests have: as many as the limits of one plan allow."""
    idle: dict[str, DeleteGroup] = field(default_factory=dict)
    """The idle groups that are not ignored."""

    def result(self) -> Suggestions:
        snapshot = self.snapshot
        rules: Mapping[Kind, Callable[[_Collector], None]] = {
            Kind.IDLE_GROUP: self._idle_groups,
            Kind.READ_RECORDS: self._read_records,
            Kind.LEADER: self._leaders,
            Kind.LAGGING_GROUP: self._lagging_groups,
            Kind.UNREAD_TOPIC: self._unread_topics,
            Kind.PROTECTION: self._protections,
            Kind.LIMIT: self._limits,
        }
        collectors = []
        for kind in Kind:  # in this order: later rules rest on the idle groups, and on all actions
            collectors.append(_Collector(kind, self.ignored_ids))
            rules[kind](collectors[-1])
        policies = self._policies()
        manifests = {identifier: policy.address for policy, ids in policies for identifier in ids}
        of_cluster = (f for c in collectors if c.kind in (Kind.PROTECTION, Kind.LIMIT) for f in c.findings)
        manifests |= {finding.id: self.cluster.address for finding in of_cluster}
        sections = tuple(collector.section(manifests) for collector in collectors)
        by_id = {finding.id: finding for section in sections for finding in section.findings}
        matched = {identifier for collector in collectors for identifier in collector.ignored}
        partitions = (facts.partitions for facts in snapshot.topics.values())
        return Suggestions(
            cluster=self.cluster.metadata.name,
            cluster_id=snapshot.cluster_id,
            observed_at_ms=snapshot.observed_at_ms,
            idle_for_ms=self.idle_for_ms,
            size=Size(
                brokers=len(snapshot.brokers),
                topics=len(snapshot.topics),
                partitions=sum(number for number in partitions if isinstance(number, int)),
                groups=len(snapshot.groups.keys() - {""}),
            ),
            sections=sections,
            drafts=tuple(
                Draft(policy=policy, findings=tuple(by_id[identifier] for identifier in ids))
                for policy, ids in policies
            ),
            unmatched=tuple(sorted(self.ignored_ids - matched)),
        )

    # --- what several rules need

    @cached_property
    def leaving(self) -> frozenset[str]:
        """The groups that a suggested or a present GroupRemoval removes: no floor waits for their commits."""
        return self.covered.get(GroupRemoval, frozenset()) | self.idle.keys()

    @cached_property
    def covered(self) -> Mapping[type[Policy], frozenset[str]]:
        """The names that policies of each kind select already."""
        names: defaultdict[type[Policy], set[str]] = defaultdict(set)
        for policy in self.policies:
            names[type(policy)].update(policy.select(self.snapshot).subjects)
        return {kind: frozenset(selected) for kind, selected in names.items()}

    def is_covered(self, kind: type[Policy], name: str) -> bool:
        return name in self.covered.get(kind, ())

    @cached_property
    def unknown_consumers(self) -> str | None:
        """Why it is not known which groups read which topics; None: it is known."""
        block = checks.unknown_consumers(self.snapshot, lambda _group: False)
        return None if block is None else block.reason

    @cached_property
    def purgeable(self) -> Mapping[str, TopicFacts | BlockReason]:
        """The topics of which a policy could delete records; or why that is not known."""
        topics: dict[str, TopicFacts | BlockReason] = {}
        for name, facts in sorted(self.snapshot.topics.items()):
            if name.startswith("_") or not re.fullmatch(TOPIC_TEXT, name) or self.cluster.protection.of_topic(name):
                continue
            try:
                checks.check_records_deletable(facts, exact=False)
                checks.known(facts.partitions, "the number of partitions of", name)
                checks.known(facts.records, "the number of records of", name)
            except BlockReason as error:
                if error.unread:
                    topics[name] = error
            else:
                topics[name] = facts
        return topics

    @cached_property
    def positions(self) -> Mapping[TopicPartition, Sequence[ConsumerPosition]]:
        """Where each group stands on the partitions of purgeable topics, as far as all of it is known."""
        positions = {}
        for partition, facts in sorted(self.snapshot.partitions.items()):
            values = _offsets_and_readers(facts)
            if partition.topic not in self.purgeable or any(isinstance(value, Unknown) for value in values):
                continue
            readers, log_start, _stable_end, high_watermark, topic_id = values
            positions[partition] = tuple(checks.verified_positions(readers, topic_id, log_start, high_watermark))
        return positions

    @cached_property
    def readers(self) -> Mapping[str, frozenset[str] | Unknown]:
        """The groups that read each purgeable topic."""
        readers: dict[str, frozenset[str] | Unknown] = {}
        for name, topic in self.purgeable.items():
            if isinstance(topic, BlockReason):
                readers[name] = Unknown(topic.reason)
                continue
            assert isinstance(topic.partitions, int)
            partitions = [TopicPartition(name, number) for number in range(topic.partitions)]
            unread = [partition for partition in partitions if partition not in self.positions]
            if unread:
                readers[name] = Unknown(f"not all offsets and groups could be read{self._reason(unread[0])}")
            else:
                readers[name] = frozenset(reader.group for p in partitions for reader in self.positions[p])
        return readers

    @cached_property
    def all_read(self) -> bool:
        """Whether it is known of each purgeable topic what every group has read of it."""
        is_unknown = (isinstance(readers, Unknown) for readers in self.readers.values())
        return self.unknown_consumers is None and not any(is_unknown)

    @cached_property
    def only_readers(self) -> Mapping[str, list[str]]:
        """The topics that a group alone reads, by group."""
        topics: defaultdict[str, list[str]] = defaultdict(list)
        for topic, readers in self.readers.items():
            if not isinstance(readers, Unknown) and len(readers) == 1:
                topics[min(readers)].append(display_name(topic))
        return topics

    def _reason(self, partition: TopicPartition) -> str:
        facts = self.snapshot.partitions.get(partition)
        values = () if facts is None else _offsets_and_readers(facts)
        return next((f": {value.reason}" for value in values if isinstance(value, Unknown)), "")

    def _held(self, idle: Collection[str]) -> Mapping[str, Counter[str]]:
        """Return the records that a group has not read and all others have, by group and topic.

        Groups of `idle` do not count among the others.
        """
        held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for partition, positions in self.positions.items():
            facts = self.snapshot.partitions[partition]
            if not isinstance(facts.log_start, int) or not isinstance(facts.stable_end, int):
                continue
            counting = sorted((p.committed, p.group) for p in positions if p.group not in idle)
            for reader in positions:
                # The first or the second: two positions are enough to leave the reader itself out.
                least = next((committed for committed, group in counting[:2] if group != reader.group), None)
                if least is not None:
                    records = min(least, facts.stable_end) - max(reader.committed, facts.log_start)
                    held[reader.group][partition.topic] += max(0, records)
        return {group: Counter({t: n for t, n in by_topic.items() if n}) for group, by_topic in held.items()}

    # --- groups

    def _idle_groups(self, collector: _Collector) -> None:
        snapshot = self.snapshot
        if snapshot.groups_incomplete is not None:
            collector.cannot_tell(f"the list of groups is incomplete: {snapshot.groups_incomplete.reason}")
            return
        awaited = {group for policy in self.policies for group in policy.awaited_groups}
        names = []
        for name in sorted(snapshot.groups.keys() - {""} - awaited):
            if self.is_covered(GroupRemoval, name) or self.cluster.protection.of_group(name):
                continue
            if Selector.literal(name).text != name or selector_error(name):
                reason = "the name reads like a pattern, and a suggestion has exact names only"
                collector.cannot_tell(reason, quoted(name))
            else:
                names.append(name)
        rule = _Rule(GroupRemoval, "idle-groups", self._removal_spec)
        removals: dict[str, DeleteGroup] = {}
        for chunk in _chunks(names):
            for group, decisions in self._decisions(rule, chunk, snapshot).items():
                removals.update((group, decision) for decision in decisions if isinstance(decision, DeleteGroup))
                if unread := _unread(decisions):
                    collector.cannot_tell(unread.reason, quoted(group))
        self.idle = {group: removal for group, removal in removals.items() if not collector.is_ignored(group)}
        held = {} if self.unknown_consumers is not None else self._held(self.leaving)
        for group, removal in self.idle.items():
            identifier = self._add_idle_group(collector, removal, held.get(group, Counter()))
            self.candidates[identifier] = rule, [removal]
        listed = sum(group.listed is True for group in snapshot.groups.values())
        share = math.floor(listed * self.cluster.limit(GROUPS_PERCENT) / 100)
        self._choose(collector, "groups", min(self.cluster.limit(GROUPS), share), lambda _finding: 1)

    def _removal_spec(self, groups: Sequence[str]) -> dict[str, Any]:
        return {"groups": list(groups), "idleFor": format_duration(self.idle_for_ms), "expectAtMost": len(groups)}

    def _add_idle_group(self, collector: _Collector, removal: DeleteGroup, held: Counter[str]) -> str:
        seen = removal.seen
        assert seen.last_activity_ms is not None
        idle_ms = self.snapshot.observed_at_ms - seen.last_activity_ms
        evidence = [
            f"{seen.state}, no activity for {approximate_duration(idle_ms)} (since {format_time(seen.last_activity_ms)})",
            f"it has {count(seen.commits, 'committed offset')} on {count(seen.commit_topics, 'topic')}",
        ]
        if self.unknown_consumers is not None:
            evidence.append(f"what it holds back cannot be told: {self.unknown_consumers}")
        elif held:
            least = "" if self.all_read else "at least "
            evidence.append(f"it holds back {least}{_records_of(held)}, which every other group has read")
        counter_evidence = [
            f"a consumer that works less often than every {format_duration(self.idle_for_ms)} looks the same"
        ]
        if alone := self.only_readers.get(removal.group):
            counter_evidence.append(f"it is the only group that reads {first_few(alone)}")
        confidence = Confidence.HIGH if idle_ms >= _LONG_IDLE_MS else Confidence.MEDIUM
        return collector.add(
            removal.group,
            title="remove the group",
            confidence=confidence if idle_ms >= DEFAULT_IDLE_FOR_MS else Confidence.LOW,
            evidence=tuple(evidence),
            counter_evidence=tuple(counter_evidence),
            records=held.total() if self.all_read else None,
        )

    def _lagging_groups(self, collector: _Collector) -> None:
        if not self._consumers_known(collector):
            return
        for group, held in sorted(self._held(self.leaving).items()):
            for topic, records in held.items() if group not in self.leaving else ():
                facts = self.purgeable[topic]
                if isinstance(self.readers[topic], Unknown) or not isinstance(facts, TopicFacts):
                    continue
                assert isinstance(facts.records, int)
                if records >= facts.records * _HELD_SHARE and not collector.is_ignored(group, topic):
                    self._add_lagging_group(collector, group, topic, records, facts.records)

    def _add_lagging_group(self, collector: _Collector, group: str, topic: str, records: int, total: int) -> None:
        others = [name for name in self._active_readers(topic) if name != group]
        share = f" ({percent(min(100.0, 100 * records / total))})" if total else ""
        held, works = f"{count(records, 'record')}{share} of {display_name(topic)}", self._works(group)
        outlook = "it may catch up by itself" if works else "it may be one that works once in a while"
        collector.add(
            group,
            topic,
            title=f"let it catch up on {display_name(topic)}, or ask its owner",
            confidence=Confidence.MEDIUM if works else Confidence.HIGH,
            evidence=(
                f"{held} that it has not read {_have(records)} been read by {_groups(others)}",
                "consumers: block keeps these records",
            ),
            counter_evidence=(f"the group is {self._state(group)}: {outlook}",),
            records=records,
        )

    def _works(self, group: str) -> bool:
        """Whether the group has members now, as far as that is known."""
        facts = self.snapshot.groups.get(group)
        without = (GroupState.EMPTY, GroupState.DEAD, GroupState.UNKNOWN)
        return facts is not None and isinstance(facts.state, GroupState) and facts.state not in without

    def _state(self, group: str) -> str:
        facts: GroupFacts | None = self.snapshot.groups.get(group)
        return "in an unknown state" if facts is None or isinstance(facts.state, Unknown) else str(facts.state)

    # --- records

    def _consumers_known(self, collector: _Collector) -> bool:
        if self.unknown_consumers is not None:
            collector.cannot_tell(self.unknown_consumers)
        return self.unknown_consumers is None

    def _active_readers(self, topic: str) -> list[str]:
        """The groups of a topic without those that leave. Its readers are known."""
        readers = self.readers[topic]
        return [] if isinstance(readers, Unknown) else sorted(readers - self.leaving)

    def _read_records(self, collector: _Collector) -> None:
        if not self._consumers_known(collector):
            return
        topics_of: defaultdict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
        for topic, readers in self.readers.items():
            if self.is_covered(RetentionFloor, topic):
                continue
            if isinstance(readers, Unknown):
                collector.cannot_tell(readers.reason, display_name(topic))
            elif groups := self._active_readers(topic):
                topics_of[not topic.endswith(_REPARTITION), tuple(groups)].append(topic)
        remaining = self._without_leaving_groups()
        for (is_ordinary, names), topics in sorted(topics_of.items()):
            if len(names) > _NAMES_MAX:
                reason = f"{len(names):,} groups read it, and unreadBy takes {_NAMES_MAX:,}"
                for topic in topics:
                    collector.cannot_tell(reason, display_name(topic))
                continue
            base = f"read-by-{names[0]}" if is_ordinary else f"repartition-read-by-{names[0]}"
            base += f"-and-{len(names) - 1}-more" if len(names) > 1 else ""
            rule = _Rule(RetentionFloor, base, partial(_floor_spec, groups=names))
            for chunk in _chunks(topics):
                for topic, decisions in self._decisions(rule, chunk, remaining).items():
                    self._add_read_records(collector, topic, rule, names, decisions)
        self._choose(collector, "topics", self.cluster.limit(TOPICS), lambda _finding: 1)

    def _without_leaving_groups(self) -> ClusterSnapshot:
        """Return the snapshot as it would be without the groups that leave.

        The clock of `every` delays a purge and changes no offset, so it does not matter here.
        """
        partitions = {
            partition: replace(
                facts,
                readers=facts.readers
                if isinstance(facts.readers, Unknown)
                else tuple(reader for reader in facts.readers if reader.group not in self.leaving),
                last_purge=None if facts.last_purge is NOT_ASKED else facts.last_purge,
            )
            for partition, facts in self.snapshot.partitions.items()
            if partition.topic in self.purgeable
        }
        return replace(self.snapshot, partitions=partitions)

    def _add_read_records(
        self, collector: _Collector, topic: str, rule: _Rule, groups: Sequence[str], decisions: Sequence[Decision]
    ) -> None:
        """Add what a floor of this topic would delete, if anything."""
        if unread := _unread(decisions):
            collector.cannot_tell(unread.reason, display_name(topic))
            return
        purges = [decision for decision in decisions if isinstance(decision, DeleteRecords)]
        records = sum(purge.records_max for purge in purges)
        if not records or collector.is_ignored(topic):
            return
        facts = self.snapshot.topics[topic]
        assert isinstance(facts.records, int)
        share = f" ({percent(min(100.0, 100 * records / facts.records))})" if facts.records else ""
        size = f"{count(records, 'record')}{share} on {count(len(purges), 'partition')}"
        readers = self.readers[topic]
        waits_for = [] if isinstance(readers, Unknown) else sorted(readers & self.leaving)
        evidence = [f"{size} {_have(records)} been read by {_groups(groups)}"]
        if waits_for:
            evidence.append(f"they go once {_groups(waits_for)} is removed; no other group reads the topic")
        else:
            evidence.append("no other group reads the topic")
        is_repartition = topic.endswith(_REPARTITION)
        if is_repartition:
            evidence.append("the name is that of a repartition topic of Kafka Streams, whose records are read once")
        counter_evidence = [] if is_repartition else ["records may be read again: by a new group, or after a reset"]
        counter_evidence.append(_UNSEEN)
        blocked = [decision for decision in decisions if isinstance(decision, Blocked)]
        if blocked:
            counter_evidence.append(f"{count(len(blocked), 'partition')} would be blocked: {blocked[0].reason}")
        works = all(map(self._works, groups))
        confidence = Confidence.HIGH if is_repartition else Confidence.MEDIUM if works else Confidence.LOW
        identifier = collector.add(
            topic,
            title="delete what every group has read",
            confidence=confidence,
            evidence=tuple(evidence),
            counter_evidence=tuple(counter_evidence),
            records=records,
            partitions=len(purges),
        )
        self.candidates[identifier] = rule, purges

    def _unread_topics(self, collector: _Collector) -> None:
        if not self._consumers_known(collector):
            return
        for topic, readers in self.readers.items():
            facts = self.purgeable[topic]
            if self.is_covered(RetentionFloor, topic) or topic.endswith(_CHANGELOG):
                continue
            if isinstance(readers, Unknown) or not isinstance(facts, TopicFacts):
                reason = readers.reason if isinstance(readers, Unknown) else ""
                collector.cannot_tell(reason, display_name(topic))
                continue
            if self._active_readers(topic) or collector.is_ignored(topic):
                continue
            assert isinstance(facts.records, int)
            assert isinstance(facts.partitions, int)
            by_idle = f"no group reads it but those to be removed: {_groups(sorted(readers))}"
            size = f"it holds {count(facts.records, 'record')} on {count(facts.partitions, 'partition')}"
            collector.add(
                topic,
                title="ask the owner who reads it, and how long its records have to stay",
                confidence=Confidence.LOW,
                evidence=(by_idle if readers else "no group reads it", size),
                counter_evidence=(_UNSEEN,),
                records=facts.records,
                partitions=facts.partitions,
            )

    # --- leaders

    def _leaders(self, collector: _Collector) -> None:
        snapshot = self.snapshot
        topics = [
            name
            for name in sorted(snapshot.topics)
            if re.fullmatch(TOPIC_TEXT, name) and not self.is_covered(LeaderPolicy, name)
        ]
        if snapshot.topics_incomplete is not None:
            collector.cannot_tell(f"there may be more topics: {snapshot.topics_incomplete.reason}")
        rule = _Rule(LeaderPolicy, "preferred-leaders", _leader_spec)
        for chunk in _chunks(topics):
            for topic, decisions in self._decisions(rule, chunk, snapshot).items():
                elections = [decision for decision in decisions if isinstance(decision, ElectLeader)]
                if unread := _unread(decisions):
                    collector.cannot_tell(unread.reason, display_name(topic))
                elif elections and not collector.is_ignored(topic):
                    identifier = self._add_leaders(collector, topic, elections, decisions)
                    self.candidates[identifier] = rule, elections
        self._choose(collector, "elections", self.cluster.limit(ELECTIONS), lambda finding: finding.partitions or 0)

    def _add_leaders(
        self, collector: _Collector, topic: str, elections: Sequence[ElectLeader], decisions: Sequence[Decision]
    ) -> str:
        moves = Counter((election.seen.leader, election.leader_wanted) for election in elections)
        words = [
            f"{number} from {'none' if leader is None else leader} to {wanted}"
            for (leader, wanted), number in sorted(moves.items(), key=lambda item: (-item[1], str(item[0])))
        ]
        facts = self.snapshot.topics[topic]
        total = facts.partitions if isinstance(facts.partitions, int) else len(decisions)
        led = f"{len(elections)} of {count(total, 'partition')} not led by the first replica"
        evidence = (f"{led}, which is alive and in sync: {first_few(words, limit=4)}",)
        counter_evidence = ["brokers with auto.leader.rebalance.enable do it by themselves, after some minutes"]
        waiting = [decision for decision in decisions if isinstance(decision, Waiting)]
        if waiting:
            counter_evidence.append(f"{count(len(waiting), 'more partition')} would wait: {waiting[0].reason}")
        return collector.add(
            topic,
            title="elect the preferred leaders",
            confidence=Confidence.HIGH,
            evidence=evidence,
            counter_evidence=tuple(counter_evidence),
            partitions=len(elections),
        )

    # --- the Cluster manifest

    def _protections(self, collector: _Collector) -> None:
        protection, snapshot = self.cluster.protection, self.snapshot
        added = 0
        for topic, facts in sorted(snapshot.topics.items()):
            is_system = checks.system_topic_block(facts) is not None  # never loses records
            has_policy = self.is_covered(RetentionFloor, topic)
            if is_system or has_policy or not re.fullmatch(TOPIC_TEXT, topic) or protection.of_topic(topic):
                continue
            reasons = []
            if topic.startswith("_"):
                reasons.append("its name begins with _, as those of topics of tools do")
            if topic.endswith(_CHANGELOG):
                reasons.append("its name is that of a changelog of Kafka Streams, which restores state from it")
            policy = facts.cleanup_policy
            if isinstance(policy, Unknown):
                if not reasons and policy is not NOT_ASKED:
                    collector.cannot_tell(f"its cleanup.policy: {policy.reason}", display_name(topic))
            elif "compact" in policy:
                reasons.append("it is compacted, so its records are a state and not a history")
            if not reasons or collector.is_ignored(topic):
                continue
            added += 1
            if added > _NAMES_MAX:
                collector.cannot_tell(
                    f"protect.topics takes {_NAMES_MAX:,} names: name a pattern by hand", display_name(topic)
                )
                continue
            collector.add(
                topic,
                title="protect it from every policy",
                confidence=Confidence.HIGH,
                evidence=tuple(reasons),
                counter_evidence=("a policy that names it later is blocked until the protection is taken back",),
                partitions=facts.partitions if isinstance(facts.partitions, int) else None,
            )

    def _limits(self, collector: _Collector) -> None:
        at_work = [policy for policy in self.policies if policy.select(self.snapshot).matched]
        if at_work:
            reason = f"what {first_few([str(policy.address) for policy in at_work])} need is not part of this scan"
            collector.cannot_tell(reason)
            return
        totals = self._limit_totals()
        actions = [action for identifier in self.drafted for action in self.candidates[identifier][1]]
        verdicts = {v.id: v for v in limits.verdicts(actions, self.cluster, (), self.snapshot)}
        for limit in LIMITS:
            if limit.id not in totals:
                continue
            current, needed, total = int(self.cluster.limit(limit)), verdicts[limit.id].observed, totals[limit.id]
            if isinstance(total, Unknown) or needed is None:
                reason = total.reason if isinstance(total, Unknown) else verdicts[limit.id].message
                collector.cannot_tell(reason, limit.id)
                continue
            total = max(1, total)
            value = max(math.ceil(needed), total)
            if value >= current or collector.is_ignored(limit.id):
                continue
            collector.add(
                limit.id,
                title=f"{limit.words}: {value:,} instead of {current:,}",
                confidence=Confidence.MEDIUM,
                evidence=(
                    f"the suggested manifests need {math.ceil(needed):,} at once"
                    if value > total
                    else f"{value:,} is {_LIMIT_FITS[limit.id]}; the suggested manifests need {math.ceil(needed):,}",
                ),
                counter_evidence=("a larger change needs a Waiver then",),
                value=value,
            )

    def _limit_totals(self) -> Mapping[str, int | Unknown]:
        """Return what one plan may do of each limit that depends on the size of the cluster."""
        snapshot = self.snapshot
        ordinary = sum(checks.system_topic_block(facts) is None for facts in snapshot.topics.values())
        listed = sum(group.listed is True for group in snapshot.groups.values())
        preferring: Counter[int] = Counter()
        unknown: Unknown | None = snapshot.topics_incomplete
        for _partition, facts in sorted(snapshot.partitions.items()):
            if isinstance(facts.replicas, Unknown):
                unknown = unknown if unknown is not None else Unknown(f"replicas: {facts.replicas.reason}")
            else:
                preferring.update(facts.replicas[:1])
        topics = math.ceil(ordinary * _LIMIT_SHARE)
        groups = math.ceil(listed * _LIMIT_SHARE)
        return {
            "topics": topics if snapshot.topics_incomplete is None else snapshot.topics_incomplete,
            "groups": groups if snapshot.groups_incomplete is None else snapshot.groups_incomplete,
            "elections": max(preferring.values(), default=0) if unknown is None else unknown,
        }

    # --- manifests

    def _policy(self, kind: type[Policy], name: str, spec: Mapping[str, Any], reason: str | None = None) -> Policy:
        metadata = {"name": name, "cluster": self.cluster.metadata.name, "owner": OWNER}
        return kind.model_validate(
            {
                "apiVersion": "reconciler/v1",
                "kind": kind.__name__,
                "metadata": metadata if reason is None else {**metadata, "reason": reason},
                "mode": Mode.MERGE.value,
                "spec": dict(spec),
            }
        )

    def _decisions(
        self, rule: _Rule, names: Sequence[str], snapshot: ClusterSnapshot
    ) -> Mapping[str, Sequence[Decision]]:
        """Return what a policy with these names would do, by topic or group."""
        by_name: defaultdict[str, list[Decision]] = defaultdict(list)
        policy = self._policy(rule.kind, "suggested", rule.spec(names))
        for decision in policy.decide(dict.fromkeys(names, True), snapshot):
            by_name[decision.address.name].append(decision)
        return by_name

    def _choose(self, collector: _Collector, name: str, most: float, amount: Callable[[Finding], int]) -> None:
        """Choose the best findings for the manifests: as many as a limit allows in one plan."""
        beyond = f"not in a manifest now: the limit `{name}` of one plan allows {most:g}, and others come first"
        ranked, used = collector.ranked(), 0
        for number, finding in enumerate(ranked):
            if used + amount(finding) <= most:
                used += amount(finding)
                self.drafted[finding.id] = finding
            else:
                ranked[number] = replace(finding, counter_evidence=(*finding.counter_evidence, beyond))
        collector.findings = ranked

    def _policies(self) -> list[tuple[Policy, Sequence[str]]]:
        """Return the manifests, with names that no other policy has, and the ids of their findings."""
        subjects: defaultdict[_Rule, dict[str, str]] = defaultdict(dict)
        for identifier, finding in self.drafted.items():
            subjects[self.candidates[identifier][0]][finding.subject] = identifier
        taken = {policy.address for policy in self.policies}
        policies: list[tuple[Policy, Sequence[str]]] = []

        def order(item: tuple[_Rule, dict[str, str]]) -> tuple[int, str, list[str]]:
            kind = self.drafted[min(item[1].values())].kind
            return list(Kind).index(kind), item[0].base, sorted(item[1])

        for rule, ids in sorted(subjects.items(), key=order):
            for chunk in _chunks(sorted(ids)):
                number, name = 1, _manifest_name(rule.base)
                while Address(rule.kind.__name__, name) in taken:
                    number += 1
                    name = _manifest_name(rule.base, f"-{number}")
                reason = f"suggested from {count(len(chunk), 'finding')} of a scan, to be reviewed"
                policy = self._policy(rule.kind, name, rule.spec(chunk), reason)
                taken.add(policy.address)
                policies.append((policy, [ids[subject] for subject in chunk]))
        return policies


def _offsets_and_readers(facts: PartitionFacts) -> tuple[Any, ...]:
    """Return the facts of a partition that say what its groups have read; some may be Unknown."""
    return facts.readers, facts.log_start, facts.stable_end, facts.high_watermark, facts.topic_id


def _floor_spec(topics: Sequence[str], groups: Sequence[str]) -> dict[str, Any]:
    return {
        "topics": list(topics),
        "expectAtMost": len(topics),
        "keep": {"unreadBy": list(groups)},
        "consumers": LagPolicy.BLOCK.value,
    }


def _leader_spec(topics: Sequence[str]) -> dict[str, Any]:
    return {"topics": list(topics), "election": "preferred"}


def _manifest_name(base: str, ending: str = "") -> str:
    """Return a name for a manifest from any text; a long one is cut."""
    text = re.sub("[^a-z0-9.-]+", "-", base.lower()).strip(".-")[: 63 - len(ending)].strip(".-") + ending
    assert re.fullmatch(NAME_TEXT, text), text
    return text


def _unread(decisions: Iterable[Decision]) -> Blocked | None:
    """Return the first decision that rests on a fact that was not read."""
    return next((decision for decision in decisions if isinstance(decision, Blocked) and decision.unread), None)


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many names at once as a manifest takes."""
    return (names[start : start + _NAMES_MAX] for start in range(0, len(names), _NAMES_MAX))


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _groups(names: Sequence[str]) -> str:
    return first_few([quoted(name) for name in names])


def _records_of(held: Counter[str]) -> str:
    """Return `1,200 records of orders`, or the sum and the first topics."""
    topics = [display_name(topic) for topic in sorted(held, key=lambda topic: (-held[topic], topic))]
    return f"{count(held.total(), 'record')} of {first_few(topics)}"
