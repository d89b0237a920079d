"""One decision of a plan laid open: the facts, the rule, the arithmetic, and what apply will test again before it sends anything."""

from collections.abc import Iterator
from typing import assert_never

from rich.text import Text

from reconciler.errors import UsageError
from reconciler.model.action import Action, Consumers, DeleteGroup, DeleteRecords, Election, ElectLeader, irreversible
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, Waiting
from reconciler.model.reasons import REASONS
from reconciler.model.spelling import did_you_mean
from reconciler.plan.render import folds, phrases, safe
from reconciler.plan.render.wrap import line, wrapped

_LABEL = 12
FULL_MAX = 5
"""Decisions of one topic or policy that are explained in full when the address names more than one."""

_Fact = tuple[str, str]


def explain(plan: Plan, address: Address, *, width: int | None = None) -> Iterator[Text]:
    """The decision at that address, or all of a topic's or policy's. Raises UsageError where the plan decides nothing there."""
    found = [decision for decision in plan.decisions if _covers(address, decision.address)]
    if not found:
        near = did_you_mean(str(address), (str(decision.address) for decision in plan.decisions))
        hint = f"; did you mean {safe.bare(near)}?" if near else "; `show --full` lists what it decides"
        raise UsageError(f"the plan decides nothing at {safe.whole(address)}{hint}")
    if len(found) > FULL_MAX:
        yield from wrapped(f"{safe.whole(address)}: {folds.totals(folds.summary(found))}", width=width, style="bold")
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
    yield from wrapped(f"{safe.whole(decision.address)}: {_sort(decision)}", width=width, style="bold")
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
            yield "Because", safe.prose(decision.reason)
        case Waiting():
            yield "Declared", safe.place(decision.declared_at)
            yield "Because", safe.prose(decision.reason)
            if decision.until_ms is not None:
                until = phrases.until(decision.until_ms, now_ms=plan.observed_at_ms)
                yield "Until", f"{phrases.at(decision.until_ms)}, {until}"
        case Blocked():
            yield "Declared", safe.place(decision.declared_at)
            yield "Because", safe.prose(decision.reason)
            yield "Next", safe.prose(decision.next_step)
            title = f": {REASONS[decision.code].title}" if decision.code in REASONS else ""
            yield (
                "Code",
                f"{safe.bare(decision.code)}{title} (`reconciler explain {safe.bare(decision.code)}` says more)",
            )
        case _:
            yield "Declared", f"{safe.place(decision.declared_at)}, mode {decision.mode}"
            yield "Because", safe.prose(decision.reason)
            yield from _action(decision)
            yield "Undo", "impossible" if irreversible(decision) else "possible: another election moves the leader back"
            yield "Drift", "counts as drift" if decision.drift else "not drift: a moving floor within its driftAfter"
    note = folds.note_of(plan).get(decision.address.policy_address)
    if note and note.owner:
        yield "Owner", safe.prose(note.owner)
    if note and note.reason:
        yield "Purpose", safe.prose(note.reason)
    yield "Seen at", phrases.at(plan.observed_at_ms)


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
        f"topic id {safe.bare(seen.topic_id)}; leader {seen.leader}, replicas {_ids(seen.replicas)}, in sync {_ids(seen.in_sync)}",
    )
    yield "Bounds", f"{seen.log_start} < {target} <= {seen.stable_end}: above the log start, not above the stable end"
    held = seen.high_watermark - seen.log_start
    yield (
        "Records",
        f"{target} - {seen.log_start} = {action.records_max:,} at most; {action.records_max:,} / {held:,} = {phrases.percent(action.partition_percent)}",
    )
    if action.vouched:
        yield "", "an unreadBy rule vouches for them, so the record limits do not count them"
    for group in guard.named:
        yield "Readers", f"{safe.quoted(group)} must have a commit at or above {target}"
    yield (
        "Readers",
        {
            Consumers.BLOCK: "a group behind the target blocks the purge",
            Consumers.CLAMP: "the target is never above the group that is furthest behind",
            Consumers.IGNORE: "groups behind the target are accepted as they stood",
        }[guard.consumers],
    )
    for selector in guard.except_groups:
        yield "", f"groups {safe.quoted(selector)} are not looked at"
    stood = {reader.group: reader.committed for reader in guard.accepted}
    for group, records in action.skips:
        start = max(stood[group], seen.log_start)
        yield (
            "",
            f"{safe.quoted(group)} stood at {stood[group]}: {target} - {start} = {records:,} records skipped at most",
        )
    if guard.every_ms is not None:
        yield "Every", f"at least {phrases.duration(guard.every_ms)} between two purges"
    yield (
        "apply tests",
        "same topic id; a log that begins and ends no lower than it did; the policy still deletes; no new reader, none further behind",
    )


def _removal(action: DeleteGroup) -> Iterator[_Fact]:
    seen = action.seen
    yield "Request", f"DeleteGroups {safe.quoted(action.group)}"
    yield "Facts", f"{seen.type} group, {seen.state}"
    yield (
        "",
        f"{phrases.count(seen.commits, 'committed offset')} on {phrases.count(seen.commit_topics, 'topic')}, all lost",
    )
    yield "", f"fingerprint of its commits {safe.bare(seen.fingerprint)}"
    if seen.last_activity_ms is None or seen.newest_record is None:
        yield "Idle", "no evidence asked for: idleFor is 0s"
    else:
        partition, offset = seen.newest_record
        yield (
            "Idle",
            f"since {phrases.at(seen.last_activity_ms)}; idleFor asks for {phrases.duration(action.idle_for_ms)}",
        )
        yield "", f"its newest record is __consumer_offsets[{partition}] offset {offset}"
    yield "apply tests", "still listed, same type, EMPTY, same commits, no newer record in the commit log"


def _election(action: ElectLeader) -> Iterator[_Fact]:
    seen = action.seen
    yield "Request", f"ElectLeaders {action.partition}, {action.election}: leader {folds.move(action)}"
    yield "Facts", f"replicas {_ids(seen.replicas)}, in sync {_ids(seen.in_sync)}; topic id {safe.bare(seen.topic_id)}"
    if action.election is Election.UNCLEAN:
        yield "Loss", "unbounded: records that only the missing replicas hold are lost"
        yield "apply tests", "same topic id and replicas; still leaderless"
    else:
        yield "apply tests", "same topic id and replicas; the first replica is in sync"


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
