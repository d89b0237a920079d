"""Builds the report of a plan: what would change, what is blocked or waiting, limits, waivers and digest."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from reconciler.model.names import format_location, format_policy, format_subject
from reconciler.model.plan import Blocked, Plan, Skipped, UsedWaiver, Waiting
from reconciler.operations.base import Operation
from reconciler.plan.plan_file import digest
from reconciler.report import grouping
from reconciler.report.tree import Item, Items, Report, Section, Severity
from reconciler.text import formatting
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong

OPEN_ITEMS = 25
"""Items of one section that a page shows before the reader opens the rest."""


def plan_report(plan: Plan, *, full: bool = False, saved_to: str | None = None) -> Report:
    """The report of a plan. `full`: every partition is an item of its own."""
    plan_digest = digest(plan)
    actions = grouping.as_operations(plan.actions)
    fields = (("cluster", plan.cluster), ("digest", plan_digest), ("commit", plan.source.commit or ""))
    commit: Phrase = ()
    if plan.source.commit:
        commit = ("commit ", name(plan.source.commit[:7]))
        commit += (" and uncommitted changes",) if plan.source.dirty else ()
    lifetime = formatting.approximate_duration(plan.expires_at_ms - plan.observed_at_ms)
    scanned, expires = formatting.format_time(plan.observed_at_ms), formatting.format_time(plan.expires_at_ms)
    age: Phrase = (f"Scanned {scanned}, expires {expires} ({lifetime} after the scan)",)
    if saved_to:
        age += (", saved to ", name(saved_to))
    return Report(
        title=f"plan for {plan.cluster}",
        headline=(name(plan.cluster), ": ", _headline(plan, actions)),
        opening=(join(", ", ("Cluster ", name(plan.cluster), " (", name(plan.cluster_id), ")"), commit),),
        summary_label="Plan",
        summary=(grouping.totals(plan.decisions),),
        sections=tuple(_sections(plan, actions, full=full)),
        footer=(("Digest ", escaped_name(plan_digest)), age),
        is_quiet=not actions and not saved_to,
        marker=("reconciler-plan", (*fields, ("truncated", None))),
        remainder=("Read the rest in the plan file or with ", escaped_name("reconciler show"), "."),
    )


def _headline(plan: Plan, actions: Sequence[Operation]) -> str:
    if plan.refused:
        return f"refused by {formatting.count(len(plan.refused), 'limit')}"
    irreversible = "irreversible action"
    titles = Counter(irreversible if action.irreversible else action.TITLE for action in actions)
    ordered = sorted(titles.items(), key=lambda title: title[0] != irreversible)
    return ", ".join(formatting.count(number, title) for title, number in ordered) or "no changes"


def _sections(plan: Plan, actions: Sequence[Operation], *, full: bool) -> Iterator[Section]:
    yield Section(items=tuple(_warnings(plan)), severity=Severity.WARNING, labelled=False)
    for heading, irreversible in (("Irreversible", True), ("Reversible", False)):
        same = (action for action in actions if action.irreversible is irreversible)
        yield from _policies(plan, heading, same, full=full)
    for unread in (False, True):
        blocked = [d for d in plan.decisions if isinstance(d, Blocked) and d.unread is unread]
        yield Section(
            heading=(f"{len(blocked):,} {'unread, so blocked' if unread else 'blocked'}",),
            items=Items(grouping.group_notices(blocked, full=full), _blocked_item),
            severity=Severity.WARNING,
            open_items=OPEN_ITEMS,
        )
    waiting = [decision for decision in plan.decisions if isinstance(decision, Waiting)]
    yield Section(
        heading=(f"{len(waiting):,} waiting",),
        items=Items(grouping.group_notices(waiting, full=full), partial(_waiting_item, now_ms=plan.observed_at_ms)),
        collapsed=True,
    )
    skipped = [decision for decision in plan.decisions if isinstance(decision, Skipped)]
    yield Section(
        heading=(f"{len(skipped):,} skipped",),
        items=Items(grouping.group_notices(skipped, full=full), _skipped_item),
        collapsed=True,
        optional=True,
    )
    waivers = list(dict.fromkeys(waiver for verdict in plan.limits for waiver in verdict.waivers))
    yield Section(heading=("Waivers used",), items=Items(waivers, partial(_waiver_item, now_ms=plan.observed_at_ms)))


def _warnings(plan: Plan) -> Iterator[Item]:
    for verdict in plan.refused:
        yield Item(label="REFUSED", text=(sentence(verdict.message),), severity=Severity.ERROR, code=verdict.id)
    for reason in plan.incomplete:
        yield Item(label="Incomplete", text=(sentence(reason),), severity=Severity.WARNING)
    if plan.targets:
        yield Item(label="Only", text=join(", ", *((name(target),) for target in plan.targets)))


def _policies(plan: Plan, heading: str, actions: Iterable[Operation], *, full: bool) -> Iterator[Section]:
    notes = {info.policy: info for info in plan.notes}
    for first, items in grouping.by_policy(actions, full=full):
        policy = first.address.policy_address
        info = notes.get(policy)
        owner = (("Owner", (sentence(info.owner),)),) if info and info.owner else ()
        reason = (("Reason", (sentence(info.reason),)),) if info and info.reason else ()
        yield Section(
            heading=(heading,) if heading else (),
            subject=(escaped_name(format_policy(policy)),),
            location=first.declared_at,
            note=(*owner, *reason),
            items=items,
            open_items=OPEN_ITEMS,
        )
        heading = ""


def _blocked_item(same: Sequence[Blocked]) -> Item:
    first = same[0]
    end = "" if first.reason.endswith((".", "?", "!")) else "."
    return Item(
        label="Unread" if first.unread else "Blocked",
        subject=(*grouping.subject_of(same), *_example(first, len(same))),
        text=(sentence(first.reason), f"{end} Next: ", sentence(first.next_step), " (", name(first.code), ")"),
        severity=Severity.WARNING,
        code=first.code,
        location=first.declared_at,
    )


def _waiting_item(same: Sequence[Waiting], *, now_ms: int) -> Item:
    """Of those that wait for a clock the first to go stands for all."""
    instants = sorted(decision.until_ms for decision in same if decision.until_ms is not None)
    first = min(same, key=lambda decision: decision.until_ms or 0)
    subject = grouping.subject_of(same)
    if instants:
        soonest, latest = (formatting.until(ms, now_ms=now_ms) for ms in (instants[0], instants[-1]))
        wait = soonest if soonest == latest else f"{soonest} to {latest.removeprefix('in ')}"
        subject = (*subject, " (", strong(wait), ")", *_example(first, len(same)))
    text = (sentence(first.reason),)
    return Item(label="Waiting", subject=subject, text=text, severity=Severity.QUIET, location=first.declared_at)


def _skipped_item(same: Sequence[Skipped]) -> Item:
    text = (sentence(same[0].reason),)
    return Item(label="Skipped", subject=grouping.subject_of(same), text=text, severity=Severity.QUIET)


def _example(decision: Blocked | Waiting, number: int) -> Phrase:
    return (", such as ", escaped_name(format_subject(decision.address))) if number > 1 else ()


def _waiver_item(waiver: UsedWaiver, *, now_ms: int) -> Item:
    expires = formatting.format_time(waiver.expires_ms)
    return Item(
        label="Waiver",
        subject=(name(waiver.name),),
        text=(
            name(waiver.limit),
            f" up to {waiver.value:.15g} for ",
            escaped_name(format_policy(waiver.policy)),
            f", expires {expires}, {formatting.until(waiver.expires_ms, now_ms=now_ms)} (",
            escaped_name(format_location(waiver.declared_at)),
            ")",
        ),
        severity=Severity.CHANGE,
        location=waiver.declared_at,
    )
