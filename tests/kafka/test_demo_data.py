"""The demo's data is as documented, according to Kafka's own tools, on a new cluster."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.companions.sandbox import client, demo_data
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from tests.command import reconciler
from tests.toolbox import committed_offsets, run_kafka_tool

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[SandboxCluster, demo_data.DemoData]]:
    with stopping(start(2, name="demo", heap_mib=384)) as cluster, demo_data.create_demo_data(cluster) as data:
        data.wait_until_idle()
        yield cluster, data


def test_a_third_of_the_partitions_is_not_led_by_the_preferred_replica(
    demo: tuple[SandboxCluster, demo_data.DemoData],
) -> None:
    """The result names exactly the partitions whose leader is not the preferred one."""
    cluster, data = demo
    topics = ("clicks", "orders", "shop-orders-repartition", "billing-invoices-repartition", "customers", "_schemas")
    states = {
        (topic, partition): state
        for topic in topics
        for partition, state in client.partition_states(cluster.bootstrap_servers, topic).items()
    }
    assert {key for key, state in states.items() if state.leader != state.replicas[0]} == set(data.non_preferred)
    assert len(data.non_preferred) == len(states) / 3


def test_the_backlog_is_old_by_its_timestamps(demo: tuple[SandboxCluster, demo_data.DemoData]) -> None:
    """Records are older or newer than a week; partition 4 has only old ones, partition 5 only new
    ones.
    """
    cluster, _ = demo
    week_ago = int((time.time() - 7 * 24 * 3600) * 1000)
    output = run_kafka_tool(cluster, "kafka-get-offsets", "--topic", "clicks", "--time", str(week_ago))
    assert sorted(output.split()) == [
        *(f"clicks:{partition}:{demo_data.CLICKS_OLD}" for partition in range(4)),
        "clicks:5:0",
    ]  # the tool leaves out partitions without such a record


def test_one_group_has_read_all_and_another_half(demo: tuple[SandboxCluster, demo_data.DemoData]) -> None:
    """`shop` has read each partition to its end, `audit` to the middle."""
    for group, offset in (("shop", demo_data.SHOP_RECORDS), ("audit", demo_data.SHOP_RECORDS // 2)):
        assert committed_offsets(demo[0], group, "shop-orders-repartition") == dict.fromkeys(range(4), offset)


def test_one_group_has_a_member_and_the_others_are_empty(demo: tuple[SandboxCluster, demo_data.DemoData]) -> None:
    """The dead group and the committing group are both EMPTY; only `billing` has a member."""
    output = run_kafka_tool(demo[0], "kafka-consumer-groups", "--list", "--state")
    states = dict(line.split() for line in output.splitlines()[1:] if line.strip())
    assert states == {
        "billing": "Stable",
        **dict.fromkeys(("old-etl", "nightly-standalone", "shop", "audit", "dashboard"), "Empty"),
    }


def test_the_stream_goes_on_and_its_reader_follows(demo: tuple[SandboxCluster, demo_data.DemoData]) -> None:
    """The records that `billing` allows to delete grow, so that a second purge has to wait."""

    def committed() -> int:
        return sum(committed_offsets(demo[0], "billing", "billing-invoices-repartition").values())

    before = committed()
    client.wait_until(lambda: committed() > before, 30, "a later commit of billing")


def test_two_commands_lead_from_an_address_to_a_plan(
    demo: tuple[SandboxCluster, demo_data.DemoData], tmp_path: Path
) -> None:
    """`suggest --bootstrap-server … --write FILE` finds what the demo has hidden; `plan FILE` acts on
    that and is refused by no limit. The commands change nothing.
    """
    cluster, data = demo
    words = ("suggest", "--bootstrap-server", cluster.bootstrap_servers, "--idle-for", f"{demo_data.IDLE_S}s")
    first = reconciler(tmp_path, *words, "--write", "first.yaml", "-o", "json")
    assert first.returncode == 0, first.stderr
    findings = {finding["id"]: finding for finding in json.loads(first.stdout)["findings"]}
    assert "4,560 records of orders" in " ".join(findings["idle-group/old-etl"]["evidence"])
    assert not {"idle-group/billing", "idle-group/nightly-standalone"} & findings.keys(), "both are in use"
    displaced = {name: found["partitions"] for name, found in findings.items() if name.startswith("leader/")}
    assert displaced == Counter(f"leader/{topic}" for topic, _number in data.non_preferred)
    assert {name for name in findings if name.startswith("protection/")} == {
        "protection/_schemas",
        "protection/customers",
    }
    validated = reconciler(tmp_path, "validate", "first.yaml")
    assert validated.returncode == 0, validated.stderr
    planned = reconciler(tmp_path, "plan", "first.yaml", "-o", "json")
    assert planned.returncode == 0, planned.stderr
    operations = Counter(action["operation"] for action in json.loads(planned.stdout)["actions"])
    assert operations["elect_leader"] == len(data.non_preferred)
    removals = [found["manifest"] for name, found in findings.items() if name.startswith("idle-group/")]
    assert operations["delete_group"] == removals.count("GroupRemoval/idle-groups") == 3, "half of the groups at once"


def test_declared_policies_and_ignored_ids_are_left_out(
    demo: tuple[SandboxCluster, demo_data.DemoData], tmp_path: Path
) -> None:
    """With manifests, the connection is that of the Cluster. The default of idleFor is days, so every
    group counts as a reader.
    """
    cluster, _data = demo
    first = reconciler(tmp_path, "suggest", "--bootstrap-server", cluster.bootstrap_servers, "--write", "a/first.yaml")
    assert first.returncode == 0, first.stderr
    assert "shop-orders-repartition: delete what every group has read (high confidence)" in first.stdout
    assert len(first.stdout.splitlines()) <= 200
    (tmp_path / "ignored").write_text(
        "unread-topic/orders # read by Spark\nlagging-group/audit/shop-orders-repartition\n"
    )
    second = reconciler(tmp_path, "suggest", "a", "--ignore", "ignored", "-o", "json", "--write", "b.yaml")
    assert second.returncode == 0, second.stderr
    document = json.loads(second.stdout)
    kinds = {finding["kind"] for finding in document["findings"]}
    assert not kinds & {"idle-group", "read-records", "leader", "protection"}
    assert document["unmatched"] == ["unread-topic/orders"]
    assert "lagging-group/audit/shop-orders-repartition" not in second.stdout
    assert not (tmp_path / "b.yaml").exists(), "there is no policy to suggest"
