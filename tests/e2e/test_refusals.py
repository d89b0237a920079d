"""Wrong input and faults as a user sees them: one line, the right exit code, no client log."""

import socket
import time
from pathlib import Path

from tests.command import reconciler, reconciler_process

CLUSTER = """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {name: away}
spec:
  clusterId: AAAAAAAAAAAAAAAAAAAAAA
  bootstrapServers: ["127.0.0.1:%d"]
"""
LEADERS = "apiVersion: reconciler/v1\nkind: LeaderPolicy\nmetadata: {name: leaders}\nspec: {topics: ['*']}\n"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_broker_that_is_away_is_one_line_within_the_timeout(tmp_path: Path) -> None:
    """One error line with the attempt and its duration, exit 1, and no log of the client library."""
    (tmp_path / "manifests").mkdir()
    port = free_port()
    (tmp_path / "manifests" / "all.yaml").write_text(CLUSTER % port + "---\n" + LEADERS)
    start = time.monotonic()
    answer = reconciler_process(tmp_path, "plan", "-q", "--timeout", "4")
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1, answer.stderr
    assert answer.stderr.startswith("error: ")
    assert f"127.0.0.1:{port}" in answer.stderr
    assert time.monotonic() - start < 60


def test_a_broken_manifest_names_file_line_and_column(tmp_path: Path) -> None:
    """No traceback: file, line, column and the source line."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(CLUSTER % 1 + "---\n" + LEADERS.replace("topics", "topcis"))
    answer = reconciler(tmp_path, "validate")
    assert answer.returncode == 1
    assert "manifests/all.yaml:11:8" in answer.stderr, answer.stderr
    assert "did you mean `topics`?" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_mistyped_flag_is_not_drift(tmp_path: Path) -> None:
    """Wrong usage is 64, because a schedule would read 2 as drift."""
    answer = reconciler(tmp_path, "plan", "--no-such-flag")
    assert (answer.returncode, answer.stdout) == (64, "")
    assert "--no-such-flag" in answer.stderr


def test_apply_without_plan_and_without_terminal_refuses(tmp_path: Path) -> None:
    """Without a terminal apply requires a plan file, so that it applies no plan that no person has
    read.
    """
    answer = reconciler(tmp_path, "apply")
    assert answer.returncode == 64
    assert "plan --out" in answer.stderr


def test_no_manifests_is_an_error_and_not_nothing_desired(tmp_path: Path) -> None:
    """An empty set of manifests is an error and not a wish to manage nothing."""
    (tmp_path / "manifests").mkdir()
    assert reconciler(tmp_path, "validate").returncode == 1
    assert reconciler(tmp_path, "validate", "not-there").returncode == 1


def test_a_plan_file_that_is_not_one_is_refused(tmp_path: Path) -> None:
    """A file that is not a plan is unusable, before the program reads from a cluster."""
    (tmp_path / "plan.json").write_text("{}")
    answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 4, answer.stderr
    assert "plan.json" in answer.stderr
    missing = reconciler(tmp_path, "show", "nowhere.json")
    assert missing.returncode in (1, 4)
    assert "Traceback" not in missing.stderr
