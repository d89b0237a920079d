"""Builders of manifests, facts and snapshots with defaults, for tests that set only the relevant
fields.

Times are ages before NOW_MS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from reconciler.model.names import SourceLocation, TopicPartition
from reconciler.model.plan import Plan
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    GroupFacts,
    GroupState,
    GroupType,
    LookupKind,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    TopicFacts,
    Unknown,
)
from reconciler.plan import planner
from reconciler.plan.rules import RuleSet
from reconciler.plan.targets import check_targets, find_targets
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver

NOW_MS = 1_795_255_200_000  # 2026-11-21T10:00:00Z
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
TOPIC_ID = "kAwXdc4bS8uMfEXAMPLE0g"
OTHER_ID = "bbbbbbbbbbbbbbbbbbbbbg"
LOST = Unknown("broker 2 did not answer")
M = TypeVar("M", bound=Envelope)


LONG_AGO_MS = 1_000_000_000_000  # 2001-09-09, a plausible timestamp that every rule calls old


class OldRecords(dict[RecordLookup, RecordStamp | Unknown | None]):
    """Answers to lookups: where none is given, each offset holds a record with an old timestamp."""

    def __bool__(self) -> bool:
        return True

    def get(self, lookup: RecordLookup, _default: Any = None) -> Any:
        if lookup in self:
            return self[lookup]
        offset = lookup.end - 1 if lookup.kind is LookupKind.LAST else lookup.start
        return RecordStamp(0 if lookup.kind in (LookupKind.NEWEST, LookupKind.UNCOMMITTED) else offset, LONG_AGO_MS)


def is_pattern(selector: str) -> bool:
    return any(mark in selector for mark in "*?[:")


def manifest(kind: str, name: str, spec: Mapping[str, Any], **envelope: Any) -> dict[str, Any]:
    """A manifest as data; `owner` and `reason` go into its metadata."""
    metadata = {"name": name} | {key: envelope.pop(key) for key in ("owner", "reason") if key in envelope}
    return {"apiVersion": "reconciler/v1", "kind": kind, "metadata": metadata, "spec": dict(spec), **envelope}


def _model(kind: type[M], file: str, line: int, name: str, spec: Mapping[str, Any], **envelope: Any) -> M:
    """The manifest of a kind at a line of this file."""
    of_kind = manifest(kind.__name__, name, spec, **envelope)
    return kind.model_validate(of_kind).with_location(SourceLocation(f"manifests/{file}.yaml", line, 1))


def _selecting(key: str, names: Sequence[str], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy on these names; with a pattern, expectAtMost is high enough."""
    return {key: list(names)} | ({"expectAtMost": 1000} if any(map(is_pattern, names)) else {}) | dict(spec)


def cluster(**spec: Any) -> Cluster:
    """The cluster prod-eu; arguments are fields of its spec."""
    fields = {"clusterId": CLUSTER_ID, "bootstrapServers": ["broker-1:9093"], **spec}
    return _model(Cluster, "cluster", 1, "prod-eu", fields)


def floor(*topics: str, name: str = "gdpr", envelope: Mapping[str, Any] = {}, **spec: Any) -> RetentionFloor:
    """A floor on `orders` unless topics are given."""
    return _model(RetentionFloor, "floors", 9, name, _selecting("topics", topics or ["orders"], spec), **envelope)


def removal(*groups: str, name: str = "dead", envelope: Mapping[str, Any] = {}, **spec: Any) -> GroupRemoval:
    """A removal of `old-etl` unless groups are given; idle for three days."""
    fields = _selecting("groups", groups or ["old-etl"], {"idleFor": "3d"} | spec)
    return _model(GroupRemoval, "groups", 4, name, fields, **envelope)


def leaders(
    *topics: str, name: str = "all", line: int = 6, envelope: Mapping[str, Any] = {}, **spec: Any
) -> LeaderPolicy:
    """Preferred leaders of all topics unless topics or partitions are given."""
    fields = spec if "partitions" in spec else {"topics": list(topics) or ["*"]} | spec
    return _model(LeaderPolicy, "leaders", line, name, fields, **envelope)


def waiver(
    policy: str, limit: str, value: float, *, name: str = "once", expires: str = "2026-12-01T00:00:00Z"
) -> Waiver:
    spec = {"policy": policy, "limit": limit, "value": value, "expires": expires}
    return _model(Waiver, "waivers", 1, name, spec)


