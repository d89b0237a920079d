"""Decisions as rows of the plan file. `impact`, `irreversible` and the like are derived: written for readers, never read back.

The inverse is in parse.py, and invariant 8 holds the two together.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, assert_never

from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Satisfied, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords, Preconditions
from reconciler.operations.elect_leader import ElectLeader

Row = dict[str, Any]


def action_row(action: Action) -> Row:
    """One line of `actions`."""
    return {
        "address": str(action.address),
        "declared_at": place_row(action.declared_at),
        "operation": action.OPERATION,
        "request": request_row(action),
        **_facts(action),
        "reason": action.reason,
        "mode": action.mode.value,
        "drift": action.drift,
        "irreversible": action.irreversible,
        "impact": impact(action),
    }


def request_row(action: Action) -> Row:
    """What is sent; of an election also who is wanted, which the request itself cannot say."""
    match action:
        case DeleteRecords(partition=at, before_offset=before_offset):
            return {"topic": at.topic, "partition": at.partition, "before_offset": before_offset}
        case DeleteGroup(group=group):
            return {"group": group}
        case ElectLeader(partition=at, election=election, leader_wanted=wanted):
            return {"topic": at.topic, "partition": at.partition, "election": election.value, "leader_wanted": wanted}
        case _:
            assert_never(action)


def _facts(action: Action) -> Row:
    match action:
        case DeleteRecords(seen=partition):
            seen = {
                "topic_id": partition.topic_id,
                "log_start": partition.log_start,
                "stable_end": partition.stable_end,
                "high_watermark": partition.high_watermark,
                "leader": partition.leader,
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
            }
            return {"guard": guard_row(action.guard), "seen": seen, "vouched": action.vouched}
        case DeleteGroup(seen=group):
            seen = {
                "type": group.type.value,
                "state": group.state.value,
                "commits": group.commits,
                "commit_topics": group.commit_topics,
                "fingerprint": group.fingerprint,
                "last_activity_ms": group.last_activity_ms,
                "newest_record": record_row(group.newest_record),
            }
            return {"guard": {"idle_for_ms": action.idle_for_ms}, "seen": seen}
        case ElectLeader(seen=leadership):
            seen = {
                "topic_id": leadership.topic_id,
                "leader": leadership.leader,
                "replicas": leadership.replicas,
                "in_sync": leadership.in_sync,
            }
            return {"seen": seen}
        case _:
            assert_never(action)


def impact(action: Action) -> Row:
    """The upper bound of what an action costs. `records_removed_max` null: unbounded."""
    match action:
        case DeleteRecords():
            skips = [{"group": group, "records_max": records} for group, records in action.skips]
            return {"records_removed_max": action.records_max, "skips": skips}
        case DeleteGroup():
            return {"commits_lost": action.seen.commits, "topics": action.seen.commit_topics}
        case ElectLeader(election=Election.UNCLEAN):
            return {"records_removed_max": None}
        case ElectLeader():
            return {"records_removed_max": 0}
        case _:
            assert_never(action)


def guard_row(guard: Preconditions) -> Row:
    """What a purge was decided under, in file and digest alike."""
    return {
        "consumers": guard.consumers.value,
        "named": guard.named,
        "accepted": [{"group": reader.group, "committed": reader.committed} for reader in guard.accepted],
        "except_groups": guard.except_groups,
        "every_ms": guard.every_ms,
    }


def record_row(record: tuple[int, int] | None) -> Row | None:
    """A record of `__consumer_offsets`."""
    return None if record is None else {"partition": record[0], "offset": record[1]}


def place_row(place: SourceLocation) -> Row:
    """Where something was declared."""
    return {"path": place.path, "line": place.line, "column": place.column}


def waiting_row(waiting: Waiting) -> Row:
    """One line of `waiting`."""
    return {
        "address": str(waiting.address),
        "declared_at": place_row(waiting.declared_at),
        "reason": waiting.reason,
        "until_ms": waiting.until_ms,
    }


def blocked_row(blocked: Blocked) -> Row:
    """One line of `blocked`, or of `unread`: the section says which."""
    return {
        "address": str(blocked.address),
        "declared_at": place_row(blocked.declared_at),
        "code": blocked.code,
        "reason": blocked.reason,
        "next_step": blocked.next_step,
    }


def skipped_row(skipped: Skipped) -> Row:
    """One line of `skipped`."""
    return {"address": str(skipped.address), "reason": skipped.reason}


def satisfied_rows(satisfied: Iterable[Satisfied]) -> Iterator[Row]:
    """One line per topic with its partition numbers as ranges ("0-4,6"), one per group: in sync is the common case, so it is short."""

    def topic_of(one: Satisfied) -> tuple[str, bool]:
        address = one.address
        whole = Address(address.kind, address.policy, address.name)
        return str(whole), address.partition >= 0

    for (whole, partitioned), members in groupby(satisfied, key=topic_of):
        if partitioned:
            yield {"address": whole, "partitions": ranges(one.address.partition for one in members)}
        else:
            for _one in members:
                yield {"address": whole}


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers as "0-4,6,8-9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
