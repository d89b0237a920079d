"""Reads a cluster's facts from a few readable lines of JSON, for golden cases.

    {
      "topics": {"orders": {"partitions": [
        {"log_start": 1000, "end": 250000, "at": {"7d": 98213}, "readers": {"billing": 52000}}
      ]}},
      "groups": {"old-etl": {"commits": 12, "topics": 3, "idle": "6d"}},
      "external": {"lake": {"orders": {"0": 52000}, "written": "3d"}}
    }

Facts that are not listed are healthy. Ages are before 2026-11-21T10:00:00Z. `at` maps an age to
the first offset of that age. An instant before the oldest listed one has the offset of the oldest
one; an instant after all listed ones has no offset. `{"unread": "why"}` is an unknown fact.
`repeat: 64, step: 10` makes 64 partitions whose offsets grow by ten. `observed` lists the age of an
observation of a group, its commit on orders[0], and the last stable offset there.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.model.names import TopicPartition
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    ExternalPosition,
    GroupFacts,
    GroupObservation,
    GroupState,
    GroupType,
    ObservedCommit,
    PartitionFacts,
    TopicFacts,
    Unknown,
)
from reconciler.policies.fields import duration_ms, instant_ms
from tests.strategies.facts import OldRecords

NOW_MS = instant_ms("2026-11-21T10:00:00Z")
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"

_TOP = {
    "consumer_offsets_hidden",
    "brokers",
    "topics",
    "groups",
    "external",
    "topics_incomplete",
    "groups_incomplete",
    "readers_incomplete",
    "cluster_records",
}
_TOPIC = {"topic_id", "internal", "cleanup", "records", "partitions", "consumers"}
_PARTITION = {
    "log_start", "end", "last_stable_offset", "high_watermark", "leader", "replicas", "in_sync", "at", "readers", "readers_below",
    "last_purge", "repeat", "step",
}  # fmt: skip
_GROUP = {
    "listed",
    "type",
    "state",
    "commits",
    "topics",
    "fingerprint",
    "idle",
    "newest_record",
    "consumption",
    "observed",
}


def snapshot(path: Path, request: ScanRequest) -> ClusterSnapshot:
    """Read the facts of a snapshot.json, with an offset for each instant in `instants`.

    Raises ValueError for an unknown name, so that a typing mistake is not read as a healthy fact.
    """
    document = _check_names(json.loads(path.read_text(encoding="utf-8")), _TOP, "the snapshot")
    instants = sorted({instant for topic_request in request.topics for instant in topic_request.instants_ms})
    topics, partitions = {}, {}
    for name, facts in document.get("topics", {}).items():
        partition_rows = [repeated_row for row in facts.get("partitions", [{}]) for repeated_row in _repeat(row)]
        listed = {TopicPartition(name, number): row for number, row in enumerate(partition_rows)}
        topics[name] = _topic(name, _check_names(facts, _TOPIC, name), len(partition_rows))
        for partition, row in listed.items():
            partitions[partition] = _partition(partition, row, topics[name], instants)
    return ClusterSnapshot(
        cluster_id=CLUSTER_ID,
        observed_at_ms=NOW_MS,
        brokers=tuple(document.get("brokers", (1, 2, 3))),
        topics=topics,
        groups={
            name: _group(name, _check_names(facts, _GROUP, name)) for name, facts in document.get("groups", {}).items()
        },
        partitions=partitions,
        consumer_offsets_hidden=document.get("consumer_offsets_hidden", False),
        external={
            reader: _external(document["external"][reader.name.partition("/")[2]]) for reader in request.external
        },
        topics_incomplete=_incomplete(document, "topics_incomplete"),
        groups_incomplete=_incomplete(document, "groups_incomplete"),
        readers_incomplete=_incomplete(document, "readers_incomplete"),
        cluster_records=_fact(document.get("cluster_records", 1_000_000_000)),
    )


def topic_id(name: str) -> str:
    """The default id of a topic: 22 characters, the same in every run."""
    return hashlib.sha256(name.encode()).hexdigest()[:22]


def _external(row: Mapping[str, Any]) -> ExternalPosition | Unknown:
    """Return a position: offsets by topic and partition, and the age of their writing."""
    if isinstance(fact := _fact(row), Unknown):
        return fact
    topics = {topic: of for topic, of in row.items() if topic != "written"}
    offsets = {TopicPartition(topic, int(number)): at for topic, of in topics.items() for number, at in of.items()}
    return ExternalPosition(offsets, NOW_MS - duration_ms(row["written"]))


def _check_names(row: Mapping[str, Any], names: set[str], location: str) -> Mapping[str, Any]:
    if unknown := set(row) - names:
        raise ValueError(f"{location}: unknown {sorted(unknown)}")
    return row


def _fact(value: Any) -> Any:
    return Unknown(value["unread"]) if isinstance(value, dict) and set(value) == {"unread"} else value


def _incomplete(document: Mapping[str, Any], name: str) -> Unknown | None:
    return Unknown(document[name]) if name in document else None


def _repeat(row: dict[str, Any]) -> list[dict[str, Any]]:
    count, step = row.get("repeat", 1), row.get("step", 0)
    offsets = ("log_start", "end", "last_stable_offset", "high_watermark")

    def shift_row(number: int) -> dict[str, Any]:
        def shift(value: Any) -> Any:
            return value + number * step if type(value) is int else value

        row_copy = {name: shift(value) if name in offsets else value for name, value in row.items()}
        return row_copy | {"at": {age: shift(value) for age, value in row.get("at", {}).items()}}

    return [shift_row(number) for number in range(count)]


def _topic(name: str, facts: Mapping[str, Any], partitions: int) -> TopicFacts:
    policy = _fact(facts.get("cleanup", ["delete"]))
    rows = [repeated_row for row in facts.get("partitions", [{}]) for repeated_row in _repeat(row)]
    offsets_known = all(type(row.get("end", 0)) is int and type(row.get("log_start", 0)) is int for row in rows)
    records = (
        sum(max(0, row.get("last_stable_offset", row.get("end", 0)) - row.get("log_start", 0)) for row in rows)
        if offsets_known
        else None
    )
    read = [row for row in rows if type(row.get("end", 0)) is int and type(row.get("log_start", 0)) is int]
    records_min = sum(
        max(0, row.get("last_stable_offset", row.get("end", 0)) - row.get("log_start", 0)) for row in read
    )
    consumers = frozenset(
        group
        for row in rows
        for group in row.get("readers", {})
        if isinstance(group, str) and "unread" not in row["readers"]
    )
    return TopicFacts(
        name=name,
        topic_id=_fact(facts.get("topic_id", topic_id(name))),
        internal=facts.get("internal", False),
        partitions=partitions,
        cleanup_policy=policy if isinstance(policy, Unknown) else frozenset(policy),
        kept_forever=policy if isinstance(policy, Unknown) else None,
        records=_fact(facts.get("records", Unknown("a partition could not be read") if records is None else records)),
        records_min=0
        if isinstance(policy, Unknown) or "compact" in policy
        else facts["records"]
        if type(facts.get("records")) is int
        else records_min,
        consumers=frozenset(facts.get("consumers", consumers)),
    )


def _partition(
    partition: TopicPartition, row: Mapping[str, Any], topic: TopicFacts, instants: list[int]
) -> PartitionFacts:
    _check_names(row, _PARTITION, str(partition))
    end = _fact(row.get("end", 0))
    last_stable_offset = _fact(row.get("last_stable_offset", end))
    replicas = tuple(row.get("replicas", (1, 2, 3)))
    return PartitionFacts(
        partition=partition,
        topic_id=topic.topic_id,
        leader=_fact(row.get("leader", replicas[0])),
        replicas=replicas,
        in_sync=tuple(row.get("in_sync", replicas)),
        log_start=_fact(row.get("log_start", 0)),
        last_stable_offset=last_stable_offset,
        high_watermark=_fact(row.get("high_watermark", end)),
        offsets_at={instant: _answer(row.get("at", {}), instant) for instant in instants},
        readers=_readers(row.get("readers", {}), topic),
        readers_below=_fact(row.get("readers_below", last_stable_offset)),
        last_purge=None if "last_purge" not in row else NOW_MS - duration_ms(row["last_purge"]),
        lookups=OldRecords(),
    )


def _answer(listed: Mapping[str, Any], instant: int) -> Any:
    """Return the first offset at or after the instant.

    It is the offset of the earliest listed instant that is not before it.
    """
    instants = sorted(
        (instant_ms(when) if "T" in when else NOW_MS - duration_ms(when), offset) for when, offset in listed.items()
    )
    return next((_fact(offset) for when, offset in instants if when >= instant), None)


def _readers(rows: Any, topic: TopicFacts) -> tuple[ConsumerPosition, ...] | Unknown:
    rows = _fact(rows)
    if isinstance(rows, Unknown):
        return rows
    rows = {group: row if isinstance(row, dict) else {"committed": row} for group, row in rows.items()}
    return tuple(
        ConsumerPosition(
            group=group,
            committed=row["committed"],
            without_commit=row.get("implied", False),
            topic_id=_fact(row.get("topic_id", topic.topic_id)),
        )
        for group, row in sorted(rows.items())
    )


def _group(name: str, facts: Mapping[str, Any]) -> GroupFacts:
    idle = _fact(facts.get("idle", "0s"))
    newest = _fact(facts.get("newest_record", Unknown("not asked") if isinstance(idle, Unknown) else [17, 4711]))
    kind, state = _fact(facts.get("type", "classic")), _fact(facts.get("state", "EMPTY"))
    return GroupFacts(
        group=name,
        listed=facts.get("listed", True),
        type=kind if isinstance(kind, Unknown) else GroupType(kind),
        state=state if isinstance(state, Unknown) else GroupState(state),
        commits=_fact(facts.get("commits", 1)),
        commit_topics=_fact(facts.get("topics", 1)),
        fingerprint=_fact(facts.get("fingerprint", hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest())),
        last_activity_ms=idle if isinstance(idle, Unknown) else NOW_MS - duration_ms(idle),
        newest_record=newest if isinstance(newest, Unknown) else (newest[0], newest[1]),
        consumption_unread=_fact(facts.get("consumption")),
        observations=tuple(_observation(name, *seen) for seen in facts["observed"]) if "observed" in facts else None,
    )


def _observation(group: str, age: str, offset: int, end: int) -> GroupObservation:
    """Return an observation of this age: a commit on orders[0], and the last stable offset there."""
    commit = ObservedCommit(
        topic="orders", topic_id=topic_id("orders"), partition=0, offset=offset, last_stable_offset=end
    )
    at_ms = NOW_MS - duration_ms(age)
    return GroupObservation(at_ms=at_ms, group=group, type=GroupType.CLASSIC, state=GroupState.EMPTY, commits=(commit,))
