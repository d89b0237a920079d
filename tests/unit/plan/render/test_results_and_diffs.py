"""What became of a plan, what differs between two, one decision laid open, and the journal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import UsageError
from reconciler.model.action import AcceptedReader, Consumers
from reconciler.model.entry import Author, Entry, Event
from reconciler.model.names import Address
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Source
from reconciler.plan import document, render
from reconciler.plan.within import Change, compare
from tests.strategies.examples import NOW_MS, blocked, election, plan, purge, removal, satisfied, waiting


def done(number: int = 3, status: Status = Status.APPLIED, **changes: object) -> Outcome:
    action = purge(partition=number)
    made = Outcome(action=action, status=status, detail="", sends=1, removed_max=action.records_max)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_outcomes_come_worst_first_with_totals_and_advice() -> None:
    """At night the first line is what went wrong, and the last one is what to do."""
    outcomes = [
        done(1, read_back="log start 98213", code="NONE"),
        done(2, Status.STALE, detail="the topic was deleted and made again", sends=0, removed_max=0),
        done(3, Status.FAILED, detail="the broker refused", code="TOPIC_AUTHORIZATION_FAILED", removed_max=0),
        Outcome(action=removal(), status=Status.NOT_ATTEMPTED, detail="the run was interrupted"),
    ]
    shown = [line.plain for line in render.results_text(plan(), outcomes)]
    assert shown[2:6] == [
        "  FAILED: orders[3] — the broker refused; TOPIC_AUTHORIZATION_FAILED",
        '  Not attempted: "old-etl" — the run was interrupted',
        "  Stale: orders[2] — the topic was deleted and made again",
        "  Applied: orders[1] — now log start 98213",
    ]
    assert shown[7] == "Result: 1 applied, 1 stale, 1 not attempted, 1 failed; at most 97,213 records removed."
    assert [line.split(":")[1].strip() for line in shown[8:]] == ["failed", "not attempted", "stale"]


def test_partitions_that_ended_alike_are_folded() -> None:
    """21 partitions applied are one line with the sum; another ending stays apart."""
    outcomes = [done(number) for number in range(22)] + [done(30, Status.FAILED, code="X", removed_max=0)]
    shown = [line.plain for line in render.results_text(plan(), outcomes)]
    assert "  FAILED: orders[30] — X" in shown
    assert f"  Applied: 22 partitions of orders — at most {22 * 97_213:,} records removed" in shown


def test_of_many_each_ending_is_a_row_of_its_own() -> None:
    """Twenty alike, two that are alike otherwise, and one by itself: three rows, the pair folded as well."""
    outcomes = [
        *(done(number, Status.STALE, detail="gone", sends=0, removed_max=0) for number in range(20)),
        *(done(number, Status.STALE, detail="moved", sends=0, removed_max=0) for number in (20, 21)),
        done(22, Status.STALE, detail="moved", code="OFFSET_OUT_OF_RANGE", removed_max=0),
    ]
    assert [line.plain for line in render.results_text(plan(), outcomes)][2:5] == [
        "  Stale: 20 partitions of orders — gone",
        "  Stale: 2 partitions of orders — moved",
        "  Stale: orders[22] — moved; OFFSET_OUT_OF_RANGE",
    ]


def test_a_job_summary_is_cut_at_its_limit_and_keeps_what_fits() -> None:
    """60,000 characters by default, for a summary and for a comment: rows up to there, then the cut, then what to do."""
    outcomes = [done(n, Status.STALE, detail=f"x{n}", sends=0, removed_max=0) for n in range(9000)]
    text = render.results_markdown(plan(), outcomes)
    assert len(text) == 59_829
    rows = text.splitlines()
    assert rows[2:4] == ["- **Stale** `orders[0]`: x0", "- **Stale** `orders[1]`: x1"]
    assert rows[-5:-1] == [
        "- **Stale** `orders[1819]`: x1819",
        "",
        "**Cut here:** the results file holds every outcome.",
        "",
    ]
    assert rows[-1].startswith("**Next:** stale: ")
    shorter = render.results_markdown(plan(), outcomes, limit_chars=4_000)
    assert 3_700 < len(shorter) <= 4_000


def test_nothing_to_do_is_said() -> None:
    """No empty report."""
    assert [line.plain for line in render.results_text(plan(), [])][-1] == "Result: nothing to do."


def test_results_as_markdown_and_annotations() -> None:
    """For a job summary, and at the top of a failed run."""
    outcomes = [done(1), done(2, Status.FAILED, detail="refused", code="POLICY_VIOLATION", removed_max=0)]
    text = render.results_markdown(plan(), outcomes)
    assert text.startswith(
        "### `prod-eu`: 1 applied, 1 failed; at most 97,213 records removed.\n\n- **FAILED** `orders[2]`: "
    )
    assert "**Next:** failed: read the broker's answer" in text
    assert len(render.results_markdown(plan(), [done(n, Status.STALE, detail=f"x{n}") for n in range(9000)])) <= 60_000
    assert render.results_github(plan(), outcomes).splitlines() == [
        "::error title=FAILED::orders[2]: refused; POLICY_VIOLATION",
        "::notice title=apply on prod-eu::1 applied, 1 failed; at most 97,213 records removed.",
    ]


def test_annotations_stand_at_the_manifest_and_are_few() -> None:
    """GitHub shows ten of a level; the rest is counted."""
    many = [blocked(f"RetentionFloor/p{number}/orders[1]") for number in range(12)]
    shown = render.github(plan(*many)).splitlines()
    assert shown[0].startswith(
        "::warning file=manifests/prod-eu/orders.yaml,line=9,col=3,title=blocked (B204)::orders[1]: "
    )
    assert len([line for line in shown if line.startswith("::warning")]) == 11
    assert shown[10] == "::warning title=blocked::2 more are blocked; the plan lists them"
    assert shown[11].startswith("::notice title=plan for prod-eu::no changes; 12 blocked. Digest sha256:")


def test_no_annotation_is_left_out_in_silence() -> None:
    """Of failures and of missing facts, too, the rest is counted."""
    failed = [Outcome(action=removal(f"g{n:02}"), status=Status.FAILED, detail="refused") for n in range(15)]
    shown = render.results_github(plan(), failed).splitlines()
    assert len(shown) == 12
    assert shown[10] == "::error title=more::5 more ended like these; the results list them"
    shown = render.github(plan(incomplete=tuple(f"fact {n}" for n in range(14)))).splitlines()
    assert shown[10] == "::warning title=incomplete plan::4 more facts are missing; the plan lists them"


def test_a_comparison_says_new_gone_larger_smaller_changed() -> None:
    """The numbers that moved, without a search through two plans."""
    old = plan(purge(partition=1), purge(partition=2), purge(partition=3), removal(), election())
    new = plan(
        purge(partition=1, before_offset=99_000),
        purge(partition=2, before_offset=98_000),
        replace(purge(partition=3), seen=replace(purge().seen, topic_id="another")),
        removal("other"),
        election(),
    )
    shown = [line.plain for line in render.diff_text(compare(old, new))]
    assert shown[3:] == [
        "  - GroupRemoval/dead-etl/old-etl   gone: group removal, 12 committed offsets",
        "  + GroupRemoval/dead-etl/other   new: group removal, 12 committed offsets",
        "  > RetentionFloor/orders-gdpr/orders[1]   larger: first offset kept 98213 -> 99000, 787 records",
        "  < RetentionFloor/orders-gdpr/orders[2]   smaller: first offset kept 98213 -> 98000, 213 records",
        "  ~ RetentionFloor/orders-gdpr/orders[3]   changed: log start 1000 -> 98213, at most 97,213 records",
        "      equal.topic_id: kAwXdc4bS8uMfEXAMPLE0g → another",
        "",
        "Differences: 1 new, 1 gone, 1 larger, 1 smaller, 1 changed.",
    ]
    text = render.diff_markdown(compare(old, new))
    assert text.startswith("### Differences: 1 new, 1 gone, 1 larger, 1 smaller, 1 changed.")
    assert "- **larger** `RetentionFloor/orders-gdpr/orders[1]`: first offset kept 98213 → 99000, 787 records" in text
    rows = json.loads("".join(render.diff_json(compare(old, new))))
    assert [row["change"] for row in rows["entries"]] == ["gone", "new", "larger", "smaller", "changed"]
    assert rows["entries"][0]["new"] is None
    assert rows["entries"][2]["new"]["request"]["before_offset"] == 99_000
    assert rows["summary"] == {"new": 1, "gone": 1, "larger": 1, "smaller": 1, "changed": 1}


def test_equal_plans_and_two_clusters() -> None:
    """The two answers that need no list."""
    assert [line.plain for line in render.diff_text(compare(plan(purge()), plan(purge())))][
        -1
    ] == "No differences in what would be done."
    assert json.loads("".join(render.diff_json(compare(plan(), plan()))))["entries"] == []
    other = plan(cluster_id="another")
    assert "These are two clusters" in [line.plain for line in render.diff_text(compare(plan(), other))][2]
    assert "**These are two clusters" in render.diff_markdown(compare(plan(), other))


def test_saved_plans_compare_like_the_plans_themselves(tmp_path: Path) -> None:
    """Every word and number, though no more than one action of each is held."""
    old = plan(purge(), removal(), source=Source(commit="abcdef1234"))
    new = plan(purge(before_offset=98_214), election())
    for name, one in (("old", old), ("new", new)):
        document.write(one, tmp_path / f"{name}.json")
    saved = compare(document.saved(tmp_path / "old.json"), document.saved(tmp_path / "new.json", proven=False))
    whole = compare(old, new)
    assert [line.plain for line in render.diff_text(saved)] == [line.plain for line in render.diff_text(whole)]
    assert render.diff_markdown(saved) == render.diff_markdown(whole)
    assert list(render.diff_json(saved)) == list(render.diff_json(whole))
    (moved,) = [entry for entry in saved.entries() if entry.change is Change.LARGER]
    assert moved.details == ("request.before_offset: 98213 → 98214",)


def test_a_comparison_folds_a_topic() -> None:
    """64 partitions that moved alike are one line with the records before and after."""
    old = plan(*[purge("clicks", number) for number in range(64)])
    new = plan(*[purge("clicks", number, before_offset=98_214) for number in range(64)])
    shown = [line.plain for line in render.diff_text(compare(old, new))]
    assert shown[3] == (
        f"  > RetentionFloor/clicks-gdpr/clicks   larger: 64 partitions, at most {64 * 97_213:,} -> {64 * 97_214:,} records"
    )


def test_unclean_elections_are_never_folded_in_a_comparison() -> None:
    """Each loses data."""
    new = plan(*[election(partition=number, unclean=True) for number in range(25)])
    shown = [line.plain for line in render.diff_text(compare(plan(), new))]
    assert sum("unclean election, leader none -> any live replica" in line for line in shown) == 25


def test_a_folded_change_says_what_changed() -> None:
    """Another topic id and another guard are two rows, and each names its first subject's values."""
    old = [purge(partition=number) for number in range(50)]
    made_again = [replace(one, seen=replace(one.seen, topic_id="another")) for one in old[:25]]
    ignored = [
        replace(one, guard=replace(one.guard, consumers=Consumers.IGNORE, accepted=(AcceptedReader("billing", 5),)))
        for one in old[25:]
    ]
    shown = [line.plain for line in render.diff_text(compare(plan(*old), plan(*made_again, *ignored)))]
    most = f"at most {25 * 97_213:,} -> {25 * 97_213:,} records"
    assert shown[3:-2] == [
        f"  ~ RetentionFloor/orders-gdpr/orders   changed: 25 partitions, {most}",
        "      such as orders[0]: equal.topic_id: kAwXdc4bS8uMfEXAMPLE0g → another",
        f"  ~ RetentionFloor/orders-gdpr/orders   changed: 25 partitions, {most}",
        '      such as orders[25]: equal.guard.accepted."billing": none → 5',
        "      such as orders[25]: equal.guard.consumers: block → ignore",
    ]


