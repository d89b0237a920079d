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
from tests.strategies import facts
from tests.strategies.facts import NOW_MS

_LISTS = ("topics_incomplete", "groups_incomplete", "readers_incomplete")
_TOP = {"consumer_offsets_hidden", "brokers", "topics", "groups", "external", "cluster_records", *_LISTS}
_TOPIC = {"topic_id", "internal", "cleanup", "records", "partitions", "consumers"}
_PARTITION = {
    "log_start", "end", "last_stable_offset", "high_watermark", "leader", "replicas", "in_sync", "at", "readers", "readers_below",
    "last_purge", "repeat", "step",
}  # fmt: skip
_GROUP = {
    "listed", "type", "state", "commits", "topics", "fingerprint", "idle", "newest_record", "consumption", "observed",
    "commits_only",
}  # fmt: skip


def snapshot(path: Path, request: ScanRequest) -> ClusterSnapshot:
    """Read the facts of a snapshot.json, with an offset for each instant in `instants`.

    Raises ValueError for an unknown name, so that a typing mistake is not read as a healthy fact.
    """
    document = _check_names(json.loads(path.read_text(encoding="utf-8")), _TOP, "the snapshot")
    instants = sorted({instant for topic_request in request.topics for instant in topic_request.instants_ms})
    topics, partitions = list[TopicFacts](), list[PartitionFacts]()
    for name, row in document.get("topics", {}).items():
        rows = [repeated for partition_row in row.get("partitions", [{}]) for repeated in _repeat(partition_row)]
        topics.append(_topic(name, _check_names(row, _TOPIC, name), rows))
        partitions += (_partition(number, of, topics[-1], instants) for number, of in enumerate(rows))
    groups = (_group(name, _check_names(row, _GROUP, name)) for name, row in document.get("groups", {}).items())
    return facts.snapshot(
        *(*topics, *partitions, *groups),
        brokers=tuple(document.get("brokers", (1, 2, 3))),
        consumer_offsets_hidden=document.get("consumer_offsets_hidden", False),
        external={
            reader: _external(document["external"][reader.name.partition("/")[2]]) for reader in request.external
        },
        cluster_records=_fact(document.get("cluster_records", 1_000_000_000)),
        **{name: Unknown(document[name]) if name in document else None for name in _LISTS},
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


def _repeat(row: dict[str, Any]) -> list[dict[str, Any]]:
    count, step = row.get("repeat", 1), row.get("step", 0)
    offsets = ("log_start", "end", "last_stable_offset", "high_watermark")

    def shift_row(number: int) -> dict[str, Any]:
        def shift(value: Any) -> Any:
            return value + number * step if type(value) is int else value

        row_copy = {name: shift(value) if name in offsets else value for name, value in row.items()}
        return row_copy | {"at": {age: shift(value) for age, value in row.get("at", {}).items()}}

    return [shift_row(number) for number in range(count)]


def _records(row: Mapping[str, Any]) -> int | None:
    """Return how many offsets below the last stable one a partition has; None: an end is not known."""
    log_start, end = row.get("log_start", 0), row.get("end", 0)
    if type(log_start) is not int or type(end) is not int:
        return None
    return max(0, row.get("last_stable_offset", end) - log_start)


def _topic(name: str, row: Mapping[str, Any], partitions: list[dict[str, Any]]) -> TopicFacts:
    policy = _fact(row.get("cleanup", ["delete"]))
    counts = [_records(partition) for partition in partitions]
    read = sum(count for count in counts if count is not None)
    records = row.get("records", Unknown("a partition could not be read") if None in counts else read)
    may_have_gaps = isinstance(policy, Unknown) or "compact" in policy
    readers = [partition.get("readers", {}) for partition in partitions]
    return TopicFacts(
        name=name,
        topic_id=_fact(row.get("topic_id", topic_id(name))),
        internal=row.get("internal", False),
        partitions=len(partitions),
        cleanup_policy=policy if isinstance(policy, Unknown) else frozenset(policy),
        kept_forever=policy if isinstance(policy, Unknown) else None,
        records=_fact(records),
        records_min=0 if may_have_gaps else records if type(records) is int else read,
        consumers=frozenset(
            row.get("consumers", (group for groups in readers if "unread" not in groups for group in groups))
        ),
    )


def _partition(number: int, row: Mapping[str, Any], topic: TopicFacts, instants: list[int]) -> PartitionFacts:
    _check_names(row, _PARTITION, f"{topic.name}[{number}]")
    end, replicas = _fact(row.get("end", 0)), tuple(row.get("replicas", (1, 2, 3)))
    defaults = {"log_start": 0, "last_stable_offset": end, "high_watermark": end, "leader": replicas[0]}
    offsets_and_leader = {name: _fact(row.get(name, default)) for name, default in defaults.items()}
    return facts.partition(
        number,
        topic=topic.name,
        topic_id=topic.topic_id,
        replicas=replicas,
        in_sync=tuple(row.get("in_sync", replicas)),
        offsets_at={instant: _answer(row.get("at", {}), instant) for instant in instants},
        readers=_readers(row.get("readers", {}), topic),
        readers_below=_fact(row.get("readers_below", offsets_and_leader["last_stable_offset"])),
        last_purge=None if "last_purge" not in row else NOW_MS - duration_ms(row["last_purge"]),
        **offsets_and_leader,
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


def _group(name: str, row: Mapping[str, Any]) -> GroupFacts:
    idle = _fact(row.get("idle", "0s"))
    newest = _fact(row.get("newest_record", Unknown("not asked") if isinstance(idle, Unknown) else [17, 4711]))
    kind, state = _fact(row.get("type", "classic")), _fact(row.get("state", "EMPTY"))
    return facts.group(
        name,
        idle=idle if isinstance(idle, Unknown) else duration_ms(idle),
        listed=row.get("listed", True),
        type=kind if isinstance(kind, Unknown) else GroupType(kind),
        state=state if isinstance(state, Unknown) else GroupState(state),
        commits=_fact(row.get("commits", 1)),
        commit_topics=_fact(row.get("topics", 1)),
        fingerprint=_fact(row.get("fingerprint", hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest())),
        newest_record=newest if isinstance(newest, Unknown) else (newest[0], newest[1]),
        consumption_unread=_fact(row.get("consumption")),
        observations=tuple(_observation(name, *seen) for seen in row["observed"]) if "observed" in row else None,
        commits_only=row.get("commits_only", False),
    )


def _observation(group: str, age: str, offset: int, end: int) -> GroupObservation:
    """Return an observation of this age: a commit on orders[0], and the last stable offset there."""
    commit = ObservedCommit(
        topic="orders", topic_id=topic_id("orders"), partition=0, offset=offset, last_stable_offset=end
    )
    at_ms = NOW_MS - duration_ms(age)
    return GroupObservation(at_ms=at_ms, group=group, type=GroupType.CLASSIC, state=GroupState.EMPTY, commits=(commit,))
