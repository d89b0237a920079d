"""Consumers that a list of commits does not show, on a real cluster: no plan and no apply takes their records.

A member that has not committed stands at the log start, and so does a group whose commit lies above
the end of the log. Kafka's own tools show what is left.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from reconciler.companions.sandbox import client
from tests import kafka_client
from tests.e2e.workspace import RECORDS, Workspace, apply_during, blocks, floor, removal, targets
from tests.toolbox import log_start_offsets

LAST = "keep: {last: 10}"


def join(space: Workspace, group: str, topic: str) -> AbstractContextManager[Any]:
    """A member of a group that commits nothing."""
    return client.member(space.servers, group, [topic], properties={"enable.auto.commit": "false"})


def test_a_member_without_a_commit_stands_at_the_log_start(space: Workspace, topic: str) -> None:
    """It blocks a purge, is the lowest group of `clamp`, and is named by `ignore` with what it skips."""
    group = f"new-{topic}"
    with join(space, group, topic):
        plan = space.plan(floor(topic, LAST))
        assert plan["actions"] == []
        assert group in blocks(plan)[f"RetentionFloor/floor/{topic}[0]"]["reason"]
        assert space.plan(floor(topic, f"{LAST}, consumers: clamp"))["actions"] == []
        (action,) = space.plan(floor(topic, f"{LAST}, consumers: ignore"))["actions"]
        assert action["impact"]["skips"] == [{"group": group, "records_max": 90}]
    assert targets(space.plan(floor(topic, LAST))) == [90]


def test_a_member_that_joins_after_the_plan_stops_the_purge(space: Workspace, topic: str) -> None:
    assert targets(space.plan(floor(topic, LAST))) == [90]
    with join(space, f"late-{topic}", topic):
        assert f"late-{topic}" in space.apply(code=4)
    assert space.log_start(topic) == 0


def test_a_member_that_joins_after_the_recheck_stops_the_purge(
    space: Workspace, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before the request sees what joined since the recheck."""
    group = f"later-{topic}"
    assert targets(space.plan(floor(topic, LAST))) == [90]
    assert group in apply_during(monkeypatch, space, "read_consumers", lambda: join(space, group, topic))
    assert space.log_start(topic) == 0


def test_a_member_that_joins_during_the_run_stops_the_later_requests(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumers are read again every ten seconds; they could be half an hour old.

    Two requests to one broker may be under way when the member joins, and two more follow.
    """
    topic = space.create_topic(partitions=4)
    group = f"during-{topic}"
    assert targets(space.plan(floor(topic, LAST))) == [90] * 4
    change = (monkeypatch, space, "delete_records", lambda: join(space, group, topic))
    assert group in apply_during(*change, "--batch", "1", code=5, pause_s=11)
    assert sorted(log_start_offsets(space.cluster, topic).values()) in ([0, 0, 0, 90], [0, 0, 90, 90])


def test_only_unread_by_keeps_the_records_of_a_group_whose_offsets_are_gone(space: Workspace, topic: str) -> None:
    """Kafka removes the offsets of a group without members after some days: `block` then knows no such group."""
    address, group = f"RetentionFloor/floor/{topic}[0]", space.commit(f"down-{topic}", topic, 50)
    assert blocks(space.plan(floor(topic, LAST)))[address]["code"] == "B204"
    kafka_client.remove_group(space.servers, group)
    client.wait_until(lambda: group not in space.groups(), 30, f"{group} to leave the list")
    (action,) = space.plan()["actions"]
    assert action["before_offset"] == RECORDS - 10
    assert "no consumer is known" in action["caveat"]
    plan = space.plan(floor(topic, f"keep: {{last: 10, unreadBy: [{group}]}}"))
    assert blocks(plan)[address]["code"] == "B205"


def test_a_commit_above_the_end_is_no_position(space: Workspace, topic: str) -> None:
    """Kafka resets such a consumer when it comes back: it stands at the log start, also after the plan."""
    group = space.commit(f"ahead-{topic}", topic, 1_000_000)
    plan = space.plan(floor(topic, "keep: {last: 1}"))
    assert plan["actions"] == []
    reason = blocks(plan)[f"RetentionFloor/floor/{topic}[0]"]["reason"]
    assert group in reason
    assert "1000000" in reason.replace(",", "")
    space.commit(group, topic, RECORDS)
    assert targets(space.plan()) == [RECORDS - 1]
    space.commit(group, topic, 1_000_000)
    space.apply(code=4)
    assert space.log_start(topic) == 0


@pytest.mark.parametrize(
    ("is_pending", "idle_for", "words"),
    [
        (False, "1s", "__consumer_offsets holds a newer record"),
        (True, "1s", "__consumer_offsets holds a newer record"),
        (True, "0s", "has a commit in an open transaction"),
    ],
    ids=["committed", "in an open transaction", "in an open transaction, without evidence"],
)
def test_a_commit_of_the_same_offset_after_the_recheck_stops_a_removal(
    space: Workspace, topic: str, monkeypatch: pytest.MonkeyPatch, is_pending: bool, idle_for: str, words: str
) -> None:
    """The group is EMPTY, and its visible offsets are those of the plan.

    With `idleFor: 0s` a removal took the commit away from its transaction, which succeeded. Up to Kafka 3.9
    the group was back with its next coordinator.
    """
    group = space.commit(f"quiet-{topic}", topic, 7)
    space.write(removal(group, f"idleFor: {idle_for}"))
    assert len(space.plan_once_idle()["actions"]) == 1

    def commit() -> AbstractContextManager[Any]:
        if is_pending:
            return kafka_client.pending_commit(space.servers, group, topic, 7)
        return nullcontext(space.commit(group, topic, 7))

    assert words in apply_during(monkeypatch, space, "read_groups", commit)
    assert group in space.groups()