def test_a_log_that_begins_lower_is_larger() -> None:
    """The comparison says what `--within` says: more would go, though the target is the same."""
    old, new = purge(log_start=900), purge(log_start=0)
    shown = [line.plain for line in render.diff_text(compare(plan(old), plan(new)))]
    assert shown[3] == (
        "  > RetentionFloor/orders-gdpr/orders[3]   larger: the log starts at 0, it was 900; at most 97,313 -> 98,213 records"
    )
    (entry,) = compare(plan(old), plan(new)).entries()
    assert entry.details == ("seen.log_start: 900 → 0",)
    (both,) = compare(plan(old), plan(replace(new, before_offset=98_000))).entries()
    assert (both.change, len(both.details)) == (Change.LARGER, 2)
    assert compare(plan(new), plan(old)).tally[Change.SMALLER] == 0


def explained(address: str, *decisions: object) -> str:
    lines = render.explain(plan(*decisions), Address.parse(address))  # type: ignore[arg-type]
    return "\n".join(line.plain for line in lines)


def test_a_purge_is_explained_with_its_arithmetic() -> None:
    """Each number of the plan can be checked by hand."""
    text = explained("RetentionFloor/orders-gdpr/orders[3]", purge(skips=(("billing", 52_000), ("late", 10))))
    assert "1000 < 98213 <= 250000" in text
    assert "98213 - 1000 = 97,213 at most; 97,213 / 249,000 = 39.0 %" in text
    assert '"billing" stood at 52000: 98213 - 52000 = 46,213 records skipped at most' in text
    assert '"late" stood at 10: 98213 - 1000 = 97,213 records skipped at most' in text
    assert "Owner        team-orders" in text
    assert "Undo         impossible" in text


