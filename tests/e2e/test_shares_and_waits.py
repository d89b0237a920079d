"""What counts in a limit, what a waiver allows, and what waits, with plans on a real cluster."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster, start, stopping
from tests.build import head
from tests.command import reconciler
from tests.e2e.test_unseen_consumers import blocks
from tests.toolbox import log_start_offsets, run_kafka_tool

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """Brokers without topics of other tests, because shares of a whole cluster are tested."""
    with stopping(start(3, name="shares")) as brokers:
        yield brokers


def create_topic(cluster: SandboxCluster, records: int, *, timestamp_ms: int = 0, **settings: Any) -> str:
    topic = f"shares-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, **settings)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x", b"key", timestamp_ms)] * records})
    return topic


def write(folder: Path, cluster: SandboxCluster, limits: str, *policies: str) -> None:
    (folder / "manifests").mkdir(exist_ok=True)
    manifest = f"""\
{head("Cluster", "local")}
spec:
  clusterId: {CLUSTER_ID}
  bootstrapServers: {json.dumps(cluster.bootstrap_servers.split(","))}
  limits: {{{limits}}}
"""
    (folder / "manifests" / "all.yaml").write_text("---\n".join((manifest, *policies)))


def plan(folder: Path, cluster: SandboxCluster, limits: str, *policies: str, code: int = 0) -> dict[str, Any]:
    """Plan with the command line, and return the plan file and the text of stderr."""
    write(folder, cluster, limits, *policies)
    answer = reconciler(folder, "plan", "--out", "plan.json", "--full")
    assert answer.returncode == code, answer.stdout + answer.stderr
    document: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return document | {"stderr": answer.stderr}


def floor(name: str, topics: str, rule: str, more: str = "") -> str:
    return f"""\
{head("RetentionFloor", name)}
spec: {{topics: [{topics}], keep: {{{rule}}}{more}}}
"""


def waiver(policy: str, limit: str, value: float, **duration: float) -> str:
    expires = f"{datetime.now(UTC) + timedelta(**duration):%Y-%m-%dT%H:%M:%SZ}"
    return f"""\
{head("Waiver", f"w-{uuid4().hex[:8]}")}
spec: {{policy: {policy}, limit: {limit}, value: {value}, expires: {expires}}}
"""


ALL_OF_A_TOPIC = "recordsPercentPerTopic: 100"
ALL = f"{ALL_OF_A_TOPIC}, recordsPercent: 100"


def percent_of(document: dict[str, Any], limit: str) -> float | None:
    share: float | None = next(row["observed"] for row in document["limits"] if row["id"] == limit)
    return share


def test_a_compacted_topic_is_no_part_of_the_whole(cluster: SandboxCluster, tmp_path: Path) -> None:
    """20,000 offsets of a changelog turned a share of 90 % into less than 1 %."""
    topic = create_topic(cluster, 100)
    changelogs = [
        create_topic(cluster, 20_000, configs={"cleanup.policy": policy}) for policy in ("compact", "compact,delete")
    ]
    document = plan(tmp_path, cluster, ALL_OF_A_TOPIC, floor("a", topic, "last: 10"), code=3)
    share = percent_of(document, "recordsPercent")
    assert share is not None
    assert share > 50
    assert "recordsPercent: share of the cluster's records removed" in document["stderr"]
    assert reconciler(tmp_path, "apply", "plan.json").returncode == 3
    assert log_start_offsets(cluster, topic) == {0: 0}
    # The same records of a topic that is not compacted are part of it.
    policy = ("--entity-type", "topics", "--entity-name", changelogs[0], "--alter", "--add-config")
    run_kafka_tool(cluster, "kafka-configs", *policy, "cleanup.policy=delete")
    document = plan(tmp_path, cluster, ALL_OF_A_TOPIC, floor("a", topic, "last: 10"))
    share = percent_of(document, "recordsPercent")
    assert share is not None
    assert share < 1


def test_a_pattern_skips_a_compacted_topic_and_an_exact_name_plans_it(cluster: SandboxCluster, tmp_path: Path) -> None:
    create_topic(cluster, 100)  # without a topic of another policy, the share of the cluster's records is unknown
    topic = create_topic(cluster, 100, configs={"cleanup.policy": "compact,delete"})
    document = plan(tmp_path, cluster, ALL, floor("a", f'"{topic}*"', "last: 10", ", expectAtMost: 1"))
    assert document["actions"] == []
    (skipped,) = document["skipped"]
    assert skipped["address"] == f"RetentionFloor/a/{topic}"
    assert skipped["reason"] == f"{topic} is compacted, and only a pattern selects it"
    document = plan(tmp_path, cluster, ALL, floor("a", topic, "last: 10"))
    assert [action["request"]["before_offset"] for action in document["actions"]] == [90]
    answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 90}


def test_a_waiver_caps_the_total(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Limit 40 and waiver 45 let 85 % of a topic pass: 45 by one policy and 40 by the other."""
    topic = f"shares-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, partitions=2)])
    client.produce(cluster.bootstrap_servers, topic, {n: [Record(b"x")] * 50 for n in range(2)})
    limits = "recordsPercent: 100, recordsPercentPerTopic: 40"
    policies = (
        floor("a", topic, "fromOffset: {0: 45}"),
        floor("b", topic, "fromOffset: {1: 40}"),
    )
    too_small = waiver("RetentionFloor/a", "recordsPercentPerTopic", 45, days=1)
    document = plan(tmp_path, cluster, limits, *policies, too_small, code=3)
    assert f"share of one topic's records removed ({topic}): 85 %" in document["stderr"]
    assert reconciler(tmp_path, "apply", "plan.json").returncode == 3
    assert log_start_offsets(cluster, topic) == {0: 0, 1: 0}
    enough = waiver("RetentionFloor/a", "recordsPercentPerTopic", 85, days=1)
    assert len(plan(tmp_path, cluster, limits, *policies, enough)["actions"]) == 2
    assert reconciler(tmp_path, "apply", "plan.json").returncode == 0
    assert log_start_offsets(cluster, topic) == {0: 45, 1: 40}


