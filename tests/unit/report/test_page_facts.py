"""What holds for reports of any plan: counts of what is left out, and lines that a width only breaks."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from rich.text import Text

from reconciler.model.names import Address
from reconciler.plan import drift
from reconciler.plan.diff import compare
from tests import rendering as render
from tests.golden.wording import items, mentions, numbers
from tests.rendering import plain
from tests.strategies.examples import plan
from tests.unit.report.sample_plans import (
    CLICKS,
    COMPARISONS,
    CROWDED,
    EDGES,
    ONE,
    OUTCOMES,
    PLANS,
    WHOLE,
    journal_entries,
)


@pytest.mark.parametrize(
    ("name", "decisions"),
    [("five", 5), ("six", 6), ("five/five", 5), ("six/six", 6), ("five/five[0]", 1), ("ten", 10)],
)
def test_an_address_of_several_decisions_explains_five_and_counts_the_others(name: str, decisions: int) -> None:
    """Up to five have no headline and no remainder; more have their counts and losses first."""
    lines = plain(render.explain(CROWDED, Address.parse(f"RetentionFloor/{name}"), width=60))
    covered = [str(d.address) for d in CROWDED.decisions if d.address.policy == name.partition("/")[0]][:5]
    heads = [line for line in lines if line.startswith("RetentionFloor/")]
    is_truncated = decisions > 5
    if is_truncated:
        assert mentions(heads.pop(0), f"RetentionFloor/{name}", str(decisions))
        assert numbers(lines[-1]) == [str(decisions - 5)]
    assert [head.partition(":")[0] for head in heads] == covered[: min(decisions, 5)]
    head, *_ = plain(render.explain(plan(*CLICKS[:9]), Address.parse("RetentionFloor/clicks-gdpr/clicks")))
    assert mentions(head, "9", "874,917 records")


def test_an_outcome_without_a_status_names_its_subject() -> None:
    entry = replace(journal_entries()[1], status=None)
    *_heading, line = plain(render.journal_text([entry], full=True))
    assert mentions(line, str(entry.address))


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
