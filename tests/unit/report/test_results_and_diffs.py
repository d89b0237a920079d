"""Reports of results, comparisons, explanations and the journal."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text

from reconciler.apply.results import ResultsHeader
from reconciler.errors import UsageError
from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan, Source
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from reconciler.plan import plan_file
from reconciler.plan.diff import DecisionChange, compare
from reconciler.report.document import View
from reconciler.report.results import results_document, results_report
from reconciler.report.terminal import write_lines
from reconciler.text.phrase import plain
from tests import rendering as report
from tests.golden.report_facts import items, numbers
from tests.golden.wording import mentions
from tests.strategies.examples import NOW_MS, blocked, election, plan, purge, removal
from tests.unit.apply.test_results import HEADER


def outcome_of(number: int = 3, status: Status = Status.APPLIED, **changes: object) -> Outcome:
    action = purge(partition=number)
    example = Outcome(action=action, status=status, detail="", sends=1, removed_max=action.records_max)
    return replace(example, **changes)  # type: ignore[arg-type]


def lines_of(texts: Iterable[Text]) -> list[str]:
    return [line.plain for line in texts]


def lines_of_comparison(old: Plan, new: Plan, *, full: bool = False) -> list[str]:
    return lines_of(report.diff_text(compare(old, new), full=full))


def test_a_caveat_of_what_was_removed_is_one_line() -> None:
    """As in the plan: 300 topics that no group guards once had 300 lines. What was not sent has none."""
    words = 'no consumer is known: "consumers: block" guards nobody here'
    outcomes = [
        replace(outcome_of(number, status), action=replace(purge(partition=number), caveat=words), removed_max=removed)
        for number, status, removed in ((1, Status.APPLIED, 5), (2, Status.APPLIED, 5), (3, Status.STALE, 0))
    ]
    outcomes[2] = replace(outcomes[2], sends=0)
    outcomes.append(replace(outcomes[0], action=replace(purge("clicks"), caveat=words)))
    text_lines = lines_of(report.results_text(plan(), outcomes))
    assert [line for line in text_lines if words in line] == [f"Caveat: 3 partitions of orders, clicks — {words}"]


def test_partitions_with_equal_outcomes_are_folded() -> None:
    """All that went as planned is one line of counts, below what did not; the sum is in the total."""
    outcomes = [
        *(outcome_of(number, detail=DeleteRecords.APPLIED) for number in range(22)),
        outcome_of(30, Status.FAILED, code="X", removed_max=0),
        outcome_of(31, Status.SATISFIED, detail=DeleteRecords.SATISFIED, removed_max=0),
        Outcome(action=removal(), status=Status.APPLIED, detail=DeleteGroup.APPLIED),
    ]
    text_lines = lines_of(report.results_text(plan(), outcomes, duration_ms=72_500))
    failed, satisfied, applied, _empty, total = text_lines[2:7]
    assert mentions(failed, "FAILED", "orders[30]", "X")
    assert satisfied == "Satisfied: 1 partition as desired already"
    assert applied == "Applied: records of 22 partitions of 1 topic deleted; 1 group removed"
    assert total.endswith(f"1 failed; at most {22 * 97_213:,} records removed; took 1 min 12 s.")


def _texts(planned: Plan | ResultsHeader, outcomes: Sequence[Outcome]) -> tuple[str, list[str]]:
    tree = results_report(planned if isinstance(planned, ResultsHeader) else report.header_of(planned), outcomes)
    return plain(tree.headline), lines_of(write_lines(tree))


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


def test_records_that_two_runs_count_are_named() -> None:
    """A sum over both results would count them twice."""
    shared = outcome_of(4, removed_max=810, also_counted_by=("b",))
    _headline, lines = _texts(plan(), [outcome_of(3, removed_max=1_610), shared])
    assert any(
        "at most 2,420 records removed, of which run b of the same plan counts up to 810, too" in x for x in lines
    )


def test_a_page_of_results_says_which_run_it_is_of() -> None:
    """Author, commit and plan; a terminal has just run it."""
    header = replace(HEADER, who="ann@host", commit="4f2c9aa" * 5)
    footer = plain(results_document(header, [], lambda: "").trees(View())[0].footer[0])
    assert footer.startswith("Run run-1 by ann@host, ended 2027-01-15T08:00:01Z, commit 4f2c9aa, plan ")
    assert not results_document(header, [], lambda: "").trees(View(at_terminal=True))[0].footer


def test_the_advice_for_what_stopped_a_run_is_its_next_step() -> None:
    """A full disk once stood in a warning and in each item, and the next step said to apply again."""
    words = "the journal j cannot be written: No space left on device. Next: free disk space"
    stopped = [outcome_of(number, Status.NOT_ATTEMPTED, detail=words, removed_max=0) for number in range(3)]
    other = outcome_of(7, Status.NOT_ATTEMPTED, detail="broker 3 is silent", removed_max=0)
    shown = lines_of(report.results_text(plan(), [*stopped, other]))
    assert "\n".join(shown).count("free disk space") == 1
    first, second = (line for line in shown if line.startswith("Not attempted: "))
    assert first.endswith("the journal j cannot be written: No space left on device")
    assert second.endswith("broker 3 is silent")
    assert shown[-1].startswith("Next: not attempted: free disk space; then, run the same command again")


def test_a_success_that_is_not_as_usual_is_told_apart() -> None:
    """The details of an outcome are left out only if they are the operation's usual words."""
    odd = "removed; a group of that name was created since"
    outcomes = [
        Outcome(action=removal(), status=Status.APPLIED, detail=odd, code="NONE", read_back="listed, EMPTY"),
        Outcome(action=removal("other"), status=Status.APPLIED, detail=DeleteGroup.APPLIED, read_back="absent"),
    ]
    first, second = lines_of(report.results_text(plan(), outcomes))[2:4]
    assert mentions(first, "Applied", '"old-etl"', odd, "listed, EMPTY")
    assert second == "Applied: 1 group removed"