def test_a_clamped_floor_waits_for_the_group_that_holds_it_back(cluster: SandboxCluster, tmp_path: Path) -> None:
    """It was in sync. It waits, and is drift once it is overdue by `driftAfter`."""
    hour_ago_ms = int(time.time() * 1000) - 3_600_000
    topic = create_topic(cluster, 100, timestamp_ms=hour_ago_ms)
    address, group = f"RetentionFloor/a/{topic}[0]", f"slow-{topic}"
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 0})
    clamped = ", consumers: clamp, driftAfter: "
    document = plan(tmp_path, cluster, ALL, floor("a", topic, "last: 10", f"{clamped}2h"))
    (waiting,) = document["waiting"]
    assert (document["actions"], document["satisfied"], blocks(document)) == ([], [], {})
    assert waiting["address"] == address
    assert f'group "{group}" still needs everything from 0' in waiting["reason"]
    assert reconciler(tmp_path, "drift").returncode == 0
    document = plan(tmp_path, cluster, ALL, floor("a", topic, "last: 10", f"{clamped}30m"))
    assert document["waiting"] == []
    assert blocks(document)[address]["code"] == "B204"
    assert f'group "{group}" still needs everything from 0' in blocks(document)[address]["reason"]
    drift = reconciler(tmp_path, "drift")
    assert drift.returncode == 2, drift.stdout + drift.stderr
    assert f"{topic}[0]: blocked: another group is behind the floor (B204)" in drift.stdout
    assert "since" not in drift.stdout, "no earlier report tells since when"
    assert "the oldest since " in reconciler(tmp_path, "drift", "--previous", "of-no-run-yet.json").stdout
    client.commit(cluster.bootstrap_servers, group, {(topic, 0): 60})
    document = plan(tmp_path, cluster, ALL, floor("a", topic, "last: 10", f"{clamped}30m"))
    assert [action["request"]["before_offset"] for action in document["actions"]] == [60]


class Outage(NamedTuple):
    """Topics while one broker is down."""

    topic: str
    """100 records on the brokers that run."""
    share: float | None
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
    broker, other = cluster.brokers[-1].id, cluster.brokers[-2].id
    topic = create_topic(cluster, 100, assignment=[(1, 2)])
    leaderless = create_topic(cluster, 1_000, assignment=[(broker,)])
    behind = create_topic(cluster, 10, assignment=[(broker, other)])
    before = plan(tmp_path_factory.mktemp("before"), cluster, ALL, floor("a", topic, "last: 10"))
    healthy = f"127.0.0.1:{cluster.brokers[0].port}"
    cluster.terminate(other)
    client.wait_until(lambda: client.partition_states(healthy, behind)[0].in_sync == (broker,), 60, "one in sync")
    client.produce(healthy, behind, {0: [Record(b"x")] * 5})
    cluster.terminate(broker)
    cluster.restart(other)
    for name in (leaderless, behind):
        client.wait_until(lambda name=name: client.partition_states(healthy, name)[0].leader < 0, 60, "no leader")
    return Outage(topic, percent_of(before, "recordsPercent"), behind, other, healthy)


def test_a_partition_without_a_leader_refuses_no_plan(cluster: SandboxCluster, outage: Outage, tmp_path: Path) -> None:
    """What is not known counts as nothing in the whole; one such partition refused every plan."""
    document = plan(tmp_path, cluster, ALL, floor("a", outage.topic, "last: 10"))
    answer = reconciler(tmp_path, "apply", "plan.json")
    share_without_leader = percent_of(document, "recordsPercent")
    assert outage.share is not None
    assert share_without_leader is not None
    assert share_without_leader > outage.share
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert client.watermarks(outage.healthy, outage.topic, 0)[0] == 90


def test_an_unclean_election_needs_a_waiver_of_at_most_a_day(
    cluster: SandboxCluster, outage: Outage, tmp_path: Path
) -> None:
    """The limit of a Cluster is 0, and the Cluster cannot raise it."""
    policy = f"""\
{head("LeaderPolicy", "rescue")}
spec: {{partitions: {{{outage.behind}: [0]}}, election: unclean}}
"""

    def leader() -> int:
        return client.partition_states(outage.healthy, outage.behind)[0].leader

    refused = plan(tmp_path, cluster, "", policy, code=3)
    refused_apply = reconciler(tmp_path, "apply", "plan.json")
    assert "uncleanElections" in refused["stderr"]
    assert (refused_apply.returncode, leader()) == (3, -1)
    waived = plan(tmp_path, cluster, "", policy, waiver("LeaderPolicy/rescue", "uncleanElections", 1, hours=23))
    assert len(waived["actions"]) == 1
    allowed_apply = reconciler(tmp_path, "apply", "plan.json")
    assert allowed_apply.returncode == 0, allowed_apply.stdout + allowed_apply.stderr
    assert leader() == outage.replica
    write(tmp_path, cluster, "uncleanElections: 1", policy)
    raised = reconciler(tmp_path, "plan")
    write(tmp_path, cluster, "", policy, waiver("LeaderPolicy/rescue", "uncleanElections", 1, hours=25))
    too_long = reconciler(tmp_path, "plan")
    assert (raised.returncode, too_long.returncode) == (1, 1)
    assert "error[M119]: more than 0" in raised.stderr
    assert "error[M210]: a waiver of `uncleanElections` may last 24 hours at most" in too_long.stderr
