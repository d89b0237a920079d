"""A plan as a comment of a pull request: found again, readable on a phone, truncated with a note."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Plan
from reconciler.plan import plan_file
from tests import rendering as report
from tests.golden.wording import mentions
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, waiting


def test_there_are_no_tables_and_no_commands() -> None:
    """A phone scrolls wide tables sideways, and no command can be typed in a page."""
    text = report.markdown(plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]")))
    assert "|" not in text
    assert "reconciler apply" not in text


def cut_notes(text: str) -> list[str]:
    """Return the lines that say that the comment is truncated: the bold lines that name no policy."""
    return [line for line in text.splitlines()[4:] if re.match(r"\*\*[^`]", line)]


@made.FEW
@given(made.plans(), st.integers(4_000, 9_000))
def test_no_comment_is_longer_than_its_limit(example: Plan, limit: int) -> None:
    """Marker, headline and digest are there with any content, truncated or not."""
    text = report.markdown(example, limit_chars=limit)
    assert len(text) <= limit
    assert text.startswith("<!-- reconciler-plan ")
    assert plan_file.digest(example) in text.splitlines()[-1]
    cut = 'truncated="yes"' in text.splitlines()[0]
    assert len(cut_notes(text)) == cut


def test_a_large_plan_is_truncated_at_a_line_with_a_note() -> None:
    """The limit is 60,000 characters by default; GitHub refuses 65,537."""
    text = report.markdown(plan(*[removal(f"etl-{number:05}") for number in range(5_000)]))
    assert 55_000 < len(text) <= 60_000
    assert 'truncated="yes"' in text.splitlines()[0]
    assert text.count("<details>") == text.count("</details>") == 1
    (note,) = cut_notes(text)
    assert text.index("</details>") < text.index(note)
    assert mentions(note, "`reconciler show`")
    about, total, *rows, left_out = [row for row in text.splitlines() if row.startswith("- ")]
    assert mentions(left_out, f"and {5_000 - len(rows):,} more")
    assert mentions(about, "`prod-eu`")
    assert mentions(total, "5,000 groups", "60,000 committed offsets")
    assert all(
        re.fullmatch(r"- `\"etl-\d{5}\"`: \D*\b12\b\D*\b3\b.*\bidle since 2026-11-15T10:00:00Z", row) for row in rows
    )


def test_a_limit_that_is_too_small_is_refused() -> None:
    """The comment would have no digest."""
    with pytest.raises(ValueError, match=r"limit_chars is 600\b.*\d{3}"):
        report.markdown(plan(), limit_chars=600)


def test_the_consumers_that_skip_most_stand_above_the_folds() -> None:
    """Before, who would skip records stood only below its topic, and of 40 topics fifteen are in a fold."""
    topics = [f"topic-{number:02}" for number in range(40)]
    skips = [("audit", 97_213), *((f"reader-{number}", 98_000) for number in range(3))]
    text = report.markdown(
        plan(
            *(purge(topic, policy="all", skips=skips) for topic in topics[:-1]),
            purge(topics[-1], policy="all", skips=[("late", 1_000)]),
        )
    )
    top = text.partition("####")[0]
    (behind,) = [line for line in top.splitlines() if "**Behind**" in line]
    assert '`"late"` would skip at most **97,213 records** on 1 partition' in behind
    assert '`"audit"` would skip at most **39,000 records** on 39 partitions' in behind
    assert "and others, as listed below" in behind
    assert "late" in text.partition("<details>")[2]


@pytest.mark.parametrize(("consumers", "more"), [(3, False), (4, True)])
def test_what_the_top_leaves_out_is_said(consumers: int, more: bool) -> None:
    """It names three."""
    text = report.markdown(plan(purge(skips=[(f"reader-{number}", 90_000) for number in range(consumers)])))
    assert ("and others, as listed below" in text) is more
