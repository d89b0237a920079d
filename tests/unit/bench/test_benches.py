"""Every bench runs at a small size, without a check of its measurements. tests/bench tests those
that need brokers.
"""

import importlib
from pathlib import Path

import pytest

from bench import apply_command, apply_memory, manifests, plan_file, results
from bench.apply_cluster import ApplyCluster, topic_names
from bench.sizes import TOY
from reconciler.manifest.files import load
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster

MODULES = sorted(path.stem for path in Path(results.__file__).parent.glob("*.py"))
NO_PATH = Path("nowhere")
CLUSTER = ApplyCluster(
    Cluster("bench", "127.0.0.1:1", CLUSTER_ID, jars=NO_PATH, dir=NO_PATH, ports=(), logs=NO_PATH),
    lambda _message: None,
    topic_names(TOY.apply.topics),
    TOY.apply.partitions,
    records=9,
)


@pytest.mark.parametrize("name", MODULES)
def test_each_module_is_imported(name: str) -> None:
    """A bench once called a private function that had changed, and no test failed."""
    importlib.import_module(f"bench.{name}")


def test_manifests_are_loaded() -> None:
    figures = manifests.measure(TOY.manifests)
    assert figures["manifests"] == TOY.manifests.files * TOY.manifests.per_file + 1


def test_each_step_of_a_plan_file_is_measured(tmp_path: Path) -> None:
    figures = {name: plan_file.step(name, TOY.plan_file, tmp_path) for name in plan_file.STEPS}
    lines = "\n".join(plan_file.render(TOY.plan_file, figures))
    assert all(name in lines for name in plan_file.STEPS)


def test_memory_of_an_apply_is_measured() -> None:
    rows = apply_memory.rows(TOY.apply.memory, CLUSTER.progress)
    assert [len(row) for row in rows] == [len(apply_memory.HEAD)] * (len(TOY.apply.memory) + 1)


@pytest.mark.parametrize(
    "policy",
    [
        apply_command.records(CLUSTER, 3),
        apply_command.groups(TOY.apply.groups),
        apply_command.elections(CLUSTER.partitions),
    ],
    ids=["records", "groups", "elections"],
)
def test_manifests_of_an_apply_are_valid(policy: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(apply_command.manifests(CLUSTER, policy))
    assert len(load([tmp_path], now_ms=manifests.NOW_MS).policies) == 1


def test_a_section_of_results_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "RESULTS.md"
    for figure in ("first", "second"):
        table = results.table(("work", "measured"), [("scan", figure)])
        results.write("scan", "Scan", table, file=file)
        results.write("apply", "Apply", ["stays"], file=file)
    text = file.read_text()
    assert "| scan | second |" in text
    assert "first" not in text
    assert text.count("stays") == 1
