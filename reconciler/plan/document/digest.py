"""The plan's digest: what is approved is exactly this. Streamed, so that a million actions never stand in one string.

sha256 over the canonical JSON of {format_major, cluster_id, actions: [address, operation, request, equal]}, where `equal` holds
every value that recheck tests for equality. Outside: times, watermarks, in-sync replicas, impact, reasons, places, drift, mode.
Two plans of the same actions made an hour apart have one digest; a larger target, another topic incarnation or one more accepted
reader make another.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, assert_never

from reconciler.model.action import Action
from reconciler.model.plan import Plan
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan.document import rows
from reconciler.plan.document.canonical import canonical

FORMAT_MAJOR = 1


class Digest:
    """A digest in the making: `add` each action in address order, then ask for `text`."""

    __slots__ = ("_cluster_id", "_first", "_hash")

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._hash = hashlib.sha256(b'{"actions":[')
        self._first = True

    def add(self, action: Action) -> None:
        separator = "" if self._first else ","
        self._first = False
        self._hash.update((separator + canonical(approved_fields(action))).encode("ascii"))

    def text(self) -> str:
        """`sha256:` and 64 hexadecimal digits."""
        whole = self._hash.copy()
        whole.update(f'],"cluster_id":{canonical(self._cluster_id)},"format_major":{FORMAT_MAJOR}}}'.encode("ascii"))
        return f"sha256:{whole.hexdigest()}"


def digest(plan: Plan) -> str:
    """The digest of a whole plan."""
    return digest_of(plan.actions, plan.cluster_id)


def digest_of(actions: Iterable[Action], cluster_id: str) -> str:
    """The digest of actions in address order on one cluster."""
    made = Digest(cluster_id)
    for action in actions:
        made.add(action)
    return made.text()


def approved_fields(action: Action) -> dict[str, Any]:
    """What an approval binds. A field added here makes every digest another: only with a new format major."""
    return {
        "address": str(action.address),
        "operation": action.OPERATION,
        "request": rows.request_row(action),
        "equal": _equal(action),
    }


def _equal(action: Action) -> dict[str, Any]:
    match action:
        case DeleteRecords():
            return {"topic_id": action.seen.topic_id, "guard": rows.guard_row(action.guard)}
        case DeleteGroup(seen=seen):
            return {
                "type": seen.type.value,
                "fingerprint": seen.fingerprint,
                "newest_record": rows.record_row(seen.newest_record),
                "guard": {"idle_for_ms": action.idle_for_ms},
            }
        case ElectLeader(seen=leadership):
            return {"topic_id": leadership.topic_id, "replicas": leadership.replicas}
        case _:
            assert_never(action)
