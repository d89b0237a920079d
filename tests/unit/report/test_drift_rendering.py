"""Drift reports are short and harmless, and the same drift gives the same text."""

import re
from collections.abc import Sequence
from dataclasses import replace

from reconciler.model.block_reason import BLOCK_CODES
from reconciler.model.names import Address
from reconciler.plan.drift import BLOCKED, UNREAD, DriftReport, PolicyTally, Subject
from reconciler.report.drift import ROWS_MAX, drift_report
from reconciler.report.terminal import write_lines
from tests.golden.wording import mentions
from tests.rendering import drift_markdown, drift_text

SINCE_MS = 1_790_000_000_000
FLOOR = Address("RetentionFloor", "orders-gdpr")


def subject(address: Address, sort: str = "records", code: str | None = None, detail: str = "offset 98213") -> Subject:
    return Subject(
        address=address, sort=sort, code=code, detail=detail, next_step="apply a reviewed plan", since_ms=SINCE_MS
    )


def report_of(subjects: Sequence[Subject] = (), unread: Sequence[Subject] = (), **fields: object) -> DriftReport:
    return replace(
        DriftReport(
            cluster="prod-eu",
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            observed_at_ms=SINCE_MS + 60_000,
            subjects=tuple(subjects),
            unread=tuple(unread),
            tallies=(PolicyTally(policy=FLOOR, satisfied=1200, waiting=2, pending=1),),
        ),
        **fields,  # type: ignore[arg-type]
    )


def lines_of(report: DriftReport, width: int | None = None) -> list[str]:
    return [line.plain for line in drift_text(report, width=width)]


def partitions(count: int) -> list[Subject]:
    return [subject(Address("RetentionFloor", "orders-gdpr", "orders", number)) for number in range(count)]


def test_in_sync_is_one_line_of_text_and_one_sentence_of_markdown() -> None:
    """The text is one line.

    The Markdown also has the marker by which a workflow finds the issue to close.
    """
    (line,) = lines_of(report_of())
    assert mentions(line, "prod-eu", "5L6g3nShT-eMCtK--X86sw", "1,200 satisfied", "3 waiting")
    marker, empty, sentence = drift_markdown(report_of()).splitlines()
    assert (marker, empty) == ('<!-- reconciler:drift cluster="prod-eu" id="5L6g3nShT-eMCtK--X86sw" -->', "")
    assert mentions(sentence, "`prod-eu`")


def test_partitions_of_one_topic_are_one_row_with_since_and_next_step() -> None:
    """A thousand partitions with the same reason are one row; a single one is named."""
    thousand = lines_of(report_of(partitions(1000)))
    head, _, row, since = thousand[:4]
    assert mentions(head, "prod-eu", "5L6g3nShT-eMCtK--X86sw", "1,000 subjects", "2026-09-21T14:13:20Z")
    assert mentions(row, "orders", "1,000 partitions")
    assert mentions(since, "2026-09-21T14:13:20Z", "RetentionFloor/orders-gdpr", "apply a reviewed plan")
    assert mentions(lines_of(report_of(partitions(1)))[2], "orders[0]")
    markdown = drift_markdown(report_of(partitions(1000)))
    assert "1,000 partitions of `orders`" in markdown
    assert mentions(markdown.splitlines()[1], "1,000 subjects", "2026-09-21T14:13:20Z")


def test_the_command_names_the_manifests() -> None:
    """It once read `manifests/`, whatever the drift was found with."""
    text = write_lines(drift_report(report_of(partitions(1)), paths=["my folder"]))
    assert [line.plain for line in text][-1].endswith(": reconciler plan --cluster prod-eu 'my folder'")


def test_the_text_of_an_unchanged_drift_has_no_offsets_and_no_times() -> None:
    """Neither format has the time of the run or the numbers of the reason, so that nothing edits
    the issue.
    """
    first = report_of(partitions(3), refused=("groups",))
    moved = tuple(replace(row, detail="offset 99999") for row in first.subjects)
    later = replace(first, subjects=moved, observed_at_ms=first.observed_at_ms + 3_600_000)
    assert drift_markdown(first) == drift_markdown(later)
    assert lines_of(first) == lines_of(later)


def test_blocked_unread_incomplete_and_limits_are_shown() -> None:
    """Blocked rows have code and title, unread rows are separate, and an unread cluster never
    counts as in sync.
    """
    blocked = subject(Address("GroupRemoval", "dead", "live"), BLOCKED, "B303")
    unread = subject(Address("GroupRemoval", "dead", "who"), UNREAD, "B103")
    report = report_of([blocked], [unread], incomplete=("broker 2 did not answer",), refused=("groups", "topics"))
    text = "\n".join(lines_of(report))
    markdown = drift_markdown(report)
    assert re.search(r'^- `"live"`: \*\*.*\*\* \(`B303`\)\n  - ', markdown, re.MULTILINE)
    for page in (text, markdown):
        assert mentions(page, "blocked", BLOCK_CODES["B303"].title, "B303", BLOCK_CODES["B103"].title, "B103")
        assert page.index("B303") < page.index("1 subject", page.index("B303")) < page.index("B103")
        assert mentions(page, "broker 2 did not answer", "groups", "topics")
    blind = report_of([], [unread])
    assert mentions(lines_of(blind)[0], "prod-eu")
    assert not mentions(lines_of(blind)[0], "in sync")
    assert "\n### " in drift_markdown(blind)
    assert not mentions("\n".join(drift_markdown(blind).splitlines()[:6]), "in sync")
    assert "\n### " not in drift_markdown(report_of()), "a report without a heading is in sync"
    strange = subject(Address("GroupRemoval", "dead", "x"), BLOCKED, "B999")
    assert mentions("\n".join(lines_of(report_of([strange]))), "blocked", "(B999)")


def test_hostile_group_ids_are_escaped_in_drift_reports() -> None:
    """Markup, mentions, ends of comments and workflow commands in a group id stay text in a code
    span or in quotes.
    """
    hostile = subject(Address("GroupRemoval", "dead", "-->`|<img src=x>@team\n::error::\u202e"), "group")
    markdown = drift_markdown(report_of([hostile], incomplete=("@team <b>",)))
    assert '`"-->\\u0060\\u007c<img src=x>@team\\n:\\u003aerror:\\u003a\\u202e"`' in markdown
    assert "`@team <b>`" in markdown
    assert all(not line.startswith("::") for line in [*markdown.splitlines(), *lines_of(report_of([hostile]))])


def test_long_reports_are_truncated_and_fit_an_issue() -> None:
    """Of five hundred groups with long names forty have rows, and the others are counted: far below
    65,536 characters.
    """
    subjects = [subject(Address("GroupRemoval", "dead", f"{number:03}" + "x" * 240), "group") for number in range(500)]
    report = report_of(subjects, subjects)
    markdown = drift_markdown(report)
    assert len(markdown) < 60_000
    assert markdown.count("and 460 more") == 2
    text = lines_of(report)
    assert sum(mentions(line, "460 more", "-o json") for line in text) == 2
    assert len(text) < 5 * ROWS_MAX


def test_drift_text_keeps_to_the_width() -> None:
    """Lines have at most the width, also of twenty columns, for headings with short words."""
    unread = report_of(unread=[subject(Address("GroupRemoval", "dead", "who"), UNREAD, "B103")])
    assert [line for line in lines_of(unread, width=20) if line.startswith("1 subject") and len(line) <= 20]
    assert max(map(len, lines_of(report_of(partitions(1000), incomplete=("x y " * 60,)), width=80))) <= 80
