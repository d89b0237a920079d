"""Reports of results, comparisons, explanations and the journal."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.apply.results import DRY_RUN, ResultsHeader
from reconciler.errors import UsageError
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan, Source
from reconciler.plan import plan_file
from reconciler.plan.diff import DecisionChange, compare
from reconciler.report.diff import diff_json
from reconciler.report.document import View
from reconciler.report.results import results_document, results_report
from reconciler.report.terminal import write_lines
from reconciler.text.phrase import plain
from tests import rendering as report
from tests.golden.wording import mentions, numbers
from tests.strategies.examples import blocked, election, plan, purge, removal
from tests.unit.apply.test_results import HEADER
from tests.unit.report.sample_plans import COMPARISONS, outcome_of


def _texts(planned: Plan | ResultsHeader, outcomes: Sequence[Outcome]) -> tuple[str, list[str]]:
    tree = results_report(planned if isinstance(planned, ResultsHeader) else report.header_of(planned), outcomes)
    return plain(tree.headline), report.plain(write_lines(tree))


def test_results_of_a_plan_that_blocks_are_never_everything() -> None:
    """The headline said that everything is done, while 17 partitions of the plan were blocked.

    An old results file does not hold what the plan blocks: unknown is not zero, and the words are of its actions only.
    """
    stuck = [blocked(f"RetentionFloor/orders-gdpr/orders[{number}]") for number in range(16, 32)]
    unread = blocked("GroupRemoval/dead/old", unread=True)
    headline, lines = _texts(plan(*stuck, unread), [outcome_of()])
    assert headline == "prod-eu: every action is done; blocked in the plan: 16 partitions, 1 group"
    assert any(line.endswith("removed; blocked in the plan: 16 partitions, 1 group.") for line in lines)
    assert lines[-1].startswith("Next: blocked in the plan: reconciler plan --cluster prod-eu says why")
    header = report.header_of(plan(*stuck, unread))
    for view, words in (
        (View(at_terminal=True), " --cluster prod-eu 'my folder' says"),
        (View(), " --cluster prod-eu says"),
    ):
        (page,) = results_document(header, [outcome_of()], lambda: "", paths=[Path("my folder")]).trees(view)
        assert any(words in plain(step) for step in page.next_steps), "a person typed the folder, a page has no folder"
    assert _texts(plan(blocked()), [])[0] == "prod-eu: no actions; blocked in the plan: 1 partition"
    assert _texts(HEADER, [outcome_of()])[0] == "prod-eu: every action is done"


def test_after_a_dry_run_the_next_step_is_no_dry_run() -> None:
    """It said `apply without the dry run; then, run the same command again`, which would send nothing either."""
    dry = Outcome(action=purge(), status=Status.NOT_ATTEMPTED, detail=DRY_RUN)
    stopped = Outcome(action=removal(), status=Status.NOT_ATTEMPTED, detail="the run was stopped")
    assert _texts(HEADER, [dry])[1][-1] == "Next: not attempted: apply without the dry run"
    assert mentions(
        _texts(HEADER, [dry, stopped])[1][-1], "apply without the dry run; then, run the same command again"
    )


def test_a_page_of_results_says_which_run_it_is_of() -> None:
    """Author, commit and plan; a terminal has just run it."""
    header = replace(HEADER, who="ann@host", commit="4f2c9aa" * 5)
    footer = plain(results_document(header, [], lambda: "").trees(View())[0].footer[0])
    assert footer.startswith("Run run-1 by ann@host, ended 2027-01-15T08:00:01Z, commit 4f2c9aa, plan ")
    assert not results_document(header, [], lambda: "").trees(View(at_terminal=True))[0].footer


def test_a_job_summary_is_truncated_at_its_limit() -> None:
    """The limit is 60,000 characters by default: complete rows, then the note, then what to do."""
    outcomes = [outcome_of(n, Status.STALE, code=f"x{n}", sends=0, removed_max=0) for n in range(9000)]
    text = report.results_markdown(plan(), outcomes)
    assert 59_500 < len(text) <= 60_000
    *rows, empty, note, also_empty, advice = text.splitlines()[6:]
    assert rows == [f"- **Stale** `orders[{number}]`: x{number}" for number in range(len(rows))]
    assert 1_500 < len(rows) < 9_000
    assert (empty, also_empty) == ("", "")
    assert note.startswith(f"**Cut here: … and {9_000 - len(rows):,} more,** in the results file")
    assert mentions(advice, "stale")
    shorter = report.results_markdown(plan(), outcomes, limit_chars=4_000)
    assert 3_700 < len(shorter) <= 4_000


def test_policies_with_actions_are_at_most_ten_notices() -> None:
    """With the totals, which are always there."""
    actions = [purge("clicks", 0, policy=f"p{number:02}") for number in range(14)]
    lines = report.github(plan(*actions)).splitlines()
    assert len(lines) == 10
    assert numbers(lines[8]) == ["6"]
    assert re.match("::notice title=[^:]*prod-eu::", lines[9])
    assert len(report.github(plan(*actions[:9])).splitlines()) == 10


def test_the_json_of_a_comparison_has_both_actions_of_each_change() -> None:
    """New, gone, larger, smaller and changed, in address order."""
    old = plan(purge(partition=1), purge(partition=2), purge(partition=3), removal(), election())
    new = plan(
        purge(partition=1, before_offset=99_000),
        purge(partition=2, before_offset=98_000),
        replace(purge(partition=3), seen=replace(purge().seen, topic_id="another")),
        removal("other"),
        election(),
    )
    rows = json.loads("".join(diff_json(compare(old, new))))
    assert [row["change"] for row in rows["entries"]] == ["gone", "new", "larger", "smaller", "changed"]
    assert rows["entries"][0]["new"] is None
    assert rows["entries"][2]["new"]["request"]["before_offset"] == 99_000
    assert rows["summary"] == {"blocked": 0, "new": 1, "gone": 1, "larger": 1, "smaller": 1, "changed": 1}


def test_saved_plans_compare_like_the_plans_themselves(tmp_path: Path) -> None:
    """The report is the same, although at most one action of each plan is in memory."""
    old = plan(purge(), removal(), source=Source(commit="abcdef1234"))
    new = plan(purge(before_offset=98_214), election())
    for name, example in (("old", old), ("new", new)):
        plan_file.write(example, tmp_path / f"{name}.json")
    saved = compare(
        plan_file.open_plan(tmp_path / "old.json"), plan_file.open_plan(tmp_path / "new.json", proven=False)
    )
    comparison = compare(old, new)
    assert report.plain(report.diff_text(saved)) == report.plain(report.diff_text(comparison))
    assert report.diff_markdown(saved) == report.diff_markdown(comparison)
    assert list(diff_json(saved)) == list(diff_json(comparison))
    (moved,) = [entry for entry in saved.entries() if entry.change is DecisionChange.LARGER]
    assert moved.details == ("request.before_offset: 98213 → 98214",)


@pytest.mark.parametrize(("name", "start", "count"), [("after an apply", "gone: ", 86), ("many groups", "new: ", 300)])
def test_a_full_comparison_has_a_line_for_each_subject(name: str, start: str, count: int) -> None:
    lines = report.plain(report.diff_text(compare(*COMPARISONS[name]), full=True))
    assert sum(line.startswith(start) for line in lines) == count


def test_a_log_with_a_lower_start_is_larger() -> None:
    """As for `--within`, and its details name the start that was reviewed. A lower target does not hide it."""
    comparison = compare(*COMPARISONS["a lower log start"])
    assert [entry.details for entry in comparison.entries()] == [("seen.log_start: 900 → 0",)]
    (entry,) = compare(*COMPARISONS["a lower log start and target"]).entries()
    assert (entry.change, len(entry.details)) == (DecisionChange.LARGER, 2)
    assert compare(*COMPARISONS["a higher log start"]).tally[DecisionChange.SMALLER] == 0


def test_what_is_not_due_any_more_is_not_blocked() -> None:
    """Subjects in sync, waiting and skipped are gone; an unread one is not: nothing says that it is done."""
    unread = replace(blocked(), unread=True)
    (entry,) = compare(plan(purge(partition=5)), plan(unread)).entries()
    assert entry.change is DecisionChange.BLOCKED
    (entry,) = compare(plan(purge(partition=5)), plan()).entries()
    assert entry.change is DecisionChange.GONE
    assert list(compare(plan(), plan(blocked())).entries()) == [], "a plan never had an action there"


def explained(address: str, *decisions: object) -> str:
    return "\n".join(report.plain(report.explain(plan(*decisions), Address.parse(address))))  # type: ignore[arg-type]


def test_the_groups_that_hold_a_subject_back_are_named() -> None:
    """All of them, also where the reason names the last one only."""
    text = explained("RetentionFloor/orders-gdpr/orders[5]", blocked(held_by=("a", "billing")))
    assert '  Held by      "a", "billing"' in text.splitlines()


def test_an_address_that_does_not_exist_is_wrong_usage() -> None:
    """The message suggests the closest address."""
    with pytest.raises(UsageError, match=r"orders\[4\].*RetentionFloor/orders-gdpr/orders\[3\]"):
        explained("RetentionFloor/orders-gdpr/orders[4]", purge())
    with pytest.raises(UsageError, match=r"LeaderPolicy/none.*`plan --full`"):
        explained("LeaderPolicy/none", purge())
