"""Builders of decisions and plans with defaults, for tests that set only the relevant fields."""

import copy
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any, TypeVar

from reconciler.model.action import Action, Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.plan import Blocked, Decision, Plan, PolicyInfo, Satisfied, Source, Waiting, sort_decisions
from reconciler.model.ports import Election
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.operations.delete_group import DeleteGroup, ObservedGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, ObservedPartition, Preconditions
from reconciler.operations.elect_leader import ElectLeader, ObservedLeadership
from reconciler.plan import plan_file
from tests.strategies.facts import CLUSTER_ID, DAY, NOW_MS, TOPIC_ID

A = TypeVar("A", DeleteRecords, DeleteGroup, ElectLeader)
B = TypeVar("B", bound=Action)

_SEEN = {
    field.name for noun in (ObservedPartition, ObservedGroup, ObservedLeadership) for field in dataclasses.fields(noun)
}
_GUARD = {field.name for field in dataclasses.fields(Preconditions)}


def _with_changes(action: A, changes: dict[str, Any]) -> A:
    """The action with changed fields.

    Fields of `seen` and `guard` are given by their own names, which are unique.
    """
    for part, names in (("seen", _SEEN), ("guard", _GUARD)):
        if fields := {name: changes.pop(name) for name in names & changes.keys()}:
            changes[part] = dataclasses.replace(changes.get(part, getattr(action, part)), **fields)
    return dataclasses.replace(action, **changes)


def purge(topic: str = "orders", partition: int = 3, **changes: Any) -> DeleteRecords:
    """A deletion in orders[3] from 1000 to 98213, as in the documentation.

    `skips` are (group, committed offset), `end` sets both ends.
    """
    policy = changes.pop("policy", f"{topic}-gdpr")
    skips = changes.pop("skips", ())
    end = changes.pop("end", 250_000)
    changes = {"last_stable_offset": end, "high_watermark": end} | changes
    action = DeleteRecords(
        address=Address("RetentionFloor", policy, topic, partition),
        declared_at=SourceLocation("manifests/prod-eu/orders.yaml", 9, 3),
        reason="newerThan 7d resolves to offset 98213",
        mode=Mode.MERGE,
        partition=TopicPartition(topic, partition),
        before_offset=98_213,
        seen=ObservedPartition(
            topic_id=TOPIC_ID,
            log_start=1000,
            last_stable_offset=250_000,
            high_watermark=250_000,
            leader=1,
            replicas=(1, 2, 3),
            in_sync=(1, 2, 3),
        ),
        guard=Preconditions(
            consumers=LagPolicy.IGNORE if skips else LagPolicy.BLOCK,
            accepted=tuple(AcceptedLag(group, committed) for group, committed in skips),
        ),
        consumed_by_named=False,
        drift=True,
    )
    return _with_changes(action, changes)


def removal(group: str = "old-etl", **changes: Any) -> DeleteGroup:
    action = DeleteGroup(
        address=Address("GroupRemoval", changes.pop("policy", "dead-etl"), group),
        declared_at=SourceLocation("manifests/prod-eu/groups.yaml", 4, 3),
        reason="EMPTY, no activity for 6 days",
        mode=Mode.MERGE,
        group=group,
        idle_for_ms=3 * DAY,
        seen=ObservedGroup(
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY,
            commits=12,
            commit_topics=3,
            fingerprint="ab" * 32,
            last_activity_ms=NOW_MS - 6 * DAY,
            newest_record=(17, 4711),
        ),
    )
    return _with_changes(action, changes)


def election(topic: str = "payments", partition: int = 0, **changes: Any) -> ElectLeader:
    """A preferred election that moves the leader from 2 to 1; with `unclean=True`, one of a
    leaderless partition.
    """
    unclean = changes.pop("unclean", False)
    action = ElectLeader(
        address=Address("LeaderPolicy", changes.pop("policy", "all"), topic, partition),
        declared_at=SourceLocation("manifests/prod-eu/leaders.yaml", 6, 3),
        reason="the preferred replica is in sync and does not lead",
        mode=Mode.MERGE,
        partition=TopicPartition(topic, partition),
        election=Election.UNCLEAN if unclean else Election.PREFERRED,
        leader_wanted=None if unclean else 1,
        seen=ObservedLeadership(
            topic_id=TOPIC_ID,
            leader=None if unclean else 2,
            replicas=(1, 2, 3),
            in_sync=() if unclean else (1, 2, 3),
        ),
    )
    return _with_changes(action, changes)


def blocked(address: str | Address = "RetentionFloor/orders-gdpr/orders[5]", **changes: Any) -> Blocked:
    decision = Blocked(
        address=Address.parse(address) if isinstance(address, str) else address,
        declared_at=SourceLocation("manifests/prod-eu/orders.yaml", 9, 3),
        code="B204",
        reason='group "billing" is at 52000 and would skip 46,213 records',
        next_step="let it catch up, or say consumers: clamp",
    )
    return dataclasses.replace(decision, **changes)


def waiting(address: str, **changes: Any) -> Waiting:
    decision = Waiting(
        address=Address.parse(address),
        declared_at=SourceLocation("manifests/prod-eu/streams.yaml", 3, 3),
        reason="the last purge was less than 30s ago",
        until_ms=NOW_MS + 12_000,
    )
    return dataclasses.replace(decision, **changes)


def satisfied(address: str) -> Satisfied:
    return Satisfied(Address.parse(address))


def plan(*decisions: Decision, **changes: Any) -> Plan:
    """A plan of the cluster prod-eu at 2026-11-21T10:00:00Z."""
    example = Plan(
        cluster="prod-eu",
        cluster_id=CLUSTER_ID,
        observed_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + 86_400_000,
        decisions=sort_decisions(decisions),
        source=Source(commit="4f2c9aa0d1e2f3a4b5c6d7e8f901234567890abc"),
        notes=(
            PolicyInfo(
                policy=Address("RetentionFloor", "orders-gdpr"), owner="team-orders", reason="erase after 30 days"
            ),
        ),
    )
    return dataclasses.replace(example, **changes)


def plan_text(plan: Plan) -> str:
    return "".join(plan_file.lines(plan))


def unchecked(action: B, **changes: Any) -> B:
    """A copy with changes that its constructor would refuse and no file can hold."""
    changed = copy.copy(action)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


def sealed(text: str) -> str:
    """The text of a plan file with the file digest that its other lines have, as docs/plan.md says."""
    lines, _, _ = text.rpartition('"file_digest": ')
    digest = hashlib.sha256(lines.encode("ascii")).hexdigest()
    return f'{lines}"file_digest": "sha256:{digest}"\n}}\n'


def digest_by_hand(document: dict[str, Any]) -> str:
    """The digest of a plan file by the code of docs/plan.md, with only a JSON library and sha256."""
    page = (Path(__file__).parents[2] / "docs" / "plan.md").read_text(encoding="utf-8")
    _before, code, _after = re.split(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict[str, Any] = {}
    exec(code, scope)
    return str(scope["digest"](document))
