"""A plan on a terminal. The golden cases show complete plans; these tests cover other details."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import LimitVerdict, Plan, Skipped, Source, UsedWaiver
from reconciler.plan import plan_file
from reconciler.report.terminal import wrapped
from tests import rendering as report
from tests.golden.report_facts import items, numbers
from tests.golden.wording import mentions
from tests.strategies import plans as made
from tests.strategies.examples import NOW_MS, blocked, election, plan, purge, removal, satisfied, waiting


def lines(example: Plan, **how: object) -> list[str]:
    return [line.plain for line in report.text(example, **how)]  # type: ignore[arg-type]


def test_twenty_partitions_are_listed_and_twenty_one_are_folded() -> None:
    """The limit is exact, and --full lists all partitions."""
    twenty = [purge("clicks", number) for number in range(20)]
    assert sum(line.startswith("  ! clicks[") for line in lines(plan(*twenty))) == 20
    (folded,) = [line for line in lines(plan(*twenty, purge("clicks", 20))) if line.startswith("  ! ")]
    assert mentions(folded, "clicks", "21 partitions", "0..20", "1000", "98213")
    assert sum(line.startswith("  ! clicks[") for line in lines(plan(*twenty, purge("clicks", 20)), full=True)) == 21


def test_a_folded_topic_shows_totals_and_extremes() -> None:
    """One line for 30 partitions has the totals, the range and the largest loss."""
    decisions = [
        purge(
            "clicks",
            n,
            log_start=100 * n,
            before_offset=5000 + n,
            end=10_000,
            skips=(("slow", 100 * n), ("fast", 4990 + n)),
        )
        for n in range(30)
    ]
    (item,) = [item for item in items(lines(plan(*decisions))) if item.startswith("  ! ")]
    head, *details = item.splitlines()
    assert mentions(head, "clicks", "30 partitions", "0..29", "0..2900", "5000..5029")
    total = sum(5000 + n - 100 * n for n in range(30))
    share = 100 * total / sum(10_000 - 100 * n for n in range(30))
    for facts in (
        (f"{total:,} records", f"{share:.1f} %"),
        ("clicks[0]", "0", "5000", "5,000 records"),
        ('"slow"', "106,935 records", "30 partitions"),
        ('"fast"', "300 records", "30 partitions"),
    ):
        assert any(mentions(line, *facts) for line in details), facts


def test_a_folded_topic_with_excepted_groups_says_what_is_not_known() -> None:
    """Others may be known to skip records; what the excepted groups would skip never is."""
    for skips, words in (((), "what they would skip"), ((("slow", 50_000),), "what more they would skip")):
        actions = [purge("clicks", number, skips=skips) for number in range(21)]
        excepted = [replace(a, guard=replace(a.guard, except_groups=("console-*",))) for a in actions]
        page = " ".join(line.strip() for line in lines(plan(*excepted)))
        assert f"{words} is not known" in page


def test_folded_elections_show_the_most_frequent_move_first() -> None:
    """Moves that are as frequent as each other are in the order of their brokers."""
    seen = election().seen
    leaders = [3] * 14 + [4] * 5 + [2] * 5
    elections = [election("orders", n, seen=replace(seen, leader=leader)) for n, leader in enumerate(leaders)]
    assert any("leader 3 -> 1 (14), 2 -> 1 (5), 4 -> 1 (5)" in line for line in lines(plan(*elections)))


def test_unclean_elections_are_never_folded() -> None:
    """Each of them may lose any number of records."""
    decisions = [election("orders", number, unclean=True) for number in range(25)]
    assert sum(line.startswith("  ! orders[") for line in lines(plan(*decisions))) == 25


def test_more_than_ten_groups_that_would_skip_are_counted() -> None:
    """A folded topic does not become longer with its consumers."""
    skips = tuple((f"group-{number:02}", 50_000) for number in range(13))
    text_lines = lines(plan(*[purge("clicks", number, skips=skips) for number in range(21)]))
    assert sum('"group-' in line for line in text_lines) == 10
    assert any(mentions(line, "3 more", "--full") for line in text_lines)


def test_a_plan_without_changes_is_one_sentence() -> None:
    """The output is short if there is nothing to do."""
    head, empty, sentence = lines(plan(satisfied("LeaderPolicy/all/x[0]")))
    assert mentions(head, "prod-eu", "5L6g3nShT-eMCtK--X86sw", "4f2c9aa")
    assert empty == ""
    assert numbers(sentence) == ["1"]


def test_a_saved_plan_shows_its_file_and_its_expiry() -> None:
    """Also a plan without changes, which a user may apply."""
    for example in (plan(), plan(removal())):
        text = lines(example, saved_to="plan.json")
        assert mentions(text[-2], plan_file.digest(example))
        assert mentions(text[-1], "2026-11-22T10:00:00Z", "1 d", "plan.json")


def test_uncommitted_changes_and_a_missing_checkout_are_shown() -> None:
    """A reviewer needs the commit."""
    clean, dirty = (lines(plan(source=Source(commit="4f2c9aa" * 5, dirty=dirty)))[0] for dirty in (False, True))
    assert mentions(clean, "4f2c9aa")
    assert mentions(dirty, "4f2c9aa", "uncommitted")
    assert "uncommitted" not in clean
    assert "commit" not in lines(plan(source=Source()))[0]


def test_incomplete_or_targeted_plans_say_so_first() -> None:
    """A user who reads only the first lines learns that the plan is not complete."""
    text_lines = lines(plan(removal(), incomplete=("broker 2 did not answer",), targets=("GroupRemoval/dead-etl",)))
    assert mentions(text_lines[2], "broker 2 did not answer")
    assert mentions(text_lines[3], "GroupRemoval/dead-etl")


def test_refusals_and_waivers_are_shown_with_their_remaining_time() -> None:
    """Each waiver is shown once, although several limits may use it."""
    waiver = UsedWaiver(
        name="first-purge",
        policy=Address("RetentionFloor", "clicks"),
        limit="recordsPercent",
        value=100,
        expires_ms=NOW_MS + 9 * 86_400_000 + 14 * 3_600_000 + 59_000,
        declared_at=SourceLocation("manifests/waivers.yaml", 3, 1),
    )
    verdicts = [
        LimitVerdict(id=name, limit=50, observed=96, passed=passed, message=f"{name}: too much", waivers=(waiver,))
        for name, passed in (("recordsPercent", True), ("topics", False))
    ]
    text_lines = lines(plan(purge(), limits=tuple(verdicts)))
    assert [line for line in text_lines if "too much" in line] == ["REFUSED: topics: too much"]
    (used,) = [line for line in text_lines if "first-purge" in line]
    limit = ("recordsPercent", "100", "RetentionFloor/clicks")
    assert mentions(used, *limit, "2026-12-01T00:00:59Z", "9 d 14 h", "manifests/waivers.yaml:3")


def test_skipped_subjects_are_counted_and_listed_with_full() -> None:
    """By default the plan only shows their number."""
    example = plan(Skipped(address=Address.parse("GroupRemoval/a/live"), reason="it is in use"))
    assert numbers(lines(example)[-1]) == ["1"]
    assert not any('"live"' in line for line in lines(example))
    assert any(mentions(line, '"live"', "it is in use") for line in lines(example, full=True))


def test_many_blocked_partitions_of_a_topic_are_one_line() -> None:
    """Twenty blocked partitions are twenty lines, because each needs an answer."""
    decisions = [blocked(f"RetentionFloor/a/orders[{number}]") for number in range(21)]
    assert sum("(B204)" in line for line in lines(plan(*decisions[:20]))) == 20
    (item,) = [line for line in lines(plan(*decisions)) if "(B204)" in line]
    assert mentions(item, "21 partitions", "orders", "orders[0]")


def test_waiting_partitions_are_folded_by_interval_or_by_reason() -> None:
    """One line per policy for the interval, one per reason for a missing replica."""
    clocks = [waiting(f"RetentionFloor/s/t[{n}]", until_ms=NOW_MS + 1000 * (n + 1), reason=f"at {n}") for n in range(3)]
    text_lines = lines(
        plan(
            *clocks,
            waiting("LeaderPolicy/all/x[0]", until_ms=None, reason="broker 1 is away"),
            waiting("LeaderPolicy/all/y[0]", until_ms=None, reason="broker 1 is away"),
        )
    )
    replicas, clock = [line for line in text_lines if line.startswith("Waiting")]
    assert mentions(replicas, "2 partitions", "x, y", "broker 1 is away")
    assert mentions(clock, "3 partitions", "t", "1 s", "3 s", "t[0]", "at 0")


def test_colour_is_a_style_of_whole_lines() -> None:
    """Irreversible actions are red, and no text is markup."""
    styles = {line.plain.strip()[:1]: str(line.style) for line in report.text(plan(purge(), election(policy="b")))}
    assert styles["!"] == "bold red"
    assert styles["~"] == "yellow"


@made.FEW
@given(made.plans(), st.booleans())
def test_lines_fit_into_eighty_columns_unless_a_name_does_not(example: Plan, full: bool) -> None:
    """Lines break at spaces; only a word that is too long exceeds the width."""
    for line in report.text(example, width=80, full=full):
        if cell_len(line.plain) > 80:
            words = line.plain.split()
            assert (
                len(words) == 1
                or line.plain.startswith("Digest ")
                or cell_len(line.plain) - cell_len(words[-1]) - 1 <= 80
            )
            assert any(cell_len(word) > 80 - 16 for word in words)


@made.FEW
@given(
    st.text(" ab", min_size=1, max_size=60).map(str.strip).filter(lambda text: text and "  " not in text),
    st.integers(8, 30),
)
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    """The lines, joined again, have the same words."""
    wrapped_lines = [line.plain for line in wrapped(f"  {text}", width=width)]
    assert " ".join(line.strip() for line in wrapped_lines) == text
    assert all(line.startswith("  ") for line in wrapped_lines)


def test_wide_characters_count_twice() -> None:
    """Columns of a terminal are cells, not characters."""
    wrapped_lines = [line.plain for line in wrapped("消费者 消费者", width=12)]
    assert wrapped_lines == ["消费者", "    消费者"]


def test_the_locations_of_cluster_and_policy_are_shown() -> None:
    """They are right-aligned if there is room, otherwise on a line of their own."""
    text_lines = lines(plan(removal()), width=80)
    assert f"{'  # GroupRemoval/dead-etl':<49}manifests/prod-eu/groups.yaml:4" in text_lines
    narrow = lines(plan(replace(removal(), declared_at=SourceLocation("a" * 70, 4, 1))), width=80)
    assert "  # GroupRemoval/dead-etl" in narrow
    assert "      " + "a" * 70 + ":4" in narrow
