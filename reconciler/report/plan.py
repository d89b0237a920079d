"""Builds the report of a plan, and the explanation of one of its decisions.

More than 20 partitions of one topic are one item. Nothing is computed here that apply reads.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from reconciler import operations
from reconciler.errors import UsageError
from reconciler.model.action import Action
from reconciler.model.block_reason import BLOCK_CODES, SILENT
from reconciler.model.description import Fact
from reconciler.model.names import NOWHERE, Address, format_address, format_location, format_subject
from reconciler.model.plan import (
    Blocked,
    Change,
    Decision,
    Plan,
    Rule,
    Satisfied,
    Setting,
    Skipped,
    UsedWaiver,
    Waiting,
)
from reconciler.operations.base import FoldableOperation, Operation
from reconciler.plan.plan_file import digest, section_of
from reconciler.policies.cluster import CONNECTION
from reconciler.report.tree import (
    Item,
    Items,
    Report,
    Section,
    Severity,
    fold_equal,
    format_subjects,
    group_equal,
    unmatched_item,
)
from reconciler.text import formatting
from reconciler.text.escape import display_name
from reconciler.text.phrase import Phrase, escaped_name, join, name, sentence, strong
from reconciler.text.suggest import did_you_mean

OPEN_ITEMS = 25
"""Items of one section that a page shows before the reader opens the rest."""

_RULES_CHARS = 12_000
"""Characters of a page for each list of rules: a long one must not displace what is removed now."""
_SETTINGS_MAX, _VALUES_MAX = 15, 5
"""Settings of one rule and values of one setting that a report shows; the plan file has all."""
_EXPLAINED_MAX = 5
"""Decisions of one topic or policy that are explained where the address covers more than one."""

_UNREAD = "unread, so blocked"
_STATES = {"satisfied": "in sync", "unread": _UNREAD}
_NOTICES = {"blocked": "Blocked", _UNREAD: "Unread", "waiting": "Waiting", "skipped": "Skipped"}
"""Label of the items of each state other than actions and in sync, in the order of the report."""


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
        summary=(strong("Plan:"), f" {count_decisions(plan.decisions)}"),
        sections=tuple(_sections(plan, full=full)),
        footer=(("Digest ", escaped_name(plan_digest)), age),
        is_quiet=not plan.actions and not saved_to,
        marker=("reconciler-plan", (*fields, ("truncated", None))),
        remainder=("in the plan file of the run's artifact or with ", escaped_name("reconciler show")),
    )


def count_decisions(decisions: Iterable[Decision]) -> str:
    """`1 record deletion (at most 97,213 records), 1 group removal; 1 blocked; 14 in sync.`"""
    by_state = _by_state(decisions)
    actions = []
    for operation in reversed(operations.OPERATIONS):
        if members := by_state[operation.TITLE]:
            loss = operation.total_loss(members)
            actions.append(formatting.count(len(members), operation.TITLE) + (f" ({loss})" if loss else ""))
    numbers = {state: len(by_state[state]) for state in ("blocked", "waiting", "skipped", "in sync")}
    unread = len(by_state[_UNREAD])
    numbers["blocked"] += unread
    counts = [f"{number:,} {state}" for state, number in numbers.items() if number]
    if unread:
        counts[0] += f" ({unread:,} unread)"
    return "; ".join([", ".join(actions) or "no changes", *counts]) + "."


def _by_state(decisions: Iterable[Decision]) -> defaultdict[str, list[Any]]:
    by_state = defaultdict(list)
    for decision in decisions:
        by_state[format_state(decision)].append(decision)
    return by_state


def format_state(decision: Decision) -> str:
    """Return what reports call a decision: the title of an action, or a state."""
    section = section_of(decision)
    return decision.TITLE if isinstance(decision, Operation) else _STATES.get(section, section)


def describe_policy(plan: Plan, policy: Address) -> tuple[tuple[str, Phrase], ...]:
    """Return owner and reason of a policy, as far as its manifest states them."""
    info = next((info for info in plan.notes if info.policy == policy), None)
    facts = (("Owner", info.owner), ("Reason", info.reason)) if info else ()
    return tuple((label, (sentence(text),)) for label, text in facts if text)


def _headline(plan: Plan) -> str:
    changes = len(plan.rule_changes) + sum(rule.change not in (None, Change.UNCHANGED) for rule in plan.continuous)
    rules = f"; {formatting.count(changes, 'changed rule')}" if changes else ""
    if plan.refused:
        return f"refused by {formatting.count(len(plan.refused), 'limit')}{rules}"
    irreversible = "irreversible action"
    titles = Counter(irreversible if action.irreversible else action.TITLE for action in _operations(plan))
    ordered = sorted(titles.items(), key=lambda title: title[0] != irreversible)
    actions = ", ".join(formatting.count(number, title) for title, number in ordered)
    return f"{actions or 'no changes'}{rules}"


def _operations(plan: Plan) -> Sequence[Operation]:
    return cast("Sequence[Operation]", plan.actions)


def _sections(plan: Plan, *, full: bool) -> Iterator[Section]:
    yield Section(items=tuple(_warnings(plan)), severity=Severity.WARNING)
    yield Section(
        heading=("Changes to the rules",),
        items=Items.of(plan.rule_changes, _rule_item),
        labelled=False,
        limit_chars=_RULES_CHARS,
    )
    unchanged = [rule for rule in plan.continuous if rule.change is Change.UNCHANGED]
    others = [rule for rule in plan.continuous if rule.change is not Change.UNCHANGED]
    yield Section(
        heading=("From the merge on, without further review",),
        items=Items.of(others, _rule_item),
        labelled=False,
        open_items=OPEN_ITEMS,
        optional=all(rule.change is None for rule in others),
        limit_chars=_RULES_CHARS,
    )
    yield Section(
        heading=(f"{formatting.count(len(unchanged), 'rule')} without further review, the same in the base",),
        items=Items.of(unchanged, _rule_item),
        labelled=False,
        open_items=0,
        optional=True,
        limit_chars=_RULES_CHARS,
    )
    for heading, irreversible in (("Irreversible", True), ("Reversible", False)):
        same = (action for action in _operations(plan) if action.irreversible is irreversible)
        yield from _policies(plan, heading, same, full=full)

    by_state = _by_state(decision for decision in plan.decisions if not isinstance(decision, Action | Satisfied))
    for state, label in _NOTICES.items():
        decisions = by_state[state]
        is_blocked = label in ("Blocked", "Unread")
        # Each blocked subject needs an answer, so few of them are listed one by one. A silent broker is one answer.
        silent = [decision for decision in decisions if getattr(decision, "code", "") == SILENT]
        others = [decision for decision in decisions if getattr(decision, "code", "") != SILENT]
        collect = fold_equal if is_blocked else group_equal
        groups = [*group_equal(silent, attrgetter("reason")), *collect(others, _notice_key)]
        groups = [[decision] for decision in decisions] if full else groups
        yield Section(
            heading=(f"{len(decisions):,} {state}",),
            items=Items.of(groups, partial(_notice_item, label=label, now_ms=plan.observed_at_ms)),
            severity=Severity.WARNING if is_blocked else Severity.PLAIN,
            open_items=OPEN_ITEMS if is_blocked else 0,
            optional=label == "Skipped",
        )
    waivers = dict.fromkeys(waiver for verdict in plan.limits for waiver in verdict.waivers)
    items = tuple(_waiver_item(waiver, now_ms=plan.observed_at_ms) for waiver in waivers)
    yield Section(heading=("Waivers used",), items=items)


def _warnings(plan: Plan) -> Iterator[Item]:
    for verdict in plan.limits:
        if verdict.id == CONNECTION.id and verdict.passed:
            yield Item(label="Allowed", text=(sentence(verdict.message),), severity=Severity.WARNING, code=verdict.id)
    for verdict in plan.refused:
        yield Item(label="REFUSED", text=(sentence(verdict.message),), severity=Severity.ERROR, code=verdict.id)
    for reason in plan.incomplete:
        yield Item(label="Incomplete", text=(sentence(reason),), severity=Severity.WARNING)
    yield from map(unmatched_item, plan.unmatched)
    if plan.targets:
        yield Item(label="Only", text=join(", ", *((name(target),) for target in plan.targets)))


def _rule_item(rule: Rule) -> Item:
    """The item of a manifest: its settings, those that differ from the base with the former values."""
    limits = [setting for setting in rule.settings if setting.name.startswith("limits.") and setting.before is None]
    others = [setting for setting in rule.settings if setting not in limits]
    settings = [Item(text=_setting(setting)) for setting in others[:_SETTINGS_MAX]]
    if len(others) > _SETTINGS_MAX:
        settings.append(Item(text=(f"and {len(others) - _SETTINGS_MAX:,} more settings",)))
    if limits:
        texts = ((name(limit.name.removeprefix("limits.")), " ", *_values(limit.values)) for limit in limits)
        settings.append(Item(text=(name("limits"), ": ", *join(", ", *texts))))
    return Item(
        label=(rule.change or "").capitalize() if rule.change is not Change.UNCHANGED else "",
        subject=(escaped_name(format_address(rule.address)),),
        text=("in ", escaped_name(format_location(rule.declared_at))),
        severity=Severity.PLAIN if rule.change in (None, Change.UNCHANGED) else Severity.CHANGE,
        children=tuple(settings),
    )


def _setting(setting: Setting) -> Phrase:
    before: Phrase = () if setting.before is None else (", before: ", *_values(setting.before))
    return (name(setting.name), ": ", *_values(setting.values), *before)


def _values(values: Sequence[str]) -> Phrase:
    if not values:
        return ("none",)
    more = f" and {len(values) - _VALUES_MAX:,} more" if len(values) > _VALUES_MAX else ""
    return (*join(", ", *((name(value),) for value in values[:_VALUES_MAX])), more)


def _policies(plan: Plan, heading: str, actions: Iterable[Operation], *, full: bool) -> Iterator[Section]:
    for policy, of_policy in groupby(actions, key=lambda action: action.address.policy_address):
        by_topic = fold_equal(
            of_policy,
            lambda action: (action.address.name, type(action)),
            lambda action: action.is_foldable and not full,
        )
        entries = list(by_topic)
        yield Section(
            heading=(heading,) if heading else (),
            subject=(escaped_name(format_address(policy)),),
            location=entries[0][0].declared_at,
            note=describe_policy(plan, policy),
            items=Items.of(entries, _action_item),
            open_items=OPEN_ITEMS,
        )
        heading = ""


def _action_item(actions: Sequence[Operation]) -> Item:
    """The item of one action, or of many that are folded."""
    first = actions[0]
    if len(actions) > 1 and isinstance(first, FoldableOperation):
        description = type(first).describe_many(actions)
    else:
        description = first.describe()
    children = [Item(text=text) for text in description.notes]
    children += [Item(text=text, severity=Severity.LOSS) for text in description.risks]
    children += [Item(text=text, severity=Severity.WARNING) for text in description.unknowns]
    return Item(
        sign=description.sign,
        subject=description.subject,
        text=description.change,
        loss=description.loss,
        severity=Severity.LOSS if first.irreversible else Severity.CHANGE,
        children=tuple(children),
    )


def _notice_key(decision: Any) -> tuple[object, ...]:
    """Return what decisions of one item have in common. All that wait for a clock are alike."""
    policy = decision.address.policy_address
    match decision:
        case Blocked():
            return policy, decision.address.name, decision.code
        case Waiting(until_ms=int()):
            return policy, ""
    return policy, decision.reason


def _notice_item(same: Sequence[Any], *, label: str, now_ms: int) -> Item:
    """The item of decisions that say the same; the one that waits shortest stands for all."""
    first = min(same, key=lambda decision: getattr(decision, "until_ms", None) or 0)
    subject = format_subjects([decision.address for decision in same])
    example: Phrase = (", such as ", escaped_name(format_subject(first.address))) if len(same) > 1 else ()
    text: Phrase = (sentence(first.reason),)
    match first:
        case Blocked(reason=reason):
            end = "" if reason.endswith((".", "?", "!")) else "."
            text = (*text, f"{end} Next: ", sentence(first.next_step), " (", name(first.code), ")")
            subject = (*subject, *example)
        case Waiting(until_ms=int()):
            soonest, latest = (formatting.until(pick(d.until_ms for d in same), now_ms=now_ms) for pick in (min, max))
            wait = soonest if soonest == latest else f"{soonest} to {latest.removeprefix('in ')}"
            subject = (*subject, " (", strong(wait), ")", *example)
    return Item(
        label=label,
        subject=subject,
        text=text,
        severity=Severity.WARNING if isinstance(first, Blocked) else Severity.QUIET,
        code=getattr(first, "code", ""),
        location=getattr(first, "declared_at", NOWHERE),
    )


def _waiver_item(waiver: UsedWaiver, *, now_ms: int) -> Item:
    expires = f"{formatting.format_time(waiver.expires_ms)}, {formatting.until(waiver.expires_ms, now_ms=now_ms)}"
    policy, location = format_address(waiver.policy), format_location(waiver.declared_at)
    granted: Phrase = (name(waiver.limit), f" up to {waiver.value:.15g} for ", escaped_name(policy))
    text = (*granted, f", expires {expires} (", escaped_name(location), ")")
    return Item(label="Waiver", subject=(name(waiver.name),), text=text, severity=Severity.CHANGE)


def explain_report(plan: Plan, address: Address) -> Report:
    """Explain the decisions at or below that address. Raises UsageError where there is none."""
    decisions = [
        decision
        for decision in plan.decisions
        if address in (decision.address, replace(decision.address, partition=-1), decision.address.policy_address)
    ]
    subject = escaped_name(format_address(address))
    unmatched = [unmatched_item(warning) for warning in plan.unmatched if warning.policy == address.policy_address]
    if not decisions and not unmatched:
        suggestion = did_you_mean(str(address), (str(decision.address) for decision in plan.decisions))
        hint = f"did you mean {display_name(suggestion)}?" if suggestion else "`show --full` lists what it decides"
        raise UsageError(f"the plan decides nothing at {subject.text}; {hint}")
    left_out = len(decisions) - _EXPLAINED_MAX
    return Report(
        headline=(subject, f": {count_decisions(decisions)}") if left_out > 0 else (),
        sections=(
            Section(items=tuple(unmatched), severity=Severity.WARNING),
            *(
                Section(
                    heading=(escaped_name(format_address(decision.address)), f": {format_state(decision)}"),
                    items=(Item(facts=tuple(_facts(plan, decision))),),
                    labelled=False,
                )
                for decision in decisions[:_EXPLAINED_MAX]
            ),
        ),
        footer=((f"and {left_out:,} more; name one of them to see it",),) if left_out > 0 else (),
    )


def _facts(plan: Plan, decision: Decision) -> Iterator[Fact]:
    if not isinstance(decision, Satisfied | Skipped):
        mode = f", mode {decision.mode}" if isinstance(decision, Action) else ""
        yield "Declared", (escaped_name(format_location(decision.declared_at)), mode)
    if not isinstance(decision, Satisfied):
        yield "Because", (sentence(decision.reason),)
    match decision:
        case Waiting(until_ms=int(until_ms)):
            until = formatting.until(until_ms, now_ms=plan.observed_at_ms)
            yield "Until", (f"{formatting.format_time(until_ms)}, {until}",)
        case Blocked(code=code):
            yield "Next", (sentence(decision.next_step),)
            title = f": {BLOCK_CODES[code].title}" if code in BLOCK_CODES else ""
            yield "Code", (name(code), f"{title} (`reconciler explain {display_name(code)}` says more)")
        case Operation():
            yield from decision.explain()
            yield "Drift", ("counts as drift" if decision.drift else "does not count as drift yet",)
    yield from describe_policy(plan, decision.address.policy_address)
    yield "Seen at", (formatting.format_time(plan.observed_at_ms),)
