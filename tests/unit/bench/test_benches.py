"""Every bench runs at a small size, without a check of its measurements. tests/bench tests those that need brokers."""

import importlib
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from bench import apply_command, apply_memory, demo, manifests, plan_file, programs, results, round_trips, simulated
from bench.apply_cluster import ApplyCluster, topic_names
from bench.delay_proxy import HOST, delay_proxy
from bench.round_trips import StepTimes, with_listener
from bench.sizes import TOY
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from reconciler.companions.sandbox.config import render_properties
from reconciler.companions.sandbox.ports import free_addresses
from reconciler.kafka.session import KafkaSession
from reconciler.manifest.files import load

MODULES = sorted(path.stem for path in Path(results.__file__).parent.glob("*.py"))
NO_PATH = Path("nowhere")
CLUSTER = ApplyCluster(
    SandboxCluster("bench", "127.0.0.1:1", CLUSTER_ID, jars=NO_PATH, dir=NO_PATH, ports=(), logs=NO_PATH),
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


def test_the_steps_of_a_simulated_cluster_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts go through the program's own scan, plan and recheck, and no broker is asked: none is there."""

    def no_client(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError("the simulated cluster asks a broker")

    for name in ("client", "call_worker"):
        monkeypatch.setattr(KafkaSession, name, no_client)
    figures = [(size, simulated.measure(*size)) for size in TOY.simulated.clusters]
    for (partitions, groups, _commits), of_size in figures:
        assert of_size["sizes"]["decisions"] >= partitions + groups
        assert of_size["sizes"]["rechecked"] == of_size["sizes"]["actions"] > 0
    table = simulated.render(figures)
    assert {"snapshot", "plan", "limits", "plan file", "recheck: decisions"} <= {
        row.split(" | ")[0][2:] for row in table
    }


def test_a_clone_without_the_earlier_commit_is_named(tmp_path: Path) -> None:
    commit = "0" * 40
    with pytest.raises(RuntimeError, match=f"git has no commit {commit} in .*: .*git fetch --unshallow"):
        programs.at_commit(commit, tmp_path)


def test_the_delaying_proxy_forwards_both_directions() -> None:
    node = free_addresses(1, secure=True)[0]
    assert node.secure_port is not None
    with socket.create_server((HOST, node.port)) as server, delay_proxy({node.secure_port: node.port}) as proxy:
        proxy.set_round_trip(20)
        with socket.create_connection((HOST, node.secure_port), timeout=30) as client:
            accepted, _address = server.accept()
            with accepted:
                sent = bytes(range(256)) * 4_096
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                with accepted.makefile("rb") as stream:
                    assert stream.read() == sent
                accepted.sendall(b"answer")
                assert client.recv(100) == b"answer"


def test_the_brokers_get_a_listener_behind_the_proxy() -> None:
    node = free_addresses(1)[0]
    lines = with_listener(render_properties(node, [node], NO_PATH, overrides={}), 1234, 5678).splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert properties["listeners"].endswith(",DELAYED://127.0.0.1:5678")
    assert properties["advertised.listeners"].endswith(",DELAYED://127.0.0.1:1234")
    assert properties["listener.security.protocol.map"].endswith(",DELAYED:PLAINTEXT")


def test_progress_messages_divide_a_run_into_steps() -> None:
    times = StepTimes()
    for step, state in (
        ("listing topics", ""),
        ("reading 3 partitions", ""),
        ("reading 3 partitions", "1 of 2 chunks"),
        ("elections", "1 of 1"),
    ):
        times.note(step, state)
    times.end()
    assert list(times.seconds) == ["start", "listing", "reading", "elections", "end"]


def test_round_trips_are_the_growth_per_delay() -> None:
    """A step takes 0.1 s without a delay, and three times the delay more with one."""
    runs = {delay: [{"listing": 0.1 + 3 * delay / 1_000}, {"listing": 9.0}] for delay in (0, 25, 200)}
    assert [row[-2] for row in round_trips.rows("plan", runs)] == ["3.0", "3.0"]


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
    apply_command.write(tmp_path, CLUSTER, policy)
    assert len(load([tmp_path / "manifests"], now_ms=manifests.NOW_MS).policies) == 1


@pytest.mark.parametrize(
    "text",
    [
        demo.manifests(CLUSTER_ID, *demo.POLICIES),
        demo.manifests(CLUSTER_ID, demo.one_more(3)),
        round_trips.manifests(CLUSTER_ID, "127.0.0.1:1", 3),
    ],
    ids=["plan", "apply", "round trips"],
)
def test_manifests_of_small_plans_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(text)
    assert load([tmp_path], now_ms=manifests.NOW_MS).policies


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
