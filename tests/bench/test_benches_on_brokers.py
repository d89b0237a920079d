"""Every bench that needs brokers or Spark runs: at toy size, on the shared brokers, and without looking at what it measures.

Scans run in this process, where a session is warm, and plans as processes that need none: a cold session takes seconds. Not run here:
the phases of the scan that measure sessions, and those that measure once more what another does, on a larger cluster.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import apply, apply_command, hundred_scans, scan, scanning
from bench import world as scan_world
from bench.apply_world import World, topic_names
from bench.scan_rows import ENGINE, Bench
from bench.sizes import TOY
from reconciler.sandbox.client import admin_client
from reconciler.sandbox.cluster import Cluster
from reconciler.scan.scan import Engine
from tests import kafka_client

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

WARM_PHASES = ("scan", "units", "log")


def silent(_said: str) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _brokers_left_as_they_were(cluster: Cluster) -> Iterator[None]:
    yield
    admin = admin_client(cluster.bootstrap_servers)
    groups = [group.group_id for group in admin.list_consumer_groups(request_timeout=30).result().valid]
    for deletion in admin.delete_consumer_groups(list(filter(of_a_bench, groups))).values():
        deletion.result()
    topics = admin.list_topics(timeout=30).topics
    kafka_client.delete_topics(cluster.bootstrap_servers, list(filter(of_a_bench, topics)))


def of_a_bench(name: str) -> bool:
    return name.startswith("bench-") or name == scan_world.FIRST


def leave_what_needs_no_spark(manifests: Path) -> None:
    cluster, _floor, _removal, leaders = manifests.read_text().split("---\n")
    manifests.write_text(f"{cluster}---\n{leaders}")


@pytest.mark.usefixtures("engine")
def test_the_scan_is_measured(cluster: Cluster, tmp_path: Path) -> None:
    """It was broken for a while: a function of the scan had got another argument."""
    world = scan_world.World(cluster, silent)
    world.make_commit_log()
    bench = Bench(world, tmp_path, TOY.scan, silent, measured=scanning.measured)
    scan.begin(bench)
    assert tuple(scan.phases(bench, WARM_PHASES)) == WARM_PHASES
    leave_what_needs_no_spark(bench.manifests / "bench.yaml")
    assert tuple(scan.phases(bench, ["plan"])) == ("plan",)
    rows = [line for line in scan.section(bench) if line.startswith("| ")]
    assert len(rows) == 1 + len(WARM_PHASES) + 1
    assert scanning.measured("session", ENGINE).keys() == {"session_s", "first_row_s"}


def test_applying_is_measured(cluster: Cluster, tmp_path: Path) -> None:
    sizes = TOY.apply
    world = World(cluster, silent, topic_names(sizes.topics), sizes.partitions, apply.records_each(sizes))
    world.make_commit_log()
    rows = list(apply.network_rows(world, sizes, tmp_path, ("groups", "elections", "records")))
    assert len(rows) == 3
    world.mislead(world.all)
    assert apply_command.timed(world, apply_command.elections(world.all), len(world.all)) > 0


def test_a_hundred_scans_are_measured(cluster: Cluster, engine: Engine) -> None:
    lines = hundred_scans.measured(cluster.bootstrap_servers, TOY.hundred_scans)
    assert lines[-1].startswith("| 1 |")