def test_a_job_summary_is_truncated_at_its_limit() -> None:
    """The limit is 60,000 characters by default: complete rows, then the note, then what to do."""
    outcomes = [outcome_of(n, Status.STALE, code=f"x{n}", sends=0, removed_max=0) for n in range(9000)]
    text = report.results_markdown(plan(), outcomes)
    assert 59_500 < len(text) <= 60_000
    *rows, empty, note, also_empty, advice = text.splitlines()[6:]
    assert rows == [f"- **Stale** `orders[{number}]`: x{number}" for number in range(len(rows))]
    assert 1_500 < len(rows) < 9_000
    assert (empty, also_empty) == ("", "")
    assert note.startswith("**")
    assert mentions(advice, "stale")
    shorter = report.results_markdown(plan(), outcomes, limit_chars=4_000)
    assert 3_700 < len(shorter) <= 4_000


def test_a_run_without_actions_says_so() -> None:
    """The report is not empty."""
    last_line = lines_of(report.results_text(plan(), []))[-1]
    assert last_line.startswith("Result: ")
    assert numbers(last_line) == []


def test_results_as_markdown_and_annotations_begin_with_what_failed() -> None:
    """They are for a job summary and for the top of a failed run."""
    outcomes = [outcome_of(1), outcome_of(2, Status.FAILED, detail="refused", code="POLICY_VIOLATION", removed_max=0)]
    head, _, _totals, _, about, *_ = report.results_markdown(plan(), outcomes).splitlines()
    assert head.startswith("### `prod-eu`: ")
    assert mentions(head, "1 failed")
    assert mentions(about, "prod-eu", plan().cluster_id)
    error, notice = report.results_github(plan(), outcomes).splitlines()
    assert error.startswith("::error title=FAILED::orders[2]: ")
    assert re.match("::notice title=[^:]*prod-eu::", notice)


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
    rows = json.loads("".join(report.diff_json(compare(old, new))))
    assert [row["change"] for row in rows["entries"]] == ["gone", "new", "larger", "smaller", "changed"]
    assert rows["entries"][0]["new"] is None
    assert rows["entries"][2]["new"]["request"]["before_offset"] == 99_000
    assert rows["summary"] == {"blocked": 0, "new": 1, "gone": 1, "larger": 1, "smaller": 1, "changed": 1}


