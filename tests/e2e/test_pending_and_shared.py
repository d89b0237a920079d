"""Consumers without a visible commit: commits in open transactions, members that have not committed, rebalancing
groups, share groups, and groups that no list of consumer groups shows.

A group whose first commit was in an open transaction was not a consumer, and a floor took 70 records that
it still needed. One share group anywhere blocked every floor of the cluster.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC
from tests.e2e import raw_requests
from tests.e2e.workspace import RECORDS, Workspace, blocks, floor, removal, targets
from tests.kafka_client import committed_offsets, pending_commit, remove_group, share_member
from tests.toolbox import group_types, log_start_offsets

REMOVAL = "idleFor: 1s, expectAtMost: 1000"
BLOCK, CLAMP, IGNORE = (f"keep: {{last: 10}}, consumers: {policy}" for policy in ("block", "clamp", "ignore"))


def target(space: Workspace, topic: str, rule: str = CLAMP, *, code: int = 0) -> int | str:
    """The first offset that a plan keeps, or the code of its block; 0: nothing may go."""
    plan = space.plan(floor(topic, rule), code=code)
    if (block := blocks(plan).get(f"RetentionFloor/floor/{topic}[0]")) is not None:
        return str(block["code"])
    return next(iter(targets(plan)), 0)


def assert_is_never_removed(space: Workspace, group: str) -> None:
    """No exact name and no pattern plans a removal, which the brokers would carry out."""
    assert space.plan(removal(f'"{group}*"', REMOVAL))["actions"] == []
    plan = space.plan(removal(group, "idleFor: 0s"))
    assert plan["actions"] == []
    assert blocks(plan)[f"GroupRemoval/dead/{group}"]["code"] == "B302"


def in_the_partition_of(space: Workspace, other: str, topic: str) -> str:
    """Return a name for a group whose partition of `__consumer_offsets` is that of another group."""
    partitions = len(client.partition_states(space.servers, CONSUMER_OFFSETS_TOPIC))
    names = (f"near-{topic}-{number}" for number in count())
    return next(name for name in names if log_partition(name, partitions) == log_partition(other, partitions))


# --- pending commits


def test_an_aborted_commit_behind_an_open_transaction_blocks_its_topic_only(space: Workspace, topic: str) -> None:
    """Of two transactions in one partition of `__consumer_offsets` the first one hangs, the second is aborted.

    Once its group is gone, nothing but the aborted record names it: it blocked every floor of the cluster
    as long as the other transaction hung.
    """
    other, hanging = space.create_topic(), f"hanging-{topic}"
    group = in_the_partition_of(space, hanging, topic)
    with pending_commit(space.servers, hanging, other, 20):
        with pending_commit(space.servers, group, other, 20):
            pass
        remove_group(space.servers, group)
        assert target(space, other, BLOCK) == "B204"
        assert target(space, topic, BLOCK) == 90
        space.apply()
        assert space.log_start(topic) == 90


def test_a_commit_below_0_is_no_position(space: Workspace, topic: str) -> None:
    """Coordinators take any number, and Kafka's clients take one below 0 for none: the group reads the topic.

    -1 made it no consumer at all, and -5 one of all topics; neither group could be removed.
    """
    for number in (-1, -5):
        group, read = f"below-{number}-{topic}", space.create_topic()
        raw_requests.commit(space.servers, group, read, 0, number)
        assert target(space, read, BLOCK) == "B204"
        assert target(space, topic, BLOCK) == 90
        space.write(removal(group, "idleFor: 1s"))
        assert len(space.plan_once_idle()["actions"]) == 1


def test_an_aborted_commit_keeps_no_group_for_ever(space: Workspace, topic: str) -> None:
    """Its coordinator has one commit, and the log two keys: nobody could tell whether a right was missing.

    As long as the transaction is open, the group is in use, however old its record.
    """
    group, other = space.commit(f"eos-{topic}", topic, 20), space.create_topic()
    with pending_commit(space.servers, group, other, 20):
        (block,) = blocks(space.plan(removal(group, "idleFor: 1s"))).values()
        assert (block["code"], "open transaction" in block["reason"]) == ("B304", True)
    assert len(space.plan_once_idle()["actions"]) == 1


@pytest.mark.parametrize(("visible", "pending", "kept"), [(50, 20, 20), (50, 80, 50)], ids=["lower", "higher"])
def test_the_lower_of_both_commits_counts(space: Workspace, topic: str, visible: int, pending: int, kept: int) -> None:
    """An application that goes back commits a lower offset; until the end of the transaction both are possible."""
    group, at = space.commit(f"eos-{topic}", topic, visible), (topic, 0)
    with pending_commit(space.servers, group, topic, pending, commits=True):
        assert target(space, topic) == kept
    client.wait_until(
        lambda: committed_offsets(space.servers, group, [at]) == {at: pending}, 30, "the commit to be visible"
    )
    assert target(space, topic) == pending


def test_a_transaction_holds_back_no_other_topic_and_no_other_group(space: Workspace, topic: str) -> None:
    """A hanging transaction stops the last stable offset of its partition of `__consumer_offsets`.

    Plain commits of other groups behind it are visible, and the newest one is the position.
    """
    other, hanging = space.create_topic(), f"hanging-{topic}"
    group = in_the_partition_of(space, hanging, topic)
    with pending_commit(space.servers, hanging, other, 20):
        assert target(space, topic, BLOCK) == 90
        for offset in (30, 60):
            space.commit(group, topic, offset)
        assert target(space, topic) == 60


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
    space: Workspace, topic: str, is_pending: bool, idle_for: str, words: str
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
            return pending_commit(space.servers, group, topic, 7)
        return nullcontext(space.commit(group, topic, 7))

    assert words in space.apply_during("read_groups", commit)
    assert group in space.groups()


# --- members without a commit, and commits that are no position


def join(space: Workspace, group: str, topic: str) -> AbstractContextManager[Any]:
    """A member of a group that commits nothing."""
    return client.member(space.servers, group, [topic], properties={"enable.auto.commit": "false"})


def test_a_member_without_a_commit_stands_at_the_log_start(space: Workspace, topic: str) -> None:
    """It blocks a purge, is the lowest group of `clamp`, and is named by `ignore` with what it skips."""
    group = f"new-{topic}"
    with join(space, group, topic):
        plan = space.plan(floor(topic, BLOCK))
        assert plan["actions"] == []
        assert group in blocks(plan)[f"RetentionFloor/floor/{topic}[0]"]["reason"]
        assert space.plan(floor(topic, CLAMP))["actions"] == []
        (action,) = space.plan(floor(topic, IGNORE))["actions"]
        assert action["impact"]["skips"] == [{"group": group, "records_max": 90}]
    assert target(space, topic, BLOCK) == 90


def test_a_member_that_joins_after_the_plan_stops_the_purge(space: Workspace, topic: str) -> None:
    assert target(space, topic, BLOCK) == 90
    with join(space, f"late-{topic}", topic):
        assert f"late-{topic}" in space.apply(code=4)
    assert space.log_start(topic) == 0


APPEARING = {
    "a member": join,
    "a pending commit": lambda space, group, topic: pending_commit(space.servers, group, topic, 20),
}


@pytest.mark.parametrize("appear", APPEARING.values(), ids=APPEARING)
def test_a_consumer_that_appears_after_the_recheck_stops_the_request(
    space: Workspace, topic: str, appear: Callable[[Workspace, str, str], AbstractContextManager[Any]]
) -> None:
    """The look before the request reads the groups, and the end of `__consumer_offsets`, once more."""
    group = f"late-{topic}"
    assert target(space, topic, BLOCK) == 90
    assert group in space.apply_during("read_consumers", lambda: appear(space, group, topic))
    assert space.log_start(topic) == 0


def test_a_member_that_joins_during_the_run_stops_the_later_requests(space: Workspace) -> None:
    """The consumers are read again every ten seconds; they could be half an hour old.

    Two requests to one broker may be under way when the member joins, and two more follow.
    """
    topic = space.create_topic(partitions=4)
    group = f"during-{topic}"
    assert targets(space.plan(floor(topic, BLOCK))) == [90] * 4
    words = ("--batch", "1")
    assert group in space.apply_during("delete_records", lambda: join(space, group, topic), *words, code=5, pause_s=11)
    assert sorted(log_start_offsets(space.cluster, topic).values()) in ([0, 0, 0, 90], [0, 0, 90, 90])


def test_only_unread_by_keeps_the_records_of_a_group_whose_offsets_are_gone(space: Workspace, topic: str) -> None:
    """Kafka removes the offsets of a group without members after some days: `block` then knows no such group."""
    address, group = f"RetentionFloor/floor/{topic}[0]", space.commit(f"down-{topic}", topic, 50)
    assert blocks(space.plan(floor(topic, BLOCK)))[address]["code"] == "B204"
    remove_group(space.servers, group)
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


# --- groups that rebalance


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalancing_group_blocks_the_topics_that_it_subscribes_to_only(
    space: Workspace, topic: str, protocol: str
) -> None:
    """A consumer that does not poll rejoins, or gives a partition up, after max.poll.interval.ms.

    It blocked every floor until then: in the new protocol (KIP-848) while another member had no partition to get.
    """
    if protocol == "consumer" and kafka_version(space.cluster) < (4, 0):
        pytest.skip("brokers before Kafka 4.0 have the new protocol switched off")
    read = space.create_topic(partitions=2)
    properties = {"bootstrap.servers": space.servers, "group.id": f"slow-{read}", "auto.offset.reset": "earliest"}
    properties["group.protocol"] = protocol
    members = [Consumer(properties) for _ in range(3)]
    with ExitStack() as stack:
        slow, *joining = (stack.enter_context(closing(member)) for member in members)
        slow.subscribe([read])
        assert slow.poll(30) is not None
        client.wait_until(lambda: len(slow.assignment()) == 2, 30, "both partitions")
        for member in joining:
            member.subscribe([read])
            assert member.poll(2) is None
        assert target(space, read, BLOCK, code=1) == "B211"
        assert target(space, topic, BLOCK) == 90
        space.apply()
        assert space.log_start(topic) == 90


def test_a_partition_that_changes_hands_keeps_its_reader(space: Workspace, topic: str) -> None:
    """In a cooperative rebalance (KIP-429) a member gives a partition up before another one gets it.

    Meanwhile nobody has it, and the group is STABLE. Its first consumer has not committed: what it had read, and
    what it had not, was to be deleted for as long as it did not poll.
    """
    moving = [topic, space.create_topic()]
    properties = {
        "bootstrap.servers": space.servers,
        "group.id": f"moving-{topic}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    admin = client.admin_client(space.servers)

    def has_two_members_and_one_partition() -> bool:
        group = admin.describe_consumer_groups([properties["group.id"]])[properties["group.id"]].result()
        partitions = [len(member.assignment.topic_partitions) for member in group.members]
        return group.state is ConsumerGroupState.STABLE and sorted(partitions) == [0, 1]

    with closing(Consumer(properties)) as giving, closing(Consumer(properties)) as getting:
        giving.subscribe(moving)
        client.wait_until(lambda: giving.poll(0.1) is None and len(giving.assignment()) == 2, 60, "both partitions")
        getting.subscribe(moving)
        client.wait_until(has_two_members_and_one_partition, 60, "one partition to be given up")
        plan = space.plan(floor(", ".join(moving), BLOCK))
        assert has_two_members_and_one_partition()
        assert plan["actions"] == []
        assert {row["code"] for row in blocks(plan).values()} == {"B204"}


# --- groups that no list of consumer groups shows


def test_a_streams_group_has_a_position(space: Workspace, topic: str) -> None:
    """It blocks a floor above its position and vouches for one below it; its removal stays refused.

    Its type once left the scan with the rows that no policy needs, and it blocked every floor.
    """
    group = f"streams-{topic}"
    raw_requests.join_streams_group(space.servers, group, topic)
    raw_requests.leave_streams_group(space.servers, group)
    raw_requests.commit(space.servers, group, topic, 0, 30)
    assert group_types(space.cluster)[group] == "streams"
    blocked = blocks(space.plan(floor(topic, BLOCK)))[f"RetentionFloor/floor/{topic}[0]"]
    assert blocked["code"] == "B204"
    assert f'group "{group}" is at 30' in blocked["reason"]
    assert targets(space.plan(floor(topic, f"keep: {{unreadBy: [{group}]}}, consumers: clamp"))) == [30]
    space.apply()
    assert space.log_start(topic) == 30
    assert_is_never_removed(space, group)
    raw_requests.delete(space.servers, group)


def test_a_streams_group_reads_the_topics_of_its_topology(space: Workspace, topic: str) -> None:
    """Without a commit it blocked every floor. With one on another topic it lost what it had not read yet.

    Its members cannot be described, so it may be about to read from the log start.
    """
    servers, read, other = space.servers, space.create_topic(), space.create_topic()
    group, address = f"app-{read}", f"RetentionFloor/floor/{read}[0]"
    if kafka_version(space.cluster) < (4, 2):
        pytest.skip("groups of the Streams protocol need Kafka 4.2")
    raw_requests.join_streams_group(servers, group, read)
    assert target(space, read, BLOCK, code=1) == "B211"
    assert f'"{group}" is a Streams group without a commit' in blocks(space.read("plan.json"))[address]["reason"]
    assert target(space, read, f"{BLOCK}, exceptGroups: [{group}]") == 90
    assert_is_never_removed(space, group)
    assert target(space, topic, BLOCK) == 90
    raw_requests.leave_streams_group(servers, group)
    remove_group(servers, group)
    space.commit(group, other)
    raw_requests.join_streams_group(servers, group, read)
    assert [target(space, name, BLOCK) for name in (read, topic)] == ["B204", 90]
    raw_requests.leave_streams_group(servers, group)
    assert target(space, read, BLOCK) == 90
    remove_group(servers, group)


def test_groups_that_never_commit_block_no_floor(space: Workspace, topic: str) -> None:
    """A Connect worker's group and a group without a name, which are never removed either."""
    connect, address = f"connect-{topic}", f"GroupRemoval/dead/connect-{topic}"
    raw_requests.commit(space.servers, "", topic, 0, 5)
    try:
        raw_requests.join_group(space.servers, connect, "connect")
        assert group_types(space.cluster)[connect] == "classic", "its protocol is Connect's"
        plan = space.plan(floor(topic, BLOCK))
        raw_requests.join_group(space.servers, connect, "connect")
        space.apply()
        raw_requests.join_group(space.servers, connect, "connect")
        removals = space.plan(removal(f'"*", {connect}', REMOVAL))
    finally:
        raw_requests.delete(space.servers, "")
    assert targets(plan) == [90]
    assert space.log_start(topic) == 90
    assert not {"GroupRemoval/dead/", address} & {action["address"] for action in removals["actions"]}
    assert blocks(removals)[address]["code"] == "B302"


