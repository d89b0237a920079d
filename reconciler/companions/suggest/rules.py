"""Finds what a first set of policies could do on a cluster, from the facts of one scan. Pure.

The policies themselves decide: a finding with a manifest is what a policy with exact names,
`consumers: block` and a time of idleness would do now. What a fact does not prove is in
`Section.unknown`, and never a finding.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from reconciler.companions.suggest.cluster_rules import find_limits, find_protections
from reconciler.companions.suggest.facts import ClusterFacts, Held, ReadTopic, is_changelog, is_repartition
from reconciler.companions.suggest.findings import (
    NAMES_MAX,
    Collector,
    Confidence,
    Draft,
    Finding,
    FindingKind,
    Suggestions,
)
from reconciler.model.action import Action, Mode
from reconciler.model.names import Address, format_subject
from reconciler.model.plan import Blocked, Decision, Undecided, Waiting
from reconciler.model.scan_request import ExternalReaderRequest, GroupRequest, PositionKind, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, ExternalPosition, Unknown, doubt_age
from reconciler.operations.base import DAY_MS
from reconciler.operations.consumers import describe_move, external_readers, undeclared_syncs
from reconciler.operations.delete_group import GROUPS, GROUPS_PERCENT, DeleteGroup
from reconciler.operations.delete_records import DeleteRecords, LagPolicy
from reconciler.operations.delete_records.rule import TOPICS
from reconciler.operations.elect_leader import ELECTIONS, ElectLeader
from reconciler.operations.idle_groups import standalone_doubt
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.cluster import Cluster
from reconciler.policies.external_reader import ExternalReader
from reconciler.policies.fields import NAME_TEXT, TOPIC_TEXT
from reconciler.policies.retention_floor import RetentionFloorSpec
from reconciler.policies.selector_checks import selector_error
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import approximate_duration, count, first_few, format_duration, format_time, percent

DEFAULT_IDLE_FOR_MS = 3 * DAY_MS
"""Below the seven days after which brokers remove the offsets of an empty group themselves."""
OWNER = "TODO"
"""The owner of each draft, so that a review names one: the program cannot know it."""

_LONG_IDLE_MS = 100 * DAY_MS
"""A group that works once a month is idle for 31 days, and one that works once a quarter for 92."""
_HELD_SHARE = 0.1
"""A group that holds back a smaller share of a topic is not behind, but at work."""
_OF_RECORDS = frozenset({FindingKind.READ_RECORDS, FindingKind.LAGGING_GROUP, FindingKind.UNREAD_TOPIC})
"""Findings that rest on who reads what."""
_UNSEEN = (
    "consumers without commits in Kafka, such as Spark and Flink, are invisible unless an ExternalReader names them"
)


_A = TypeVar("_A", bound=Action)
_M = TypeVar("_M", Policy, ExternalReader)


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


def undeclared_readers(snapshot: ClusterSnapshot) -> Sequence[ExternalReaderRequest]:
    """Return what to read of the mirrors that no manifest declares; what they read is not known yet."""
    kind = PositionKind.MIRROR_MAKER_SYNCS
    return [
        ExternalReaderRequest(name=f"MirrorMaker 2 ({topic})", topics=(), kind=kind, at=topic)
        for topic in undeclared_syncs(snapshot)
    ]


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
    facts = ClusterFacts(snapshot, cluster, policies)
    return _Analysis(facts, idle_for_ms, frozenset(ignored)).result()


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """What manifests of one sort have in common. `base`: of their names; `spec`: for some subjects."""

    kind: type[Policy]
    base: str
    spec: Callable[[Sequence[str]], dict[str, Any]]


@dataclass
class _Analysis:
    """One run of all rules, in the order of `FindingKind`.

    Later rules rest on the idle groups, and on what the manifests would do.
    """

    facts: ClusterFacts
    idle_for_ms: int
    ignored_ids: frozenset[str]
    candidates: dict[str, tuple[_Rule, Sequence[Action]]] = field(default_factory=dict)
    """By finding id: the manifest that could have it, and what that would do now."""
    drafted: dict[str, Finding] = field(default_factory=dict)
    """The findings that the manifests have: as many as the limits of one plan allow."""
    idle: dict[str, DeleteGroup] = field(default_factory=dict)
    """The idle groups that are not ignored."""
    readers: list[tuple[ExternalReader, Sequence[str]]] = field(default_factory=list)
    """The manifests of readers that no manifest declares, with the ids of their findings."""

    def result(self) -> Suggestions:
        snapshot, facts = self.facts.snapshot, self.facts
        rules: Mapping[FindingKind, Callable[[Collector], None]] = {
            FindingKind.IDLE_GROUP: self._idle_groups,
            FindingKind.READ_RECORDS: self._read_records,
            FindingKind.LEADER: self._leaders,
            FindingKind.LAGGING_GROUP: self._lagging_groups,
            FindingKind.UNREAD_TOPIC: self._unread_topics,
            FindingKind.EXTERNAL_READER: self._external_readers,
            FindingKind.PROTECTION: partial(find_protections, facts),
            FindingKind.LIMIT: lambda collector: find_limits(
                facts, collector, [action for drafted in self.drafted for action in self.candidates[drafted][1]]
            ),
        }
        collectors = [Collector(kind, self.ignored_ids) for kind in FindingKind]  # in this order
        for collector in collectors:
            if collector.kind in _OF_RECORDS and facts.unknown_consumers is not None:
                collector.cannot_tell(facts.unknown_consumers)
            else:
                rules[collector.kind](collector)
        policies: list[tuple[Policy | ExternalReader, Sequence[str]]] = [*self._policies(), *self.readers]
        manifests = {identifier: policy.address for policy, ids in policies for identifier in ids}
        of_cluster = [c for c in collectors if c.kind in (FindingKind.PROTECTION, FindingKind.LIMIT)]
        manifests |= {finding.id: facts.cluster.address for c in of_cluster for finding in c.findings}
        sections = tuple(collector.section(manifests) for collector in collectors)
        by_id = {finding.id: finding for section in sections for finding in section.findings}
        matched = {identifier for collector in collectors for identifier in collector.ignored}
        partitions = (topic.partitions for topic in snapshot.topics.values())
        return Suggestions(
            cluster=facts.cluster.metadata.name,
            cluster_id=snapshot.cluster_id,
            observed_at_ms=snapshot.observed_at_ms,
            idle_for_ms=self.idle_for_ms,
            size={
                "brokers": len(snapshot.brokers),
                "topics": len(snapshot.topics),
                "partitions": sum(number for number in partitions if isinstance(number, int)),
                "groups": len(snapshot.groups.keys() - {""}),
            },
            sections=sections,
            drafts=tuple(
                Draft(policy=policy, findings=tuple(by_id[identifier] for identifier in ids))
                for policy, ids in policies
            ),
            unmatched=tuple(sorted(self.ignored_ids - matched)),
            asked=facts.asked,
        )

    @cached_property
    def leaving(self) -> frozenset[str]:
        """The groups that a suggested or a present GroupRemoval removes: no floor waits for their commits.

        A group with members stays, whatever selects it.
        """
        covered = self.facts.covered.get(GroupRemoval, frozenset())
        return frozenset(self.idle).union(group for group in covered if not self.facts.works(group))

    @cached_property
    def _held(self) -> Mapping[str, Counter[str]]:
        """The records that a group has not read and all others that stay have, by group and topic."""
        return self.facts.held(self.leaving)

    # --- groups

    def _idle_groups(self, collector: Collector) -> None:
        snapshot = self.facts.snapshot
        if snapshot.groups_incomplete is not None:
            collector.cannot_tell(f"the list of groups is incomplete: {snapshot.groups_incomplete.reason}")
            return
        awaited = {group for policy in self.facts.policies for group in policy.awaited_groups}
        names, protection = [], self.facts.cluster.protection
        for name in sorted(snapshot.groups.keys() - {""} - awaited):
            if self.facts.is_covered(GroupRemoval, name) or protection.of_group(name):
                continue
            if Selector.literal(name).text != name or selector_error(name):
                reason = "the name reads like a pattern, and a suggestion has exact names only"
                collector.cannot_tell(reason, quoted(name))
            else:
                names.append(name)
        rule = _Rule(GroupRemoval, "idle-groups", self._removal_spec)
        found = self._decided(collector, rule, names, DeleteGroup)
        self.idle = {group: removal for group, (removal,), _all in found if not collector.is_ignored(group)}
        for group, removal in self.idle.items():
            held = Counter[str]() if self.facts.unknown_consumers is not None else self._held.get(group, Counter())
            identifier = self._add_idle_group(collector, removal, held)
            self.candidates[identifier] = rule, [removal]
        listed = sum(group.listed is True for group in snapshot.groups.values())
        share = math.floor(listed * self.facts.cluster.limit(GROUPS_PERCENT) / 100)
        self._choose(collector, "groups", min(self.facts.cluster.limit(GROUPS), share), lambda _finding: 1)

    def _removal_spec(self, groups: Sequence[str]) -> dict[str, Any]:
        return {"groups": list(groups), "idleFor": format_duration(self.idle_for_ms), "expectAtMost": len(groups)}

    def _add_idle_group(self, collector: Collector, removal: DeleteGroup, held: Counter[str]) -> str:
        seen = removal.seen
        assert seen.last_activity_ms is not None
        idle_ms = self.facts.snapshot.observed_at_ms - seen.last_activity_ms
        evidence = [
            f"{seen.state}, no activity for {approximate_duration(idle_ms)} (since {format_time(seen.last_activity_ms)})",
            f"it has {count(seen.commits, 'committed offset')} on {count(seen.commit_topics, 'topic')}",
        ]
        if self.facts.unknown_consumers is not None:
            evidence.append(f"what it holds back cannot be told: {self.facts.unknown_consumers}")
        elif held:
            least = "" if self.facts.all_read else "at least "
            evidence.append(
                f"it holds back {least}{_records_of(held, self.facts.noun)}, which every other group has read"
            )
        counter_evidence = [
            f"a consumer that works less often than every {format_duration(self.idle_for_ms)} looks the same"
        ]
        if alone := self.facts.only_readers.get(removal.group):
            counter_evidence.append(f"it is the only group that reads {first_few(alone)}")
        # What it holds back it could have read, and did not.
        of_standalone = None if held else standalone_doubt(self.facts.snapshot.groups.get(removal.group))
        doubts = self.facts.state_elsewhere(removal.group) or of_standalone or ()
        counter_evidence += doubts
        confidence = Confidence.HIGH if idle_ms >= _LONG_IDLE_MS else Confidence.MEDIUM
        return collector.add(
            removal.group,
            title="remove the group",
            confidence=confidence if idle_ms >= DEFAULT_IDLE_FOR_MS and not doubts else Confidence.LOW,
            evidence=tuple(evidence),
            counter_evidence=tuple(counter_evidence),
            records=held.total() if self.facts.all_read else None,
        )

    def _lagging_groups(self, collector: Collector) -> None:
        for group, held in sorted(self._held.items()):
            for topic, records in held.items() if group not in self.leaving else ():
                read = self.facts.topics[topic]
                if isinstance(read, ReadTopic) and records >= read.records * _HELD_SHARE:
                    self._add_lagging_group(collector, group, topic, records, read)

    def _add_lagging_group(self, collector: Collector, group: str, topic: str, records: int, read: ReadTopic) -> None:
        others = sorted(read.readers - self.leaving - {group})
        held = f"{_share(records, read.records, self.facts.noun)} of {display_name(topic)}"
        works = self.facts.works(group)
        facts = self.facts.snapshot.groups.get(group)
        state = "in an unknown state" if facts is None or isinstance(facts.state, Unknown) else facts.state
        outlook = "it may catch up by itself" if works else "it may be one that works once in a while"
        todo = "reset its offsets" if self.facts.has_foreign_commit(group, topic) else "let it catch up"
        collector.add(
            group,
            topic,
            title=f"{todo} on {display_name(topic)}, or ask its owner",
            confidence=Confidence.MEDIUM if works else Confidence.HIGH,
            evidence=(
                f"{held} that it has not read {_have(records)} been read by {_groups(others)}",
                "consumers: block keeps these records",
            ),
            counter_evidence=(f"the group is {state}: {outlook}", *self.facts.state_elsewhere(group)),
            records=records,
        )

    # --- records

    def _read_records(self, collector: Collector) -> None:
        topics_of: defaultdict[tuple[bool, tuple[str, ...]], list[str]] = defaultdict(list)
        for topic, read in self.facts.topics.items():
            if self.facts.is_covered(RetentionFloor, topic) or self.facts.is_kept(topic):
                continue
            if isinstance(read, Unknown):
                collector.cannot_tell(read.reason, display_name(topic))
            elif groups := sorted(read.readers - self.leaving):
                topics_of[not is_repartition(topic), tuple(groups)].append(topic)
        remaining = self._without_leaving_groups()
        for (is_ordinary, names), topics in sorted(topics_of.items()):
            if len(names) > NAMES_MAX:
                reason = f"{len(names):,} groups read it, and unreadBy takes {NAMES_MAX:,}"
                for topic in topics:
                    collector.cannot_tell(reason, display_name(topic))
                continue
            base = f"read-by-{names[0]}" if is_ordinary else f"repartition-read-by-{names[0]}"
            base += f"-and-{len(names) - 1}-more" if len(names) > 1 else ""
            rule = _Rule(RetentionFloor, base, partial(_floor_spec, groups=names))
            for topic, purges, decisions in self._decided(collector, rule, topics, DeleteRecords, remaining):
                if not sum(purge.records_max for purge in purges):
                    continue
                if identifier := self._add_read_records(collector, topic, names, purges, decisions):
                    self.candidates[identifier] = rule, purges
        self._choose(collector, "topics", self.facts.cluster.limit(TOPICS), lambda _finding: 1)

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
            for partition, facts in self.facts.snapshot.partitions.items()
            if partition.topic in self.facts.purgeable
        }
        return replace(self.facts.snapshot, partitions=partitions)

    def _add_read_records(
        self,
        collector: Collector,
        topic: str,
        groups: Sequence[str],
        purges: Sequence[DeleteRecords],
        decisions: Sequence[Decision],
    ) -> str:
        read, records = self.facts.topics[topic], sum(purge.records_max for purge in purges)
        assert isinstance(read, ReadTopic)
        size = f"{_share(records, read.records, purges[0].noun)} on {count(len(purges), 'partition')}"
        leaving = sorted(read.readers & self.leaving)
        evidence = [f"{size} {_have(records)} been read by {_groups(groups)}"]
        if behind := [group for group in leaving if self._held.get(group, Counter())[topic]]:
            evidence.append(f"they go once {_groups(behind)} {'is' if len(behind) == 1 else 'are'} removed")
        but = f" but those to be removed: {_groups(leaving)}" if leaving else ""
        evidence.append(f"no other group reads the topic{but}")
        read_once = is_repartition(topic)
        if read_once:
            evidence.append("the name is that of a repartition topic of Kafka Streams, whose records are read once")
        counter_evidence = [] if read_once else ["records may be read again: by a new group, or after a reset"]
        counter_evidence.append(_UNSEEN)
        if blocked := [decision for decision in decisions if isinstance(decision, Blocked)]:
            counter_evidence.append(f"{count(len(blocked), 'partition')} would be blocked: {blocked[0].reason}")
        as_read_now = Confidence.MEDIUM if all(map(self.facts.works, groups)) else Confidence.LOW
        return collector.add(
            topic,
            title="delete what every group has read",
            confidence=Confidence.HIGH if read_once else as_read_now,
            evidence=tuple(evidence),
            counter_evidence=tuple(counter_evidence),
            records=records,
            topic_records=read.records,
            partitions=len(purges),
        )

    def _unread_topics(self, collector: Collector) -> None:
        for topic, read in self.facts.topics.items():
            if self.facts.is_covered(RetentionFloor, topic) or is_changelog(topic) or is_repartition(topic):
                continue
            if isinstance(read, Unknown):
                collector.cannot_tell(read.reason, display_name(topic))
                continue
            if read.readers - self.leaving or any(external_readers(self.facts.snapshot, topic)):
                continue
            by_idle = f"no group reads it but those to be removed: {_groups(sorted(read.readers))}"
            size = f"it holds at most {count(read.records, 'record')} on {count(len(read.partitions), 'partition')}"
            collector.add(
                topic,
                title="ask the owner who reads it, and how long its records have to stay",
                confidence=Confidence.LOW,
                evidence=(by_idle if read.readers else "no group reads it", size),
                counter_evidence=(_UNSEEN,),
                records=read.records,
                partitions=len(read.partitions),
            )

    # --- readers

    def _external_readers(self, collector: Collector) -> None:
        """Add what declared readers hold back, and the mirrors that no manifest declares: these name no topic."""
        for reader, position in self.facts.snapshot.external.items():
            if isinstance(position, Unknown):
                collector.cannot_tell(position.reason, display_name(reader.name if reader.topics else reader.at))
            elif reader.topics:
                for topic, held in self.facts.held_by(reader).items():
                    self._add_declared(collector, reader.name, topic, held)
            else:
                self._add_mirror(collector, reader, position)

    def _add_declared(self, collector: Collector, reader: str, topic: str, held: Sequence[Held] | Unknown) -> None:
        """Add what a reader holds back of a topic, by whichever rule a floor would delete it."""
        if isinstance(held, Unknown):
            collector.cannot_tell(held.reason, f"{display_name(reader)} on {display_name(topic)}")
            return
        total, records = self.facts.snapshot.topics[topic].records, sum(of.records for of in held)
        assert isinstance(total, int)
        if not records or records < total * _HELD_SHARE:
            return
        partition, last = held[0].partition, held[0].position
        assert last.written_at_ms is not None
        todo = "let it catch up"
        if last.foreign_commit is not None:
            todo = "correct its position"
            where = f"its position {last.foreign_commit:,} on {partition} is above the end, so it counts as at {last.committed:,}"
        elif last.without_commit:
            where = f"it has no position on {partition}, so it counts as at {last.committed:,}"
        else:
            where = f"it is at {last.committed:,} on {partition}"
        more = f" ({count(len(held) - 1, 'more partition')} behind)" if len(held) > 1 else ""
        observed_at_ms = self.facts.snapshot.observed_at_ms
        has_age = doubt_age(last.written_at_ms, observed_at_ms) is None
        is_old = has_age and observed_at_ms - last.written_at_ms >= self.idle_for_ms
        collector.add(
            reader,
            topic,
            title=f"{todo} on {display_name(topic)}, or ask its owner",
            confidence=Confidence.HIGH if is_old else Confidence.MEDIUM,
            evidence=(
                f"{where}{more}, and {describe_move(last.written_at_ms, observed_at_ms)}",
                f"block and clamp keep up to {_share(records, total)} of {display_name(topic)} for it",
            ),
            counter_evidence=(
                "it may be one that works once in a while",
                "without its manifest, floors delete what it has not read: remove it only if the reader is gone",
            ),
            records=records,
            partitions=len(held),
        )

    def _add_mirror(self, collector: Collector, reader: ExternalReaderRequest, position: ExternalPosition) -> None:
        """Add a mirror whose syncs were read, with a draft that declares it."""
        topics = sorted(position.topics & self.facts.snapshot.topics.keys())
        if not topics:
            return
        identifier = collector.add(
            reader.at,
            title="declare the mirror, so that floors wait for it",
            confidence=Confidence.MEDIUM,
            evidence=(
                f"it has offset syncs of {count(len(topics), 'topic')} here: {first_few(topics)}",
                f"the newest one was written at {format_time(position.written_at_ms)}",
            ),
            counter_evidence=(
                "a sync may be offset.lag.max records behind the mirror",
                "with offset-syncs.topic.location: target the mirror writes here, and its syncs are of the other cluster",
                "topics that it mirrors later have to be added, and a mirror that is gone holds them for ever",
            ),
            partitions=len(position.offsets),
        )
        spec = {"topics": topics[:NAMES_MAX], "position": {reader.kind.value: reader.at}}
        if identifier:
            self.readers.append((self._manifest(ExternalReader, _manifest_name(reader.at), spec), [identifier]))

    # --- leaders

    def _leaders(self, collector: Collector) -> None:
        snapshot = self.facts.snapshot
        free = (name for name in sorted(snapshot.topics) if not self.facts.is_covered(LeaderPolicy, name))
        topics = [name for name in free if re.fullmatch(TOPIC_TEXT, name)]
        if snapshot.topics_incomplete is not None:
            collector.cannot_tell(f"there may be more topics: {snapshot.topics_incomplete.reason}")
        rule = _Rule(LeaderPolicy, "preferred-leaders", lambda names: {"topics": list(names), "election": "preferred"})
        for topic, elections, decisions in self._decided(collector, rule, topics, ElectLeader):
            moves = Counter(election.move for election in elections)
            words = [f"{number} {move}" for move, number in sorted(moves.items(), key=lambda item: (-item[1], item[0]))]
            partitions = snapshot.topics[topic].partitions
            total = partitions if isinstance(partitions, int) else len(decisions)
            led = f"{len(elections)} of {count(total, 'partition')} not led by the first replica"
            counter_evidence = ["brokers with auto.leader.rebalance.enable do it by themselves, after some minutes"]
            if waiting := [decision for decision in decisions if isinstance(decision, Waiting)]:
                counter_evidence.append(f"{count(len(waiting), 'more partition')} would wait: {waiting[0].reason}")
            identifier = collector.add(
                topic,
                title="elect the preferred leaders",
                confidence=Confidence.HIGH,
                evidence=(f"{led}, which is alive and in sync: {first_few(words, limit=4)}",),
                counter_evidence=tuple(counter_evidence),
                partitions=len(elections),
            )
            if identifier:
                self.candidates[identifier] = rule, elections
        most = self.facts.cluster.limit(ELECTIONS)
        self._choose(collector, "elections", most, lambda finding: finding.partitions or 0)

    # --- manifests

    def _manifest(self, kind: type[_M], name: str, spec: Mapping[str, Any], reason: str | None = None) -> _M:
        metadata = {"name": name, "cluster": self.facts.cluster.metadata.name, "owner": OWNER}
        return kind.model_validate(
            {
                "apiVersion": "reconciler/v1",
                "kind": kind.__name__,
                "metadata": metadata if reason is None else {**metadata, "reason": reason},
                **({"mode": Mode.MERGE.value} if "mode" in kind.model_fields else {}),
                "spec": dict(spec),
            }
        )

    def _decided(
        self,
        collector: Collector,
        rule: _Rule,
        names: Sequence[str],
        operation: type[_A],
        snapshot: ClusterSnapshot | None = None,
    ) -> Iterator[tuple[str, Sequence[_A], Sequence[Decision]]]:
        """Yield the topics or groups that a policy with these names would change, with its actions and decisions.

        Of a name with a decision that rests on a fact that was not read, the collector cannot tell.
        """
        for chunk in _chunks(names):
            policy = self._manifest(rule.kind, "suggested", rule.spec(chunk))
            by_name: defaultdict[str, list[Decision]] = defaultdict(list)
            for decision in policy.decide(dict.fromkeys(chunk, True), snapshot or self.facts.snapshot):
                by_name[decision.address.name].append(decision)
                if isinstance(decision, Undecided):
                    self.facts.ask(decision.partition, decision.lookups)
            for name, decisions in by_name.items():
                actions = [decision for decision in decisions if isinstance(decision, operation)]
                unread = [decision for decision in decisions if isinstance(decision, Blocked) and decision.unread]
                if unread:
                    collector.cannot_tell(unread[0].reason, format_subject(policy.address_of(name)))
                elif actions:
                    yield name, actions, decisions

    def _choose(self, collector: Collector, name: str, most: float, amount: Callable[[Finding], int]) -> None:
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
        taken = {policy.address for policy in self.facts.policies}
        policies: list[tuple[Policy, Sequence[str]]] = []

        def order(item: tuple[_Rule, Sequence[Finding]]) -> tuple[int, str, list[str]]:
            rule, findings = item
            return list(FindingKind).index(findings[0].kind), rule.base, sorted(of.subject for of in findings)

        by_rule: defaultdict[_Rule, list[Finding]] = defaultdict(list)
        for finding in self.drafted.values():
            by_rule[self.candidates[finding.id][0]].append(finding)
        for rule, findings in sorted(by_rule.items(), key=order):
            ids = {finding.subject: finding.id for finding in findings}
            for chunk in _chunks(sorted(ids)):
                number, name = 1, _manifest_name(rule.base)
                while Address(rule.kind.__name__, name) in taken:
                    number += 1
                    name = _manifest_name(rule.base, f"-{number}")
                reason = f"suggested from {count(len(chunk), 'finding')} of a scan, to be reviewed"
                policy = self._manifest(rule.kind, name, rule.spec(chunk), reason)
                taken.add(policy.address)
                policies.append((policy, [ids[subject] for subject in chunk]))
        return policies


def _floor_spec(topics: Sequence[str], groups: Sequence[str]) -> dict[str, Any]:
    return {
        "topics": list(topics),
        "expectAtMost": len(topics),
        "keep": {"unreadBy": list(groups)},
        "consumers": LagPolicy.BLOCK.value,
    }


def _manifest_name(base: str, ending: str = "") -> str:
    """Return a name for a manifest from any text; a long one is cut."""
    text = re.sub("[^a-z0-9.-]+", "-", base.lower()).strip(".-")[: 63 - len(ending)].strip(".-") + ending
    assert re.fullmatch(NAME_TEXT, text), text
    return text


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many names at once as a manifest takes."""
    return (names[start : start + NAMES_MAX] for start in range(0, len(names), NAMES_MAX))


def _share(records: int, total: int, noun: str = "record") -> str:
    """Return `70 records (35 %)`; an upper bound of the records is never more than all."""
    return count(records, noun) + (f" ({percent(min(100.0, 100 * records / total))})" if total else "")


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _groups(names: Sequence[str]) -> str:
    return first_few([quoted(name) for name in names])


def _records_of(held: Counter[str], noun: str) -> str:
    """Return `1,200 records of orders`, or the sum and the first topics."""
    topics = [display_name(topic) for topic in sorted(held, key=lambda topic: (-held[topic], topic))]
    return f"{count(held.total(), noun)} of {first_few(topics)}"
