"""Checks that a report shows all facts of a plan: subjects, numbers, codes, counts, the digest.

`assert_shown` renders a plan as text (in full and collapsed), as Markdown and as GitHub
annotations, and searches for the facts. The sentences around the facts may be any.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from reconciler.model.action import Action
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.plan import Blocked, Decision, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import plan_file
from reconciler.text import escape
from tests import rendering as report
from tests.golden.wording import mentions

ANNOTATIONS_MAX = 10
LABELS = ("Cannot be undone", "Can be undone", "Blocked", "Waiting", "Skipped", "In sync")

Facts = tuple[str, ...]
Spelling = Callable[[str], str]


def assert_shown(plan: Plan) -> None:
    """Assert that the reports of a plan show its facts, and that the Markdown fits into a comment."""
    assert_text(plan)
    assert_markdown(plan)
    assert_annotations(plan)


def assert_text(plan: Plan) -> None:
    """The full text has a row for each action with its reason; the short one has a row for the
    deletions of a topic, a row for the elections of a policy, and a row for each group.
    """
    for full in (True, False):
        lines = [line.plain for line in report.text(plan, full=full)]
        text_items = items(lines)
        rows = action_rows(lines, plan, full=full)
        expected = action_facts(plan.actions, spelling=str, full=full)
        assert_items(without_reasons(rows, plan, escape.escape_sentence), expected)
        assert len(rows) == len(expected), "\n".join(rows)
        assert_items(text_items, block_facts(plan, spelling=str, prose=escape.escape_sentence, full=full))
        assert_items(text_items, header_facts(plan, spelling=str, prose=escape.escape_sentence, owners=full))
        assert_totals(plan, lines, "{}: ")
    full_rows = action_rows(full_lines(plan), plan, full=True)
    for action in plan.actions:
        if action.irreversible:
            assert any(escape.escape_sentence(action.reason) in row for row in full_rows)
    full_text = items(full_lines(plan))
    for decision in plan.decisions:
        if isinstance(decision, Waiting | Skipped):
            assert_items(full_text, [(format_subject(decision.address), escape.escape_sentence(decision.reason))])
    assert bool(plan.actions) == any(plan_file.digest(plan) in line for line in lines)


def full_lines(plan: Plan) -> list[str]:
    return [line.plain for line in report.text(plan, full=True)]


def action_rows(lines: Sequence[str], plan: Plan, *, full: bool) -> list[str]:
    """Return each row about actions with the lines below it.

    The rows stand below a heading, and those of a policy with several rows below its name. In full,
    each policy has its name, then owner and reason.
    """
    policies = {f"  {format_address(decision.address.policy_address)}" for decision in plan.decisions}
    rows: list[str] = []
    below_heading = in_policy = False
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line and not depth:
            below_heading = re.match("(Irreversible|Reversible): ", line) is not None
            in_policy = False
        elif not below_heading or not line:
            continue
        elif depth == 2 and (line in policies or any(line.startswith(f"{policy}   ") for policy in policies)):
            in_policy = True
        elif depth == 2 and full:
            continue
        elif depth == 2 or (depth == 4 and in_policy):
            in_policy = depth == 4
            rows.append(line)
        else:
            rows[-1] += f"\n{line}"
    return rows


def assert_markdown(plan: Plan) -> None:
    """Irreversible actions come first, and the last line has the digest."""
    text = report.markdown(plan)
    text_items = items(text.splitlines())
    assert 'truncated="no"' in text.splitlines()[0]
    actions_shown = without_reasons(text_items, plan, escape.markdown_prose)
    assert_items(actions_shown, action_facts(plan.actions, spelling=escape.markdown_code, full=False))
    assert_items(text_items, block_facts(plan, spelling=escape.markdown_code, prose=escape.markdown_prose, full=False))
    assert_items(
        text_items, header_facts(plan, spelling=escape.markdown_code, prose=escape.markdown_prose, owners=True)
    )
    assert_totals(plan, text.splitlines(), "- **{}**: ")
    assert plan_file.digest(plan) in text.splitlines()[-1]
    for kind in (Waiting, Skipped):
        decisions = [decision for decision in plan.decisions if isinstance(decision, kind)]
        summary = f"<summary>{kind.__name__}: {', '.join(counted_subjects(decisions))}</summary>"
        assert bool(decisions) == (summary in text), summary


def assert_totals(plan: Plan, lines: Sequence[str], form: str) -> None:
    """Each total has its line with all its numbers, and no other total is there."""
    expected = totals(plan)
    for label in LABELS:
        shown = [line.removeprefix(form.format(label)) for line in lines if line.startswith(form.format(label))]
        # Shares of topic and cluster are in the limits as well. `Blocked` and `Waiting` begin other items, too.
        found = [numbers(re.sub(r": up to [^)]*", "", line)) for line in shown]
        assert (expected[label] in found) if label in expected else not found, (label, expected.get(label), shown)
    (used,) = [line for line in lines if line.startswith(form.format("Limits used"))] or [""]
    for verdict in plan.limits:
        if verdict.observed and verdict.observed > 0 and verdict.id != "connection":
            assert re.search(rf"\b{verdict.id} [\d,.e+-]+ of {re.escape(f'{verdict.limit:,.15g}')}\b", used), used


def assert_annotations(plan: Plan) -> None:
    """Limits that refuse are errors; missing facts and blocks are warnings, blocks at their
    manifest's line, ten in all.

    The notice has counts and digest.
    """
    lines = report.github(plan).splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == len(plan.refused)
    for error, verdict in zip(errors, plan.refused, strict=True):
        assert re.search(rf"title=[^:]*\b{verdict.id}\b", error)
        assert error.endswith(escape.command_data(escape.escape_sentence(verdict.message)))
    blocks = sorted(folded_blocks(plan, full=False), key=lambda block: block[0][0].unread)
    total = len(plan.incomplete) + len(plan.unseen) + len(plan.unmatched) + len(blocks)
    shown = total if total <= ANNOTATIONS_MAX else ANNOTATIONS_MAX - 1
    missing_facts = min(len(plan.incomplete) + len(plan.unseen), shown)
    unmatched = min(len(plan.unmatched), shown - missing_facts)
    located = [line for line in lines if line.startswith("::warning file=")]
    for line, warning in zip(located[:unmatched], plan.unmatched, strict=False):
        assert f",line={warning.declared_at.line},col={warning.declared_at.column},title=Unmatched::" in line
        assert escape.command_data(escape.escape_sentence(warning.reason)) in line
    warnings = located[unmatched:]
    assert len(warnings) == min(len(blocks), shown - missing_facts - unmatched)
    unshown = total - shown
    other_warnings = [line for line in lines if line.startswith("::warning title=")]
    assert len(other_warnings) == missing_facts + (unshown > 0)
    assert [numbers(line)[0] for line in other_warnings if re.search(r"::[\d,]+ more ", line)] == (
        [f"{unshown:,}"] if unshown > 0 else []
    )
    for warning, (members, _count) in zip(warnings, blocks, strict=False):
        first = members[0]
        place = first.declared_at
        path = escape.command_property(escape.escape_sentence(place.path))
        assert warning.startswith(f"::warning file={path},line={place.line},col={place.column},title=")
        assert f"({first.code})::" in warning
        message = warning.rpartition("::")[2]
        assert mentions(message, *subject_facts(members, str))
        assert escape.command_data(escape.escape_sentence(first.next_step)) in message
    assert lines[-1].startswith("::notice ")
    notice = lines[-1].rpartition("::")[2]
    assert plan_file.digest(plan) in notice
    texts = (line.plain for line in report.text(plan) if re.match(f"({'|'.join(LABELS)}): ", line.plain))
    for text in texts:
        assert escape.command_data(text) in notice or " — " in text, text


def items(lines: Iterable[str]) -> list[str]:
    """Group each line with the more indented lines below it; an empty line ends an item."""
    grouped: list[str] = []
    indent = -1
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            indent = -1
        elif 0 <= indent < depth:
            grouped[-1] += f"\n{line}"
        else:
            grouped.append(line)
            indent = depth
    return grouped


def without_reasons(text_items: Iterable[str], plan: Plan, prose: Spelling) -> list[str]:
    """Return the items without the reasons of actions, which repeat the numbers."""
    reasons = {prose(action.reason) for action in plan.actions}
    return [re.sub("|".join(map(re.escape, reasons)), "", item) if reasons else item for item in text_items]


def assert_items(text_items: Sequence[str], expected: Iterable[Facts]) -> None:
    for facts in expected:
        assert any(mentions(item, *facts) for item in text_items), f"no item shows {facts} in:\n" + "\n".join(
            text_items
        )


def numbers(text: str) -> list[str]:
    """Return the numbers of a line as they are written."""
    return re.findall(r"\d[\d,]*", text)


def action_facts(actions: Iterable[Action], *, spelling: Spelling, full: bool) -> list[Facts]:
    """Return subject and numbers of each row about actions.

    Unless the text is full, the deletions of one topic and the preferred elections of one policy are
    one row. Groups and unclean elections always have a row each.
    """
    facts: list[Facts] = []
    folded: dict[tuple[Address, str], list[Action]] = defaultdict(list)
    for action in actions:
        if full or isinstance(action, DeleteGroup) or (isinstance(action, ElectLeader) and action.irreversible):
            facts.append(single_action_facts(action, spelling))
        else:
            topic = action.address.name if isinstance(action, DeleteRecords) else ""
            folded[action.address.policy_address, topic].append(action)
    for members in folded.values():
        facts.append(folded_facts(members, spelling) if len(members) > 1 else single_action_facts(members[0], spelling))
    return facts


def single_action_facts(action: Action, spelling: Spelling) -> Facts:
    subject = spelling(format_subject(action.address))
    match action:
        case DeleteRecords(seen=seen):
            skips = (
                fact for group, records in action.skips for fact in (spelling(escape.quoted(group)), f"{records:,}")
            )
            return (subject, str(seen.log_start), str(action.before_offset), f"{action.records_max:,}", *skips)
        case DeleteGroup(seen=seen):
            return (subject, f"{seen.commits:,}", f"{seen.commit_topics:,}")
        case _:
            if action.irreversible:
                return (subject, "unbounded")
            return (subject, str(action.seen.leader or "none"), str(action.leader_wanted))


def folded_facts(members: Sequence[Action], spelling: Spelling) -> Facts:
    """Return the facts of a row about several actions.

    Of deletions: topic, partitions, all records, the ten groups that would skip most and the number
    of the others. Of elections: partitions, topics, the four most frequent moves.
    """
    deletions = [action for action in members if isinstance(action, DeleteRecords)]
    topics = {action.address.name for action in members}
    count = f"{len(members):,}"
    if deletions:
        skips = Counter[str]()
        for action in deletions:
            skips.update(dict(action.skips))
        worst = sorted(skips, key=lambda group: (-skips[group], group))[:10]
        skipped_count = (f"{len(skips) - 10:,}",) if len(skips) > 10 else ()
        total = f"{sum(action.records_max for action in deletions):,} records"
        readers = (fact for group in worst for fact in (spelling(escape.quoted(group)), f"{skips[group]:,}"))
        (topic,) = topics
        return (spelling(escape.display_name(topic)), f"{count} partitions", total, *readers, *skipped_count)
    moves = Counter((action.seen.leader, action.leader_wanted) for action in members if isinstance(action, ElectLeader))
    of = spelling(escape.display_name(*topics)) if len(topics) == 1 else f"{len(topics):,} topics"
    shown = sorted(moves.values(), reverse=True)[:4]
    return (f"{count} partitions of", of, *(f"{number:,} from" for number in shown))


def folded_blocks(plan: Plan, *, full: bool) -> list[tuple[list[Blocked], int]]:
    """Return the blocks of each item, in the order of a report, and their number.

    Those of one policy, code and cause are one item, and so are more than five causes of one code.
    """
    blocks: dict[object, dict[object, list[Blocked]]] = defaultdict(lambda: defaultdict(list))
    for decision in plan.decisions:
        if isinstance(decision, Blocked):
            address = decision.address
            name = address.name if address.partition < 0 else f"{address.name}[{address.partition}]"
            reason = decision.reason.replace(name, "…") if name else decision.reason
            cause: object = decision.held_by or (reason, decision.next_step)
            sort = (address.policy_address, decision.code, decision.unread, address.partition >= 0)
            blocks[sort][cause].append(decision)
    groups = []
    for causes in blocks.values():
        every = [member for members in causes.values() for member in members]
        if full:
            groups += [[member] for member in every]
        else:
            groups += list(causes.values()) if len(causes) <= 5 else [sorted(every, key=lambda block: block.address)]
    return [(members, len(members)) for members in groups]


def block_facts(plan: Plan, *, spelling: Spelling, prose: Spelling, full: bool) -> list[Facts]:
    """Return subjects, code, reason and next step of each item about blocks."""
    return [
        (
            *subject_facts(members, spelling), f"({spelling(members[0].code)})",
            prose(members[0].reason), prose(members[0].next_step),
        )
        for members, _count in folded_blocks(plan, full=full)
    ]  # fmt: skip


def subject_facts(members: Sequence[Blocked], spelling: Spelling) -> Facts:
    """Return the subject, or the first three names, the number of partitions, and an example."""
    if len(members) == 1:
        return (spelling(format_subject(members[0].address)),)
    named = [replace(block.address, partition=-1) for block in members]
    names = list(dict.fromkeys(map(format_subject, named)))
    count = (f"{len(members):,} partitions",) if all(block.address.partition >= 0 for block in members) else ()
    more = (f"{len(names) - 3:,} more",) if len(names) > 3 else ()
    return (*count, *names[:3], *more, spelling(format_subject(members[0].address)))


def counted_subjects(decisions: Iterable[Decision], others: Iterable[Decision] = ()) -> list[str]:
    """Return the numbers of partitions, topics, groups and policies that these decisions are about."""
    sorts: dict[str, set[tuple[str, int]]] = {name: set() for name in ("partition", "topic", "group", "policy")}
    left_out = {sort_of(decision.address) for decision in others}
    for decision in decisions:
        sort, *subject = sort_of(decision.address)
        if (sort, *subject) not in left_out:
            sorts[sort].add((str(subject[0]), int(subject[1])))
    words = {"policy": ("whole policy", "whole policies")}
    return [
        f"{len(subjects):,} {words.get(sort, (sort, f'{sort}s'))[len(subjects) != 1]}"
        for sort, subjects in sorts.items()
        if subjects
    ]


def sort_of(address: Address) -> tuple[str, str, int]:
    if not address.name:
        return ("policy", str(address), -1)
    sort = "partition" if address.partition >= 0 else "group" if address.kind == "GroupRemoval" else "topic"
    return (sort, address.name, address.partition)


def header_facts(plan: Plan, *, spelling: Spelling, prose: Spelling, owners: bool) -> list[Facts]:
    """Return exceeded limits, waivers, missing facts, targets, and policies with their owners."""
    facts = [(prose(verdict.message),) for verdict in plan.refused]
    facts += [(prose(sentence),) for sentence in (*plan.incomplete, *plan.unseen)]
    for unmatched in plan.unmatched:
        facts.append((spelling(format_address(unmatched.policy)), prose(unmatched.reason), prose(unmatched.next_step)))
    facts += [(spelling(escape.display_name(target)),) for target in plan.targets]
    for waiver in {waiver for verdict in plan.limits for waiver in verdict.waivers}:
        facts.append((spelling(escape.display_name(waiver.name)), waiver.limit, f"{waiver.value:.15g}"))
    for policy in {action.address.policy_address for action in plan.actions}:
        facts.append((spelling(format_address(policy) if owners else escape.display_name(policy.policy)),))
        if owners:
            facts += [(prose(note.owner),) for note in plan.notes if note.policy == policy and note.owner]
    return facts


def totals(plan: Plan) -> dict[str, list[str]]:
    """Return the numbers of each total; a total of none is left out."""
    counted: dict[str, list[str]] = defaultdict(list)
    for label, irreversible in (("Cannot be undone", True), ("Can be undone", False)):
        same = [action for action in plan.actions if action.irreversible is irreversible]
        deletions = [action for action in same if isinstance(action, DeleteRecords)]
        groups = [action for action in same if isinstance(action, DeleteGroup)]
        elections = [action for action in same if isinstance(action, ElectLeader)]
        counted[label] += partitions_of(deletions)
        counted[label] += [f"{sum(action.records_max for action in deletions):,}"] * bool(deletions)
        counted[label] += [f"{n:,}" for n in (len(groups), sum(g.seen.commits for g in groups)) if groups]
        counted[label] += partitions_of(elections)
        counted[label] += [f"{len(elections):,}"] * bool(irreversible and elections)
    by_type: dict[type, list[Decision]] = defaultdict(list)
    for decision in plan.decisions:
        by_type[type(decision)].append(decision)
    unread = [block for block in by_type[Blocked] if isinstance(block, Blocked) and block.unread]
    counted["Blocked"] = numbers(" ".join(counted_subjects(by_type[Blocked]) + counted_subjects(unread)))
    for label, kind in (("Waiting", Waiting), ("Skipped", Skipped)):
        counted[label] = numbers(" ".join(counted_subjects(by_type[kind])))
    others = [decision for decision in plan.decisions if not isinstance(decision, Satisfied | Skipped)]
    counted["In sync"] = numbers(" ".join(counted_subjects(by_type[Satisfied], others)))
    return {label: found for label, found in counted.items() if found}


def partitions_of(actions: Sequence[Action]) -> list[str]:
    topics = {action.address.name for action in actions}
    return [f"{number:,}" for number in (len(actions), len(topics) if len(actions) > 1 else 0) if number]