def test_equal_plans_and_plans_of_two_clusters() -> None:
    """These comparisons have no list."""
    total, empty, *footer = lines_of_comparison(plan(purge()), plan(purge()))
    assert (len(footer), empty, numbers(total)) == (2, "", [])
    assert json.loads("".join(report.diff_json(compare(plan(), plan()))))["entries"] == []
    other = plan(cluster_id="another")
    first = lines_of_comparison(plan(), other)[2]
    assert mentions(first, plan().cluster_id, "another")
    assert any(
        row.startswith("- **") and plan().cluster_id in row and "another" in row
        for row in report.diff_markdown(compare(plan(), other)).splitlines()
    )


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
    assert lines_of(report.diff_text(saved)) == lines_of(report.diff_text(comparison))
    assert report.diff_markdown(saved) == report.diff_markdown(comparison)
    assert list(report.diff_json(saved)) == list(report.diff_json(comparison))
    (moved,) = [entry for entry in saved.entries() if entry.change is DecisionChange.LARGER]
    assert moved.details == ("request.before_offset: 98213 → 98214",)


def test_a_comparison_folds_a_topic() -> None:
    """64 partitions with the same change are one line with the records before and after."""
    old = plan(*[purge("clicks", number) for number in range(64)])
    new = plan(*[purge("clicks", number, before_offset=98_214) for number in range(64)])
    text_lines = lines_of_comparison(old, new)
    (row,) = text_lines[2:-3]
    assert row.startswith("larger: RetentionFloor/clicks-gdpr/clicks ")
    assert mentions(row, "larger", "64 partitions", f"{64 * 97_213:,}", f"{64 * 97_214:,}")


def test_a_comparison_begins_with_its_sum_and_what_is_blocked_now() -> None:
    """After an apply, 301 lines once said "gone" one by one, and a floor that had become blocked was one of them."""
    policies = [purge(topic, number, policy="events") for topic in "abcdefg" for number in range(12)]
    old = plan(*policies, purge(partition=5), removal(), election())
    new = plan(blocked(), removal("newcomer"))
    total, _empty, first, *rows = lines_of_comparison(old, new)
    assert total == "Differences: 1 blocked, 1 new, 86 gone."
    assert mentions(first, "Blocked now", "orders[5]", "B204")
    changes = [row.partition(":")[0] for row in rows if row]
    assert changes[:-2] == sorted(changes[:-2], key=["new", "gone"].index)
    assert "gone: RetentionFloor/events — records of 84 partitions of 7 topics deleted" in rows
    assert len(lines_of_comparison(old, new, full=True)) > 88, "each subject has its line"


def test_what_is_not_due_any_more_is_not_blocked() -> None:
    """Subjects in sync, waiting and skipped are gone; an unread one is not: nothing says that it is done."""
    unread = replace(blocked(), unread=True)
    (entry,) = compare(plan(purge(partition=5)), plan(unread)).entries()
    assert entry.change is DecisionChange.BLOCKED
    (entry,) = compare(plan(purge(partition=5)), plan()).entries()
    assert entry.change is DecisionChange.GONE
    assert list(compare(plan(), plan(blocked())).entries()) == [], "a plan never had an action there"


def test_unclean_elections_are_never_folded_in_a_comparison() -> None:
    """Each of them may lose records."""
    new = plan(*[election(partition=number, unclean=True) for number in range(25)])
    text_lines = lines_of_comparison(plan(), new)
    assert sum(mentions(line, "new", "unclean") for line in text_lines) == 25


def test_a_folded_change_shows_its_values() -> None:
    """Another topic id and another guard are two rows, each with the values of its first subject."""
    old = [purge(partition=number) for number in range(50)]
    recreated = [replace(action, seen=replace(action.seen, topic_id="another")) for action in old[:25]]
    ignored = [
        replace(action, guard=replace(action.guard, consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("billing", 5),)))
        for action in old[25:]
    ]
    text_lines = lines_of_comparison(plan(*old), plan(*recreated, *ignored))
    other_topic, other_guard = items(text_lines[2:-3])
    assert mentions(
        other_topic, "changed", "25 partitions", "orders[0]", "topic id", "kAwXdc4bS8uMfEXAMPLE0g", "another"
    )
    assert mentions(
        other_guard,
        "changed",
        "25 partitions",
        "orders[25]",
        'accepted position of group "billing"',
        "(consumers)",
        "5",
        "block",
        "ignore",
    )
    for row in (other_topic, other_guard):
        assert row.startswith("changed: RetentionFloor/orders-gdpr/orders ")
        assert "approved" not in row
        assert row.count(f"{25 * 97_213:,}") == 2


