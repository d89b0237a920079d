"""The facts that every report must show: subjects, codes, numbers, counts, within its size limits."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from rich.text import Text

from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.names import Address, count_by_sort, format_address, format_subject
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Blocked, Plan, Satisfied
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import drift
from reconciler.plan.diff import ActionDiff, DecisionChange, compare
from reconciler.report.plan import count_subjects
from reconciler.text import escape, formatting
from tests import rendering as render
from tests.golden import report_facts
from tests.golden.report_facts import items, numbers
from tests.golden.wording import mentions
from tests.strategies.examples import blocked, election, plan, purge
from tests.unit.report.sample_plans import (
    CALM,
    CAUSES,
    CHANGED,
    CROWDED,
    EDGES,
    HOUR_MS,
    MEETING,
    MOVED,
    NOTHING,
    ONE,
    UNKNOWN,
    UNREADABLE,
    WHOLE,
    crowded_outcomes,
    folded_outcomes,
    journal_entries,
    mixed_outcomes,
)

PLANS = {
    "whole": WHOLE,
    "crowded": CROWDED,
    "edges": EDGES,
    "moved": MOVED,
    "two policies of a partition": MEETING,
    "calm": CALM,
    "changed": CHANGED,
    "one block": ONE,
    "unreadable": UNREADABLE,
    "nothing": NOTHING,
    "causes": CAUSES,
    "unknown": UNKNOWN,
}
OUTCOMES: dict[str, Callable[[], list[Outcome]]] = {
    "mixed": mixed_outcomes,
    "crowded": crowded_outcomes,
    "folded": folded_outcomes,
    "none": list,
}
ELECTION, UNCLEAN = plan(election()), plan(election(unclean=True))
COMPARISONS = {
    "whole": (WHOLE, CHANGED),
    "crowded": (CROWDED, CHANGED),
    "crowded, back": (CHANGED, CROWDED),
    "election": (ELECTION, UNCLEAN),
    "twenty and twenty-one": (
        NOTHING,
        plan(*(purge("twenty", number) for number in range(20)), *(purge("more", number) for number in range(21))),
    ),
    "equal": (NOTHING, NOTHING),
}
OUTCOME = re.compile(r"(- \*\*)?(FAILED|Not attempted|Blocked|Stale|Deferred|Waiting|Satisfied|Applied)\b")
WORST_FIRST = ("FAILED", "NOT_ATTEMPTED", "BLOCKED", "STALE", "DEFERRED", "WAITING", "SATISFIED", "APPLIED")


def plain(texts: Iterable[Text]) -> list[str]:
    return [line.plain for line in texts]


@pytest.mark.parametrize("example", PLANS.values(), ids=PLANS)
def test_each_report_of_a_plan_shows_its_facts(example: Plan) -> None:
    """Items, folds above twenty, blocks, limits, waivers and totals, in every medium."""
    report_facts.assert_shown(example)


def test_collapsed_lists_are_counted() -> None:
    """Twenty-five causes of all policies are visible; the summary of the others has their number."""
    many = plan(*(blocked(f"RetentionFloor/p{number:02}/orders[1]") for number in range(27)))
    assert re.findall(r"<summary>([\d,]+) more</summary>", render.markdown(many)) == ["2"]


@pytest.mark.parametrize("example", PLANS.values(), ids=PLANS)
def test_an_explanation_has_the_decision_and_its_numbers(example: Plan) -> None:
    """Address, time, reason, next step and code, and the numbers of request and arithmetic."""
    for decision in example.decisions:
        text = "\n".join(plain(render.explain(example, decision.address)))
        facts = [format_address(decision.address), formatting.format_time(example.observed_at_ms)]
        if not isinstance(decision, Satisfied):
            facts.append(escape.escape_sentence(decision.reason))
        if isinstance(decision, Blocked):
            facts += [decision.code, BLOCK_CODES[decision.code].title, escape.escape_sentence(decision.next_step)]
        if isinstance(decision, DeleteRecords):
            observed = decision.seen
            facts += map(
                str, (observed.log_start, decision.before_offset, observed.last_stable_offset, observed.high_watermark)
            )
            facts += [f"{decision.records_max:,}", *map(escape.quoted, decision.guard.named)]
            facts += [f"{records:,}" for _, records in decision.skips]
        if isinstance(decision, ElectLeader):
            facts += [
                decision.election,
                str(decision.seen.leader or "none"),
                ",".join(map(str, decision.seen.replicas)),
            ]
        assert mentions(text, *facts), (facts, text)
    for note in example.notes:
        for decision in example.decisions:
            if decision.address.policy_address == note.policy:
                text = "\n".join(plain(render.explain(example, decision.address)))
                assert all(escape.escape_sentence(part) in text for part in (note.owner, note.reason) if part)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [("five", 5), ("six", 6), ("five/five", 5), ("six/six", 6), ("five/five[0]", 1), ("ten", 10)],
)
def test_an_address_of_several_decisions_explains_five_and_counts_the_others(name: str, decisions: int) -> None:
    """Up to five have no headline and no remainder; more have their counts first."""
    lines = plain(render.explain(CROWDED, Address.parse(f"RetentionFloor/{name}"), width=60))
    covered = [str(d.address) for d in CROWDED.decisions if d.address.policy == name.partition("/")[0]][:5]
    heads = [line for line in lines if line.startswith("RetentionFloor/")]
    is_truncated = decisions > 5
    if is_truncated:
        assert mentions(heads.pop(0), f"RetentionFloor/{name}", str(decisions))
        assert numbers(lines[-1]) == [str(decisions - 5)]
    assert [head.partition(":")[0] for head in heads] == covered[: min(decisions, 5)]


Row = tuple[Status, str, tuple[str, ...]]


def outcome_rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """Return status, subject and facts of each row.

    What went as planned is one row of each status. The other outcomes of one operation, code and
    cause are one row, and so are more than twenty causes.
    """
    news: dict[object, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    as_planned: dict[Status, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        action, name = outcome.action, format_subject(outcome.action.address)
        usual = {Status.APPLIED: action.APPLIED, Status.SATISFIED: action.SATISFIED}  # type: ignore[attr-defined]
        if outcome.status in usual and outcome.detail in ("", usual[outcome.status]):
            as_planned[outcome.status].append(outcome)
        else:
            cause = outcome.detail.replace(name, "…")
            news[outcome.status, type(action), outcome.code][cause].append(outcome)
    rows: list[Row] = []
    for causes in news.values():
        every = sorted((o for members in causes.values() for o in members), key=lambda o: o.action.address)
        rows += [outcome_row(members) for members in ([every] if len(causes) > 20 else causes.values())]
    for status, members in as_planned.items():
        deleted = [o.action.address for o in members if isinstance(o.action, DeleteRecords)]
        rows.append((status, f"{len(deleted):,} partitions" if len(deleted) > 1 else f"{len(members)} ", ()))
    return rows


def outcome_row(members: Sequence[Outcome]) -> Row:
    first = min(members, key=lambda outcome: outcome.action.address)
    removed = sum(outcome.removed_max for outcome in members)
    facts = [first.detail, first.code if first.code != "NONE" else ""]
    if len(members) == 1:
        return (first.status, format_subject(first.action.address), tuple(filter(None, (*facts, first.read_back))))
    if any(outcome.detail != first.detail for outcome in members):
        facts.append(format_subject(first.action.address))
    if first.action.address.partition >= 0:
        facts.append(f"{len(members):,} partitions")
    facts.append(f"{removed:,}" if removed else "")
    topics = list(dict.fromkeys(format_subject(replace(o.action.address, partition=-1)) for o in members))
    return (first.status, sorted(topics)[0], tuple(filter(None, facts)))


def outcome_totals(outcomes: Sequence[Outcome]) -> list[str]:
    counts = Counter(outcome.status.name for outcome in outcomes)
    removed = sum(outcome.removed_max for outcome in outcomes)
    done = [f"{count:,}" for count in (*(counts[name] for name in reversed(WORST_FIRST)), removed) if count]
    return [*done, *(f"{count:,}" for count in count_by_sort(b.address for b in WHOLE.blocked).values() if count)]


@pytest.mark.parametrize("make_outcomes", OUTCOMES.values(), ids=OUTCOMES)
def test_each_report_of_results_shows_every_outcome(make_outcomes: Callable[[], list[Outcome]]) -> None:
    """The worst first, with counts and one next step per status and for what is blocked."""
    outcomes = make_outcomes()
    rows = outcome_rows(outcomes)
    text = plain(render.results_text(WHOLE, outcomes))
    markdown = render.results_markdown(WHOLE, outcomes).splitlines()
    for lines in (text, markdown):
        listed = [line.removeprefix("- **") for line in lines if OUTCOME.match(line)]
        assert len(listed) == len(rows)
        for status, subject, facts in rows:
            word = status.name.replace("_", " ")
            same_status = [line for line in listed if line.upper().startswith(word)]
            assert any(mentions(line, subject, *facts) for line in same_status), (status, subject, facts)
        ranks = [
            next(n for n, name in enumerate(WORST_FIRST) if line.upper().startswith(name.replace("_", " ")))
            for line in listed
        ]
        assert ranks == sorted(ranks)
        statuses = {outcome.status for outcome in outcomes} - {Status.APPLIED, Status.SATISFIED}
        assert sum("Next:" in line for line in lines) == len(statuses) + bool(WHOLE.blocked)
    total = next(line for line in text if line.startswith("Result:"))
    page_total = next(line for line in markdown if line.startswith("**Result:**"))
    assert numbers(total) == numbers(page_total) == outcome_totals(outcomes)


@pytest.mark.parametrize("make_outcomes", OUTCOMES.values(), ids=OUTCOMES)
def test_results_have_at_most_ten_annotations_of_a_level(make_outcomes: Callable[[], list[Outcome]]) -> None:
    """Failed or not attempted are errors, blocked and stale warnings; the rest is counted."""
    outcomes = make_outcomes()
    *lines, notice = render.results_github(WHOLE, outcomes).splitlines()
    rows = outcome_rows(outcomes)
    for level, statuses in (
        ("error", (Status.FAILED, Status.NOT_ATTEMPTED)),
        ("warning", (Status.BLOCKED, Status.STALE)),
    ):
        expected = [row for row in rows if row[0] in statuses]
        level_lines = [line for line in lines if line.startswith(f"::{level} ")]
        hidden_count = len(expected) - 9 if len(expected) > 10 else 0
        assert len(level_lines) == min(len(expected), 10)
        if hidden_count:
            assert numbers(level_lines.pop()) == [str(hidden_count)]
        for line in level_lines:
            assert any(subject in line and all(fact in line for fact in facts) for _, subject, facts in expected)
    assert notice.startswith("::notice ")
    assert numbers(notice.rpartition("::")[2]) == outcome_totals(outcomes)


def diff_items(old: Plan, new: Plan) -> Iterator[tuple[DecisionChange, str, tuple[str, ...]]]:
    """Return change, address and numbers of each row; topics of several rows have their number instead."""
    entries = [entry for entry in compare(old, new).entries() if entry.block is None]
    alike: defaultdict[Any, list[ActionDiff]] = defaultdict(list)
    for entry in entries:
        paths = tuple(difference.path for difference in entry.differences)
        alike[entry.change, entry.address.policy_address, entry.latest.fold_key, paths].append(entry)
    gone = Counter(policy for change, policy, *_line in alike if change is DecisionChange.GONE)
    for (change, policy, *_line), same in alike.items():
        entry = same[0]
        if change is DecisionChange.GONE and gone[policy] > 5:
            yield change, str(policy), ()
        elif len(same) > 1:
            one_topic = len({one.address.name for one in same}) == 1
            parent = Address(policy.kind, policy.policy, entry.address.name) if one_topic else policy
            yield entry.change, str(parent), (str(len(same)),)
        elif entry.change in (DecisionChange.LARGER, DecisionChange.SMALLER):
            assert isinstance(entry.old, DeleteRecords)
            assert isinstance(entry.new, DeleteRecords)
            yield entry.change, str(entry.address), (str(entry.old.before_offset), str(entry.new.before_offset))
        else:
            loss = entry.new is not None and isinstance(entry.new, ElectLeader) and entry.new.irreversible
            yield entry.change, str(entry.address), ("unclean",) if loss else ()


@pytest.mark.parametrize(("old", "new"), COMPARISONS.values(), ids=COMPARISONS)
def test_each_report_of_a_comparison_shows_every_change(old: Plan, new: Plan) -> None:
    """Each address has its change and numbers; totals count each change; both digests."""
    comparison = compare(old, new)
    text, markdown = plain(render.diff_text(comparison)), render.diff_markdown(comparison).splitlines()
    tally = sorted(f"{count:,}" for count in comparison.tally.values() if count)
    assert sorted(numbers(text[0])) == sorted(numbers(markdown[0].removeprefix("###"))) == tally
    for lines in (text, markdown):
        text_items = items(lines)
        rows = set(diff_items(old, new))
        for change, address, facts in rows:
            assert any(mentions(item, address, change, *facts) for item in text_items), (change, address, facts)
        assert sum(bool(re.match(f"({'|'.join(DecisionChange)}): |- \\*\\*", item)) for item in text_items) == len(rows)
        for side in (old, new):
            assert any(report_facts.plan_file.digest(side) in line for line in lines)
    details = [line.strip() for line in text if line.startswith("      ")]
    assert [line.removeprefix("  - ") for line in markdown if line.startswith("  - ")] == list(
        map(escape.markdown_prose, details)
    )


def test_a_comparison_shows_the_changed_fields_of_an_action() -> None:
    """For an election that became unclean the fields are below its row."""
    details = [line for line in plain(render.diff_text(compare(ELECTION, UNCLEAN))) if line.startswith("      ")]
    assert any("unclean" in line for line in details), details


def test_a_comparison_is_truncated_at_its_limit() -> None:
    """Markdown of 900 characters has the totals, complete rows, and the note that it is truncated."""
    comparison = compare(WHOLE, CHANGED)
    full_text, short = render.diff_markdown(comparison), render.diff_markdown(comparison, limit_chars=900)
    assert 500 < len(short) <= 900 < len(full_text)
    rows = [row for row in short.splitlines() if row]
    (cut,) = set(rows) - set(full_text.splitlines())
    assert cut.startswith("**")


def drift_rows(subjects: Sequence[drift.Subject]) -> list[tuple[str, ...]]:
    """Return the facts of each row of a list: what a policy has of one sort, or up to five topics or groups of it."""
    sorts: dict[Any, dict[str, list[drift.Subject]]] = defaultdict(lambda: defaultdict(list))
    for subject in subjects:
        address = subject.address
        state = subject.sort, subject.code, subject.next_step, address.partition >= 0
        sorts[address.policy_address, state][address.name].append(subject)
    row_facts = []
    rows = [list(chain(*names.values())) for names in sorts.values() if len(names) > 5]
    rows += [row for names in sorts.values() if len(names) <= 5 for row in names.values()]
    for row in rows:
        first = row[0]
        name = format_subject(first.address) if len(row) == 1 else escape.display_name(first.address.name)
        count = () if len(row) == 1 else (f"{len(row):,}",)
        code = (first.code, BLOCK_CODES[first.code].title) if first.code else ()
        since = formatting.format_time(min(subject.since_ms for subject in row))
        row_facts.append(
            (name, str(first.address.policy_address), *count, *code, since, escape.escape_sentence(first.next_step))
        )
    return row_facts


@pytest.mark.parametrize("example", PLANS.values(), ids=PLANS)
def test_each_report_of_drift_shows_every_row(example: Plan) -> None:
    """Forty rows of a list with code, title, since and next step; limits and missing facts."""
    earlier = replace(example, decisions=example.decisions[1::2], observed_at_ms=example.observed_at_ms - HOUR_MS)
    report = drift.report(example, previous=[drift.report(earlier)])
    text, markdown = plain(render.drift_text(report)), render.drift_markdown(report).splitlines()
    for lines in (text, markdown):
        blocked = [subject for subject in report.subjects if subject.sort == drift.BLOCKED]
        to_correct = [subject for subject in report.subjects if subject.sort != drift.BLOCKED]
        for subjects in (blocked, to_correct, report.unread):
            rows = drift_rows(subjects)
            shown_rows = [row for row in rows if any(mentions(item, *row) for item in items(lines))]
            assert len(shown_rows) == min(len(rows), 40)
            if len(rows) > 40:
                assert [str(len(rows) - 40)] in [numbers(line) for line in lines]
        page = "\n".join(lines)
        assert all(count_subjects(s.address for s in same) in page for same in (blocked, to_correct, report.unread))
        assert all(sentence in page for sentence in report.incomplete)
        assert all(limit in page for limit in report.refused)
        assert f"reconciler plan --full --cluster {report.cluster}" in page or report.in_sync
    assert (len(text) == 1) == report.in_sync
    assert re.fullmatch(r'<!-- reconciler:drift cluster="prod-eu" id="[\w-]+" -->', markdown[0])


def test_a_journal_entry_shows_its_author_and_its_result() -> None:
    """The request of an intent, the result of an outcome; plan and author head the run."""
    entries = journal_entries()
    _totals, _empty, heading, *lines = plain(render.journal_text(entries, full=True))
    assert mentions(heading, entries[0].run_id, entries[0].plan_digest, "3 satisfied", "ada@ci", "4f2c9aa")
    for entry, line in zip(entries, lines, strict=True):
        facts = [formatting.format_time(entry.at_ms), str(entry.address)]
        if entry.status is None:
            facts += [entry.operation, *(f"{name} {value}" for name, value in entry.request.items())]
        else:
            facts += [entry.status, *(fact for fact in (entry.detail, entry.read_back) if fact)]
            assert (entry.code in line) == (entry.code != "NONE")
        assert mentions(line, *facts)
    *_heading, line = plain(render.journal_text([replace(entries[1], status=None)], full=True))
    assert mentions(line, str(entries[1].address))


def words(lines: Iterable[Text]) -> list[str]:
    """Return every word of the lines except the comment mark, which each line of a comment repeats."""
    return [word for line in lines for word in line.plain.split() if word != "#"]


@pytest.mark.parametrize("width", [20, 32, 60, 80])
def test_a_width_only_breaks_lines(width: int) -> None:
    """The words stay. Only a single word that does not fit makes a line too long."""
    renderers: list[Callable[[int | None], Iterable[Text]]] = [
        *(
            lambda at, p=p, full=full: render.text(p, width=at, full=full)
            for p in PLANS.values()
            for full in (True, False)
        ),
        *(lambda at, p=p: render.drift_text(drift.report(p), width=at) for p in PLANS.values()),
        *(lambda at, make=make: render.results_text(WHOLE, make(), width=at) for make in OUTCOMES.values()),
        *(lambda at, pair=pair: render.diff_text(compare(*pair), width=at) for pair in COMPARISONS.values()),
        *(lambda at, d=d: render.explain(WHOLE, d.address, width=at) for d in WHOLE.decisions),
        *(lambda at, full=full: render.journal_text(journal_entries(), width=at, full=full) for full in (True, False)),
    ]
    for renderer in renderers:
        narrow, wide = list(renderer(width)), list(renderer(None))
        assert words(narrow) == words(wide)
        assert {str(line.style) for line in narrow} == {str(line.style) for line in wide}
        for line in narrow:
            unbroken = line.plain.startswith(("Digest ", "  and ", "      and ", "and "))
            assert len(line.plain) <= width or len(line.plain.split()) == 1 or unbroken, line.plain


def test_an_unread_topic_has_a_row_beside_its_partitions() -> None:
    """The topic and its partitions have an entry each; a plan without unread subjects has none."""
    subjects = [item.split(" ")[1] for item in items(plain(render.text(EDGES))) if item.startswith("Unread: ")]
    assert subjects == ["orders", "2"]
    full = (item for item in items(plain(render.text(EDGES, full=True))) if item.startswith("Unread: "))
    assert [item.split(" ")[1] for item in full] == ["orders", "orders[0]", "orders[1]"]
    assert not any("Unread" in line for line in plain(render.text(ONE)))
