"""A plan on a terminal. The golden cases show complete plans; these tests cover other details."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.model.names import Address
from reconciler.model.plan import Decision, Plan
from reconciler.report.terminal import wrapped
from reconciler.report.tree import cause_of
from tests import rendering as report
from tests.golden.wording import mentions
from tests.strategies import plans as made
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied, waiting
from tests.unit.report.sample_plans import LIMITS_USED


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


def test_no_sign_stands_for_a_word() -> None:
    """A screen reader reads words; `-`, `~` and `!` once stood for what an action does."""
    for full in (True, False):
        text_lines = lines(plan(purge(), removal(), election(), blocked(), waiting("LeaderPolicy/all/z[0]")), full=full)
        assert not any(re.match(r"\s*[^\w\s\"'(]", line) or " -> " in line or "→" in line for line in text_lines)


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
