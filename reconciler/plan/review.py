"""A plan held against a reviewed one: the intersection of both. What differs between two plans is in diff.py.

A reviewed plan only bounds. It is never executed, so its age does not matter and nothing in it can make a result larger. Limits are
judged anew by the caller (limits.judged), since less is done than they counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.plan import Decision, Plan
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.text.formatting import format_duration


class Reviewed(Protocol):
    """What a plan is held against: a Plan, or a saved one (document.Saved) whose actions stream by, in address order."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def actions(self) -> Iterable[Action]: ...


def restrict_to(plan: Plan, reviewed: Reviewed) -> Plan:
    """`plan` without what `reviewed` does not hold: lower targets, and Blocked (B108) where nothing is left that was reviewed."""
    if plan.cluster_id != reviewed.cluster_id:
        elsewhere = _beyond(f"the reviewed plan is of cluster id {reviewed.cluster_id}, this one of {plan.cluster_id}")
        return replace(plan, decisions=tuple(_all_blocked(plan.decisions, elsewhere)))
    return replace(plan, decisions=tuple(intersect(plan.decisions, reviewed.actions)))


def _all_blocked(decisions: Iterable[Decision], why: BlockReason) -> Iterator[Decision]:
    for decision in decisions:
        if isinstance(decision, Action):
            yield why.blocked(decision.address, decision.declared_at)
        else:
            yield decision


def intersect(decisions: Iterable[Decision], reviewed: Iterable[Action]) -> Iterator[Decision]:
    """What `reviewed` leaves of `decisions`, one for one. One pass over both, in address order; one of each is held at a time.

    A decision that is within what was reviewed comes out as the same object, so that a bounded plan costs no second plan's memory.
    """
    known = iter(reviewed)
    following = next(known, None)
    for decision in decisions:
        while following is not None and following.address < decision.address:
            following = next(known, None)
        same = following is not None and following.address == decision.address
        yield _bounded(decision, following if same else None)
    for _left in known:  # to the end, where a saved plan proves its digest
        pass


def _bounded(decision: Decision, reviewed: Action | None) -> Decision:
    bounded: Action | BlockReason
    match decision:
        case DeleteRecords():
            bounded = _purge(decision, reviewed)
        case DeleteGroup():
            bounded = _removal(decision, reviewed)
        case ElectLeader():
            bounded = _election(decision, reviewed)
        case _:
            return decision
    return bounded.blocked(decision.address, decision.declared_at) if isinstance(bounded, BlockReason) else bounded


def _purge(action: DeleteRecords, reviewed: Action | None) -> DeleteRecords | BlockReason:
    if not isinstance(reviewed, DeleteRecords) or reviewed.partition != action.partition:
        return _beyond("new: the reviewed plan removes nothing of it")
    if reviewed.seen.topic_id != action.seen.topic_id:
        return _beyond(
            f"the reviewed plan is about topic id {reviewed.seen.topic_id}, the topic is {action.seen.topic_id} by now"
        )
    if replace(action.guard, accepted=()) != replace(reviewed.guard, accepted=()):
        return _beyond("the guard for its readers is not the one that was reviewed")
    before_offset = min(action.before_offset, reviewed.before_offset)
    if before_offset <= action.seen.log_start:
        return _beyond(
            f"larger: reviewed up to {reviewed.before_offset}, which is gone; {action.before_offset} was not reviewed"
        )
    if action.seen.log_start < reviewed.seen.log_start:
        return _beyond(
            f"larger: the log starts at {action.seen.log_start}, it was {reviewed.seen.log_start} in the reviewed plan"
        )
    if action.seen.high_watermark < reviewed.seen.high_watermark:
        return _beyond(
            f"the log was cut: it ends at {action.seen.high_watermark}, it ended at {reviewed.seen.high_watermark} in the "
            "reviewed plan, so its offsets may mean other records"
        )
    standing = {reader.group: reader.committed for reader in reviewed.guard.accepted}
    accepted = tuple(reader for reader in action.guard.accepted if reader.committed < before_offset)
    for reader in accepted:
        if reader.group not in standing or reader.committed < standing[reader.group]:
            return _beyond(
                f"larger: nobody reviewed that group {quote_group(reader.group)} skips records from {reader.committed}"
            )
    if before_offset == action.before_offset and accepted == action.guard.accepted:
        return action
    reason = action.reason
    if before_offset < action.before_offset:
        reason += f"; reviewed up to {before_offset} only"
    return replace(action, before_offset=before_offset, reason=reason, guard=replace(action.guard, accepted=accepted))


def _removal(action: DeleteGroup, reviewed: Action | None) -> DeleteGroup | BlockReason:
    if not isinstance(reviewed, DeleteGroup) or reviewed.group != action.group:
        return _beyond("new: the reviewed plan does not remove it")
    if reviewed.seen.type is not action.seen.type or reviewed.seen.fingerprint != action.seen.fingerprint:
        return _beyond("the group has other commits than the reviewed plan saw")
    if action.idle_for_ms < reviewed.idle_for_ms:
        return _beyond(
            f"idleFor is {format_duration(action.idle_for_ms)}, it was {format_duration(reviewed.idle_for_ms)} in the reviewed plan"
        )
    return action


def _election(action: ElectLeader, reviewed: Action | None) -> ElectLeader | BlockReason:
    if not isinstance(reviewed, ElectLeader) or reviewed.partition != action.partition:
        return _beyond("new: the reviewed plan does not elect its leader")
    if (reviewed.election, reviewed.leader_wanted) != (action.election, action.leader_wanted):
        return _beyond(f"the reviewed election is {reviewed.election}, this one is {action.election}")
    if (reviewed.seen.topic_id, reviewed.seen.replicas) != (action.seen.topic_id, action.seen.replicas):
        return _beyond("the replicas are not those of the reviewed plan")
    return action


def _beyond(why: str) -> BlockReason:
    return BlockReason(
        code="B108",
        reason=f"beyond review: {why}",
        next_step="it comes with the next reviewed plan",
    )
