"""The derived properties of a plan: order, actions, counts, refused limits, impact."""

from dataclasses import replace

import pytest

from reconciler.model.plan import LimitVerdict, sort_decisions
from reconciler.model.snapshot import NOT_ASKED, Unknown
from reconciler.operations.delete_records import AcceptedLag, LagPolicy
from reconciler.operations.delete_records.texts import share_percent
from tests.strategies.examples import blocked, election, plan, purge, removal, satisfied, waiting


def test_decisions_are_sorted_by_address_and_partition_number() -> None:
    ten, two = purge(partition=10), purge(partition=2)
    assert sort_decisions([ten, election(), two, removal()]) == (removal(), election(), two, ten)


def test_two_decisions_for_one_subject_are_refused() -> None:
    """Each subject has one decision."""
    with pytest.raises(ValueError, match=r"two decisions for RetentionFloor/orders-gdpr/orders\[3\]"):
        sort_decisions([purge(), blocked("RetentionFloor/orders-gdpr/orders[3]")])


def test_actions_are_the_decisions_to_apply() -> None:
    example = plan(
        purge(), blocked(), waiting("RetentionFloor/a/b[1]"), satisfied("RetentionFloor/a/b[2]"), removal(), election()
    )
    assert example.actions == (removal(), election(), purge())


def test_refused_are_the_limits_that_did_not_pass() -> None:
    passed = LimitVerdict(id="topics", limit=1, observed=1, passed=True, message="")
    refused = replace(passed, id="groups", passed=False)
    assert plan(limits=(passed, refused)).refused == (refused,)
    assert plan(limits=(passed,)).refused == ()


def test_the_impact_of_a_purge_is_an_upper_bound() -> None:
    """Counted from the log start; a consumer skips from its position, or from the log start."""
    accepted = (AcceptedLag("below", 10), AcceptedLag("late", 52_000), AcceptedLag("there", 98_213))
    action = purge(consumers=LagPolicy.IGNORE, accepted=accepted)
    assert action.records_max == 97_213
    assert share_percent([action]) == pytest.approx(100 * 97_213 / 249_000)
    assert action.skips == (("below", 97_213), ("late", 46_213))
    assert share_percent([purge(log_start=5, end=6, high_watermark=5, before_offset=6)]) == 100.0


def test_only_a_preferred_election_can_be_undone() -> None:
    assert [action.irreversible for action in (purge(), removal(), election(), election(unclean=True))] == [
        True,
        True,
        False,
        True,
    ]


def test_an_unread_fact_has_no_truth_value() -> None:
    """`if fact:` would treat an unknown value as a known one."""
    with pytest.raises(TypeError, match=r"an unknown fact has no truth value \(not asked\)"):
        bool(NOT_ASKED)
    assert Unknown("a") == Unknown("a")
