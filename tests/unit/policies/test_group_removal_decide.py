"""The removal of a group: it must be listed, of a declared type, EMPTY, and idle by evidence."""

from typing import Any

import pytest

from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Decision, Satisfied, Skipped
from reconciler.model.snapshot import Cause, GroupFacts, GroupState, GroupType, Unknown
from reconciler.operations.delete_group import DeleteGroup
from tests.golden.wording import mentions
from tests.strategies.facts import DAY, LOST, MINUTE, NOW_MS, SECOND, group, planned, removal, snapshot

ADDRESS = Address("GroupRemoval", "dead", "old-etl")


def decide_group(
    *facts: GroupFacts, exact: bool = True, groups_incomplete: Unknown | None = None, **spec: Any
) -> Decision:
    """Return the decision on old-etl, selected by its exact name or by a pattern."""
    policy = removal("old-etl" if exact else "old-*", **spec)
    (decision,) = planned(policy, snapshot(*facts, groups_incomplete=groups_incomplete)).decisions
    assert decision.address == ADDRESS
    return decision


@pytest.mark.parametrize(
    ("facts", "spec", "code", "fact"),
    [
        ({"type": GroupType.SHARE}, {}, "B302", "share"),
        ({"type": GroupType.STREAMS}, {}, "B302", "streams"),
        ({"type": GroupType.CONNECT}, {}, "B302", "connect"),
        ({"type": GroupType.HIDDEN}, {}, "B302", "type"),
        ({"type": GroupType.SHARE, "listed": False}, {}, "B302", "share"),
        ({"type": GroupType.CONSUMER}, {"types": ["classic"]}, "B302", "a consumer group; types allows classic only"),
        ({"state": GroupState.STABLE}, {}, "B303", "STABLE"),
        ({"state": GroupState.DEAD}, {}, "B303", "DEAD"),
        ({"idle": 3 * DAY - 1}, {}, "B304", "2026-11-18T10:00:00.001Z"),
        ({"idle": -MINUTE}, {}, "B304", "2026-11-21T10:01:00Z"),
        ({"last_activity_ms": Unknown("an open transaction", Cause.OPEN_TRANSACTION)}, {}, "B304", "transaction"),
    ],
)
def test_other_groups_are_blocked_by_name_and_skipped_by_pattern(
    facts: dict[str, Any], spec: dict[str, Any], code: str, fact: str
) -> None:
    """The author of a manifest means an exact name, but not each match of a pattern."""
    by_name = decide_group(group(**facts), **spec)
    assert isinstance(by_name, Blocked)
    assert (by_name.code, by_name.unread) == (code, False)
    assert by_name.declared_at == SourceLocation("manifests/groups.yaml", 4, 1)
    assert mentions(by_name.reason, '"old-etl"', fact)
    assert mentions(by_name.next_step, "exceptGroups" if fact == "transaction" else "groups")
    by_pattern = decide_group(group(**facts), exact=False, **spec)
    assert by_pattern == Skipped(address=ADDRESS, code=by_name.code, reason=by_name.reason)


def test_a_group_that_only_its_log_holds_names_what_to_do_where_it_stays() -> None:
    """Up to Kafka 3.9 a coordinator forgets a group whose removal it cannot store; brokers and rights are in order."""
    unlisted = decide_group(group(listed=False))
    assert isinstance(unlisted, Blocked)
    assert (unlisted.code, unlisted.unread) == ("B301", True)
    assert mentions(unlisted.next_step, "max.message.bytes", "restore-group")


def test_a_type_that_the_manifest_leaves_out_names_the_fields_to_correct() -> None:
    """Of a type that is never removed, the code's own next step is enough."""
    left_out = decide_group(group(type=GroupType.CONSUMER), types=["classic"])
    assert isinstance(left_out, Blocked)
    assert mentions(left_out.next_step, "groups", "types")
    never = decide_group(group(type=GroupType.SHARE))
    assert isinstance(never, Blocked)
    assert never.next_step
    assert never.next_step != left_out.next_step
    assert mentions(never.reason, "classic, consumer and streams")


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("facts", "fact"),
    [
        ({"type": LOST}, "type"),
        ({"type": LOST, "listed": False}, "type"),
        ({"state": LOST}, "state"),
        ({"state": GroupState.UNKNOWN}, "UNKNOWN"),
        ({"idle": LOST}, "active"),
        ({"newest_record": LOST}, "record"),
        ({"fingerprint": LOST}, "commits"),
        ({"commits": LOST}, "commits"),
        ({"commit_topics": LOST}, "topics"),
    ],
)
def test_unread_facts_block_by_name_and_by_pattern(facts: dict[str, Any], fact: str, exact: bool) -> None:
    """Without evidence a group is unread, not idle, and a pattern does not skip it silently."""
    decision = decide_group(group(**facts), exact=exact)
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.unread) == ("B103", True)
    assert mentions(decision.reason, '"old-etl"', fact)
    assert facts.get("state") is GroupState.UNKNOWN or LOST.reason in decision.reason
    # A static member of the new protocol that was closed: brokers and rights are in order.
    assert facts.get("state") is not GroupState.UNKNOWN or mentions(decision.next_step, "members")


