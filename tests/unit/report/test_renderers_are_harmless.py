"""No content of a plan, a comparison, results or a journal can control a terminal, a comment or a
CI runner.
"""

import json
import re
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from reconciler.errors import UsageError
from reconciler.journal.entry import JournalEntry
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome
from reconciler.model.plan import Plan
from reconciler.plan import drift
from reconciler.plan.diff import compare
from reconciler.report.diff import diff_json
from tests import rendering as report
from tests.strategies import outcomes as ended
from tests.strategies import plans as made
from tests.unit.report.test_safe_names import is_harmless

widths = st.sampled_from((None, 20, 80, 200))


def assert_harmless_lines(lines: Iterable[Text]) -> None:
    for line in lines:
        assert not line.spans, "a style is for the whole line, and nothing in it is markup"
        is_harmless(line.plain)


CODE = re.compile(r"`[^`\n]*`")
ALLOWED_HTML = ("<details><summary>", "</details>", "</summary>", "<sub>", "</sub>")


def assert_harmless_markdown(text: str) -> None:
    """Assert that only code spans and our words have markup, and no line is a command."""
    lines = text.split("\n")
    assert text.count("<details>") == text.count("</details>")
    for number, line in enumerate(lines):
        is_harmless(line.replace("  - ", "- ", 1))
        if number == 0 and line.startswith("<!-- "):
            assert line.count("-->") == 1
            assert line.endswith(" -->")
            continue
        outside = CODE.sub("", line)
        assert "`" not in outside, f"a code span is open in {line!a}"
        for tag in ALLOWED_HTML:
            outside = outside.replace(tag, "")
        assert not set("<>@#$|~\\![]&") & set(outside.removeprefix("#### ").removeprefix("### ")), line
        assert "://" not in outside


@made.FEW
@given(made.plans(max_size=4), st.booleans(), widths)
def test_a_plan_as_text(plan: Plan, full: bool, width: int | None) -> None:
    """No name, reason, owner, path or message controls the terminal."""
    assert_harmless_lines(report.text(plan, full=full, width=width, saved_to="a\x1b[2J"))


@made.FEW
@given(made.plans(max_size=4))
def test_a_plan_as_markdown(plan: Plan) -> None:
    """No name, reason, owner, path or message is markup, HTML, a mention or a link."""
    assert_harmless_markdown(report.markdown(plan))


@made.FEW
@given(made.plans(max_size=4))
def test_a_plan_as_annotations(plan: Plan) -> None:
    """Each line is one intended command, and no value adds a property or a second command."""
    for line in report.github(plan).splitlines():
        match = re.fullmatch(r"::(error|warning|notice) ((?:\w+=[^,:]*,?)+)::(.*)", line)
        assert match, line
        assert set(re.findall(r"(\w+)=", re.sub(r"=[^,]*", "=", match[2]))) <= {"file", "line", "col", "title"}
        is_harmless(match[3])
        is_harmless(match[2])


@made.FEW
@given(made.plans(max_size=3), made.plans(max_size=3), widths)
def test_a_comparison(old: Plan, new: Plan, width: int | None) -> None:
    """The comparison in text, Markdown and JSON."""
    comparison = compare(old, new)
    assert_harmless_lines(report.diff_text(comparison, width=width))
    assert_harmless_markdown(report.diff_markdown(comparison))
    text = "".join(diff_json(comparison))
    assert all(character == "\n" or " " <= character <= "~" for character in text)
    assert len(json.loads(text)["entries"]) == sum(comparison.tally.values())


@made.FEW
@given(made.plans(max_size=4), widths)
def test_drift(plan: Plan, width: int | None) -> None:
    """Groups, reasons and what could not be read, in text and Markdown."""
    assert_harmless_lines(report.drift_text(drift.report(plan), width=width))
    assert_harmless_markdown(report.drift_markdown(drift.report(plan)))


@made.FEW
@given(made.plans(max_size=1), st.lists(ended.outcomes, max_size=4), widths)
def test_results(plan: Plan, outcomes: list[Outcome], width: int | None) -> None:
    """The message of a broker is foreign text."""
    assert_harmless_lines(report.results_text(plan, outcomes, width=width))
    assert_harmless_markdown(report.results_markdown(plan, outcomes))
    for line in report.results_github(plan, outcomes).splitlines():
        assert re.match(r"::(error|warning|notice) title=", line)
        is_harmless(line.split("::", 2)[2])


@made.FEW
@given(made.plans(max_size=3), made.addresses, widths)
def test_an_explanation(plan: Plan, other: Address, width: int | None) -> None:
    """The explanation of any decision, and of an address that does not exist."""
    for address in [decision.address for decision in plan.decisions]:
        assert_harmless_lines(report.explain(plan, address, width=width))
        assert_harmless_lines(report.explain(plan, address.policy_address, width=width))
    try:
        assert_harmless_lines(report.explain(plan, other, width=width))
    except UsageError as error:
        is_harmless(str(error))


@made.FEW
@given(st.lists(ended.entries(), max_size=3), widths)
def test_the_journal(entries: list[JournalEntry], width: int | None) -> None:
    """The author and the texts of an entry may come from any client."""
    for full in (False, True):
        assert_harmless_lines(report.journal_text(entries, width=width, full=full))
