"""One decision of a plan laid open: the facts, the rule, the arithmetic, and what apply will test again before it sends anything."""

from collections.abc import Iterator
from typing import assert_never

from rich.text import Text

from reconciler.errors import UsageError
from reconciler.model.action import Action
from reconciler.model.block_codes import REASONS
from reconciler.model.election import Election
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords, LagPolicy
from reconciler.operations.elect_leader import ElectLeader
from reconciler.report import escape, grouping
from reconciler.report.wrap import line, wrapped
from reconciler.text import formatting
from reconciler.text.suggest import did_you_mean

_LABEL = 12
FULL_MAX = 5
"""Decisions of one topic or policy that are explained in full when the address names more than one."""

_Fact = tuple[str, str]


def explain(plan: Plan, address: Address, *, width: int | None = None) -> Iterator[Text]:
    """The decision at that address, or all of a topic's or policy's. Raises UsageError where the plan decides nothing there."""
    found = [decision for decision in plan.decisions if _covers(address, decision.address)]
    if not found:
        near = did_you_mean(str(address), (str(decision.address) for decision in plan.decisions))
        hint = f"; did you mean {escape.display_name(near)}?" if near else "; `show --full` lists what it decides"
        raise UsageError(f"the plan decides nothing at {escape.format_address(address)}{hint}")
    if len(found) > FULL_MAX:
        yield from wrapped(
            f"{escape.format_address(address)}: {grouping.totals(grouping.summary(found))}", width=width, style="bold"
        )
        yield line("")
    for decision in found[:FULL_MAX]:
        yield from _decision(plan, decision, width=width)
        yield line("")
    if len(found) > FULL_MAX:
        yield line(f"and {len(found) - FULL_MAX:,} more; name one of them to see it")


def _covers(wanted: Address, address: Address) -> bool:
    if wanted == address or wanted == address.policy_address:
        return True
    return bool(wanted.name) and wanted.partition < 0 and wanted == Address(address.kind, address.policy, address.name)


def _decision(plan: Plan, decision: Decision, *, width: int | None) -> Iterator[Text]:
    yield from wrapped(f"{escape.format_address(decision.address)}: {_sort(decision)}", width=width, style="bold")
    for label, text in _facts(plan, decision):
        # the indent counts from the line's own leading spaces, of which a line without a label has the column's width
        indent = " " * (_LABEL + 1) if label else ""
        yield from wrapped(f"  {label:<{_LABEL}} {text}", width=width, indent=indent)


def _sort(decision: Decision) -> str:
    match decision:
        case DeleteRecords():
            return "records are to be deleted"
        case DeleteGroup():
            return "the group is to be removed"
        case ElectLeader():
            return "a leader is to be elected"
        case Satisfied():
            return "already as desired"
        case Waiting():
            return "waiting"
        case Skipped():
            return "skipped"
        case Blocked():
            return "blocked" + (", because a fact could not be read" if decision.unread else "")
        case _:
            assert_never(decision)


def _facts(plan: Plan, decision: Decision) -> Iterator[_Fact]:
    match decision:
        case Satisfied():
            pass
        case Skipped():
            yield "Because", escape.escape_sentence(decision.reason)
        case Waiting():
            yield "Declared", escape.place(decision.declared_at)
            yield "Because", escape.escape_sentence(decision.reason)
            if decision.until_ms is not None:
                until = formatting.until(decision.until_ms, now_ms=plan.observed_at_ms)
                yield "Until", f"{formatting.format_time(decision.until_ms)}, {until}"
        case Blocked():
            yield "Declared", escape.place(decision.declared_at)
            yield "Because", escape.escape_sentence(decision.reason)
            yield "Next", escape.escape_sentence(decision.next_step)
            title = f": {REASONS[decision.code].title}" if decision.code in REASONS else ""
            yield (
                "Code",
                f"{escape.display_name(decision.code)}{title} (`reconciler explain {escape.display_name(decision.code)}` says more)",
            )
        case _:
            yield "Declared", f"{escape.place(decision.declared_at)}, mode {decision.mode}"
            yield "Because", escape.escape_sentence(decision.reason)
            yield from _action(decision)
            yield (
                "Undo",
                "impossible" if decision.irreversible else "possible: another election moves the leader back",
            )
            yield "Drift", "counts as drift" if decision.drift else "not drift: a moving floor within its driftAfter"
    note = grouping.note_of(plan).get(decision.address.policy_address)
    if note and note.owner:
        yield "Owner", escape.escape_sentence(note.owner)
    if note and note.reason:
        yield "Purpose", escape.escape_sentence(note.reason)
    yield "Seen at", formatting.format_time(plan.observed_at_ms)


