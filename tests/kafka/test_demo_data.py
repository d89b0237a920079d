"""The demo's disorder is what its description says, seen with Kafka's own tools, on a fresh cluster of its own."""

import time
from collections.abc import Iterator

import pytest

from reconciler.sandbox import client, demo_data
from reconciler.sandbox.cluster import Cluster, start, stop
from tests import kafka_client
from tests.toolbox import run_kafka_tool

pytestmark = pytest.mark.brokers


@pytest.fixture(scope="module")
def messy() -> Iterator[tuple[Cluster, demo_data.DemoData]]:
    cluster = start(2, name="messy", heap_mib=384)
    try:
        with demo_data.create_demo_data(cluster) as made:
            made.wait_until_idle()
            yield cluster, made
    finally:
        stop(cluster)


def test_a_third_of_the_partitions_is_led_by_another_than_the_preferred_replica(
    messy: tuple[Cluster, demo_data.DemoData],
) -> None:
    """Exactly the partitions that the handle names, of all that the disorder made."""
    cluster, made = messy
    topics = ("clicks", "orders", "shop-orders-repartition", "billing-invoices-repartition", "customers", "_schemas")
    states = {
        (topic, partition): state
        for topic in topics
        for partition, state in client.partition_states(cluster.bootstrap_servers, topic).items()
    }
    assert {key for key, state in states.items() if state.leader != state.replicas[0]} == set(made.non_preferred)
    assert len(made.non_preferred) == len(states) / 3


def test_the_backlog_is_old_by_its_timestamps(messy: tuple[Cluster, demo_data.DemoData]) -> None:
    """A week ago divides old from fresh; partition 4 has no fresh record, partition 5 no old one."""
    cluster, _ = messy
    week_ago = int((time.time() - 7 * 24 * 3600) * 1000)
    answer = run_kafka_tool(cluster, "kafka-get-offsets", "--topic", "clicks", "--time", str(week_ago))
    assert sorted(answer.split()) == [
        *(f"clicks:{partition}:{demo_data.CLICKS_OLD}" for partition in range(4)),
        "clicks:5:0",
    ]  # the tool leaves out partitions without such a record


def test_one_group_has_read_all_and_another_half(messy: tuple[Cluster, demo_data.DemoData]) -> None:
    """`shop` is at the end of each partition, `audit` in the middle."""
    rows = positions(messy[0])
    for partition in "0123":
        assert rows["shop", "shop-orders-repartition", partition] == str(demo_data.SHOP_RECORDS)
        assert rows["audit", "shop-orders-repartition", partition] == str(demo_data.SHOP_RECORDS // 2)


def test_one_group_lives_and_the_others_look_alike(messy: tuple[Cluster, demo_data.DemoData]) -> None:
    """The dead group and the one that still commits are both EMPTY to a client; only `billing` shows a member."""
    answer = run_kafka_tool(messy[0], "kafka-consumer-groups", "--list", "--state")
    states = dict(line.split() for line in answer.splitlines()[1:] if line.strip())
    assert states == {
        "billing": "Stable",
        **dict.fromkeys(("old-etl", "nightly-standalone", "shop", "audit", "dashboard"), "Empty"),
    }


def test_the_stream_goes_on_and_its_reader_follows(messy: tuple[Cluster, demo_data.DemoData]) -> None:
    """What `billing` may purge keeps growing, so that a second purge within the interval has to wait."""
    cluster, _ = messy
    key = ("billing-invoices-repartition", 0)
    before = kafka_client.committed_offsets(cluster.bootstrap_servers, "billing", [key])[key] or 0
    client.wait_until(
        lambda: (kafka_client.committed_offsets(cluster.bootstrap_servers, "billing", [key])[key] or 0) > before,
        30,
        "a later commit of billing",
    )


def positions(cluster: Cluster) -> dict[tuple[str, str, str], str]:
    answer = run_kafka_tool(cluster, "kafka-consumer-groups", "--describe", "--all-groups")
    rows = [line.split() for line in answer.splitlines() if line.strip() and not line.startswith("GROUP")]
    return {(row[0], row[1], row[2]): row[3] for row in rows}
