"""What a plan's own properties say: order, actions, counts, refusals, impact."""

from dataclasses import replace

import pytest

from reconciler.model.action import AcceptedReader, Consumers, irreversible
from reconciler.model.plan import LimitVerdict, Skipped, counts, in_order
from reconciler.model.snapshot import NOT_ASKED, Unread
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied, waiting


def test_decisions_are_sorted_by_address_and_partition_number() -> None:
    ten, two = purge(partition=10), purge(partition=2)
    assert in_order([ten, election(), two, removal()]) == (removal(), election(), two, ten)


def test_two_decisions_for_one_subject_are_refused() -> None:
    """Each subject is decided once."""
    with pytest.raises(ValueError, match=r"two decisions for RetentionFloor/orders-gdpr/orders\[3\]"):
        in_order([purge(), blocked("RetentionFloor/orders-gdpr/orders[3]")])


def test_actions_are_what_there_is_to_apply() -> None:
    made = plan(
        purge(), blocked(), waiting("RetentionFloor/a/b[1]"), satisfied("RetentionFloor/a/b[2]"), removal(), election()
    )
    assert made.actions == (removal(), election(), purge())


def test_counts_name_every_sort() -> None:
    decisions = [purge(), purge("x"), removal(), election(), satisfied("K/p/a"), waiting("K/p/b"), blocked()]
    skipped = Skipped(address=satisfied("K/p/c").address, reason="live")
    assert counts([*decisions, skipped]) == {
        "delete_records": 2,
        "delete_group": 1,
        "elect_leader": 1,
        "satisfied": 1,
        "waiting": 1,
        "skipped": 1,
        "blocked": 1,
    }
    assert set(counts([]).values()) == {0}


def test_refused_are_the_limits_that_were_not_passed() -> None:
    passed = LimitVerdict(id="topics", limit=1, observed=1, passed=True, message="")
    refused = replace(passed, id="groups", passed=False)
    assert plan(limits=(passed, refused)).refused == (refused,)
    assert plan(limits=(passed,)).refused == ()


def test_the_impact_of_a_purge_is_an_upper_bound() -> None:
    """Records between the log start seen and the target; readers skip from where they stand, or from the log start."""
    accepted = (AcceptedReader("below", 10), AcceptedReader("late", 52_000), AcceptedReader("there", 98_213))
    action = purge(consumers=Consumers.IGNORE, accepted=accepted)
    assert action.records_max == 97_213
    assert action.partition_percent == pytest.approx(100 * 97_213 / 249_000)
    assert action.skips == (("below", 97_213), ("late", 46_213))
    assert purge(log_start=5, end=5, before_offset=5).partition_percent == 0.0


def test_only_a_preferred_election_can_be_undone() -> None:
    assert [irreversible(action) for action in (purge(), removal(), election(), election(unclean=True))] == [
        True,
        True,
        False,
        True,
    ]


def test_an_unread_fact_has_no_truth_value() -> None:
    """`if fact:` would take a missing value for a present one."""
    with pytest.raises(TypeError, match=r"an unread fact has no truth value \(not asked\)"):
        bool(NOT_ASKED)
    assert Unread("a") == Unread("a")
