"""A plan on a terminal. The golden cases show complete plans; these tests cover other details."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Decision, LimitVerdict, Plan, Skipped, Source, UsedWaiver
from reconciler.operations.delete_records import LagPolicy, Preconditions
from reconciler.plan import plan_file
from reconciler.report.terminal import wrapped
from reconciler.report.tree import cause_of
from tests import rendering as report
from tests.golden.wording import mentions
from tests.strategies import plans as made
from tests.strategies.examples import NOW_MS, blocked, election, plan, purge, removal, satisfied, waiting


def lines(example: Plan, **how: object) -> list[str]:
    return [line.plain for line in report.text(example, **how)]  # type: ignore[arg-type]


def restart_of_a_broker() -> Plan:
    """A plan of 530 partitions of 17 topics on three brokers, just after broker 1 came back.

    The leaders of some are elected, others wait for it, some have no leader for their floor, and some
    floors are held back by a group that the same plan removes.
    """
    decisions: list[Decision] = []
    for number in range(530):
        topic, partition = f"events-{number % 17:02}", number // 17
        seen = replace(election().seen, leader=2 + number % 2)
        address = f"LeaderPolicy/all/{topic}[{partition}]"
        leader = "is led by another broker; its preferred leader, broker 1, is not in sync"
        if number % 3 == 0:
            decisions.append(election(topic, partition, seen=seen))
        elif number % 3 == 1 and number < 200:
            reason = f"{topic}[{partition}] {leader}"
            decisions.append(waiting(address, until_ms=None, reason=reason))
        else:
            decisions.append(satisfied(address))
        floor = f"RetentionFloor/week/{topic}[{partition}]"
        if number % 50 == 0:
            reason = f"{topic}[{partition}] has no leader, and only a leader deletes records"
            decisions.append(blocked(floor, code="B203", reason=reason, next_step="start one of its replicas"))
        elif number % 50 < 6:
            reason = f'group "old-etl" is at {number} and would skip {number:,} records below 98213'
            decisions.append(blocked(floor, reason=reason, held_by=("old-etl",)))
        else:
            decisions.append(satisfied(floor))
    return plan(*decisions, removal(), limits=LIMITS_USED)


LIMITS_USED = tuple(
    LimitVerdict(id=name, limit=limit, observed=observed, passed=True, message="")
    for name, limit, observed in (
        ("topics", 50, 10.0),
        ("recordsPercentPerTopic", 90, 39.04),
        ("recordsPercent", 50, 12.3),
        ("groups", 20, 1.0),
        ("groupsPercent", 50, 25.0),
        ("elections", 1000, 177.0),
    )
)


def test_the_plan_of_a_broker_restart_fits_on_one_screen() -> None:
    """It took 217 lines once: elections are one line, and so is each cause of blocks and waits."""
    example = restart_of_a_broker()
    text_lines = lines(example, width=80, saved_to="plan.json", with_next_step=True)
    assert len(text_lines) <= 40, "\n".join(text_lines)
    assert "  177 partitions of 17 topics (all): 89 from 2 to 1, 88 from 3 to 1" in text_lines
    page = " ".join(line.strip() for line in text_lines)
    assert mentions(page, "67 partitions of events-00, events-01, events-02 and 14 more", "broker 1")
    assert mentions(page, "11 partitions of", "(B203)")
    full = lines(example, full=True)
    assert sum(bool(re.match(r"    events-\d\d\[\d+\]: ", line)) for line in full) == 177
    assert sum(line.startswith(("Blocked: events", "Waiting: events")) for line in full) == 11 + 55 + 67


@pytest.mark.parametrize("policies", [1, 10])
def test_the_plan_of_500_partitions_of_ten_topics_takes_at_most_25_lines(policies: int) -> None:
    """A line for each topic, whether one policy selects them or ten; the partitions are in --full."""
    purges = [
        purge(f"topic-{number % 10:02}", number // 10, policy=f"week-{number % 10 % policies:02}")
        for number in range(500)
    ]
    example = plan(*purges, *(satisfied(f"LeaderPolicy/all/x[{n}]") for n in range(9)), limits=LIMITS_USED)
    text_lines = lines(example, width=80, saved_to="plan.json", with_next_step=True)
    assert len(text_lines) <= 25, "\n".join(text_lines)
    for number in range(10):
        (row,) = [line for line in text_lines if mentions(line, f"topic-{number:02}")]
        assert mentions(row, f"{50 * 97_213:,} records", "50 partitions")
    assert mentions(
        " ".join(line.strip() for line in text_lines[2:4]), "500 partitions", "10 topics", "48,606,500 records"
    )
    assert sum("records (39.1 %)" in line for line in lines(example, full=True)) == 500


def test_shares_are_left_out_where_the_limits_do_not_count_all_records() -> None:
    """Records that unreadBy answers for do not count towards the limits, so their share is not known."""
    named = Preconditions(consumers=LagPolicy.BLOCK, named=("my-app",))
    example = plan(purge(), purge(partition=4, guard=named, consumed_by_named=True), limits=LIMITS_USED)
    (total,) = [line for line in lines(example) if line.startswith("Cannot be undone")]
    assert total.endswith("(at most 194,426 records)")


def test_the_connection_of_a_removal_with_what_it_unblocks_is_drawn() -> None:
    """On both sides. A removal that is not in the plan is never proposed, as it once was."""
    held = [
        blocked(f"RetentionFloor/week/{topic}[{number}]", held_by=held_by)
        for topic, number, held_by in (
            ("orders", 0, ("old-etl",)),
            ("orders", 1, ("old-etl",)),
            ("clicks", 0, ("old-etl",)),
            ("clicks", 1, ("billing",)),
            ("clicks", 2, ("billing", "old-etl")),
        )
    ]
    text_lines = lines(plan(removal(), *held))
    assert "      unblocks 3 partitions of clicks, orders: plan again after the apply" in text_lines
    done, *others = [line for line in text_lines if line.startswith("Blocked: ") and "B204" in line]
    assert done.endswith('removing "old-etl", as this plan does, unblocks 3 partitions: plan again after the apply')
    assert len(others) == 2
    assert not any("removing" in line for line in others)
    assert not any("unblock" in line for line in lines(plan(removal(), blocked())))


def test_the_last_line_names_the_next_command() -> None:
    """To apply, to save first, or why not; and none in a page, where no command can be typed."""
    refused = LimitVerdict(id="groups", limit=0, observed=1, passed=False, message="groups: 1")
    for example, how, command in (
        (plan(removal()), {"saved_to": "a plan.json"}, "Next: reconciler apply 'a plan.json'"),
        (plan(removal()), {}, "Next: the same command with --out plan.json, then reconciler apply plan.json"),
        (
            plan(removal()),
            {"paths": ["here"]},
            "Next: the same command with --out plan.json, then reconciler apply plan.json here",
        ),
        (plan(blocked()), {}, "Next: reconciler explain 'RetentionFloor/orders-gdpr/orders[5]'"),
        (
            plan(blocked()),
            {"paths": ["here"]},
            "Next: reconciler explain 'RetentionFloor/orders-gdpr/orders[5]' here",
        ),
        (plan(removal(), limits=(refused,)), {}, "Next: nothing of this plan can be applied: "),
    ):
        assert lines(example, with_next_step=True, **how)[-1].startswith(command)
    assert not any("Next: " in line for line in lines(plan(satisfied("LeaderPolicy/all/x[0]")), with_next_step=True))
    assert "reconciler apply" not in report.markdown(plan(removal()))


def test_no_sign_stands_for_a_word() -> None:
    """A screen reader reads words; `-`, `~` and `!` once stood for what an action does."""
    for full in (True, False):
        text_lines = lines(plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]")), full=full)
        assert not any(re.match(r"\s*[^\w\s\"'(]", line) or " -> " in line or "→" in line for line in text_lines)


def test_folded_elections_show_the_most_frequent_move_first() -> None:
    """Moves that are as frequent as each other are in the order of their brokers."""
    seen = election().seen
    leaders = [3] * 14 + [4] * 5 + [2] * 5
    elections = [election("orders", n, seen=replace(seen, leader=leader)) for n, leader in enumerate(leaders)]
    assert any("14 from 3 to 1, 5 from 2 to 1, 5 from 4 to 1" in line for line in lines(plan(*elections)))


def test_unclean_elections_are_never_folded() -> None:
    """Each of them may lose any number of records."""
    decisions = [election("orders", number, unclean=True) for number in range(25)]
    assert sum(line.startswith("    orders[") and "unclean" in line for line in lines(plan(*decisions))) == 25


def test_a_plan_without_changes_is_short() -> None:
    """The output is short if there is nothing to do."""
    head, empty, changes, sentence = lines(plan(satisfied("LeaderPolicy/all/x[0]")))
    assert mentions(head, "prod-eu", "5L6g3nShT-eMCtK--X86sw", "4f2c9aa")
    assert (empty, changes, sentence) == ("", "Changes: none", "In sync: 1 partition")


def test_a_saved_plan_shows_its_file_and_its_expiry() -> None:
    """Also a plan without changes, which a user may apply."""
    for example in (plan(), plan(removal())):
        text = lines(example, saved_to="plan.json")
        assert mentions(text[-2], plan_file.digest(example))
        assert mentions(text[-1], "2026-11-22T10:00:00Z", "1 d")
        assert mentions(text[0], "plan.json")


def test_uncommitted_changes_and_a_missing_checkout_are_shown() -> None:
    """A reviewer needs the commit."""
    clean, dirty = (lines(plan(source=Source(commit="4f2c9aa" * 5, dirty=dirty)))[0] for dirty in (False, True))
    assert mentions(clean, "4f2c9aa")
    assert mentions(dirty, "4f2c9aa", "uncommitted")
    assert "uncommitted" not in clean
    assert "commit" not in lines(plan(source=Source()))[0]


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
    example = plan(Skipped(address=Address.parse("GroupRemoval/a/live"), code="B303", reason="it is in use"))
    assert lines(example)[-1] == "Skipped: 1 group"
    assert not any('"live"' in line for line in lines(example))
    assert any(mentions(line, '"live"', "it is in use") for line in lines(example, full=True))


def test_topics_of_one_cause_are_one_line_whatever_their_names_are_part_of() -> None:
    """The topic `orders` was once cut out of the policy `orders-gdpr`, and had a line of its own."""
    claimed = "RetentionFloor/orders-gdpr (manifests/orders.yaml:3) and RetentionFloor/a both claim {}"
    (row,) = [
        line
        for line in lines(
            plan(
                *(blocked(f"RetentionFloor/a/{t}", code="B105", reason=claimed.format(t)) for t in ("orders", "visits"))
            )
        )
        if "(B105)" in line
    ]
    assert mentions(row, "orders, visits", claimed.format("orders"))


@pytest.mark.parametrize(
    ("address", "reason", "cause"),
    [
        (
            "RetentionFloor/a/orders[3]",
            "the log start of orders[3] could not be read",
            "the log start of … could not be read",
        ),
        (
            "RetentionFloor/a/orders[3]",
            "the records of my-orders[3] and orders[31]",
            "the records of my-orders[3] and orders[31]",
        ),
        ("RetentionFloor/a/orders[3]", "RetentionFloor/a/orders[3] is gone", "RetentionFloor/a/… is gone"),
        ("RetentionFloor/a/a.b", "a.b is compacted, as a.b.c is, not a.b.", "… is compacted, as a.b.c is, not …."),
        ("RetentionFloor/orders", "RetentionFloor/orders selects nothing", "RetentionFloor/orders selects nothing"),
        ("GroupRemoval/a/is", 'group "is" is STABLE', "group … is STABLE"),
        ('GroupRemoval/a/say "hi"', 'group "say \\"hi\\"" is STABLE', "group … is STABLE"),
        ("GroupRemoval/a/etl", "GroupRemoval/a/etl is gone", "GroupRemoval/a/… is gone"),
    ],
)
def test_a_cause_is_a_reason_without_its_subject(address: str, reason: str, cause: str) -> None:
    assert cause_of(reason, Address.parse(address)) == cause


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
    replicas, clock = [line for line in text_lines if line.startswith("Waiting: ") and " — " in line]
    assert mentions(replicas, "2 partitions", "x, y", "broker 1 is away")
    assert mentions(clock, "3 partitions", "t", "1 s", "3 s", "t[0]", "at 0")


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


def test_the_locations_of_policies_are_shown_in_full() -> None:
    """They are right-aligned if there is room, otherwise on a line of their own."""
    text_lines = lines(plan(removal()), width=80, full=True)
    assert f"{'  GroupRemoval/dead-etl':<49}manifests/prod-eu/groups.yaml:4" in text_lines
    narrow = lines(plan(replace(removal(), declared_at=SourceLocation("a" * 70, 4, 1))), width=80, full=True)
    assert "  GroupRemoval/dead-etl" in narrow
    assert "      " + "a" * 70 + ":4" in narrow
