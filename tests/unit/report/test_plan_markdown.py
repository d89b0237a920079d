"""A plan as a comment of a pull request: found again, readable on a phone, truncated with a note."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import LimitVerdict, Plan
from reconciler.plan import plan_file
from reconciler.report.plan import OPEN_ITEMS
from tests import rendering as report
from tests.golden.wording import mentions, numbers
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied, waiting


@pytest.mark.parametrize(
    ("example", "counts"),
    [
        (plan(satisfied("LeaderPolicy/all/x[0]")), []),
        (plan(election()), ["1 partition"]),
        (plan(removal(), purge()), ["1 partition", "1 group"]),
        (plan(removal(), election(), election("x", 1)), ["1 group", "2 partitions", "2 topics"]),
        (plan(election(unclean=True)), ["1 partition"]),
        (plan(purge(), purge(partition=4), satisfied("LeaderPolicy/all/x[0]")), ["2 partitions", "1 topic"]),
        (
            plan(
                removal(), limits=(LimitVerdict(id="groups", limit=0, observed=1, passed=False, message="groups: 1"),)
            ),
            ["1 limit"],
        ),
    ],
)
def test_the_headline_has_cluster_and_counts(example: Plan, counts: list[str]) -> None:
    """A phone shows one line of a notification."""
    headline = report.markdown(example).splitlines()[1]
    assert headline.startswith("### `prod-eu`: ")
    assert re.findall(r"\d+ \w+", headline) == counts


def test_there_are_no_tables_and_no_commands() -> None:
    """A phone scrolls wide tables sideways, and no command can be typed in a page."""
    text = report.markdown(plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]")))
    assert "|" not in text
    assert "reconciler apply" not in text


def test_long_lists_are_collapsed() -> None:
    """Twenty-five are visible, the others in details, between the empty lines GitHub needs."""
    text = report.markdown(plan(*[removal(f"etl-{number:03}") for number in range(40)]))
    (tap,) = re.finditer("<details><summary>(.*)</summary>\n\n- `", text)
    assert numbers(tap[1]) == ["15"]
    opened = tap.start()
    assert text.index("etl-024") < opened < text.index("etl-025")
    assert "\n\n</details>\n" in text


def test_no_collapsed_list_is_empty() -> None:
    """If all entries are visible, there is no empty fold, neither of changes nor of notices."""
    changes = [removal(f"etl-{number:03}") for number in range(OPEN_ITEMS)]
    asides = [blocked(f"GroupRemoval/d{number:02}/g", reason=f"reason {number}") for number in range(OPEN_ITEMS)]
    text = report.markdown(plan(*changes, *asides))
    assert text.count("reason 24") == text.count('`"etl-024"`') == 1
    assert "<details>" not in text


@pytest.mark.parametrize(("groups", "hidden"), [(10, None), (11, "1 more"), (12, "2 more")])
def test_ten_groups_that_would_skip_records_are_named(groups: int, hidden: str | None) -> None:
    """Of folded partitions; the others are counted, in a comment and on a terminal."""
    skips = tuple((f"reader-{number:02}", 2_000) for number in range(groups))
    folded = plan(*(purge(partition=number, skips=skips) for number in range(21)))
    text = report.markdown(folded)
    for lines in (text.splitlines(), [line.plain for line in report.text(folded)]):
        assert sum('"reader-' in line for line in lines) == 10
        notes = [line for line in lines if re.search(r"\b\d+ more\b", line)]
        assert [mentions(note, hidden or "", "--full") for note in notes] == [True] * bool(hidden)


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
    about, total, *rows = [row for row in text.splitlines() if row.startswith("- ")]
    assert mentions(about, "`prod-eu`")
    assert mentions(total, "5,000 groups", "60,000 committed offsets")
    assert all(
        re.fullmatch(r"- `\"etl-\d{5}\"`: \D*\b12\b\D*\b3\b.*\bidle since 2026-11-15T10:00:00Z", row) for row in rows
    )


def test_a_limit_that_is_too_small_is_refused() -> None:
    """The comment would have no digest."""
    with pytest.raises(ValueError, match=r"limit_chars is 600\b.*\d{3}"):
        report.markdown(plan(), limit_chars=600)


def test_hidden_moves_are_counted() -> None:
    """Of six types of moves four are shown, and the partitions of the others are counted, as on a
    terminal. Of five all are shown: "1 in 1 more move" said less in as many words.
    """
    actions = [election(partition=n, seen=replace(election().seen, leader=2 + n // 5)) for n in range(30)]
    assert "more move" not in report.markdown(plan(*actions[:25]))
    for text in (report.markdown(plan(*actions)), "\n".join(line.plain for line in report.text(plan(*actions)))):
        assert re.findall(r"\b5 from \d to 1\b", text) == [f"5 from {n} to 1" for n in range(2, 6)]
        assert re.search(r"\b10 in 2 more moves\b", text)


def test_unchecked_groups_are_shown() -> None:
    """The records that they would skip may be unknown, and are not zero; also for folded partitions.

    `what more they would skip is not known` was once said where all their positions were known.
    """
    guard = replace(purge().guard, except_groups=("audit", "console-*"))
    for actions in ([purge(guard=guard)], [purge(partition=number, guard=guard) for number in range(21)]):
        for lines in (
            [line.plain for line in report.text(plan(*actions))],
            report.markdown(plan(*actions)).splitlines(),
        ):
            (line,) = [line for line in lines if "exceptGroups" in line]
            assert mentions(line, '"audit"', '"console-*"', "known or not")
    skipping = replace(purge(skips=(("audit", 5),)).guard, except_groups=("audit",))
    for partitions in (1, 21):
        text = report.markdown(plan(*(purge(partition=number, guard=skipping) for number in range(partitions))))
        (line,) = [line for line in text.splitlines() if "exceptGroups" in line]
        assert mentions(line, '"audit"', "known or not")
