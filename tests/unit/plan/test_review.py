"""The restriction of a plan to a reviewed plan, and the comparison of two plans."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.companions.sandbox.client import wait_until
from reconciler.errors import PlanUnusable, ReconcilerError
from reconciler.model.action import Action, Mode
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Decision
from reconciler.model.snapshot import GroupType
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy
from reconciler.plan import plan_file
from reconciler.plan.diff import Comparison, DecisionChange, compare
from reconciler.plan.review import intersect, restrict_to
from tests.golden.wording import mentions
from tests.strategies.examples import (
    CLUSTER_ID,
    blocked,
    election,
    plan,
    purge,
    removal,
    satisfied,
    unchecked,
    waiting,
)
from tests.strategies.facts import OTHER_ID


def restricted(action: Action, *reviewed: Decision) -> Decision:
    """Return the decision on one planned action within a reviewed plan."""
    (decision,) = restrict_to(plan(action), plan(*reviewed)).decisions
    return decision


def ignoring(*accepted: tuple[str, int], **changes: Any) -> DeleteRecords:
    return purge(skips=accepted, consumers=LagPolicy.IGNORE, **changes)


def excepting(*accepted: tuple[str, int]) -> DeleteRecords:
    action = ignoring(*accepted)
    return replace(action, guard=replace(action.guard, except_groups=("console-*",)))


def disguise(action: Action, address: Address) -> Action:
    """Return the action with the address of another subject, which no constructor and no file allows."""
    return unchecked(action, address=address)


LATE = ignoring(("late", 52_000))
CONSOLES = excepting(("console-1", 52_000), ("late", 60_000))
WITHOUT_EVIDENCE = removal(idle_for_ms=0, newest_record=None, last_activity_ms=None)


@pytest.mark.parametrize(
    ("action", "reviewed"),
    [
        *((action, action) for action in (purge(), removal(), election(), election(unclean=True), LATE)),
        (purge(before_offset=98_000), purge(before_offset=98_213)),
        (purge(log_start=1001), purge()),
        # The review covers the groups that skip records, and their positions.
        (ignoring(("late", 60_000)), LATE),
        (ignoring(), LATE),
        # A console consumer that moved back once blocked the whole deletion.
        (excepting(("console-1", 10), ("console-2", 5), ("late", 60_000)), CONSOLES),
        (removal(idle_for_ms=5 * 86_400_000), removal()),
        (removal(last_activity_ms=1), removal()),
        (removal(), WITHOUT_EVIDENCE),
        # The present leader is not part of the review.
        (election(leader=3, in_sync=(1, 3)), election()),
    ],
)
def test_an_action_within_the_review_is_the_same_object(action: Action, reviewed: Action) -> None:
    """A plan of a million actions is not copied."""
    assert restricted(action, reviewed) is action


IN_REVIEW = " in the reviewed plan"
ABOUT = f"the reviewed plan is about topic id {purge().seen.topic_id}, the topic is "
ALLOWS = "larger: the reviewed plan does not let group "
NEW = [purge(), removal(), election()]


@pytest.mark.parametrize(
    ("action", "reviewed", "words"),
    [
        # It is missing in the reviewed plan, or is not an action there.
        *((action, [], "new: the reviewed plan …") for action in NEW),
        *((action, [make(str(action.address))], "new: …") for action in NEW for make in (satisfied, waiting, blocked)),
        # A plan of a branch: an action under an address must be about that subject.
        (purge(), [disguise(removal(), purge().address)], "new: …"),
        (purge(), [disguise(purge(partition=4), purge().address)], "new: …"),
        (removal(), [disguise(purge(), removal().address)], "new: …"),
        (removal(), [disguise(removal("other"), removal().address)], "new: …"),
        (election(), [disguise(purge(), election().address)], "new: …"),
        (election(), [disguise(election("other"), election().address)], "new: …"),
        # The manifest changed after the review; the reason names what changed.
        (removal(idle_for_ms=1_000), [removal()], f"idleFor is 1s, it was 3d{IN_REVIEW}"),
        (purge(consumers=LagPolicy.IGNORE), [purge()], f"consumers is ignore, it was block{IN_REVIEW}"),
        (purge(named=("billing",)), [purge()], f"unreadBy is billing, it was not set{IN_REVIEW}"),
        (purge(except_groups=("*",)), [purge()], f"exceptGroups is *, it was not set{IN_REVIEW}"),
        (purge(every_ms=30_000), [purge()], f"every is 30s, it was not set{IN_REVIEW}"),
        (purge(), [purge(every_ms=30_000)], f"every is not set, it was 30s{IN_REVIEW}"),
        (election(unclean=True), [election()], "the reviewed election is preferred, this one is unclean"),
        # The log: it would lose more records, or after an unclean election others have the offsets.
        (purge(log_start=999), [purge()], f"larger: the log starts at 999, it was 1000{IN_REVIEW}"),
        (purge(end=249_999), [purge()], "the log was cut: it ends at 249999, it ended at 250000…"),
        (purge(topic_id=OTHER_ID), [purge()], f"{ABOUT}{OTHER_ID} now"),
        # Groups that skip more records than reviewed.
        (ignoring(("late", 51_999)), [LATE], f'{ALLOWS}"late" skip records from 51999'),
        (ignoring(("late", 52_000), ("new", 98_000)), [LATE], f'{ALLOWS}"new" skip records from 98000'),
        (excepting(("late", 59_999)), [CONSOLES], f'{ALLOWS}"late" skip records from 59999'),
        (removal(fingerprint="cd" * 32), [removal()], "the group has other commits than the reviewed plan saw"),
        (removal(type=GroupType.CONSUMER), [removal()], f"the group is of type consumer, it was classic{IN_REVIEW}"),
        # A commit of the same offset changes no fingerprint; the log alone shows that the group works.
        (removal(newest_record=(7, 10_000)), [removal()], "__consumer_offsets holds a newer record…"),
        # Nobody has read a newer one: the manifest asks for no evidence any more, or the server hides it.
        (removal(newest_record=None, idle_for_ms=0), [removal()], f"idleFor is 0s, it was 3d{IN_REVIEW}"),
        (removal(newest_record=None, observations=3), [removal()], "__consumer_offsets is hidden now…"),
        # A reassignment may bring another first replica: the reason said that "preferred" was "preferred".
        (election(replicas=(1, 3, 2)), [election()], f"the replicas are 1,3,2, they were 1,2,3{IN_REVIEW}"),
        (election(topic_id=OTHER_ID), [election()], f"{ABOUT}{OTHER_ID} now"),
        (
            election(replicas=(2, 1, 3), leader_wanted=2),
            [election()],
            f"the replicas are 2,1,3, they were 1,2,3{IN_REVIEW}",
        ),
    ],
)
def test_another_action_is_beyond_review(action: Action, reviewed: list[Decision], words: str) -> None:
    decision = restricted(action, *reviewed)
    assert isinstance(decision, Blocked)
    assert (decision.address, decision.declared_at) == (action.address, action.declared_at)
    assert (decision.code, decision.unread) == ("B108", False)
    assert decision.next_step == "wait for the next reviewed plan, or for the next converge in mode continuous"
    beginning, elided, _end = f"beyond review: {words}".partition("…")
    assert decision.reason.startswith(beginning) if elided else decision.reason == beginning


@pytest.mark.parametrize("action", NEW)
def test_a_reviewed_plan_of_another_cluster_allows_nothing(action: Action) -> None:
    (decision,) = restrict_to(plan(action), plan(action, cluster_id="other")).decisions
    assert isinstance(decision, Blocked)
    reason = f"beyond review: the reviewed plan is of cluster id other, this one of {CLUSTER_ID}"
    assert (decision.code, decision.reason) == ("B108", reason)


@pytest.mark.parametrize("log_start", [98_213, 98_500])
def test_records_above_a_reached_reviewed_floor_are_beyond_review(log_start: int) -> None:
    """Retention reached the reviewed target first; other records were not reviewed."""
    decision = restricted(purge(before_offset=99_000, log_start=log_start), purge())
    assert isinstance(decision, Blocked)
    assert mentions(decision.reason, "below 98213", "already deleted", "99000 needs a new review")
    assert isinstance(restricted(purge(before_offset=99_000, log_start=98_212), purge()), DeleteRecords)


def test_the_intersection_holds_one_decision_of_each_side() -> None:
    """The next decision is read only when the previous result was taken."""
    read_names: list[str] = []

    def read_decisions(name: str) -> Iterator[DeleteRecords]:
        for number in range(3):
            read_names.append(f"{name} {number}")
            yield purge(partition=number)

    intersection = intersect(read_decisions("planned"), read_decisions("reviewed"))
    assert read_names == []
    next(intersection)
    assert read_names == ["planned 0", "reviewed 0"]
    next(intersection)
    assert read_names == ["planned 0", "reviewed 0", "planned 1", "reviewed 1"]
    assert len(list(intersection)) == 1


def test_the_header_and_decisions_without_an_action_stay() -> None:
    """They need no review. Instant, expiry and source are those of the plan, not of the reviewed plan."""
    others = (blocked(), waiting("RetentionFloor/a/x[0]"), satisfied("RetentionFloor/a/x[1]"))
    planned = plan(purge(), *others, expires_at_ms=5, incomplete=("x",))
    assert restrict_to(planned, plan(purge(), expires_at_ms=1, observed_at_ms=0)) == planned


def test_a_higher_floor_is_lowered_to_the_reviewed_one() -> None:
    """The reason says so."""
    decision = restricted(purge(before_offset=99_000), purge(before_offset=98_213))
    assert isinstance(decision, DeleteRecords)
    assert decision.before_offset == 98_213
    assert decision.reason == "newerThan 7d resolves to offset 98213; reviewed up to 98213 only"
    assert decision.seen == purge().seen


def test_a_consumer_at_or_above_the_lowered_floor_skips_nothing() -> None:
    """The action no longer accepts it."""
    action = ignoring(("fast", 98_300), ("same", 98_213), ("late", 98_212), before_offset=99_000)
    decision = restricted(action, ignoring(("late", 98_000)))
    assert isinstance(decision, DeleteRecords)
    assert decision.guard.accepted == (AcceptedLag("late", 98_212),)


@pytest.mark.parametrize("order", [1, -1])
def test_each_action_is_compared_with_the_one_at_its_address(order: int) -> None:
    """Both lists are sorted by address, and each may have addresses that the other one lacks."""
    planned = plan(*(purge(name, before_offset=99_000) for name in "bdfh"), removal("m"), removal("q"))
    reviewed = plan(*(purge(name) for name in ("a", "b", "c", "f", "z")[::order]), removal("q"), removal("a"))
    by_name = {action.address.name: action for action in restrict_to(planned, reviewed).actions}
    assert by_name.keys() == {"b", "f", "q"}
    assert all(action.before_offset == 98_213 for action in by_name.values() if isinstance(action, DeleteRecords))


def test_a_saved_plan_restricts_like_the_plan_itself(tmp_path: Path) -> None:
    """Actions are streamed; the file is read to its end each time, and so a change is found."""
    reviewed = plan(purge("a"), purge("b"), removal(), election(), blocked())
    ours = plan(purge("a", before_offset=99_000), purge("c"), removal(), removal("new"), election())
    file = tmp_path / "reviewed.json"
    plan_file.write(reviewed, file)
    saved = plan_file.open_plan(file)
    assert isinstance(saved, plan_file.PlanFile)
    assert restrict_to(ours, saved) == restrict_to(ours, reviewed)
    assert list(compare(saved, ours).entries()) == list(compare(reviewed, ours).entries())
    assert compare(saved, ours).tally == compare(reviewed, ours).tally
    plan_file.write(plan(purge("a"), purge("b"), purge("c")), file)
    with pytest.raises(PlanUnusable, match="not the file that it was a moment ago"):
        restrict_to(ours, saved)
    plan_file.write(reviewed, file)
    file.write_text(file.read_text().replace(purge().seen.topic_id, OTHER_ID))
    with pytest.raises(PlanUnusable, match="changed after it was made"):
        restrict_to(ours, saved)
    with pytest.raises(PlanUnusable, match="changed after it was made"):
        plan_file.open_plan(file)


def test_a_plan_from_a_pipe_is_held_in_memory(tmp_path: Path) -> None:
    """A pipe can be read only once, so it cannot be verified first and read again."""
    reviewed = plan(purge())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def is_written() -> bool:
        with suppress(ReconcilerError):  # nothing reads it yet
            plan_file.write(reviewed, pipe)
            return True
        return False

    with ThreadPoolExecutor(1) as executor:
        reading = executor.submit(plan_file.open_plan, pipe)
        wait_until(is_written, 30, "a reader of the pipe")
        assert reading.result(30) == reviewed
    with pytest.raises(PlanUnusable, match="cannot read the plan"):
        plan_file.open_plan(tmp_path / "nowhere.json")


# --- compare


def entries(old: tuple[Decision, ...], new: tuple[Decision, ...]) -> list[tuple[str, DecisionChange]]:
    return [(str(entry.address), entry.change) for entry in compare(plan(*old), plan(*new)).entries()]


def test_equal_plans_have_no_differences() -> None:
    """Facts that only show the time are not differences."""
    moved = SourceLocation("moved.yaml", 1, 1)
    observed = {"log_start": 2000, "high_watermark": 300_000, "leader": 2, "in_sync": (2,)}
    later = purge(reason="x", drift=False, mode=Mode.CONTINUOUS, declared_at=moved, **observed)
    assert entries((purge(), removal(), election()), (later, removal(), election())) == []
    assert list(compare(plan(), plan()).entries()) == []


def test_each_type_of_difference() -> None:
    """In the order of addresses; only actions count."""
    old = (purge("a"), purge("b"), purge("c"), purge("d"), removal("gone"), blocked())
    other = purge("c", consumers=LagPolicy.IGNORE, before_offset=99_000)
    new = (
        purge("a", before_offset=98_214),
        purge("b", before_offset=98_212),
        other,
        purge("d"),
        election("new"),
        satisfied("RetentionFloor/x/y[1]"),
    )
    assert entries(old, new) == [
        ("GroupRemoval/dead-etl/gone", DecisionChange.GONE),
        ("LeaderPolicy/all/new[0]", DecisionChange.NEW),
        ("RetentionFloor/a-gdpr/a[3]", DecisionChange.LARGER),
        ("RetentionFloor/b-gdpr/b[3]", DecisionChange.SMALLER),
        ("RetentionFloor/c-gdpr/c[3]", DecisionChange.CHANGED),
    ]


def test_details_show_the_changed_values() -> None:
    """One line per value, consumers by name."""
    old = ignoring(("late", 52_000), ("z", 5))
    new = ignoring(
        ("aaa", 1), ("late", 53_000), before_offset=99_000, named=("billing", "b"), every_ms=30_000, topic_id=OTHER_ID
    )
    (entry,) = compare(plan(old), plan(new)).entries()
    assert entry.change is DecisionChange.CHANGED
    assert entry.details == (
        'approved.guard.accepted."aaa": none → 1',
        'approved.guard.accepted."late": 52000 → 53000',
        'approved.guard.accepted."z": 5 → none',
        "approved.guard.every_ms: none → 30000",
        'approved.guard.named.0: none → "billing"',
        'approved.guard.named.1: none → "b"',
        f"approved.topic_id: {old.seen.topic_id} → {OTHER_ID}",
        "request.before_offset: 98213 → 99000",
    )


def test_details_of_removals_and_elections() -> None:
    moved = removal(fingerprint="cd" * 32)
    (entry,) = compare(plan(removal()), plan(moved)).entries()
    assert entry.details == (f"approved.fingerprint: {'ab' * 32} → {'cd' * 32}",)
    (other,) = compare(plan(election()), plan(election(replicas=(1, 3, 2)))).entries()
    assert other.details == ("approved.replicas.1: 2 → 3", "approved.replicas.2: 3 → 2")


def test_another_operation_at_one_address_is_a_change() -> None:
    """No constructor and no file allows it, and the comparison still works."""
    disguised = disguise(removal(), purge().address)
    (entry,) = compare(plan(purge()), plan(disguised)).entries()
    assert entry.change is DecisionChange.CHANGED
    assert "operation: delete_records → delete_group" in entry.details


def test_plans_are_compared_as_streams() -> None:
    """One pass over both plans never holds a million actions twice."""
    read_names: list[int] = []

    def streaming(before_offset: int) -> Any:
        for number in range(100):
            read_names.append(before_offset)
            yield purge(partition=number, before_offset=before_offset)

    old, new = (SimpleNamespace(actions=streaming(target), blocked=()) for target in (98_213, 98_214))
    differences = Comparison(old, new, {}).entries()  # type: ignore[arg-type]
    assert next(differences).address == Address("RetentionFloor", "orders-gdpr", "orders", 0)
    assert len(read_names) <= 4
    assert len(list(differences)) == 99
