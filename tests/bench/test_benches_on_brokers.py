"""Runs each bench that needs brokers or Spark at a small size, on the shared brokers, in `make test-long`.

The tests do not check the measurements. Scans run in this process, with a warm session, and plans
without Spark run as processes. The tests omit the phases that measure sessions, and those that
repeat another measurement on a larger cluster.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import apply, apply_command, demo, hundred_scans, programs, scan, scan_process
from bench.apply_cluster import ApplyCluster, topic_names
from bench.scan_cluster import FIRST_COMMIT, ScanCluster
from bench.scan_rows import SPARK_MASTER, Bench
from bench.sizes import TOY
from reconciler.companions.sandbox.client import admin_client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.scan.engine_choice import Engine
from tests import kafka_client
from tests.repeats import LONG

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.spark,
    # `make check` types the benches against the program that they call.
    pytest.mark.skipif(not LONG, reason="measures nothing that the program does: `make test-long` runs it"),
]

WARM_PHASES = ("scan", "units", "log")


def ignore_progress(_message: str, *_state: object) -> None:
    pass


@pytest.fixture(scope="module", autouse=True)
def _remove_topics_and_groups(cluster: SandboxCluster) -> Iterator[None]:
    yield
    admin = admin_client(cluster.bootstrap_servers)
    groups = [group.group_id for group in admin.list_consumer_groups(request_timeout=30).result().valid]
    for deletion in admin.delete_consumer_groups(list(filter(belongs_to_a_bench, groups))).values():
        deletion.result()
    topics = admin.list_topics(timeout=30).topics
    kafka_client.delete_topics(cluster.bootstrap_servers, list(filter(belongs_to_a_bench, topics)))


def belongs_to_a_bench(name: str) -> bool:
    return name.startswith("bench-") or name == FIRST_COMMIT


def keep_leader_policy_only(manifests: Path) -> None:
    cluster, _floor, _removal, leaders = manifests.read_text().split("---\n")
    manifests.write_text(f"{cluster}---\n{leaders}")


@pytest.mark.usefixtures("engine")
def test_the_scan_is_measured(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The bench was broken for a while, because a function of the scan got another argument."""
    scan_cluster = ScanCluster(cluster, ignore_progress)
    scan_cluster.create_consumer_offsets()
    now = programs.current(tmp_path)
    bench = Bench(
        scan_cluster,
        now=now,
        before=now,  # a shallow clone lacks the earlier commit
        folder=tmp_path,
        sizes=TOY.scan,
        progress=ignore_progress,
        measure=scan_process.measure,
    )
    scan.prepare(bench)
    assert tuple(scan.phases(bench, WARM_PHASES)) == WARM_PHASES
    keep_leader_policy_only(bench.manifests / "bench.yaml")
    assert tuple(scan.phases(bench, ["plan"])) == ("plan",)
    rows = [line for line in scan.section(bench) if line.startswith("| ")]
    heads, of_scan, of_units, of_log, of_plan = 1, 2, 1, 1, 3
    assert len(rows) == heads + of_scan + of_units + of_log + of_plan
    assert scan_process.measure("session", SPARK_MASTER, cluster.bootstrap_servers).keys() == {
        "session_s",
        "first_answer_s",
    }


def test_stalls_of_clients_are_counted(cluster: SandboxCluster) -> None:
    rows = list(demo.stall_rows(cluster.bootstrap_servers, TOY.demo.clients))
    assert [row[1].split(" took")[0].partition(" of ")[2] for row in rows] == [str(TOY.demo.clients)] * 3


def test_applying_is_measured(cluster: SandboxCluster, tmp_path: Path) -> None:
    sizes = TOY.apply
    apply_cluster = ApplyCluster(
        cluster, ignore_progress, topic_names(sizes.topics), sizes.partitions, apply.records_per_partition(sizes)
    )
    apply_cluster.create_consumer_offsets()
    rows = list(apply.broker_rows(apply_cluster, sizes, tmp_path, ("groups", "elections", "records")))
    assert len(rows) == 3
    partitions = apply_cluster.partitions
    apply_cluster.rotate_replicas(partitions)
    assert apply_command.measure(apply_cluster, apply_command.elections(partitions), len(partitions)) > 0


def test_a_hundred_scans_are_measured(cluster: SandboxCluster, engine: Engine) -> None:
    lines = hundred_scans.measure(cluster.bootstrap_servers, TOY.hundred_scans)
    assert [line.split(" | ")[0] for line in lines[-2:]] == ["| 1", "| after a rest"]
