"""Named sandboxes: which state files count. Tests with real brokers are in tests/kafka."""

import json
from pathlib import Path

import pytest

from reconciler.errors import SandboxError
from reconciler.sandbox import registry
from reconciler.sandbox.cluster import Cluster


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "kafka-reconciler" / "sandbox"
    folder.mkdir(parents=True)
    return folder


def write_stale_state(state: Path, data: Path) -> None:
    """Create what killed processes leave: a state file, data, and pids that are not theirs."""
    data.mkdir()
    (data / "supervisor.json").write_text(json.dumps({"pid": 1, "started": "never"}))
    (data / "node-1.json").write_text(json.dumps({"pid": 1, "started": "never"}))
    (state / "stale.json").write_text(
        json.dumps(
            {
                "name": "stale",
                "bootstrap_servers": "127.0.0.1:1",
                "cluster_id": "x",
                "jars": "/jars",
                "dir": str(data),
                "ports": [[1, 1]],
                "logs": "/logs",
            }
        )
    )


def test_there_is_nothing_where_nothing_was_started(state: Path) -> None:
    """Without a file there is no sandbox, and `down` returns False instead of an error."""
    assert registry.status("none") is None
    assert registry.down("none") is False


def test_a_file_whose_processes_are_gone_is_not_a_sandbox_and_down_clears_it(state: Path, tmp_path: Path) -> None:
    """Pid 1 runs, but it did not start when the file says, so it is neither believed nor signalled."""
    data = tmp_path / "kafka-sandbox-stale-1"
    write_stale_state(state, data)
    assert registry.status("stale") is None
    assert registry.down("stale") is False
    assert not data.exists()
    assert not (state / "stale.json").exists()


@pytest.mark.parametrize("name", ["", "../up", "A", "-x", "x" * 42, "a/b"])
def test_names_that_are_no_names_are_refused(state: Path, name: str) -> None:
    """A name becomes part of a file path."""
    with pytest.raises(SandboxError):
        registry.status(name)


def test_the_status_document_has_what_scripts_need(tmp_path: Path) -> None:
    """Scripts rely on `bootstrap_servers`, `cluster_id`, `jars`, and on id, pid and log of
    `brokers`.
    """
    (tmp_path / "node-1.json").write_text(json.dumps({"pid": 7, "started": "never"}))
    cluster = Cluster("x", "127.0.0.1:1", "id", Path("/jars"), tmp_path, ((1, 1),), Path("/logs"))
    assert json.loads(registry.to_json(cluster)) == {
        "name": "x",
        "bootstrap_servers": "127.0.0.1:1",
        "cluster_id": "id",
        "brokers": [{"id": 1, "pid": 7, "log": "/logs/broker-1.log", "alive": False}],
        "jars": "/jars",
    }
