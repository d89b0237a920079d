"""Where words go and what they end with, as the command line answers it; no cluster is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler import pipeline
from reconciler.cli import converge
from reconciler.cli.app import EXIT_USAGE, run
from reconciler.errors import ClusterUnreachable, WrongCluster
from tests.command import environment

CLUSTER = """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: {name}}}
spec: {{clusterId: id-of-{name}-0000000000, bootstrapServers: ["127.0.0.1:1"]}}
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: all, cluster: {name}}}
spec: {{topics: ["*"]}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests of two clusters."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(CLUSTER.format(name=name), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("verb", ["plan", "converge"])
def test_a_file_holds_one_cluster(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one once took the first one's place, and a reviewer saw half."""
    assert run([verb, str(folder), "--output-file", f"md={folder / 'shown.md'}"]) == EXIT_USAGE
    assert "--output-file" in capsys.readouterr().err
    assert not (folder / "shown.md").exists()


@pytest.mark.parametrize("verb", ["plan", "drift", "converge"])
def test_a_file_that_cannot_be_written_is_told_before_a_cluster_is_asked(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after minutes of scanning."""
    assert run([verb, str(folder), "--cluster", "one", "--output-file", f"text={folder}"]) == EXIT_USAGE
    assert f"{folder} cannot be written" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_no_bug(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names it."""
    assert run(["clusters", str(folder), "--output-file", f"text={folder}"]) == 1
    assert capsys.readouterr().err == f"error: --output-file {folder} could not be written: Is a directory\n"


def test_a_reader_that_went_away_keeps_no_cluster_from_its_purges(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`converge | head`: the first plan finds nobody to read it, and the second cluster is converged all the same."""
    asked = []

    def once(part: object, *_given: object, **_named: object) -> object:
        asked.append(part)
        raise BrokenPipeError

    monkeypatch.setattr(converge, "_converge_once", once)
    monkeypatch.setattr(converge.console, "discard_stdout", lambda: None)
    assert run(["converge", str(folder)]) == 1
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("failure", "code"), [(WrongCluster("brokers of another cluster"), 4), (ClusterUnreachable("away"), 1)]
)
def test_drift_of_another_cluster_is_not_one_that_is_away(
    failure: Exception, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ADR 4: what needs a person is told from what may pass, and both clusters are in the report."""

    def plan(*_given: object, **_named: object) -> object:
        raise failure

    monkeypatch.setattr(pipeline, "plan", plan)
    assert run(["drift", str(folder)]) == code
    shown = capsys.readouterr()
    assert shown.err.count(str(failure)) == 2
    assert shown.out.count("too little could be seen to tell") == 2


@pytest.mark.parametrize(
    "words",
    [
        *(verb.split() for verb in ("plan", "converge", "clusters", "validate", "watch", "drift", "doctor", "journal")),
        ["scan", "--out", "parquet"],
        ["apply"],
        ["apply", "plan.json"],
        ["explain", "RetentionFloor/a/b[0]"],
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_whole_folder(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A script's variable that is not set."""
    assert run([*words, ""]) == EXIT_USAGE
    assert "an empty path" in capsys.readouterr().err


def test_a_code_is_explained_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In either case of its letter, into files as well, and never as what it cannot be."""
    assert run(["explain", "b204", "--output-file", f"text={tmp_path / 'b204.txt'}"]) == 0
    assert (tmp_path / "b204.txt").read_text() == capsys.readouterr().out
    assert run(["explain", "B204", "-o", "json"]) == EXIT_USAGE
    assert run(["explain", "B204", "--output-file", f"json={tmp_path / 'b204.txt'}"]) == EXIT_USAGE
    assert (tmp_path / "b204.txt").read_text(), "what is there is not emptied for nothing"


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_holds_nothing_and_takes_everything(closed: int, folder: Path) -> None:
    """`>&-`, as some schedulers start their jobs."""
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", "clusters", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: os.close(closed),
    )
    assert done.returncode == 0
    assert done.stdout.split() == ([] if closed == 1 else ["one", "two"])
    assert done.stderr == ""


CLOSED = """
import os, sys
from reconciler import __main__ as program
from reconciler.cli import console
def run(_words):
    numbers = [os.open(os.devnull, os.O_WRONLY) for _ in range(3)]
    console.print_error("an error line")
    assert min(numbers) > 2, numbers
    assert all(os.fstat(number).st_rdev == os.stat(os.devnull).st_rdev for number in (0, 1, 2))
    return 3
program.run = run
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None
program.main()
"""


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    """Once, where stderr was closed, the next file that was opened got its number, and error lines went into it."""
    assert subprocess.run([sys.executable, "-c", CLOSED], timeout=60, check=False).returncode == 3


RECOVERING = """
import os, sys
from reconciler.cli import console
from reconciler.errors import OutputUnwritten
before = os.dup(1)
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
try:
    console.write("lost?")
except OutputUnwritten as error:
    console.print_error(str(error))
os.dup2(before, 1)
console.write(" written")
"""


def test_output_goes_on_once_the_disk_has_room_again() -> None:
    """`watch` writes for weeks: an error line once pointed its standard output to /dev/null for the rest of the process."""
    done = subprocess.run(
        [sys.executable, "-c", RECOVERING], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "lost? written"
    assert done.stderr.startswith("error: standard output could not be written")