def test_a_log_with_a_lower_start_is_larger() -> None:
    """As for `--within`: more records would go, although the target is the same."""
    old, new = purge(log_start=900), purge(log_start=0)
    text_lines = lines_of_comparison(plan(old), plan(new))
    assert text_lines[2].startswith("larger: RetentionFloor/orders-gdpr/orders[3] ")
    assert mentions(text_lines[2], "larger", "0", "900", "97,313", "98,213")
    (entry,) = compare(plan(old), plan(new)).entries()
    assert entry.details == ("seen.log_start: 900 → 0",)
    (entry,) = compare(plan(old), plan(replace(new, before_offset=98_000))).entries()
    assert (entry.change, len(entry.details)) == (DecisionChange.LARGER, 2)
    assert compare(plan(new), plan(old)).tally[DecisionChange.SMALLER] == 0
    gaps = replace(new, before_offset=98_000, may_have_gaps=True)
    line = lines_of_comparison(plan(replace(old, may_have_gaps=True)), plan(gaps))[2]
    assert mentions(line, "213 offsets", "98,000 offsets"), "an offset is not a record"


def explained(address: str, *decisions: object) -> str:
    lines = report.explain(plan(*decisions), Address.parse(address))  # type: ignore[arg-type]
    return "\n".join(line.plain for line in lines)


def test_the_groups_that_hold_a_subject_back_are_named() -> None:
    """All of them, also where the reason names the last one only."""
    text = explained("RetentionFloor/orders-gdpr/orders[5]", blocked(held_by=("a", "billing")))
    assert '  Held by      "a", "billing"' in text.splitlines()


def test_a_topic_or_policy_explains_its_decisions() -> None:
    """The first decisions are shown in full, the others are counted."""
    decisions = [purge("clicks", number) for number in range(9)]
    text = explained("RetentionFloor/clicks-gdpr/clicks", *decisions, purge())
    head, *lines = text.splitlines()
    assert mentions(head, "RetentionFloor/clicks-gdpr/clicks", "9", "874,917 records")
    assert sum(line.startswith("RetentionFloor/clicks-gdpr/clicks[") for line in lines) == 5
    assert numbers(lines[-1]) == ["4"]
    two = explained("RetentionFloor/clicks-gdpr", *decisions[:2]).splitlines()
    assert sum(line.startswith("RetentionFloor/clicks-gdpr/clicks[") for line in two) == 2


def test_an_address_that_does_not_exist_is_wrong_usage() -> None:
    """The message suggests the closest address."""
    with pytest.raises(UsageError, match=r"orders\[4\].*RetentionFloor/orders-gdpr/orders\[3\]"):
        explained("RetentionFloor/orders-gdpr/orders[4]", purge())
    with pytest.raises(UsageError, match=r"LeaderPolicy/none.*`show --full`"):
        explained("LeaderPolicy/none", purge())


GROUP = Address("GroupRemoval", "dead", "old-etl")


def entries_of(policy: str, *statuses: Status | None, run_id: str = "one", digest: str = "d") -> list[JournalEntry]:
    """Return the entries of one action for each status; None: its intent only."""
    entries = []
    for number, status in enumerate(statuses):
        address = Address("RetentionFloor", policy, "orders", number)
        intent = JournalEntry(
            event=Event.INTENT,
            at_ms=NOW_MS,
            run_id=run_id,
            plan_digest=digest,
            address=address,
            operation="delete_records",
            request={},
        )
        outcome = replace(intent, event=Event.OUTCOME, status=status, detail="why", code="NONE", removed_max=5)
        entries += [intent] if status is None else [intent, outcome]
    return entries


def test_the_journal_is_grouped_by_run() -> None:
    """Runs that overlap once looked like one, and each line repeated the run."""
    first, second = (
        entries_of("dead", None, run_id=run_id, digest=f"sha256:{number * 64}")[0]
        for run_id, number in (("one", "1"), ("two", "2"))
    )
    failed = replace(first, event=Event.OUTCOME, status=Status.NOT_ATTEMPTED, detail="stopped", code="NONE")
    lines = lines_of(report.journal_text([first, second, failed], full=True))[2:]
    assert [line.split("Z")[0].strip() for line in lines] == [
        "Run one: 2026-11-21T10:00:00",
        "2026-11-21T10:00:00",
        "2026-11-21T10:00:00",
        "",
        "Run two: 2026-11-21T10:00:00",
        "2026-11-21T10:00:00",
    ]
    assert lines[0].endswith(f"plan sha256:{'1' * 64}, 1 not attempted")
    assert lines[4].endswith(f"plan sha256:{'2' * 64}, 1 without an outcome")
    restored = replace(first, run_id="three", plan_digest=f"restore of sha256:{'3' * 64}")
    (_title, _empty, heading, *_) = (line.plain for line in report.journal_text([restored]))
    assert "Z, restore of sha256:3" in heading


