"""Builds the report of a plan, and the explanation of one of its decisions.

Deletions of one topic and elections of one policy are one line, blocked and waiting subjects one
line for each cause; in full, each subject has its own. Nothing is computed here that apply reads.
"""

import shlex
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, product
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from reconciler import operations
from reconciler.errors import UsageError
from reconciler.model.action import Action
from reconciler.model.block_reason import BLOCK_CODES, SILENT
from reconciler.model.description import Fact
from reconciler.model.names import NOWHERE, Address, count_by_sort, format_address, format_location, format_subject
from reconciler.model.plan import (
    Blocked,
    Change,
    Decision,
    LimitVerdict,
    Plan,
    Rule,
    Satisfied,
    Setting,
    Skipped,
    UsedWaiver,
    Waiting,
    section_of,
)
from reconciler.operations.base import NO_LIMITS, Operation
from reconciler.plan.plan_file import Totals, digest, lines
from reconciler.plan.targets import with_parents
from reconciler.policies.cluster import CONNECTION
from reconciler.report.document import PLAN, Document, Outputs, View
from reconciler.report.tree import (
    NO_PAGES,
    Item,
    Items,
    Report,
    Section,
    Severity,
    cause_of,
    caveat_items,
    fold_causes,
    format_subjects,
    group_equal,
    unmatched_item,
)
from reconciler.text import formatting
from reconciler.text.escape import display_name, escape_name, quoted, truncate
from reconciler.text.phrase import Phrase, Span, escaped_name, given, join, name, plain, sentence, strong
from reconciler.text.suggest import suggestion

_COMMAND_MAX = 500
"""Characters of the words of a command: a name from a report of someone else may be of any length."""
_BEHIND_MAX = 3
"""Consumers that skip most and that the top of a plan names."""
OPEN_ITEMS = 25
"""Items of one section, or rows of one chart, that a page shows before the reader opens the rest."""

_RULES_CHARS = 12_000
"""Characters of a page for each list of rules: a long one must not displace what is removed now."""
_SETTINGS_MAX, _VALUES_MAX = 15, 5
"""Settings of one rule and values of one setting that a report shows of what stays the same; the plan file has all."""
_VALUE_CHARS = 5_000
"""Escaped characters of a value: a selector has at most 500, and an escape ten."""
_EXPLAINED_MAX = 5
"""Decisions of one topic or policy that are explained where the address covers more than one."""

_UNREVIEWED = ", where later runs act without another plan"
"""What follows where the removal of a group frees a subject of a continuous policy."""
_STATES = {"satisfied": "in sync", "unread": "unread, so blocked"}
_NOTICES = ("blocked", "unread", "waiting", "skipped")
"""Sections other than actions and in sync, in the order of the report."""


def plan_document(plan: Plan, *, full: bool = False, **typed: Any) -> Document:
    """Return the document of a plan. `typed`: what only a terminal shows, as in `plan_report`."""

    def trees(view: View) -> Sequence[Report]:
        tree = plan_report(plan, full=full, pages=view.pages, **(typed if view.at_terminal else {}))
        return [replace(tree, next_steps=tuple(_next_steps(plan, "PLAN", ())))] if view.stands_alone else [tree]

    return Document(
        kind=PLAN,
        trees=trees,
        values=[plan],
        writers={"json": lambda: lines(plan)},
        outputs=lambda: _outputs(plan),
    )


def _outputs(plan: Plan) -> Outputs:
    """Return the outputs of a plan. `records_removed_max` is empty if no number bounds it."""
    totals = Totals(plan, plan.decisions)
    counts = {name: totals.summary[name] for name in ("irreversible", "records_removed_max", "blocked", "unread")}
    unbounded = {"records_removed_max": ""} if totals.summary["unbounded"] else {}
    return {"digest": totals.digest, "actions": len(plan.actions), **counts, **unbounded, "refused": len(plan.refused)}


