"""Addresses, partitions, plans and snapshots: text, order, counts, fingerprints; pauses of the collector."""

import gc
from contextlib import ExitStack
from dataclasses import replace

import pytest

from reconciler.model.garbage import gc_paused
from reconciler.model.names import Address, TopicPartition
from reconciler.model.plan import LimitVerdict, sort_decisions
from reconciler.model.snapshot import NOT_ASKED, Unknown, fingerprint
from reconciler.operations.delete_records import AcceptedLag, LagPolicy
from reconciler.operations.delete_records.texts import share_percent
from tests.strategies.examples import blocked, election, plan, purge, removal


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("RetentionFloor/orders-gdpr", Address("RetentionFloor", "orders-gdpr")),
        ("RetentionFloor/orders-gdpr/orders", Address("RetentionFloor", "orders-gdpr", "orders")),
        ("RetentionFloor/orders-gdpr/orders[0]", Address("RetentionFloor", "orders-gdpr", "orders", 0)),
        ("LeaderPolicy/all/payments[12]", Address("LeaderPolicy", "all", "payments", 12)),
        ("GroupRemoval/dead-etl/old-etl", Address("GroupRemoval", "dead-etl", "old-etl")),
        # The id of a group is any text; slashes and brackets in it have no meaning.
        ("GroupRemoval/dead-etl/a/b[3]", Address("GroupRemoval", "dead-etl", "a/b[3]")),
        # Each partition has one text, without leading zeros and signs; any other is a name.
        *(
            (f"LeaderPolicy/all/{name}", Address("LeaderPolicy", "all", name))
            for name in ("orders[01]", "orders[-1]", "orders[]", "orders[3", "or ders[3]")
        ),
    ],
)
def test_an_address_survives_its_text(text: str, address: Address) -> None:
    assert str(address) == text
    assert Address.parse(text) == address


@pytest.mark.parametrize("text", ["", "orders", "/x", "RetentionFloor/", "/"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        Address.parse(text)


def test_addresses_are_sorted_by_partition_number() -> None:
    """The order is not that of the digits; the topic and the policy come first."""
    numbered = [Address("K", "p", "t", number) for number in (-1, 0, 2, 10)]
    assert sorted(numbered) == numbered
    assert Address("K", "p") < numbered[0]
    assert min(TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 9)) == TopicPartition("a", 9)


# --- the derived properties of a plan


def test_decisions_are_sorted_by_address_and_partition_number() -> None:
    ten, two = purge(partition=10), purge(partition=2)
    assert sort_decisions([ten, election(), two, removal()]) == (removal(), election(), two, ten)


def test_two_decisions_for_one_subject_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two decisions for RetentionFloor/orders-gdpr/orders\[3\]"):
        sort_decisions([purge(), blocked("RetentionFloor/orders-gdpr/orders[3]")])


def test_refused_are_the_limits_that_did_not_pass() -> None:
    passed = LimitVerdict(id="topics", limit=1, observed=1, passed=True, message="")
    refused = replace(passed, id="groups", passed=False)
    assert plan(limits=(passed, refused)).refused == (refused,)


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


# --- the fingerprint of a group's committed offsets


COMMITS = [("orders", 0, 5), ("orders", 1, 7), ("clicks", 0, 5)]


def test_the_fingerprint_depends_on_every_part_and_not_on_the_order() -> None:
    """Topic, partition and offset count, and their boundaries are clear."""
    expected = fingerprint(COMMITS)
    assert fingerprint(reversed(COMMITS)) == expected
    assert len(expected) == 64
    changed_commits = [
        [("orders", 0, 5), ("orders", 1, 7)],
        [("orders", 0, 5), ("orders", 1, 8), ("clicks", 0, 5)],
        [("orders", 0, 5), ("orders", 2, 7), ("clicks", 0, 5)],
        [("orders", 0, 5), ("order", 1, 7), ("clicks", 0, 5)],
        [],
    ]
    assert len({expected, *map(fingerprint, changed_commits)}) == 6
    assert fingerprint([("a", 1, 11)]) != fingerprint([("a", 11, 1)])


def test_an_invalid_offset_is_refused() -> None:
    """In a client's answer -1 means no commit, and -1001 means unknown."""
    for offset in (-1, -1001):
        with pytest.raises(ValueError, match=rf"orders\[0\]: {offset} is not a committed offset"):
            fingerprint([("orders", 0, offset)])
    assert fingerprint([("orders", 0, 0)])


# --- pauses of the garbage collector that overlap in several threads


@pytest.mark.parametrize("enabled", [True, False])
def test_overlapping_pauses_leave_the_collector_as_it_was(enabled: bool) -> None:
    """The pause that began first may end first: the last one that ends enables the collector."""
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        first, second = ExitStack(), ExitStack()
        first.enter_context(gc_paused())
        second.enter_context(gc_paused())
        first.close()
        assert not gc.isenabled()
        second.close()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