@pytest.mark.parametrize(
    ("facts", "changes", "idle_for_ms"),
    [
        ({"idle": 3 * DAY}, {}, 3 * DAY),
        # The decision does not depend on an absence.
        ({}, {"groups_incomplete": LOST}, 3 * DAY),
        # Without evidence the program reads no time, and the action has none, even if the facts do.
        ({}, {"idleFor": "0s"}, 0),
        ({"idle": LOST, "newest_record": LOST}, {"idleFor": "0s"}, 0),
        ({"idle": SECOND}, {"idleFor": "1s", "envelope": {"mode": "continuous"}}, SECOND),
    ],
)
def test_a_group_is_idle_exactly_after_the_idle_time(
    facts: dict[str, Any], changes: dict[str, Any], idle_for_ms: int
) -> None:
    decision = decide_group(group(**facts), **changes)
    assert isinstance(decision, DeleteGroup)
    assert decision.idle_for_ms == idle_for_ms
    assert decision.mode is (Mode.CONTINUOUS if "envelope" in changes else Mode.MERGE)
    if not idle_for_ms:
        assert mentions(decision.reason, "EMPTY", "idleFor: 0s")
        assert (decision.seen.last_activity_ms, decision.seen.newest_record) == (None, None)


def test_idle_for_zero_does_not_apply_to_a_pattern() -> None:
    """The manifest refuses it, and so does the decision."""
    facts = snapshot(group())
    (decision,) = removal(idleFor="0s").decide({"old-etl": False}, facts)
    assert isinstance(decision, Skipped)
    assert mentions(decision.reason, '"old-etl"', "idleFor 0s")


def test_a_missing_group_is_satisfied_only_if_the_list_is_complete() -> None:
    """Missing rights make a group look absent."""
    assert decide_group() == Satisfied(ADDRESS)
    decision = decide_group(group("old-elt", listed=True), groups_incomplete=Unknown("no DESCRIBE on the cluster"))
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.unread) == ("B301", True)
    assert mentions(decision.reason, '"old-etl"', "no DESCRIBE on the cluster", '"old-elt"')
    assert mentions(decision.next_step, "DESCRIBE", "`doctor`")


@pytest.mark.parametrize("incomplete", [None, LOST])
def test_a_group_with_records_in_the_consumer_offsets_is_not_absent(incomplete: Unknown | None) -> None:
    """`__consumer_offsets` or the old list request has the group, whatever the list says."""
    decision = decide_group(group(listed=False), groups_incomplete=incomplete)
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.unread) == ("B301", True)
    assert mentions(decision.reason, '"old-etl"')


def test_the_group_without_a_name_is_never_removed() -> None:
    """Clients without a group id commit under it, and it has no address."""
    facts = snapshot(group(""), group("a"))
    assert [decision.address.name for decision in planned(removal("*"), facts).decisions] == ["a"]


def test_scan_request_of_a_removal() -> None:
    """It includes the activity only if the policy needs evidence."""
    policy = removal("old-*", exceptGroups=["old-1"])
    (want,) = policy.scan_request(NOW_MS).groups
    assert [selector.text for selector in want.groups] == ["old-*"]
    assert [selector.text for selector in want.except_groups] == ["old-1"]
    assert want.activity
    (without,) = removal(idleFor="0s").scan_request(NOW_MS).groups
    assert not without.activity
    assert without.except_groups == ()
    assert not removal(idleFor="0s").scan_request(NOW_MS).spark
    (short,) = removal(idleFor="1s").scan_request(NOW_MS).groups
    assert short.activity