def _action(action: Action) -> Iterator[_Fact]:
    match action:
        case DeleteRecords():
            yield from _purge(action)
        case DeleteGroup():
            yield from _removal(action)
        case ElectLeader():
            yield from _election(action)
        case _:
            assert_never(action)


def _purge(action: DeleteRecords) -> Iterator[_Fact]:
    seen, guard, target = action.seen, action.guard, action.before_offset
    yield "Request", f"DeleteRecords {action.partition}: the first offset kept is {target}"
    yield "Facts", f"log start {seen.log_start}, stable end {seen.stable_end}, high watermark {seen.high_watermark}"
    yield (
        "",
        f"topic id {escape.display_name(seen.topic_id)}; leader {seen.leader}, replicas {_ids(seen.replicas)}, in sync {_ids(seen.in_sync)}",
    )
    yield "Bounds", f"{seen.log_start} < {target} <= {seen.stable_end}: above the log start, not above the stable end"
    held = seen.high_watermark - seen.log_start
    yield (
        "Records",
        f"{target} - {seen.log_start} = {action.records_max:,} at most; {action.records_max:,} / {held:,} = {formatting.percent(action.partition_percent)}",
    )
    if action.vouched:
        yield "", "an unreadBy rule vouches for them, so the record limits do not count them"
    for group in guard.named:
        yield "Readers", f"{escape.quoted(group)} must have a commit at or above {target}"
    yield (
        "Readers",
        {
            LagPolicy.BLOCK: "a group behind the target blocks the purge",
            LagPolicy.CLAMP: "the target is never above the group that is furthest behind",
            LagPolicy.IGNORE: "groups behind the target are accepted as they stood",
        }[guard.consumers],
    )
    for selector in guard.except_groups:
        yield "", f"groups {escape.quoted(selector)} are not looked at"
    stood = {reader.group: reader.committed for reader in guard.accepted}
    for group, records in action.skips:
        start = max(stood[group], seen.log_start)
        yield (
            "",
            f"{escape.quoted(group)} stood at {stood[group]}: {target} - {start} = {records:,} records skipped at most",
        )
    if guard.every_ms is not None:
        yield "Every", f"at least {formatting.duration(guard.every_ms)} between two purges"
    yield (
        "apply tests",
        "same topic id; a log that begins and ends no lower than it did; the policy still deletes; no new reader, none further behind",
    )


def _removal(action: DeleteGroup) -> Iterator[_Fact]:
    seen = action.seen
    yield "Request", f"DeleteGroups {escape.quoted(action.group)}"
    yield "Facts", f"{seen.type} group, {seen.state}"
    yield (
        "",
        f"{formatting.count(seen.commits, 'committed offset')} on {formatting.count(seen.commit_topics, 'topic')}, all lost",
    )
    yield "", f"fingerprint of its commits {escape.display_name(seen.fingerprint)}"
    if seen.last_activity_ms is None or seen.newest_record is None:
        yield "Idle", "no evidence asked for: idleFor is 0s"
    else:
        partition, offset = seen.newest_record
        yield (
            "Idle",
            f"since {formatting.format_time(seen.last_activity_ms)}; idleFor asks for {formatting.duration(action.idle_for_ms)}",
        )
        yield "", f"its newest record is __consumer_offsets[{partition}] offset {offset}"
    yield "apply tests", "still listed, same type, EMPTY, same commits, no newer record in the commit log"


def _election(action: ElectLeader) -> Iterator[_Fact]:
    seen = action.seen
    yield "Request", f"ElectLeaders {action.partition}, {action.election}: leader {grouping.move(action)}"
    yield (
        "Facts",
        f"replicas {_ids(seen.replicas)}, in sync {_ids(seen.in_sync)}; topic id {escape.display_name(seen.topic_id)}",
    )
    if action.election is Election.UNCLEAN:
        yield "Loss", "unbounded: records that only the missing replicas hold are lost"
        yield "apply tests", "same topic id and replicas; still leaderless"
    else:
        yield "apply tests", "same topic id and replicas; the first replica is in sync"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
