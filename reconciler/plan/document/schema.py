"""The JSON Schema (2020-12) of the plan file, built from the same enumerations and counts as the code.

For editors, CI steps and other people's programs. What no schema can say (a target above the log start, a digest that fits) is
checked when a plan is read.
"""

from enum import StrEnum
from typing import Any

from reconciler.model.action import Mode
from reconciler.model.election import Election
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.delete_records import LagPolicy
from reconciler.plan.document.header import SCHEMA_ID, Summary

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MAX_INT64 = 2**63 - 1


def _object(fields: dict[str, Schema], description: str = "", *, optional: tuple[str, ...] = ()) -> Schema:
    made: Schema = {"type": "object"}
    if description:
        made["description"] = description
    required = [name for name in fields if name not in optional]
    return made | {"properties": fields, "required": required}


def _text(description: str = "", **more: Any) -> Schema:
    return {"type": "string"} | ({"description": description} if description else {}) | more


def _count(description: str = "", low: int = 0, high: int = _MAX_INT64) -> Schema:
    made: Schema = {"type": "integer", "minimum": low, "maximum": high}
    return made | ({"description": description} if description else {})


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [{key: value for key, value in schema.items() if key != "description"}, {"type": "null"}]} | (
        {"description": schema["description"]} if "description" in schema else {}
    )


def _list(items: Schema, description: str = "") -> Schema:
    made: Schema = {"type": "array", "items": items}
    return made | ({"description": description} if description else {})


def _one_of(kind: type[StrEnum]) -> Schema:
    return _text(enum=[member.value for member in kind])


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


_INSTANT = _text(format="date-time", examples=["2026-11-21T10:00:00Z"])
_BROKERS = _list(_count(high=2**31 - 1))
_PARTITION = _count("Partition number.", high=2**31 - 1)


def schema() -> Schema:
    """The plan file's schema, format 1.x: a newer minor version may add fields, so no object forbids them."""
    return {
        "$schema": _DIALECT,
        "$id": SCHEMA_ID,
        "title": "Plan",
        **_object(
            {
                "format_version": _text(
                    "A minor version adds fields; a reader refuses an unknown major.", pattern=r"^1\.[0-9]+$"
                ),
                "kind": {"const": "Plan"},
                "$schema": _text(),
                "tool": _object({"name": _text(), "version": _text()}),
                "created_at": _INSTANT | {"description": "The instant of the scan: a plan knows no other clock."},
                "expires_at": _INSTANT | {"description": "apply refuses the plan after this."},
                "source": _object(
                    {
                        "commit": _or_null(_text("Null: not a git checkout.")),
                        "dirty": _flag("The checkout had uncommitted changes."),
                        "manifests": _list(_object({"path": _text(), "sha256": _text(pattern="^[0-9a-f]{64}$")})),
                    }
                ),
                "cluster": _object({"name": _text(), "cluster_id": _text(), "observed_at": _INSTANT}),
                "scope": _object(
                    {
                        "targets": _list(_text(), "Addresses that the plan was narrowed to; empty: all."),
                        "complete": _flag("False: something could not be read, and no action rests on it."),
                        "incomplete": _list(_text(), "What could not be read, in words."),
                    }
                ),
                "summary": _object(
                    {name: _count(high=2**100) for name in Summary().row()}, "Counts of the rows below."
                ),
                "limits": _list(_ref("limit")),
                "notes": _list(_object({"policy": _text(), "owner": _or_null(_text()), "reason": _or_null(_text())})),
                "plan_digest": _text("Of the actions; docs/plan.md says over what.", pattern="^sha256:[0-9a-f]{64}$"),
                "actions": _list({"oneOf": [_ref("delete_records"), _ref("delete_group"), _ref("elect_leader")]}),
                "waiting": _list(_addressed({"reason": _text(), "until_ms": _or_null(_EPOCH_MS)})),
                "blocked": _list(_ref("blocked")),
                "unread": _list(_ref("blocked"), "Blocked because a fact could not be read."),
                "skipped": _list(_object({"address": _text(), "reason": _text()})),
                "satisfied": _list(
                    _object(
                        {"address": _text(), "partitions": _text("Partition numbers as ranges.", examples=["0-4,6"])},
                        optional=("partitions",),
                    )
                ),
            },
            "What a run of `reconciler plan` would do to one cluster. Header first, then one decision per line in address order.",
        ),
        "$defs": {
            "place": _object({"path": _text(), "line": _count(), "column": _count()}, "Where it was declared."),
            "limit": _limit(),
            "blocked": _addressed(
                {"code": _text("See `reconciler explain CODE`."), "reason": _text(), "next_step": _text()}
            ),
            "delete_records": _delete_records(),
            "delete_group": _delete_group(),
            "elect_leader": _elect_leader(),
        },
    }