# --- share groups


@pytest.fixture
def share_group(space: Workspace, topic: str) -> Iterator[str]:
    """The name of a share group; it is removed at the end, because its topics stay blocked."""
    if kafka_version(space.cluster) < (4, 1):
        pytest.skip("no share groups before Kafka 4.1")
    group = f"share-{topic}"
    yield group
    remove_group(space.servers, group)


def test_a_share_group_blocks_its_topics_only(space: Workspace, topic: str, share_group: str) -> None:
    """Those that its members subscribe to, and those that it has a position on once they have left.

    `consumers: ignore` blocks there, too: nothing says what the group would lose.
    """
    second, other, to_come = space.create_topic(), space.create_topic(), f"to-come-{topic}"
    with share_member(space.servers, share_group, [topic]):
        assert target(space, topic, BLOCK) == "B211"
        assert target(space, topic, IGNORE) == "B211"
        assert target(space, other, BLOCK) == 90
        assert group_types(space.cluster)[share_group] == "share"
        assert_is_never_removed(space, share_group)
    with share_member(space.servers, share_group, [second, to_come]):
        assert [target(space, name) for name in (topic, second, other)] == ["B211", "B211", 90]
    assert [target(space, name) for name in (topic, second, other)] == ["B211", "B211", 90]
    assert target(space, topic, f"{BLOCK}, exceptGroups: [{share_group}]") == 90
    assert_is_never_removed(space, share_group)
    remove_group(space.servers, share_group)
    assert [target(space, name) for name in (topic, second)] == [90, 90]


def test_a_share_group_that_waits_for_its_topic_blocks_no_other(space: Workspace, topic: str, share_group: str) -> None:
    """It has a member and no position: only the key of the member says what it reads.

    Once the members had left, it blocked every topic of the cluster, for as long as it was there.
    """
    with share_member(space.servers, share_group, [f"to-come-{topic}"]):
        assert target(space, topic, BLOCK) == 90
        space.apply()
    assert space.log_start(topic) == 90
    space.produce(topic, 10)
    assert target(space, topic, BLOCK) == 100
    space.apply()
    assert space.log_start(topic) == 100


@pytest.mark.parametrize("knows_group", [False, True], ids=["a new group", "a group of another topic"])
def test_a_share_group_that_subscribes_after_the_recheck_stops_the_request(
    space: Workspace, topic: str, share_group: str, knows_group: bool
) -> None:
    """The records of share groups since the recheck are read before the request."""
    with share_member(space.servers, share_group, [space.create_topic()]) if knows_group else nullcontext():
        pass
    assert target(space, topic, BLOCK) == 90
    subscribe = partial(share_member, space.servers, share_group, [topic])
    assert share_group in space.apply_during("read_consumers", subscribe)
    assert space.log_start(topic) == 0