def plan_report(
    plan: Plan,
    *,
    full: bool = False,
    saved_to: Path | str | None = None,
    with_next_step: bool = False,
    paths: Sequence[Path | str] | None = (),
    pages: Mapping[str, str] = NO_PAGES,
) -> Report:
    """The report of a plan. `full`: every partition is an item of its own, with the reason.

    `with_next_step`: name the next command, where a person reads the report who can type it; `paths`:
    of the manifests, if they are named in it. `pages`: of codes and limits, by their names.
    """
    plan_digest = digest(plan)
    fields = (("cluster", plan.cluster), ("digest", plan_digest), ("commit", plan.source.commit or ""))
    commit = given("commit ", (plan.source.commit or "")[:7], name)
    if commit:
        commit = (*commit, *given(" by ", plan.source.author), " and uncommitted changes" * plan.source.dirty)
    lifetime = formatting.approximate_duration(plan.expires_at_ms - plan.observed_at_ms)
    scanned, expires = formatting.format_time(plan.observed_at_ms), formatting.format_time(plan.expires_at_ms)
    next_steps = tuple(_next_steps(plan, saved_to, paths or ())) if with_next_step else ()
    saved = given("saved to ", str(saved_to or ""), name)
    age: Phrase = (f"Scanned {scanned}, expires {expires} ({lifetime} after the scan)",)
    return Report(
        title=f"plan for {plan.cluster}",
        headline=(name(plan.cluster), ": ", _headline(plan)),
        opening=join(", ", ("Cluster ", name(plan.cluster), " (", name(plan.cluster_id), ")"), commit, saved),
        sections=tuple(_sections(plan, full=full, pages=dict(pages))),
        next_steps=next_steps,
        footer=(("Digest ", escaped_name(plan_digest)), age),
        is_quiet=not plan.actions and not saved_to,
        marker=("reconciler-plan", (*fields, ("truncated", None))),
        remainder=("in the plan file of the run's artifact or with ", escaped_name("reconciler show")),
        is_full=full,
    )


def _next_steps(plan: Plan, saved_to: Path | str | None, paths: Sequence[Path | str]) -> Iterator[Phrase]:
    """Yield what to type next: to apply the plan, or to read why nothing can be applied."""
    words = shlex.join(map(str, (saved_to or "plan.json", *paths)))
    apply = escaped_name(f"reconciler apply {escape_name(words)}")
    if plan.refused:
        yield ("nothing of this plan can be applied: do what the refusals above say, then plan again",)
    elif plan.actions and saved_to:
        yield (apply,)
    elif plan.actions:
        yield ("the same command with ", escaped_name("--out plan.json"), ", then ", apply)
    elif blocked := plan.blocked:
        words = shlex.join(map(str, (blocked[0].address, *([saved_to] if saved_to else paths))))
        yield (escaped_name(f"reconciler explain {escape_name(words)}"),)


def _tally(decisions: Sequence[Decision], observed: Mapping[str, float] = NO_LIMITS) -> Iterator[Item]:
    """Yield a labelled total for each sort of decision, irreversible actions first.

    `observed`: what the limits of the plan count.
    """
    sections = _by_section(decisions)
    actions = sections["actions"]
    for irreversible, groups in groupby(_by_effect(actions), key=lambda same: same[0].irreversible):
        label, severity = ("Cannot", Severity.LOSS) if irreversible else ("Can", Severity.CHANGE)
        of_side = list(groups)
        effects = ((_effect(same), same[0].total_loss(same, observed)) for same in of_side)
        text = "; ".join(f"{effect} ({loss})" if loss else effect for effect, loss in effects)
        yield _total(f"{label} be undone", chain.from_iterable(of_side), text, severity=severity)
    if not actions:
        yield Item(label="Changes", text=("none",))
    blocked, unread = [*sections["blocked"], *sections["unread"]], count_subjects_of(sections["unread"])
    if blocked:
        text = f"{count_subjects_of(blocked)}{f' (unread: {unread})' if unread else ''}"
        yield _total("Blocked", blocked, text, severity=Severity.WARNING)
    for section in ("waiting", "skipped"):
        if same := sections[section]:
            yield _total(section.capitalize(), same, severity=Severity.QUIET)
    others = [*actions, *blocked, *sections["waiting"]]
    in_sync = _total("In sync", sections["satisfied"], others=others, severity=Severity.GOOD)
    if in_sync.text[0]:
        yield in_sync


def _total(
    label: str, decisions: Iterable[Decision], text: str = "", *, severity: Severity, others: Iterable[Decision] = ()
) -> Item:
    """Return the total of these decisions: their subjects that no other has, and the same as `text`, if it is empty."""
    counts = count_by_sort((decision.address for decision in decisions), (other.address for other in others))
    return Item(label=label, text=(text or format_counts(counts),), severity=severity, counts=counts)


def _effect(actions: Sequence[Operation]) -> str:
    """Return what actions of one operation do."""
    return actions[0].count_effects([action.address for action in actions])


