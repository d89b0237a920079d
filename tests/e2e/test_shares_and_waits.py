"""What counts in a limit, what a waiver allows, and what waits, with plans on a real cluster."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from tests.build import policy, waiver
from tests.e2e.workspace import Workspace, blocks, floor, observed, targets
from tests.toolbox import log_start_offsets, run_kafka_tool


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """Brokers without topics of other tests, because shares of a whole cluster are tested."""
    with stopping(start(3, name="shares")) as brokers:
        yield brokers


ALL_OF_A_TOPIC = "recordsPercentPerTopic: 100"
LAST = "keep: {last: 10}"
SHARE = "recordsPercent"


def test_a_compacted_topic_is_no_part_of_the_whole(space: Workspace, topic: str) -> None:
    """20,000 offsets of a changelog turned a share of 90 % into less than 1 %."""
    changelogs = [
        space.create_topic(20_000, configs={"cleanup.policy": policy}) for policy in ("compact", "compact,delete")
    ]
    document = space.plan(floor(topic, LAST), limits=ALL_OF_A_TOPIC, code=3)
    assert observed(document, SHARE) > 50
    assert "recordsPercent: share of the cluster's records removed" in document["output"]
    space.apply(code=3)
    assert space.log_start(topic) == 0
    # The same records of a topic that is not compacted are part of it.
    entity = ("--entity-type", "topics", "--entity-name", changelogs[0], "--alter", "--add-config")
    run_kafka_tool(space.cluster, "kafka-configs", *entity, "cleanup.policy=delete")
    assert observed(space.plan(floor(topic, LAST), limits=ALL_OF_A_TOPIC), SHARE) < 1


def test_a_waiver_caps_the_total(space: Workspace) -> None:
    """Limit 40 and waiver 45 let 85 % of a topic pass: 45 by one policy and 40 by the other."""
    topic = space.create_topic(50, partitions=2)
    limits = "recordsPercent: 100, recordsPercentPerTopic: 40"
    policies = [
        floor(topic, f"keep: {{fromOffset: {{{number}: {offset}}}}}", name=name)
        for name, number, offset in (("a", 0, 45), ("b", 1, 40))
    ]
    for value, code, starts in ((45, 3, {0: 0, 1: 0}), (85, 0, {0: 45, 1: 40})):
        waived = waiver("RetentionFloor/a", "recordsPercentPerTopic", value, days=1)
        document = space.plan(*policies, waived, limits=limits, code=code)
        assert (f"share of one topic's records removed ({topic}): 85 %" in document["output"]) or code == 0
        assert len(document["actions"]) == 2
        space.apply(code=code)
        assert log_start_offsets(space.cluster, topic) == starts


def test_a_clamped_floor_waits_for_the_group_that_holds_it_back(space: Workspace) -> None:
    """It was in sync. It waits, and is drift once it is overdue by `driftAfter`."""
    topic = space.create_topic(age_ms=3_600_000)
    address, group = f"RetentionFloor/floor/{topic}[0]", space.commit(f"slow-{topic}", topic, 0)
    needs = f'group "{group}" still needs everything from 0'
    clamped = f"{LAST}, consumers: clamp, driftAfter: "
    document = space.plan(floor(topic, f"{clamped}2h"))
    (waiting,) = document["waiting"]
    assert (document["actions"], document["satisfied"], blocks(document)) == ([], [], {})
    assert waiting["address"] == address
    assert needs in waiting["reason"]
    space.run("drift")
    document = space.plan(floor(topic, f"{clamped}30m"))
    assert document["waiting"] == []
    assert blocks(document)[address]["code"] == "B204"
    assert needs in blocks(document)[address]["reason"]
    drift = space.run("drift", "-q", code=2)
    assert f"{topic}[0]: blocked: another group is behind the floor (B204)" in drift
    assert "since" not in drift, "no earlier report tells since when"
    assert "the oldest since " in space.run("drift", "--previous", "of-no-run-yet.json", code=2)
    space.commit(group, topic, 60)
    assert targets(space.plan(floor(topic, f"{clamped}30m"))) == [60]


class Outage(NamedTuple):
    """Topics while one broker is down."""

    topic: str
    """100 records on the brokers that run."""
    share: float
    """Percent of the cluster's records that a plan of `topic` removed before."""
    behind: str
    """No leader; the replica on `replica` lacks the last records."""
    replica: int
    healthy: str
    """Address of a broker that runs."""


@pytest.fixture(scope="module")
def outage(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Outage:
    """The last broker is down, with the only replica of one partition and the only one in sync of another.

    It does not start again: the tests below are the last ones of these brokers.
    """
    space = Workspace(cluster, tmp_path_factory.mktemp("before"))
    broker, other = cluster.brokers[-1].id, cluster.brokers[-2].id
    topic = space.create_topic(assignment=[(1, 2)])
    leaderless = space.create_topic(1_000, assignment=[(broker,)])
    behind = space.create_topic(10, assignment=[(broker, other)])
    before = space.plan(floor(topic, LAST))
    healthy = f"127.0.0.1:{cluster.brokers[0].port}"
    cluster.terminate(other)
    client.wait_until(lambda: client.partition_states(healthy, behind)[0].in_sync == (broker,), 60, "one in sync")
    client.produce(healthy, behind, {0: [Record(b"x")] * 5})
    cluster.terminate(broker)
    cluster.restart(other)
    for name in (leaderless, behind):
        client.wait_until(lambda name=name: client.partition_states(healthy, name)[0].leader < 0, 60, "no leader")
    return Outage(topic, observed(before, SHARE), behind, other, healthy)


def test_a_partition_without_a_leader_refuses_no_plan(space: Workspace, outage: Outage) -> None:
    """What is not known counts as nothing in the whole; one such partition refused every plan."""
    document = space.plan(floor(outage.topic, LAST))
    space.apply()
    assert observed(document, SHARE) > outage.share
    assert client.watermarks(outage.healthy, outage.topic, 0)[0] == 90


def test_an_unclean_election_needs_a_waiver_of_at_most_a_day(space: Workspace, outage: Outage) -> None:
    """The limit of a Cluster is 0, and the Cluster cannot raise it."""
    rescue = policy("LeaderPolicy", "rescue", f"partitions: {{{outage.behind}: [0]}}, election: unclean")

    def leader() -> int:
        return client.partition_states(outage.healthy, outage.behind)[0].leader

    assert "uncleanElections" in space.plan(rescue, limits="", code=3)["output"]
    space.apply(code=3)
    assert leader() == -1
    waived = space.plan(rescue, waiver("LeaderPolicy/rescue", "uncleanElections", 1, hours=23), limits="")
    assert len(waived["actions"]) == 1
    space.apply()
    assert leader() == outage.replica
    space.write(rescue, limits="uncleanElections: 1")
    assert "error[M119]: more than 0" in space.run("plan", code=1)
    space.write(rescue, waiver("LeaderPolicy/rescue", "uncleanElections", 1, hours=25), limits="")
    too_long = space.run("plan", code=1)
    assert "error[M210]: a waiver of `uncleanElections` may last 24 hours at most" in too_long