def partition(
    number: int = 0, *, topic: str = "orders", at: Mapping[int, int | Unknown | None] | None = None, **facts: Any
) -> PartitionFacts:
    """A healthy partition with offsets 0 to 100.

    `at`: age in ms → first offset at or after NOW_MS minus that age.
    """
    end = facts.pop("end", 100)
    answers = {NOW_MS - age: answer for age, answer in (at or {}).items()}
    defaults: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "leader": 1,
        "replicas": (1, 2, 3),
        "in_sync": (1, 2, 3),
        "log_start": 0,
        "last_stable_offset": end,
        "high_watermark": end,
        "offsets_at": answers,
        "readers": (),
        "readers_below": end,
        "last_purge": None,
        "lookups": OldRecords(),
    }
    return PartitionFacts(partition=TopicPartition(topic, number), **(defaults | facts))


def reader(group: str, committed: int, **facts: Any) -> ConsumerPosition:
    """A consumer with a committed offset for the present topic id."""
    return ConsumerPosition(group, committed, **({"topic_id": TOPIC_ID} | facts))


def topic(name: str = "orders", partitions: int | Unknown = 1, **facts: Any) -> TopicFacts:
    defaults: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "internal": False,
        "cleanup_policy": frozenset({"delete"}),
        "kept_forever": None,
        "records": 1000,
        "consumers": frozenset({"some-reader"}),
    }
    fields = defaults | facts
    fields.setdefault("records_min", 0 if isinstance(fields["records"], Unknown) else fields["records"])
    return TopicFacts(name=name, partitions=partitions, **fields)


def group(name: str = "old-etl", *, idle: int | Unknown = 6 * DAY, **facts: Any) -> GroupFacts:
    """A classic group, EMPTY, with twelve commits on three topics, last active `idle` ms ago."""
    defaults: dict[str, Any] = {
        "listed": True,
        "type": GroupType.CLASSIC,
        "state": GroupState.EMPTY,
        "commits": 12,
        "commit_topics": 3,
        "fingerprint": "ab" * 32,
        "last_activity_ms": idle if isinstance(idle, Unknown) else NOW_MS - idle,
        "newest_record": (17, 4711),
        "consumption_unread": None,
    }
    return GroupFacts(group=name, **(defaults | facts))


def external_reader(*topics: str) -> ExternalReaderRequest:
    """The external reader `lake` of these topics, whose position is in a table."""
    return ExternalReaderRequest(
        name="ExternalReader/lake", topics=tuple(map(Selector, topics)), kind=PositionKind.TABLE, at="/x.csv"
    )


def snapshot(*facts: PartitionFacts | TopicFacts | GroupFacts, **changes: Any) -> ClusterSnapshot:
    """A complete snapshot. A topic without facts has as many partitions as were given."""
    partitions = {fact.partition: fact for fact in facts if isinstance(fact, PartitionFacts)}
    numbers: dict[str, int] = {}
    for name in partitions:
        numbers[name.topic] = max(numbers.get(name.topic, 0), name.partition + 1)
    topics = {name: topic(name, count) for name, count in numbers.items()}
    topics |= {fact.name: fact for fact in facts if isinstance(fact, TopicFacts)}
    defaults: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "observed_at_ms": NOW_MS,
        "brokers": (1, 2, 3),
        "topics": topics,
        "groups": {fact.group: fact for fact in facts if isinstance(fact, GroupFacts)},
        "partitions": partitions,
        "readers_incomplete": None,
        "cluster_records": 100_000,
    }
    return ClusterSnapshot(**(defaults | changes))


def planned(
    policies: Policy | list[Policy], facts: ClusterSnapshot, *, targets: Sequence[str] = (), **changes: Any
) -> Plan:
    """The plan of one or more policies on these facts, or of what `targets` mean."""
    policy_list = policies if isinstance(policies, list) else [policies]
    given = {part.name: changes.pop(part.name) for part in fields(RuleSet) if part.name in changes}
    of_rules: dict[str, Any] = {"cluster": cluster(), "policies": policy_list} | given
    rules = RuleSet(**of_rules)
    if not targets:
        return planner.plan(rules, facts, **changes)
    found = find_targets(targets, policy_list)
    plan = planner.plan(rules, facts, candidates=set().union(*found.values()), **changes)
    return check_targets(found, plan, facts)