_EPOCH_MS: Schema = {"type": "integer", "description": "Milliseconds since 1970."}


def _addressed(fields: dict[str, Schema], description: str = "") -> Schema:
    address = _text("KIND/POLICY/SUBJECT.", examples=["RetentionFloor/orders-gdpr/orders[3]"])
    return _object({"address": address, "declared_at": _ref("place")} | fields, description)


def _limit() -> Schema:
    waiver = _object(
        {
            "name": _text(),
            "policy": _text(),
            "limit": _text(),
            "value": {"type": "number"},
            "expires": _INSTANT,
            "declared_at": _ref("place"),
        }
    )
    return _object(
        {
            "id": _text(),
            "limit": {"type": "number"},
            "observed": _or_null({"type": "number", "description": "Null: it could not be computed, which refuses."}),
            "verdict": _text(enum=["within", "refused"]),
            "message": _text(),
            "worst": _or_null(_text("The policy that caused most of it.")),
            "waivers": _list(waiver, "The waivers that the verdict rests on."),
        }
    )


def _action(operation: str, description: str, fields: dict[str, Schema], impact: dict[str, Schema]) -> Schema:
    common = {
        "reason": _text(),
        "mode": _one_of(Mode),
        "drift": _flag("Whether it counts as drift."),
        "irreversible": _flag("Whether undoing it is impossible."),
        "impact": _object(impact, "An upper bound, derived from the facts."),
    }
    return _addressed({"operation": {"const": operation}} | fields | common, description)


def _delete_records() -> Schema:
    reader = _object({"group": _text(), "committed": _count("The next offset it will read.")})
    return _action(
        "delete_records",
        "Remove all records below before_offset (KIP-107).",
        {
            "request": _object(
                {"topic": _text(), "partition": _PARTITION, "before_offset": _count("The first offset kept.", low=1)}
            ),
            "guard": _object(
                {
                    "consumers": _one_of(LagPolicy),
                    "named": _list(_text(), "Groups that must have a commit at or above the target."),
                    "accepted": _list(reader, "Readers below the target that may skip records, and where they stood."),
                    "except_groups": _list(_text(), "Selectors of groups that are not looked at."),
                    "every_ms": _or_null(_count("Least time between two purges.")),
                }
            ),
            "seen": _object(
                {
                    "topic_id": _text(),
                    "log_start": _count(),
                    "stable_end": _count("The read-committed end."),
                    "high_watermark": _count(),
                    "leader": _count(),
                    "replicas": _BROKERS,
                    "in_sync": _BROKERS,
                }
            ),
            "vouched": _flag("An unreadBy rule under consumers: block vouches for these records."),
        },
        {
            "records_removed_max": _count(),
            "skips": _list(_object({"group": _text(), "records_max": _count()}), "Who would miss how many records."),
        },
    )


def _delete_group() -> Schema:
    record = _object({"partition": _PARTITION, "offset": _count()})
    return _action(
        "delete_group",
        "Remove a consumer group and its committed offsets (KIP-229).",
        {
            "request": _object({"group": _text(minLength=1)}),
            "guard": _object({"idle_for_ms": _count()}),
            "seen": _object(
                {
                    "type": _one_of(GroupType),
                    "state": _one_of(GroupState),
                    "commits": _count(),
                    "commit_topics": _count(),
                    "fingerprint": _text("Over its sorted (topic, partition, committed)."),
                    "last_activity_ms": _or_null(_EPOCH_MS),
                    "newest_record": _or_null(record | {"description": "Its newest record in __consumer_offsets."}),
                }
            ),
        },
        {"commits_lost": _count(), "topics": _count()},
    )


def _elect_leader() -> Schema:
    return _action(
        "elect_leader",
        "Elect a leader (KIP-183, KIP-460).",
        {
            "request": _object(
                {
                    "topic": _text(),
                    "partition": _PARTITION,
                    "election": _one_of(Election),
                    "leader_wanted": _or_null(_count("Null: any live replica.")),
                }
            ),
            "seen": _object(
                {
                    "topic_id": _text(),
                    "leader": _or_null(_count("Null: leaderless.")),
                    "replicas": _BROKERS,
                    "in_sync": _BROKERS,
                }
            ),
        },
        {"records_removed_max": _or_null({"const": 0, "description": "Null: unbounded."})},
    )
