"""Checks that a report shows all facts of a plan: subjects, numbers, codes, counts, the digest.

`assert_shown` renders a plan as text (in full and collapsed), as Markdown and as GitHub
annotations, and searches for the facts. The sentences around the facts may be any.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from reconciler.model.action import Action
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.plan import Blocked, Plan, Satisfied, Skipped, Waiting
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import plan_file
from reconciler.text import escape, formatting
from tests import rendering as report
from tests.golden.wording import mentions

FOLD_ABOVE = 20
ANNOTATIONS_MAX = 10

Facts = tuple[str, ...]
Spelling = Callable[[str], str]


def assert_shown(plan: Plan) -> None:
    """Assert that the reports of a plan show its facts, and that the Markdown fits into a comment."""
    assert_text(plan)
    assert_markdown(plan)
    assert_annotations(plan)


def assert_text(plan: Plan) -> None:
    """The full text has an item for each action; the collapsed text has one for each topic with
    more than 20 partitions.
    """
    for full in (True, False):
        lines = [line.plain for line in report.text(plan, full=full)]
        text_items = items(lines)
        expected = action_facts(plan.actions, spelling=str, full=full)
        assert_items(without_reasons(text_items, plan, escape.escape_sentence), expected)
        assert len([item for item in text_items if re.match(r"  [!~-] ", item)]) == len(expected)
        assert_items(text_items, block_facts(plan, spelling=str, prose=escape.escape_sentence, full=full))
        assert_items(text_items, header_facts(plan, spelling=str, prose=escape.escape_sentence))
        assert totals(plan) in map(numbers, lines)
    full_text = items(line.plain for line in report.text(plan, full=True))
    for decision in plan.decisions:
        if isinstance(decision, Waiting | Skipped):
            assert_items(full_text, [(format_subject(decision.address), escape.escape_sentence(decision.reason))])
    assert bool(plan.actions) == any(plan_file.digest(plan) in line for line in lines)


def assert_markdown(plan: Plan) -> None:
    """Irreversible actions come first, and the last line has the digest."""
    text = report.markdown(plan)
    text_items = items(text.splitlines())
    assert 'truncated="no"' in text.splitlines()[0]
    actions_shown = without_reasons(text_items, plan, escape.markdown_prose)
    assert_items(actions_shown, action_facts(plan.actions, spelling=escape.markdown_code, full=False))
    assert_items(text_items, block_facts(plan, spelling=escape.markdown_code, prose=escape.markdown_prose, full=False))
    assert_items(text_items, header_facts(plan, spelling=escape.markdown_code, prose=escape.markdown_prose))
    assert totals(plan) in map(numbers, text.splitlines())
    assert plan_file.digest(plan) in text.splitlines()[-1]
    for kind in (Waiting, Skipped):
        decisions = [decision for decision in plan.decisions if isinstance(decision, kind)]
        assert bool(decisions) == (f"<summary>{len(decisions):,} {kind.__name__.lower()}</summary>" in text)


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
    blocks = sorted(folded_blocks(plan, full=False), key=lambda block: block[0].unread)
    total = len(plan.incomplete) + len(blocks)
    shown = total if total <= ANNOTATIONS_MAX else ANNOTATIONS_MAX - 1
    missing_facts = min(len(plan.incomplete), shown)
    warnings = [line for line in lines if line.startswith("::warning file=")]
    assert len(warnings) == min(len(blocks), shown - missing_facts)
    unshown = total - shown
    other_warnings = [line for line in lines if line.startswith("::warning title=")]
    assert len(other_warnings) == missing_facts + (unshown > 0)
    assert [numbers(line)[0] for line in other_warnings if re.search(r"::[\d,]+ more ", line)] == (
        [f"{unshown:,}"] if unshown > 0 else []
    )
    for warning, (first, count) in zip(warnings, blocks, strict=False):
        place = first.declared_at
        path = escape.command_property(escape.escape_sentence(place.path))
        assert warning.startswith(f"::warning file={path},line={place.line},col={place.column},title=")
        assert f"({first.code})::" in warning
        message = warning.rpartition("::")[2]
        assert mentions(message, *subject_facts(first.address, count, str))
        assert escape.command_data(escape.escape_sentence(first.next_step)) in message
    assert lines[-1].startswith("::notice ")
    notice = lines[-1].rpartition("::")[2].partition(plan_file.digest(plan))
    assert notice[1]
    assert numbers(notice[0]) == totals(plan)


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
    """Return subject and numbers of each item about actions.

    A topic with more than 20 partitions is one item, unless the text is full or the election
    unclean.
    """
    by_topic: dict[tuple[Address, str, bool], list[Action]] = defaultdict(list)
    for action in actions:
        by_topic[action.address.policy_address, action.address.name, action.irreversible].append(action)
    facts: list[Facts] = []
    for members in by_topic.values():
        sole = members[0]
        unclean = isinstance(sole, ElectLeader) and sole.irreversible
        if full or len(members) <= FOLD_ABOVE or unclean or isinstance(sole, DeleteGroup):
            facts += [single_action_facts(action, spelling) for action in members]
        else:
            facts.append(topic_facts(members, spelling))
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


def topic_facts(members: Sequence[Action], spelling: Spelling) -> Facts:
    """Return the facts of a collapsed topic.

    For deletions: topic, partitions, all records, and the partition that loses most. For elections:
    the number of partitions.
    """
    topic = (spelling(escape.display_name(members[0].address.name)), f"{len(members):,}")
    deletions = [action for action in members if isinstance(action, DeleteRecords)]
    if deletions:
        largest = max(deletions, key=lambda action: action.records_max)
        skips = Counter[str]()
        for action in deletions:
            skips.update(dict(action.skips))
        worst = sorted(skips, key=lambda group: (-skips[group], group))[:10]
        skipped_count = (f"{len(skips) - 10:,}",) if len(skips) > 10 else ()
        total = f"{sum(action.records_max for action in deletions):,}"
        extreme = (str(largest.seen.log_start), str(largest.before_offset))
        readers = (fact for group in worst for fact in (spelling(escape.quoted(group)), f"{skips[group]:,}"))
        return (*topic, total, spelling(format_subject(largest.address)), *extreme, *readers, *skipped_count)
    moves = Counter(action.seen.leader for action in members if isinstance(action, ElectLeader))
    numbers = [action.address.partition for action in members]
    span = (formatting.span(numbers[0], numbers[-1]),) if spelling is str else ()  # text only
    return (*topic, *span, *(f"({count:,})" for _, count in moves.most_common(4)))


def folded_blocks(plan: Plan, *, full: bool) -> list[tuple[Blocked, int]]:
    """Return the first block and the number of blocks of each item, in the order of a report."""
    by_topic: dict[tuple[Address, str, str, bool], list[Blocked]] = defaultdict(list)
    for decision in plan.decisions:
        if isinstance(decision, Blocked):
            address = decision.address
            by_topic[address.policy_address, address.name, decision.code, decision.unread].append(decision)
    blocks: list[tuple[Blocked, int]] = []
    for members in by_topic.values():
        folded = not full and len(members) > FOLD_ABOVE
        blocks += [(members[0], len(members))] if folded else [(decision, 1) for decision in members]
    return blocks


def block_facts(plan: Plan, *, spelling: Spelling, prose: Spelling, full: bool) -> list[Facts]:
    """Return subject, code, reason and next step of each item about blocks."""
    return [
        (
            *subject_facts(first.address, count, spelling), f"({spelling(first.code)})",
            prose(first.reason), prose(first.next_step),
        )
        for first, count in folded_blocks(plan, full=full)
    ]  # fmt: skip


def subject_facts(address: Address, count: int, spelling: Spelling) -> Facts:
    if count == 1:
        return (spelling(format_subject(address)),)
    return (escape.display_name(address.name), f"{count:,}")


def header_facts(plan: Plan, *, spelling: Spelling, prose: Spelling) -> list[Facts]:
    """Return exceeded limits, waivers, missing facts, targets, and policies with their owners."""
    facts = [(prose(verdict.message),) for verdict in plan.refused]
    facts += [(prose(sentence),) for sentence in plan.incomplete]
    facts += [(spelling(escape.display_name(target)),) for target in plan.targets]
    for waiver in {waiver for verdict in plan.limits for waiver in verdict.waivers}:
        facts.append((spelling(escape.display_name(waiver.name)), waiver.limit, f"{waiver.value:.15g}"))
    for policy in {action.address.policy_address for action in plan.actions}:
        facts.append((spelling(format_address(policy)),))
        facts += [(prose(note.owner),) for note in plan.notes if note.policy == policy and note.owner]
    return facts


def totals(plan: Plan) -> list[str]:
    """Return the numbers of the sentence that counts the decisions; it omits zeros."""
    deletions = [action for action in plan.actions if isinstance(action, DeleteRecords)]
    elections = [action for action in plan.actions if isinstance(action, ElectLeader)]
    blocks = [decision for decision in plan.decisions if isinstance(decision, Blocked)]
    kinds = Counter(type(decision) for decision in plan.decisions)
    counts = (
        len(deletions), sum(action.records_max for action in deletions), kinds[DeleteGroup], len(elections),
        sum(action.irreversible for action in elections), len(blocks), sum(decision.unread for decision in blocks),
        kinds[Waiting], kinds[Skipped], kinds[Satisfied],
    )  # fmt: skip
    return [f"{count:,}" for count in counts if count]
