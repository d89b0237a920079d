"""Wrong input and faults: one error line, the right exit code, no output of the client library."""

import socket
import time
from pathlib import Path

from tests.build import write_manifests
from tests.command import reconciler, reconciler_process

LEADERS = "apiVersion: reconciler/v1\nkind: LeaderPolicy\nmetadata: {name: leaders}\nspec: {topics: ['*']}\n"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_unavailable_broker_is_one_error_line_within_the_timeout(tmp_path: Path) -> None:
    """One error line with the address and the timeout, exit 1, no log of the client library."""
    port = free_port()
    write_manifests(tmp_path, f"127.0.0.1:{port}", LEADERS)
    start = time.monotonic()
    result = reconciler_process(tmp_path, "plan", "-q", "--timeout", "4")
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stderr.startswith("error: ")
    assert f"127.0.0.1:{port}" in result.stderr
    assert time.monotonic() - start < 60


def test_the_error_of_a_manifest_names_file_line_and_column(tmp_path: Path) -> None:
    """The error shows file, line, column and the source line, and no traceback."""
    write_manifests(tmp_path, "127.0.0.1:1", LEADERS.replace("topics", "topcis"), limits="")
    result = reconciler(tmp_path, "validate")
    assert result.returncode == 1
    assert "manifests/all.yaml:11:8" in result.stderr, result.stderr
    assert "did you mean `topics`?" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_mistyped_flag_is_not_drift(tmp_path: Path) -> None:
    """Wrong usage is 64: a schedule would read 2 as drift."""
    result = reconciler(tmp_path, "plan", "--no-such-flag")
    assert (result.returncode, result.stdout) == (64, "")
    assert "--no-such-flag" in result.stderr


def test_apply_without_plan_and_without_terminal_refuses(tmp_path: Path) -> None:
    """Without a terminal, apply needs a saved plan, so that nothing unseen is applied."""
    result = reconciler(tmp_path, "apply")
    assert result.returncode == 64
    assert "plan --out" in result.stderr


def test_an_empty_set_of_manifests_is_an_error(tmp_path: Path) -> None:
    """An empty set of manifests never means an empty desired state."""
    (tmp_path / "manifests").mkdir()
    assert reconciler(tmp_path, "validate").returncode == 1
    assert reconciler(tmp_path, "validate", "not-there").returncode == 1


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    """A file that is not a plan is refused before the command connects to a cluster."""
    (tmp_path / "plan.json").write_text("{}")
    result = reconciler(tmp_path, "apply", "plan.json")
    assert result.returncode == 4, result.stderr
    assert "plan.json" in result.stderr
    missing = reconciler(tmp_path, "show", "nowhere.json")
    assert missing.returncode in (1, 4)
    assert "Traceback" not in missing.stderr