def _by_effect(actions: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield the irreversible actions of each operation, then the others, as far as there are any."""
    for irreversible, operation in product((True, False), reversed(operations.OPERATIONS)):
        if same := [action for action in actions if type(action) is operation and action.irreversible is irreversible]:
            yield same


def count_subjects_of(decisions: Iterable[Decision]) -> str:
    """Count the subjects of decisions, each once."""
    return count_subjects(decision.address for decision in decisions)


def count_subjects(addresses: Iterable[Address]) -> str:
    """Count subjects, each once: `7 partitions, 1 group`."""
    return format_counts(count_by_sort(addresses))


def format_counts(numbers: Mapping[str, int]) -> str:
    """Return numbers of nouns, such as those of `count_by_sort`, as words."""
    nouns = {"policy": ("whole policy", "whole policies")}
    return ", ".join(formatting.count(n, *nouns.get(noun, (noun,))) for noun, n in numbers.items() if n)


def plan_command(*words: str) -> Span:
    """Return `reconciler plan` with these words, as a shell takes it; cut if they are very long."""
    text = shlex.join(words)
    return escaped_name(f"reconciler plan {truncate(text, escape_name(text), _COMMAND_MAX)}")


def _by_section(decisions: Iterable[Decision]) -> defaultdict[str, list[Any]]:
    sections = defaultdict(list)
    for decision in decisions:
        sections[section_of(decision)].append(decision)
    return sections


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
    return f"{', '.join(map(_effect, _by_effect(_operations(plan)))) or 'no changes'}{rules}"


def _operations(plan: Plan) -> Sequence[Operation]:
    return cast("Sequence[Operation]", plan.actions)


def _sections(plan: Plan, *, full: bool, pages: dict[str, str]) -> Iterator[Section]:
    """Yield the sections. Removes from `pages` what is linked, so that only the first name of a code is."""
    yield Section(items=tuple(_warnings(plan, pages)), severity=Severity.WARNING)
    yield Section(items=tuple(_totals(plan)), are_totals=True)
    actions = _operations(plan)
    caveats = ((action.address, text) for action in actions for text in (action.caveat, action.unchecked) if text)
    yield Section(items=(*_consumers_behind(actions), *caveat_items(caveats)))

    def rules(heading: str, listed: Sequence[Rule], **more: Any) -> Section:
        items = Items.of(listed, _rule_item)
        return Section(heading=(heading,), items=items, labelled=False, limit_chars=_RULES_CHARS, **more)

    unchanged = [rule for rule in plan.continuous if rule.change is Change.UNCHANGED]
    others = [rule for rule in plan.continuous if rule.change is not Change.UNCHANGED]
    without_base = all(rule.change is None for rule in others)
    as_before = f"{formatting.count(len(unchanged), 'rule')} without further review, the same in the base"
    yield rules("Changes to the rules", plan.rule_changes)
    yield rules("From the merge on, without further review", others, open_items=OPEN_ITEMS, optional=without_base)
    yield rules(as_before, unchanged, open_items=0, optional=True)
    removed = frozenset(action.removed_group for action in actions if action.removed_group)
    continuous = frozenset(rule.address for rule in plan.continuous if rule.change is not Change.REMOVED)
    freed: defaultdict[str, list[tuple[Address, str]]] = defaultdict(list)
    for decision in plan.decisions:
        if (groups := getattr(decision, "held_by", ())) and removed.issuperset(groups):
            for group in groups:
                freed[group].append((decision.address, _then(decision.address, continuous)))
    for same in _by_effect(actions):
        yield from _policies(plan, same, freed, full=full)

    sections = _by_section(decision for decision in plan.decisions if not isinstance(decision, Action | Satisfied))
    for section in _NOTICES:
        decisions, label = sections[section], section.capitalize()
        is_blocked = section in ("blocked", "unread")
        yield Section(
            heading=(f"{_STATES.get(section, section).capitalize()}: {count_subjects_of(decisions)}",),
            items=notice_items(
                decisions,
                label,
                plan.observed_at_ms,
                pages=pages,
                removed=removed,
                continuous=continuous,
                full=full,
            ),
            severity=Severity.WARNING if is_blocked else Severity.PLAIN,
            open_items=OPEN_ITEMS if is_blocked else 0,
            optional=section == "skipped",
        )
    waivers = dict.fromkeys(waiver for verdict in plan.limits for waiver in verdict.waivers)
    items = tuple(_waiver_item(waiver, now_ms=plan.observed_at_ms) for waiver in waivers)
    yield Section(heading=("Waivers used",), items=items)


def _consumers_behind(actions: Sequence[Operation]) -> Iterator[Item]:
    """Yield who would skip how much in all: the items of the topics, of which a page folds many, say a part each."""
    for same in _by_effect(actions):
        if risks := same[0].total_risks(same):
            more: Phrase = ("and others, as listed below",) if len(risks) > _BEHIND_MAX else ()
            yield Item(label="Behind", text=join("; ", *risks[:_BEHIND_MAX], more), severity=Severity.LOSS)


def _warnings(plan: Plan, pages: dict[str, str]) -> Iterator[Item]:
    allowed = [verdict for verdict in plan.limits if verdict.id == CONNECTION.id and verdict.passed]
    verdicts = (("Allowed", Severity.WARNING, allowed), ("REFUSED", Severity.ERROR, plan.refused))
    for label, severity, of_label in verdicts:
        for verdict in of_label:
            yield Item(label=label, text=_verdict_text(verdict, pages), severity=severity, code=verdict.id)
    for label, reasons in (("Incomplete", plan.incomplete), ("Not seen", plan.unseen)):
        for reason in reasons:
            yield Item(label=label, text=(sentence(reason),), severity=Severity.WARNING)
    yield from map(unmatched_item, plan.unmatched)
    if plan.targets:
        yield Item(label="Only", text=join(", ", *((name(target),) for target in plan.targets)))


def _verdict_text(verdict: LimitVerdict, pages: dict[str, str]) -> Phrase:
    """Return the message of a limit, which begins with its name. Removes its page, if it links it."""
    start, page = f"{verdict.id}: ", pages.pop(verdict.id, "")
    if not page or not verdict.message.startswith(start):
        return (sentence(verdict.message),)
    return (name(verdict.id, link=page), ": ", sentence(verdict.message.removeprefix(start)))


def _rule_item(rule: Rule) -> Item:
    """The item of a manifest: its settings, those that differ from the base with the former values.

    What is new or differs is shown in full: a name may hide behind many that stay.
    """
    limits = [setting for setting in rule.settings if setting.name.startswith("limits.") and setting.before is None]
    others = [setting for setting in rule.settings if setting not in limits]
    stays = rule.change is Change.UNCHANGED
    shown = others[:_SETTINGS_MAX] if stays else others
    settings: list[Phrase] = [(name(setting.name), ": ", *_setting(setting, stays=stays)) for setting in shown]
    if len(others) > len(shown):
        settings.append((f"and {formatting.count(len(others) - len(shown), 'more setting')}",))
    if limits:
        texts = ((name(limit.name.removeprefix("limits.")), " ", *_values(limit.values)) for limit in limits)
        settings.append((name("limits"), ": ", *join(", ", *texts)))
    return Item(
        label=(rule.change or "").capitalize() if rule.change is not Change.UNCHANGED else "",
        subject=(escaped_name(format_address(rule.address)),),
        text=("in ", escaped_name(format_location(rule.declared_at))),
        severity=Severity.PLAIN if rule.change in (None, Change.UNCHANGED) else Severity.CHANGE,
        children=tuple(Item(text=text) for text in settings),
    )


def _setting(setting: Setting, *, stays: bool) -> Phrase:
    """Return the values of a setting, and the former ones; of many what came and what went. `stays`: of few only."""
    values, before = setting.values, setting.before
    if before is None:
        more = len(values) - _VALUES_MAX
        return (*_values(values[:_VALUES_MAX]), f" and {more:,} more") if stays and more > 0 else _values(values)
    if max(len(values), len(before)) <= _VALUES_MAX:
        return (*_values(values), ", before: ", *_values(before))
    changes = ("added", values, frozenset(before)), ("removed", before, frozenset(values))
    parts = [(word, [value for value in of if value not in others]) for word, of, others in changes]
    unchanged = (f"{len(values) - len(parts[0][1]):,} unchanged",)
    return join("; ", *((f"{word}: ", *_values(differing)) for word, differing in parts if differing), unchanged)


def _values(values: Sequence[str]) -> Phrase:
    return join(", ", *((escaped_name(display_name(value, most=_VALUE_CHARS)),) for value in values)) or ("none",)


def _totals(plan: Plan) -> Iterator[Item]:
    """Yield the totals of the plan, then how much of each limit it uses."""
    counting = [verdict for verdict in plan.limits if verdict.observed is not None and verdict.observed > 0]
    yield from _tally(plan.decisions, {verdict.id: verdict.observed or 0.0 for verdict in counting})
    # `topics 3 of 50`, `recordsPercent 13.1 of 50 %`.
    used = (
        f"{verdict.id} {formatting.use_of_limit(verdict.observed, verdict.limit)}{verdict.unit}"
        for verdict in counting
        if verdict.id != CONNECTION.id
    )
    if text := ", ".join(used):
        yield Item(label="Limits used", text=(text,))


def _policies(
    plan: Plan, actions: Sequence[Operation], freed: Mapping[str, Sequence[tuple[Address, str]]], *, full: bool
) -> Iterator[Section]:
    """Yield a section for each policy of the actions of one operation, the first with a heading.

    `freed`: the subjects that the removal of a group frees, alone or with others of the plan, and what follows.
    """
    first = actions[0]
    undo = "Irreversible" if first.irreversible else "Reversible"
    heading: Phrase = (f"{undo}: {first.HEADING or f'{first.TITLE}s'}",)
    for policy, members in groupby(actions, key=lambda action: action.address.policy_address):
        of_policy = list(members)
        entries = list(group_equal(of_policy, attrgetter("address" if full else "fold_key")))
        yield Section(
            heading=heading,
            subject=(escaped_name(format_address(policy)),),
            name=(name(policy.policy),),
            location=entries[0][0].declared_at,
            note=describe_policy(plan, policy),
            items=Items.of(entries, partial(_action_item, freed=freed, full=full)),
            severity=Severity.LOSS if first.irreversible else Severity.CHANGE,
            labelled=False,
            open_items=OPEN_ITEMS,
        )
        heading = ()


def _then(address: Address, continuous: Collection[Address]) -> str:
    """Return what follows where a removal of groups frees a subject. `continuous`: policies that need no further review."""
    return _UNREVIEWED if address.policy_address in continuous else ": plan again after the apply"


def _action_item(
    actions: Sequence[Operation], *, freed: Mapping[str, Sequence[tuple[Address, str]]], full: bool
) -> Item:
    """The item of one action in full, or of all that are folded into one line, with what the removal of groups frees."""
    first = actions[0]
    stands_alone = full or first.fold_key == first.address
    description = first.describe() if stands_alone else type(first).describe_many(actions)
    children = [Item(text=text) for text in description.notes if full]
    children += [Item(text=text, severity=Severity.LOSS) for text in description.risks]
    by_next: defaultdict[str, list[Address]] = defaultdict(list)
    for address, then in chain.from_iterable(freed.get(action.removed_group or "", ()) for action in actions):
        by_next[then].append(address)
    for then, addresses in by_next.items():
        severity = Severity.LOSS if then == _UNREVIEWED else Severity.GOOD
        children.append(Item(text=("unblocks ", *format_subjects(addresses), then), severity=severity))
    return Item(
        subject=description.subject,
        text=description.change,
        loss=description.loss,
        severity=Severity.LOSS if first.irreversible else Severity.CHANGE,
        children=tuple(children),
    )


def notice_items(
    decisions: Sequence[Any],
    label: str,
    now_ms: int,
    *,
    pages: dict[str, str] | None = None,
    removed: frozenset[str] = frozenset(),
    continuous: Collection[Address] = (),
    full: bool = False,
) -> Items:
    """The items of blocked, waiting or skipped subjects; without `full`, those of one cause are one item.

    Removes from `pages` what is linked. `removed`: the groups that the plan removes. `continuous`: as in `_then`.
    """
    groups = [[decision] for decision in decisions] if full else list(fold_causes(decisions, _cause))
    entries = [(same, (pages or {}).pop(getattr(same[0], "code", ""), "")) for same in groups]
    return Items.of(entries, partial(_notice_item, label=label, now_ms=now_ms, removed=removed, continuous=continuous))


def _cause(decision: Any) -> tuple[Hashable, Hashable]:
    """Return policy, code and sort of subject, and the groups that hold it back or the reason without its name.

    All of a policy that wait for a clock are alike. What a silent broker blocks is alike for all
    policies: it needs one answer.
    """
    address, code, held_by = decision.address, getattr(decision, "code", ""), getattr(decision, "held_by", ())
    if code == SILENT:
        return (SILENT, decision.reason), SILENT
    waits_for_clock = getattr(decision, "until_ms", None) is not None
    sort = address.policy_address, code, address.partition >= 0, waits_for_clock
    if held_by or waits_for_clock:
        return sort, held_by
    return sort, (cause_of(decision.reason, address), getattr(decision, "next_step", ""))


def _notice_item(
    entry: tuple[Sequence[Any], str],
    *,
    label: str,
    now_ms: int,
    removed: frozenset[str],
    continuous: Collection[Address],
) -> Item:
    """The item of decisions of one cause, with the page of its code; the one that waits shortest stands for all."""
    same, page = entry
    first = min(same, key=lambda decision: getattr(decision, "until_ms", None) or 0)
    subject = format_subjects([decision.address for decision in same])
    example: Phrase = (", such as ", escaped_name(format_subject(first.address))) if len(same) > 1 else ()
    text: Phrase = (sentence(first.reason),)
    match first:
        case Blocked(reason=reason):
            end = "" if reason.endswith((".", "?", "!")) else "."
            text = (*text, f"{end} Next: ", sentence(first.next_step), " (", name(first.code, link=page), ")")
            subject = (*subject, *example)
        case Waiting(until_ms=int()):
            soonest, latest = (formatting.until(pick(d.until_ms for d in same), now_ms=now_ms) for pick in (min, max))
            wait = soonest if soonest == latest else f"{soonest} to {latest.removeprefix('in ')}"
            subject = (*subject, " (", strong(wait), ")", *example)
    held_by = getattr(first, "held_by", ())
    if held_by and removed.issuperset(held_by) and all(decision.held_by == held_by for decision in same):
        groups = escaped_name(formatting.first_few([quoted(group) for group in held_by]))
        unblocks = f"unblocks {count_subjects_of(same)}{_then(first.address, continuous)}"
        text = (*text, "; removing ", groups, f", as this plan does, {unblocks}")
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
    """Explain the decisions at, below or above that address. Raises UsageError where there is none."""
    above = with_parents(address)
    decisions = [of for of in plan.decisions if of.address in above or address in with_parents(of.address)]
    subject = escaped_name(format_address(address))
    unmatched = [unmatched_item(warning) for warning in plan.unmatched if warning.policy == address.policy_address]
    if not decisions and not unmatched:
        decided = (str(decision.address) for decision in plan.decisions)
        hint = suggestion(str(address), decided, otherwise="`plan --full` lists what is decided now")
        raise UsageError(f"the plan decides nothing at {subject.text}; {hint}")
    sections = [Section(items=tuple(unmatched), severity=Severity.WARNING)]
    for decision in decisions[:_EXPLAINED_MAX]:
        section = section_of(decision)
        state = decision.TITLE if isinstance(decision, Operation) else _STATES.get(section, section)
        heading = (escaped_name(format_address(decision.address)), f": {state}")
        items = (Item(facts=tuple(_facts(plan, decision))),)
        sections.append(Section(heading=heading, items=items, labelled=False))
    left_out = len(decisions) - _EXPLAINED_MAX
    totals = "; ".join(f"{item.label.lower()}: {plain(item.text)}" for item in _tally(decisions))
    return Report(
        headline=(subject, f": {totals}") if left_out > 0 else (),
        sections=tuple(sections),
        footer=((f"and {left_out:,} more; name one of them to see it",),) if left_out > 0 else (),
    )


def _facts(plan: Plan, decision: Decision) -> Iterator[Fact]:
    if not isinstance(decision, Satisfied | Skipped):
        mode = f", mode {decision.mode}" if isinstance(decision, Action) else ""
        yield "Declared", (escaped_name(format_location(decision.declared_at)), mode)
    if decision.reason:
        yield "Because", (sentence(decision.reason),)
    if held_by := getattr(decision, "held_by", ()):
        yield "Held by", join(", ", *((escaped_name(quoted(group)),) for group in held_by))
    match decision:
        case Waiting(until_ms=int(until_ms)):
            until = formatting.until(until_ms, now_ms=plan.observed_at_ms)
            yield "Until", (f"{formatting.format_time(until_ms)}, {until}",)
        case Blocked(code=code) | Skipped(code=code):
            if isinstance(decision, Blocked):
                yield "Next", (sentence(decision.next_step),)
            title = f": {BLOCK_CODES[code].title}" if code in BLOCK_CODES else ""
            yield "Code", (name(code), f"{title} (`reconciler explain {display_name(code)}` says more)")
        case Operation():
            yield from decision.explain()
            if decision.caveat:
                yield "Caveat", (sentence(decision.caveat),)
            yield "Drift", ("counts as drift" if decision.drift else "does not count as drift yet",)
    yield from describe_policy(plan, decision.address.policy_address)
    yield "Seen at", (formatting.format_time(plan.observed_at_ms),)
