"""The removal of a group: it must be listed, of a declared type, EMPTY, and idle by evidence."""

from typing import Any

import pytest

from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Decision, Satisfied, Skipped
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.selector import Selector
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


LEFT_OUT = {"types": ["classic"]}
IN_TRANSACTION = {"last_activity_ms": Unknown("an open transaction", Cause.OPEN_TRANSACTION)}
NOT_STORED = ("max.message.bytes", "restore-group")


@pytest.mark.parametrize(
    ("facts", "spec", "code", "said", "step"),
    [
        # Of a type that is never removed, the code's own next step is enough.
        ({"type": GroupType.SHARE}, {}, "B302", ("share", "classic, consumer and streams"), ("groups",)),
        ({"type": GroupType.CONNECT}, {}, "B302", ("connect",), ("groups",)),
        ({"type": GroupType.OTHER}, {}, "B302", ("is a group of a protocol of its own; only",), ("groups",)),
        ({"type": GroupType.HIDDEN}, {}, "B302", ("type",), ("groups",)),
        ({"type": GroupType.SHARE, "listed": False}, {}, "B302", ("share",), ("groups",)),
        # A type that the manifest leaves out names the fields to correct.
        ({"type": GroupType.STREAMS}, {}, "B302", ("streams",), ("groups", "types")),
        ({"type": GroupType.CONSUMER}, LEFT_OUT, "B302", ("a consumer group; types allows classic only",), ("types",)),
        ({"state": GroupState.STABLE}, {}, "B303", ("STABLE",), ("groups",)),
        ({"state": GroupState.DEAD}, {}, "B303", ("DEAD",), ("groups",)),
        ({"idle": 3 * DAY - 1}, {}, "B304", ("2026-11-18T10:00:00.001Z",), ("groups",)),
        ({"idle": -MINUTE}, {}, "B304", ("2026-11-21T10:01:00Z",), ("groups",)),
        (IN_TRANSACTION, {}, "B304", ("transaction",), ("exceptGroups",)),
        # Without evidence a group is unread, not idle, and a pattern does not skip it silently.
        *(
            (facts, {}, "B103?", (fact, LOST.reason), ("`doctor`",))
            for fact, facts in {
                "type": {"type": LOST},
                "the type": {"type": LOST, "listed": False},
                "state": {"state": LOST},
                "active": {"idle": LOST},
                "record": {"newest_record": LOST},
                "the commits": {"fingerprint": LOST},
                "commits": {"commits": LOST},
                "topics": {"commit_topics": LOST},
            }.items()
        ),
        # A static member of the new protocol that was closed: brokers and rights are in order.
        ({"state": GroupState.UNKNOWN}, {}, "B103?", ("UNKNOWN",), ("members",)),
        # `__consumer_offsets` or the old list request has the group, whatever the list says. Up to Kafka 3.9 a coordinator
        # forgets one whose removal it cannot store.
        ({"listed": False}, {}, "B301?", (), NOT_STORED),
        ({"listed": False}, {"groups_incomplete": LOST}, "B301?", (), ("`doctor`",)),
    ],
)
def test_what_is_no_dead_group_is_blocked_by_name_and_skipped_by_pattern(
    facts: dict[str, Any], spec: dict[str, Any], code: str, said: tuple[str, ...], step: tuple[str, ...]
) -> None:
    """The author of a manifest means an exact name, but not each match of a pattern."""
    by_name, by_pattern = (decide_group(group(**facts), exact=exact, **spec) for exact in (True, False))
    assert isinstance(by_name, Blocked)
    assert by_name.code + "?" * by_name.unread == code
    assert by_name.declared_at == SourceLocation("manifests/groups.yaml", 4, 1)
    assert mentions(by_name.reason, '"old-etl"', *said)
    assert mentions(by_name.next_step, *step)
    assert ("types" in step) or not mentions(by_name.next_step, "types")
    if by_name.unread:
        assert by_pattern == by_name
    else:
        assert by_pattern == Skipped(address=ADDRESS, code=by_name.code, reason=by_name.reason)


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


def test_the_group_without_a_name_is_never_removed() -> None:
    """Clients without a group id commit under it, and it has no address."""
    facts = snapshot(group(""), group("a"))
    assert [decision.address.name for decision in planned(removal("*"), facts).decisions] == ["a"]


def test_scan_request_of_a_removal() -> None:
    """It includes the activity only if the policy needs evidence."""
    some = {"groups": (Selector("old-*"),), "except_groups": (Selector("old-1"),)}
    for idle_for, idle_for_ms in (("3d", 3 * DAY), ("1s", SECOND)):
        request = GroupRequest(**some, activity=True, idle_for_ms=idle_for_ms)
        policy = removal("old-*", exceptGroups=["old-1"], idleFor=idle_for)
        assert policy.scan_request(NOW_MS) == ScanRequest(groups=(request,))
    without = removal(idleFor="0s").scan_request(NOW_MS)
    assert without == ScanRequest(groups=(GroupRequest(groups=(Selector("old-etl"),)),))
    assert not without.spark