def test_other_decisions_are_explained() -> None:
    """Facts, rule, and what to do."""
    assert "its newest record is __consumer_offsets[17] offset 4711" in explained(
        "GroupRemoval/dead-etl/old-etl", removal()
    )
    no_evidence = replace(
        removal(), idle_for_ms=0, seen=replace(removal().seen, last_activity_ms=None, newest_record=None)
    )
    assert "no evidence asked for: idleFor is 0s" in explained("GroupRemoval/dead-etl/old-etl", no_evidence)
    assert "ElectLeaders payments[0], preferred: leader 2 -> 1" in explained("LeaderPolicy/all/payments[0]", election())
    assert "unbounded" in explained("LeaderPolicy/all/payments[0]", election(unclean=True))
    told = explained("RetentionFloor/orders-gdpr/orders[5]", blocked())
    assert "Next         let it catch up" in told
    assert "`reconciler explain B204` says more" in told
    assert "2026-11-21T10:00:12Z, in 12 s" in explained("RetentionFloor/s/t[0]", waiting("RetentionFloor/s/t[0]"))
    assert "already as desired" in explained("LeaderPolicy/all/x[0]", satisfied("LeaderPolicy/all/x[0]"))


def test_a_topic_or_policy_explains_what_it_holds() -> None:
    """The first few in full, the rest counted."""
    many = [purge("clicks", number) for number in range(9)]
    text = explained("RetentionFloor/clicks-gdpr/clicks", *many, purge())
    assert text.startswith("RetentionFloor/clicks-gdpr/clicks: 9 record deletions (at most 874,917 records).")
    assert text.count("records are to be deleted") == 5
    assert text.endswith("and 4 more; name one of them to see it")
    assert explained("RetentionFloor/clicks-gdpr", *many[:2]).count("records are to be deleted") == 2


