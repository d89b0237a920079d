"""Named sandboxes, their processes and their data folders. Tests with real brokers are in tests/kafka."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.companions.sandbox import data_dir, registry
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.process import Process, identify, write_process
from reconciler.errors import SandboxError


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


@pytest.fixture
def one_of_three(state: Path, tmp_path: Path) -> None:
    """A sandbox `half` of three brokers of which only the first runs: it has the pid of this test."""
    data = tmp_path / "kafka-sandbox-half-1"
    data.mkdir()
    ports = ((1, 1), (2, 2), (3, 3))
    registry._write(SandboxCluster("half", "127.0.0.1:1", "x", Path("/jars"), data, ports, Path("/logs")))
    write_process(data / "node-1.json", os.getpid())


@pytest.mark.usefixtures("one_of_three")
def test_an_unknown_sandbox_or_broker_is_refused_with_those_that_exist() -> None:
    """A typing mistake in a name or an id leads to the right one."""
    with pytest.raises(SandboxError, match="no sandbox named hall is running; running sandboxes: half"):
        registry.stop_broker(1, "hall")
    with pytest.raises(SandboxError, match="sandbox half has no broker 4: its brokers are 1, 2, 3"):
        registry.start_broker(4, "half")


@pytest.mark.usefixtures("one_of_three")
def test_a_broker_without_a_majority_of_controllers_is_only_killed() -> None:
    """It would wait for minutes for a controller that accepts its shutdown."""
    with pytest.raises(SandboxError, match=r"cannot leave in order.*`reconciler sandbox stop 1 --kill --name half`"):
        registry.stop_broker(1, "half")


@pytest.mark.usefixtures("state")
def test_without_any_sandbox_the_error_names_the_command_that_starts_one() -> None:
    """The default name needs no option."""
    with pytest.raises(SandboxError, match=r"named default is running; start one with `reconciler sandbox up`$"):
        registry.find()


@pytest.mark.parametrize("name", ["", "../up", "A", "-x", "x" * 42, "a/b"])
def test_names_that_are_no_names_are_refused(state: Path, name: str) -> None:
    """A name becomes part of a file path."""
    with pytest.raises(SandboxError):
        registry.status(name)


def test_the_status_document_has_what_scripts_need(tmp_path: Path) -> None:
    """`bootstrap_servers`, `cluster_id`, `jars`, and id, pid and log of each of `brokers`."""
    (tmp_path / "node-1.json").write_text(json.dumps({"pid": 7, "started": "never"}))
    cluster = SandboxCluster("x", "127.0.0.1:1", "id", Path("/jars"), tmp_path, ((1, 1),), Path("/logs"))
    assert json.loads(registry.to_json(cluster)) == {
        "name": "x",
        "bootstrap_servers": "127.0.0.1:1",
        "cluster_id": "id",
        "brokers": [{"id": 1, "pid": 7, "log": "/logs/broker-1.log", "alive": False}],
        "jars": "/jars",
    }


# --- a process is identified by its pid and its start time


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as popen:
        try:
            yield popen
        finally:
            popen.kill()


def test_a_process_is_known_by_its_start_time_too(sleeper: subprocess.Popen[bytes]) -> None:
    """A process with the same pid and another start time is neither alive nor signalled."""
    process = identify(sleeper.pid)
    assert process is not None
    assert process.alive()
    assert not process.wait_gone(0), "the wait for one that stays ends"
    stranger = Process(sleeper.pid, process.started + "0")
    assert not stranger.alive()
    assert not stranger.send(signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_signal_reaches_it_and_its_end_is_seen_before_it_is_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    """A zombie counts as ended, so that no test waits for a parent that never reaps."""
    process = identify(sleeper.pid)
    assert process is not None
    assert process.send(signal.SIGKILL)
    assert process.wait_gone(30)
    assert not process.send(signal.SIGKILL)
    assert sleeper.wait() == -signal.SIGKILL


def test_a_pid_without_a_process_has_no_identity() -> None:
    """The pid of a reaped process and pid 0 identify no process."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert identify(process.pid) is None
    assert not Process(0, "").alive()
    assert not Process(0, "").send(signal.SIGTERM)


# --- the data folder, and no other path that looks similar, is removed


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder for this test; beside it is a working tree with a file."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "kafka-sandbox-x").mkdir()
    (tree / "kafka-sandbox-x" / "file").write_text("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(tree)
    return folder


def contents(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


def test_folder_of_a_sandbox_goes_with_all_in_it(temporary: Path) -> None:
    """`remove` works for the folder, also one level deeper; a second call changes nothing."""
    for parent in (temporary, temporary / "deeper"):
        folder = parent / "kafka-sandbox-tests-1"
        (folder / "data-1").mkdir(parents=True)
        data_dir.remove(folder)
        assert not folder.exists()
        data_dir.remove(folder)


PATHS_IN_THE_TEST_FOLDER = [
    "",
    ".",
    "..",
    "kafka-sandbox-x",
    "{tree}",
    "{tree}/kafka-sandbox-x",
    "{tmp}",
    "{tmp}/other",
    "{tmp}/../tree",
    "{tmp}/kafka-sandbox-x/..",
    "{tmp}/kafka-sandbox-x/../../tree/kafka-sandbox-x",
    "{tmp}/kafka-sandbox-link",
    "{tmp}/link/kafka-sandbox-x",
]
"""All paths are inside the test's own folder, so that a broken check cannot damage other files."""


@pytest.mark.parametrize("path", PATHS_IN_THE_TEST_FOLDER)
def test_folder_of_anything_else_is_refused_untouched(temporary: Path, path: str) -> None:
    """Relative, empty, outside, misnamed or linked: one removal once emptied a working tree."""
    tree = temporary.parent / "tree"
    (temporary / "other").mkdir()
    (temporary / "kafka-sandbox-link").symlink_to(tree)
    (temporary / "link").symlink_to(tree)
    before = contents(temporary.parent)
    with pytest.raises(SandboxError):
        data_dir.remove(Path(path.format(tree=tree, tmp=temporary)))
    assert contents(temporary.parent) == before


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("path", ["/", "/kafka-sandbox-x", "/home", "/tmp/../kafka-sandbox-x"])
def test_folder_far_outside_is_no_sandboxs(path: str) -> None:
    """This test only checks the path: a test must not pass such a path to a removal."""
    with pytest.raises(SandboxError):
        data_dir.assert_sandbox_dir(Path(path))
