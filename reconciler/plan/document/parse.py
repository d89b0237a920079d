"""Rows of the plan file as decisions, each value checked: what this accepts, apply may act upon.

Refused with ValueError: a missing, repeated, unknown or mistyped field; a target that is not `log_start < target <= stable_end`
(-1 would mean "everything up to now"); an address that names another subject than the request; a derived value that says
something else than the facts beside it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from reconciler.model.action import Action, Mode
from reconciler.model.election import Election
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Satisfied, Skipped, Waiting
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.delete_group import DeleteGroup, ObservedGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership
from reconciler.plan.document import checks, rows

_T = TypeVar("_T")
_SHARED_MAX = 4096
_RANGES = re.compile(r"[0-9]{1,10}(-[0-9]{1,10})?(,[0-9]{1,10}(-[0-9]{1,10})?)*")

_ADDRESSED = frozenset({"address", "declared_at"})
_ACTION = _ADDRESSED | {"operation", "request", "seen", "reason", "mode", "drift", "irreversible", "impact"}
_FIELDS = {
    "delete_records": _ACTION | {"guard", "vouched"},
    "delete_group": _ACTION | {"guard"},
    "elect_leader": _ACTION,
}
_PLACE = frozenset({"path", "line", "column"})
_GUARD = frozenset({"consumers", "named", "accepted", "except_groups", "every_ms"})
_ACCEPTED = frozenset({"group", "committed"})
_REQUEST_RECORDS = frozenset({"topic", "partition", "before_offset"})
_REQUEST_ELECTION = frozenset({"topic", "partition", "election", "leader_wanted"})
_SEEN_LEADERSHIP = frozenset({"topic_id", "leader", "replicas", "in_sync"})
_SEEN_PARTITION = _SEEN_LEADERSHIP | {"log_start", "stable_end", "high_watermark"}
_SEEN_GROUP = frozenset(
    {"type", "state", "commits", "commit_topics", "fingerprint", "last_activity_ms", "newest_record"}
)


class RowParser:
    """Parses the rows of one file. Equal places, guards, texts and replica lists become one object, which halves a large plan.

    `newer`: the file's minor version is newer than this program's, so that unknown fields are let pass.
    """

    __slots__ = ("_newer", "_shared")

    def __init__(self, *, newer: bool = False) -> None:
        self._newer = newer
        self._shared: dict[Any, Any] = {}

    def _share(self, value: _T) -> _T:
        if len(self._shared) >= _SHARED_MAX:
            self._shared.clear()
        found: _T = self._shared.setdefault(value, value)
        return found

    def _keys(self, row: object, wanted: frozenset[str], where: str) -> Mapping[str, Any]:
        return checks.keys(row, wanted, where=where, newer=self._newer)

    def action(self, row: object) -> Action:
        """An action. Raises ValueError."""
        operation = row.get("operation") if isinstance(row, dict) else None
        if type(operation) is not str or operation not in _FIELDS:
            raise ValueError(f"operation is {checks.shown(operation)}, expected one of {', '.join(_FIELDS)}")
        fields = self._keys(row, _FIELDS[operation], "the action")
        action: Action
        match operation:
            case "delete_records":
                action = self._delete_records(fields)
            case "delete_group":
                action = self._delete_group(fields)
            case _:
                action = self._elect_leader(fields)
        if checks.flag(fields["irreversible"], "irreversible") is not action.irreversible:
            raise ValueError("irreversible says something else than the operation")
        impact = rows.impact(action)
        told = self._keys(fields["impact"], frozenset(impact), "impact")
        if any(told[name] != value or type(told[name]) is not type(value) for name, value in impact.items()):
            raise ValueError(
                f"impact says {checks.shown(dict(told))} where the facts beside it say {checks.shown(impact)}"
            )
        return action

    def _head(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "address": self.address(fields["address"]),
            "declared_at": self.place(fields["declared_at"]),
            "reason": self._share(checks.text(fields["reason"], "reason")),
            "mode": checks.member(fields["mode"], Mode, "mode"),
            "drift": checks.flag(fields["drift"], "drift"),
        }

    def _delete_records(self, fields: Mapping[str, Any]) -> DeleteRecords:
        request = self._keys(fields["request"], _REQUEST_RECORDS, "request")
        seen = self._seen_partition(fields["seen"])
        target = checks.integer(request["before_offset"], "request.before_offset", 1)
        if not seen.log_start < target <= seen.stable_end:
            raise ValueError(
                f"request.before_offset is {target}, which is not above the log start {seen.log_start} and at or below "
                f"the stable end {seen.stable_end}"
            )
        guard = self._guard(fields["guard"])
        vouched = checks.flag(fields["vouched"], "vouched")
        if vouched and not (guard.named and guard.consumers is LagPolicy.BLOCK and not guard.accepted):
            raise ValueError("vouched is true, but no named group under consumers: block vouches for these records")
        action = DeleteRecords(
            **self._head(fields),
            partition=self._partition(request),
            before_offset=target,
            seen=seen,
            guard=guard,
            vouched=vouched,
        )
        _same_subject(action.address, action.partition)
        return action

    def _delete_group(self, fields: Mapping[str, Any]) -> DeleteGroup:
        group = checks.non_empty(
            self._keys(fields["request"], frozenset({"group"}), "request")["group"], "request.group"
        )
        guard = self._keys(fields["guard"], frozenset({"idle_for_ms"}), "guard")
        action = DeleteGroup(
            **self._head(fields),
            group=group,
            idle_for_ms=checks.integer(guard["idle_for_ms"], "guard.idle_for_ms"),
            seen=self._seen_group(fields["seen"]),
        )
        if action.address.name != group or action.address.partition >= 0:
            raise ValueError(f"the address names another subject than the request, group {checks.shown(group)}")
        if action.idle_for_ms and (action.seen.newest_record is None or action.seen.last_activity_ms is None):
            raise ValueError(
                "idle_for_ms is set and the evidence of idleness (last_activity_ms, newest_record) is missing"
            )
        return action

    def _elect_leader(self, fields: Mapping[str, Any]) -> ElectLeader:
        request = self._keys(fields["request"], _REQUEST_ELECTION, "request")
        seen = self._keys(fields["seen"], _SEEN_LEADERSHIP, "seen")
        leader, wanted = seen["leader"], request["leader_wanted"]
        action = ElectLeader(
            **self._head(fields),
            partition=self._partition(request),
            election=checks.member(request["election"], Election, "request.election"),
            leader_wanted=None
            if wanted is None
            else checks.integer(wanted, "request.leader_wanted", 0, checks.MAX_INT32),
            seen=ObservedLeadership(
                topic_id=self._share(checks.non_empty(seen["topic_id"], "seen.topic_id")),
                leader=None if leader is None else checks.integer(leader, "seen.leader", 0, checks.MAX_INT32),
                replicas=self._brokers(seen["replicas"], "seen.replicas"),
                in_sync=self._brokers(seen["in_sync"], "seen.in_sync"),
            ),
        )
        _same_subject(action.address, action.partition)
        if action.election is Election.PREFERRED:
            if action.seen.replicas[:1] != (action.leader_wanted,):
                raise ValueError("leader_wanted is not the first of the replicas, as a preferred election has it")
        elif action.leader_wanted is not None or action.seen.leader is not None:
            raise ValueError("an unclean election is for a partition without a leader, and cannot choose the next one")
        return action

    def _partition(self, request: Mapping[str, Any]) -> TopicPartition:
        topic = self._share(checks.non_empty(request["topic"], "request.topic"))
        return TopicPartition(topic, checks.integer(request["partition"], "request.partition", 0, checks.MAX_INT32))

    def _seen_partition(self, row: object) -> ObservedPartition:
        seen = self._keys(row, _SEEN_PARTITION, "seen")
        return ObservedPartition(
            topic_id=self._share(checks.non_empty(seen["topic_id"], "seen.topic_id")),
            log_start=checks.integer(seen["log_start"], "seen.log_start"),
            stable_end=checks.integer(seen["stable_end"], "seen.stable_end"),
            high_watermark=checks.integer(seen["high_watermark"], "seen.high_watermark"),
            leader=checks.integer(seen["leader"], "seen.leader", 0, checks.MAX_INT32),
            replicas=self._brokers(seen["replicas"], "seen.replicas"),
            in_sync=self._brokers(seen["in_sync"], "seen.in_sync"),
        )

    def _seen_group(self, row: object) -> ObservedGroup:
        seen = self._keys(row, _SEEN_GROUP, "seen")
        newest, activity = seen["newest_record"], seen["last_activity_ms"]
        if newest is not None:
            fields = self._keys(newest, frozenset({"partition", "offset"}), "seen.newest_record")
            newest = (
                checks.integer(fields["partition"], "seen.newest_record.partition", 0, checks.MAX_INT32),
                checks.integer(fields["offset"], "seen.newest_record.offset"),
            )
        return ObservedGroup(
            type=checks.member(seen["type"], GroupType, "seen.type"),
            state=checks.member(seen["state"], GroupState, "seen.state"),
            commits=checks.integer(seen["commits"], "seen.commits"),
            commit_topics=checks.integer(seen["commit_topics"], "seen.commit_topics"),
            fingerprint=checks.non_empty(seen["fingerprint"], "seen.fingerprint"),
            last_activity_ms=None
            if activity is None
            else checks.integer(activity, "seen.last_activity_ms", -checks.MAX_INT64),
            newest_record=newest,
        )

    def _guard(self, row: object) -> Preconditions:
        fields = self._keys(row, _GUARD, "guard")
        accepted = [
            self._keys(item, _ACCEPTED, "guard.accepted[]")
            for item in checks.array(fields["accepted"], "guard.accepted")
        ]
        every = fields["every_ms"]
        return self._share(
            Preconditions(
                consumers=checks.member(fields["consumers"], LagPolicy, "guard.consumers"),
                named=checks.texts(fields["named"], "guard.named"),
                accepted=tuple(
                    AcceptedLag(
                        checks.text(item["group"], "guard.accepted[].group"),
                        checks.integer(item["committed"], "guard.accepted[].committed"),
                    )
                    for item in accepted
                ),
                except_groups=checks.texts(fields["except_groups"], "guard.except_groups"),
                every_ms=None if every is None else checks.integer(every, "guard.every_ms"),
            )
        )

    def _brokers(self, value: object, name: str) -> tuple[int, ...]:
        return self._share(checks.integers(value, name))

    def address(self, value: object) -> Address:
        """An address whose text is exactly this. Raises ValueError."""
        written = checks.text(value, "address")
        found = Address.parse(written)
        return Address(self._share(found.kind), self._share(found.policy), self._share(found.name), found.partition)

    def place(self, value: object) -> SourceLocation:
        row = self._keys(value, _PLACE, "declared_at")
        return self._share(
            SourceLocation(
                checks.text(row["path"], "declared_at.path"),
                checks.integer(row["line"], "declared_at.line"),
                checks.integer(row["column"], "declared_at.column"),
            )
        )

    def waiting(self, row: object) -> Waiting:
        fields = self._keys(row, _ADDRESSED | {"reason", "until_ms"}, "the waiting decision")
        until = fields["until_ms"]
        return Waiting(
            address=self.address(fields["address"]),
            declared_at=self.place(fields["declared_at"]),
            reason=self._share(checks.text(fields["reason"], "reason")),
            until_ms=None if until is None else checks.integer(until, "until_ms", -checks.MAX_INT64),
        )

    def blocked(self, row: object, *, unread: bool) -> Blocked:
        fields = self._keys(row, _ADDRESSED | {"code", "reason", "next_step"}, "the blocked decision")
        return Blocked(
            address=self.address(fields["address"]),
            declared_at=self.place(fields["declared_at"]),
            code=self._share(checks.text(fields["code"], "code")),
            reason=self._share(checks.text(fields["reason"], "reason")),
            next_step=self._share(checks.text(fields["next_step"], "next_step")),
            unread=unread,
        )

    def skipped(self, row: object) -> Skipped:
        fields = self._keys(row, frozenset({"address", "reason"}), "the skipped decision")
        return Skipped(
            address=self.address(fields["address"]), reason=self._share(checks.text(fields["reason"], "reason"))
        )

    def satisfied(self, row: object) -> Iterator[Satisfied]:
        """Every subject of the line, partitions in ascending order."""
        wanted = {"address", "partitions"} if isinstance(row, dict) and "partitions" in row else {"address"}
        fields = self._keys(row, frozenset(wanted), "the satisfied decision")
        whole = self.address(fields["address"])
        if "partitions" not in fields:
            yield Satisfied(whole)
            return
        written = checks.text(fields["partitions"], "partitions")
        if not _RANGES.fullmatch(written) or whole.partition >= 0 or not whole.name:
            raise ValueError(
                f"partitions is {checks.shown(written)}, expected numbers and ranges such as 0-4,6 of a topic"
            )
        for run in written.split(","):
            low, _, high = run.partition("-")
            last = checks.integer(int(high or low), "partitions", int(low), checks.MAX_INT32)
            for partition in range(int(low), last + 1):
                yield Satisfied(Address(whole.kind, whole.policy, whole.name, partition))


def _same_subject(address: Address, partition: TopicPartition) -> None:
    if address.name != partition.topic or address.partition != partition.partition:
        raise ValueError(f"the address names another subject than the request, {checks.shown(str(partition))}")
