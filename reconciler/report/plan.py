"""Builds the report of a plan: what would change, what is blocked or waiting, limits, waivers and digest.

More than 20 partitions of one topic become one item. Nothing that apply would read is computed here:
sums are over the actions that apply walks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, cast

from reconciler import operations
from reconciler.model.names import Address, format_location, format_policy, format_subject
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, UsedWaiver, Waiting
from reconciler.operations.base import Operation
from reconciler.plan.plan_file import digest
from reconciler.report.tree import FOLD_ABOVE, Item, Items, Report, Section, Severity, grouped
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong

OPEN_ITEMS = 25
"""Items of one section that a page shows before the reader opens the rest."""

Notice = Waiting | Blocked | Skipped


def plan_report(plan: Plan, *, full: bool = False, saved_to: str | None = None) -> Report:
    """The report of a plan. `full`: every partition is an item of its own."""
    plan_digest = digest(plan)
    fields = (("cluster", plan.cluster), ("digest", plan_digest), ("commit", plan.source.commit or ""))
    commit: Phrase = ()
    if plan.source.commit:
        commit = ("commit ", name(plan.source.commit[:7]), " and uncommitted changes" if plan.source.dirty else "")
    lifetime = formatting.approximate_duration(plan.expires_at_ms - plan.observed_at_ms)
    scanned, expires = formatting.format_time(plan.observed_at_ms), formatting.format_time(plan.expires_at_ms)
    saved: Phrase = ("saved to ", name(saved_to)) if saved_to else ()
    age = join(", ", (f"Scanned {scanned}, expires {expires} ({lifetime} after the scan)",), saved)
    return Report(
        title=f"plan for {plan.cluster}",
        headline=(name(plan.cluster), ": ", _headline(plan)),
        opening=(join(", ", ("Cluster ", name(plan.cluster), " (", name(plan.cluster_id), ")"), commit),),
        summary_label="Plan",
        summary=(totals(plan.decisions),),
        sections=tuple(_sections(plan, full=full)),
        footer=(("Digest ", escaped_name(plan_digest)), age),
        is_quiet=not plan.actions and not saved_to,
        marker=("reconciler-plan", (*fields, ("truncated", None))),
        remainder=("Read the rest in the plan file or with ", escaped_name("reconciler show"), "."),
    )


def totals(decisions: Iterable[Decision]) -> str:
    """`1 record deletion (at most 97,213 records), 1 group removal; 1 blocked; 14 in sync.`"""
    by_class: dict[type, list[Any]] = {}
    for decision in decisions:
        by_class.setdefault(type(decision), []).append(decision)
    actions = []
    for operation in reversed(operations.OPERATIONS):
        if members := by_class.get(operation):
            loss = operation.total_loss(members)
            actions.append(formatting.count(len(members), operation.TITLE) + (f" ({loss})" if loss else ""))
    unread = sum(decision.unread for decision in by_class.get(Blocked, ()))
    words = {
        Blocked: f"blocked ({unread:,} unread)" if unread else "blocked",
        Waiting: "waiting",
        Skipped: "skipped",
        Satisfied: "in sync",
    }
    others = [f"{len(by_class[kind]):,} {word}" for kind, word in words.items() if kind in by_class]
    return "; ".join([", ".join(actions) or "no changes", *others]) + "."


def policy_facts(plan: Plan, policy: Address) -> tuple[tuple[str, Phrase], ...]:
    """Return owner and reason of a policy, as far as its manifest states them."""
    info = next((info for info in plan.notes if info.policy == policy), None)
    facts = (("Owner", info.owner), ("Reason", info.reason)) if info else ()
    return tuple((label, (sentence(text),)) for label, text in facts if text)


def _headline(plan: Plan) -> str:
    if plan.refused:
        return f"refused by {formatting.count(len(plan.refused), 'limit')}"
    irreversible = "irreversible action"
    titles = Counter(irreversible if action.irreversible else action.TITLE for action in _operations(plan))
    ordered = sorted(titles.items(), key=lambda title: title[0] != irreversible)
    return ", ".join(formatting.count(number, title) for title, number in ordered) or "no changes"


def _operations(plan: Plan) -> Sequence[Operation]:
    return cast("Sequence[Operation]", plan.actions)


def _sections(plan: Plan, *, full: bool) -> Iterator[Section]:
    yield Section(items=tuple(_warnings(plan)), severity=Severity.WARNING)
    for heading, irreversible in (("Irreversible", True), ("Reversible", False)):
        same = (action for action in _operations(plan) if action.irreversible is irreversible)
        yield from _policies(plan, heading, same, full=full)

    for unread in (False, True):
        blocked = [d for d in plan.decisions if isinstance(d, Blocked) and d.unread is unread]
        yield Section(
            heading=(f"{len(blocked):,} {'unread, so blocked' if unread else 'blocked'}",),
            items=Items.of(_group_notices(blocked, full=full), _blocked_item),
            severity=Severity.WARNING,
            open_items=OPEN_ITEMS,
        )
    waiting = [decision for decision in plan.decisions if isinstance(decision, Waiting)]
    groups = _group_notices(waiting, full=full)
    items = Items.of(groups, partial(_waiting_item, now_ms=plan.observed_at_ms))
    yield Section(heading=(f"{len(waiting):,} waiting",), items=items, collapsed=True)
    skipped = [decision for decision in plan.decisions if isinstance(decision, Skipped)]
    items = Items.of(_group_notices(skipped, full=full), _skipped_item)
    yield Section(heading=(f"{len(skipped):,} skipped",), items=items, collapsed=True, optional=True)
    waivers = dict.fromkeys(waiver for verdict in plan.limits for waiver in verdict.waivers)
    items = Items.of(list(waivers), partial(_waiver_item, now_ms=plan.observed_at_ms))
    yield Section(heading=("Waivers used",), items=items)


def _warnings(plan: Plan) -> Iterator[Item]:
    for verdict in plan.refused:
        yield Item(label="REFUSED", text=(sentence(verdict.message),), severity=Severity.ERROR, code=verdict.id)
    for reason in plan.incomplete:
        yield Item(label="Incomplete", text=(sentence(reason),), severity=Severity.WARNING)
    if plan.targets:
        yield Item(label="Only", text=join(", ", *((name(target),) for target in plan.targets)))


def _policies(plan: Plan, heading: str, actions: Iterable[Operation], *, full: bool) -> Iterator[Section]:
    for policy, of_policy in groupby(actions, key=lambda action: action.address.policy_address):
        entries: list[tuple[Operation, ...]] = []
        for _topic, of_topic in groupby(of_policy, key=lambda action: (action.address.name, type(action))):
            members = tuple(of_topic)
            folded = not full and len(members) > FOLD_ABOVE and all(action.is_foldable for action in members)
            entries += [members] if folded else zip(members)
        yield Section(
            heading=(heading,) if heading else (),
            subject=(escaped_name(format_policy(policy)),),
            location=entries[0][0].declared_at,
            note=policy_facts(plan, policy),
            items=Items.of(entries, _action_item),
            open_items=OPEN_ITEMS,
        )
        heading = ""


def _action_item(actions: Sequence[Operation]) -> Item:
    """The item of one action, or of many that are folded."""
    first = actions[0]
    description = type(first).describe_many(actions) if len(actions) > 1 else first.describe()
    return Item(
        sign=description.sign,
        subject=description.subject,
        text=description.change,
        loss=description.loss,
        severity=Severity.LOSS if first.irreversible else Severity.CHANGE,
        location=first.declared_at,
        children=tuple(
            Item(text=text, severity=severity)
            for severity, texts in (
                (Severity.PLAIN, description.notes),
                (Severity.LOSS, description.risks),
                (Severity.WARNING, description.unknowns),
            )
            for text in texts
        ),
    )


def _group_notices(decisions: Sequence[Any], *, full: bool) -> list[list[Any]]:
    """Group decisions of one class in address order, where one policy says the same of several.

    Blocked subjects are folded only above FOLD_ABOVE partitions of one topic and one code, since each
    of them needs an answer. Those that wait for a clock are one group for each policy.
    """

    def key(decision: Notice) -> tuple[object, ...]:
        policy = decision.address.policy_address
        match decision:
            case Blocked():
                return policy, decision.address.name, decision.code
            case Waiting(until_ms=int()):
                return policy, ""
            case _:
                return policy, decision.reason

    groups: list[list[Any]] = []
    for same in [decisions] if full else grouped(decisions, key):
        listed = full or (isinstance(same[0], Blocked) and len(same) <= FOLD_ABOVE)
        groups += [[decision] for decision in same] if listed else [same]
    return groups


def _subject(same: Sequence[Notice]) -> Phrase:
    """What the decisions of one group are about: `orders[5]`, `64 partitions of orders`, `a, b and 3 more`."""
    addresses = [decision.address for decision in same]
    if len(addresses) == 1:
        return (escaped_name(format_subject(addresses[0])),)
    topics = dict.fromkeys(format_subject(Address(a.kind, a.policy, a.name)) for a in addresses)
    shown = escaped_name(formatting.first_few(list(topics)))
    number = formatting.count(len(same), "partition")
    return (f"{number} of ", shown) if all(address.partition >= 0 for address in addresses) else (shown,)


def _example(same: Sequence[Notice], first: Notice) -> Phrase:
    return (", such as ", escaped_name(format_subject(first.address))) if len(same) > 1 else ()


def _blocked_item(same: Sequence[Blocked]) -> Item:
    first = same[0]
    end = "" if first.reason.endswith((".", "?", "!")) else "."
    return Item(
        label="Unread" if first.unread else "Blocked",
        subject=(*_subject(same), *_example(same, first)),
        text=(sentence(first.reason), f"{end} Next: ", sentence(first.next_step), " (", name(first.code), ")"),
        severity=Severity.WARNING,
        code=first.code,
        location=first.declared_at,
    )


def _waiting_item(same: Sequence[Waiting], *, now_ms: int) -> Item:
    """Of those that wait for a clock the first to go stands for all."""
    instants = sorted(decision.until_ms for decision in same if decision.until_ms is not None)
    first = min(same, key=lambda decision: decision.until_ms or 0)
    subject = _subject(same)
    if instants:
        soonest, latest = (formatting.until(ms, now_ms=now_ms) for ms in (instants[0], instants[-1]))
        wait = soonest if soonest == latest else f"{soonest} to {latest.removeprefix('in ')}"
        subject = (*subject, " (", strong(wait), ")", *_example(same, first))
    text = (sentence(first.reason),)
    return Item(label="Waiting", subject=subject, text=text, severity=Severity.QUIET, location=first.declared_at)


def _skipped_item(same: Sequence[Skipped]) -> Item:
    text = (sentence(same[0].reason),)
    return Item(label="Skipped", subject=_subject(same), text=text, severity=Severity.QUIET)


def _waiver_item(waiver: UsedWaiver, *, now_ms: int) -> Item:
    expires = f"{formatting.format_time(waiver.expires_ms)}, {formatting.until(waiver.expires_ms, now_ms=now_ms)}"
    policy, location = format_policy(waiver.policy), format_location(waiver.declared_at)
    granted: Phrase = (name(waiver.limit), f" up to {waiver.value:.15g} for ", escaped_name(policy))
    return Item(
        label="Waiver",
        subject=(name(waiver.name),),
        text=(*granted, f", expires {expires} (", escaped_name(location), ")"),
        severity=Severity.CHANGE,
        location=waiver.declared_at,
    )