def test_an_address_that_is_not_there_is_a_usage_error() -> None:
    """With the one that was probably meant."""
    with pytest.raises(
        UsageError, match=r"nothing at .*orders\[4\]; did you mean RetentionFloor/orders-gdpr/orders\[3\]"
    ):
        explained("RetentionFloor/orders-gdpr/orders[4]", purge())
    with pytest.raises(UsageError, match="`show --full` lists what it decides"):
        explained("LeaderPolicy/none", purge())


def test_the_journal_says_who_meant_what_and_what_became_of_it() -> None:
    """Oldest first, as it is kept."""
    intent = Entry(
        event=Event.INTENT,
        at_ms=NOW_MS,
        run_id="abc",
        plan_digest="sha256:x",
        address=Address.parse("RetentionFloor/a/orders[3]"),
        operation="delete_records",
        request=(("topic", "orders"), ("partition", 3), ("before_offset", 98_213)),
        author=Author(who="ci", commit="4f2c9aa0d1"),
    )
    outcome = replace(
        intent, event=Event.OUTCOME, status=Status.APPLIED, detail="", code="NONE", read_back="log start 98213"
    )
    assert [line.plain for line in render.journal_text([intent, outcome])] == [
        (
            "2026-11-21T10:00:00Z  RetentionFloor/a/orders[3]  intent: delete_records (topic orders, partition 3, before_offset 98213) "
            "by ci from 4f2c9aa, run abc"
        ),
        "2026-11-21T10:00:00Z  RetentionFloor/a/orders[3]  applied: log start 98213, run abc",
    ]