@pytest.mark.parametrize(
    "detail",
    [
        "orders is compacted, and only a pattern selects it (B214)",
        "RetentionFloor/orders-gdpr is not in the manifests that were loaded",
        'group "old-etl" is of type share, which is never removed',
    ],
)
def test_the_next_step_of_a_blocked_action_agrees_with_its_reason(detail: str) -> None:
    """It once was `the manifests of now do not ask for it`, also where they do and the topic is compacted now."""
    outcome = Outcome(action=purge(), status=Status.BLOCKED, detail=detail)
    lines = lines_of(write_lines(results_report(HEADER, [outcome])))
    assert any(detail in line for line in lines)
    (step,) = [line for line in lines if line.startswith("Next: blocked: ")]
    assert mentions(step, "as the reason says", "plan again")
    assert not mentions(step, "ask")


def test_the_groups_of_a_comparison_are_folded() -> None:
    """Each group that a plan removes or no longer removes was once a line of its own, 301 of one policy."""
    many = [removal(f"old-{number}") for number in range(300)]
    for old, new, word in (([], many, "new"), (many, [], "gone")):
        lines = lines_of_comparison(plan(*old), plan(*new))
        (line,) = [line for line in lines if "GroupRemoval" in line]
        assert mentions(line, word, "300 groups", '"old-0", "old-1"', "and 297 more")
    few = lines_of_comparison(plan(), plan(*many[:5]))
    assert len([line for line in few if "GroupRemoval" in line]) == 5, "a few have a line each, with their numbers"
    full = lines_of_comparison(plan(), plan(*many), full=True)
    assert len([line for line in full if "GroupRemoval" in line]) == 300


def test_the_journal_has_one_line_for_each_run_and_policy() -> None:
    """603 lines of one run once had the one that failed somewhere between those that went well."""
    entries = [*entries_of("fine", *[Status.APPLIED] * 300), *entries_of("bad", Status.APPLIED, Status.FAILED)]
    title, _empty, heading, first, second = lines_of(report.journal_text(entries))
    assert mentions(title, "prod-eu", "1 run", "1 failed, 301 applied")
    assert heading.endswith(", 1 failed, 301 applied")
    assert first == ("  RetentionFloor/bad: 1 failed, 1 applied, at most 10 records removed, such as orders[1]: why")
    assert (
        second == "  RetentionFloor/fine: records of 300 partitions of 1 topic deleted, at most 1,500 records removed"
    )


def test_the_journal_says_what_became_of_each_offset_of_a_restored_group() -> None:
    """`1 applied` once stood for all of them, and hid a failure before it: they share the address of their group."""

    def restored(*statuses: Status) -> str:
        request = {"group": "old-etl", "topic": "orders"}
        entries = [
            replace(
                entry,
                address=GROUP,
                operation="restore_group",
                request={**request, "partition": entry.address.partition},
            )
            for entry in entries_of("dead", *statuses)
        ]
        return lines_of(report.journal_text([replace(e, removed_max=None) for e in entries]))[3]

    assert restored(Status.APPLIED, Status.APPLIED) == "  GroupRemoval/dead: 2 offsets of 1 group restored"
    assert restored(Status.FAILED, Status.APPLIED).startswith("  GroupRemoval/dead: 1 failed, 1 applied, such as ")


def test_an_intent_without_an_outcome_is_not_done() -> None:
    """A run that was killed, a retry of one action, and two runs of one subject."""
    killed = lines_of(report.journal_text(entries_of("p", Status.APPLIED, None)))
    assert "1 without an outcome, 1 applied" in killed[0]
    assert mentions(killed[3], "1 without an outcome, 1 applied", "orders[1]")
    again = [*entries_of("p", None), *entries_of("p", Status.FAILED), *entries_of("p", Status.APPLIED)]
    assert "1 run" in (retried := next(report.journal_text(again)).plain)
    assert retried.endswith("; 1 applied"), "the last entry of an action counts"
    other = [*entries_of("p", None), *entries_of("p", Status.APPLIED, run_id="two")]
    assert next(report.journal_text(other)).plain.endswith("; 1 without an outcome, 1 applied")


def test_an_empty_journal_prints_nothing() -> None:
    """The command says on stderr that there is no entry."""
    assert lines_of(report.journal_text([])) == []
