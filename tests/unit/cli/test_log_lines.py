"""`--log-format json`: every line of stderr is one JSON object, whoever writes it."""

import json
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from reconciler.cli import console
from reconciler.cli.log_lines import JsonLines, about, asks_for_json, json_lines
from reconciler.cli.signals import SignalState
from reconciler.errors import ExitCode
from reconciler.plan import plan_file
from tests.command import reconciler, reconciler_process
from tests.strategies.examples import plan, purge
from tests.unit.cli.loops import CLUSTER, LEADERS

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"


def parse(text: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        assert re.fullmatch(INSTANT, line["at"]), line
        assert line["level"] in {"DEBUG", "INFO", "WARNING", "ERROR"}
        assert "\n" not in line["message"] or line["level"] == "INFO"
    return lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text((CLUSTER % "billing") + "---\n" + LEADERS % "all")
    plan_file.write(plan(purge()), tmp_path / "plan.json")
    return tmp_path


@pytest.mark.parametrize(
    ("run", "words", "code", "exit_code"),
    [
        (reconciler_process, "plan --timeout 1 --engine inline", "ClusterUnreachable", 1),
        (reconciler, "plan --no-such-option", "UsageError", 64),
        (reconciler, "apply plan.json --expect-digest sha256:0", "PlanUnusable", 4),
        (reconciler, "apply --results", "UsageError", 64),
        (reconciler, "explain B999", "UsageError", 64),
    ],
)
def test_an_error_has_its_code_and_the_exit_code_of_the_process(
    folder: Path, run: Callable[..., CompletedProcess[str]], words: str, code: str, exit_code: int
) -> None:
    """Also where the words are wrong, before any option is read, and between lines of progress."""
    result = run(folder, *words.split(), "-v", "--log-format", "json")
    lines = parse(result.stderr)
    [error] = [line for line in lines if line["level"] == "ERROR"]
    assert (error["code"], error["exit_code"], result.returncode) == (code, exit_code, exit_code)
    assert {line["command"] for line in lines} == {words.split()[0]}
    if code == "ClusterUnreachable":
        within = [line for line in lines if "cluster" in line]
        assert {line["cluster"] for line in within} == {"prod"}
        [run_id] = {line["run"] for line in within}
        assert re.fullmatch("[0-9a-f]{12}", run_id)


def test_a_command_within_another_one_writes_no_json_in_json(tmp_path: Path) -> None:
    """`help` asks the command that it explains: the error line was the message of a warning."""
    result = reconciler(tmp_path, "help", "nope", RECONCILER_LOG_FORMAT="json")
    [line] = parse(result.stderr)
    assert (line["level"], line["command"], line["exit_code"], result.returncode) == ("ERROR", "help", 64, 64)
    assert "'nope'" in line["message"]


def test_each_problem_of_the_manifests_is_a_line(folder: Path) -> None:
    """Their text has several lines with the source, which no collector of logs can put together."""
    (folder / "manifests" / "all.yaml").write_text(
        (CLUSTER % "billing").replace("topics", "topisc") + "---\n" + LEADERS % "all"
    )
    result = reconciler(folder, "plan", RECONCILER_LOG_FORMAT="json")
    lines = parse(result.stderr)
    assert [line["code"] for line in lines if line["level"] == "ERROR"] == ["M112"]
    assert result.returncode == ExitCode.ERROR


@pytest.mark.parametrize(
    ("words", "variable", "expected"),
    [
        ("plan --log-format json", "", True),
        ("plan --log-format=json", "", True),
        ("plan", "json", True),
        ("plan --log-format text", "json", False),
        ("plan --log-format json --log-format text", "", False),
        ("plan -o json", "", False),
        ("plan --log-format", "", False),
    ],
)
def test_the_words_decide_and_then_the_variable(words: str, variable: str, expected: bool) -> None:
    assert asks_for_json(words.split(), {"RECONCILER_LOG_FORMAT": variable}) is expected


def test_other_writers_are_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning of Python, a traceback of a thread, half a line at the end, and text with a secret's shape."""
    with json_lines("plan"):
        with about(cluster="prod"):
            console.print_stderr("warning: this plan has expired")
            sys.stderr.write(warnings.formatwarning("old", DeprecationWarning, "x.py", 1))
        try:
            raise ValueError("lost")
        except ValueError:
            traceback.print_exc()  # as Python does for a thread
        sys.stderr.write("half a line")
    lines = parse(capsys.readouterr().err)
    assert lines[0] == {**lines[0], "level": "WARNING", "message": "this plan has expired", "cluster": "prod"}
    texts = [line["message"] for line in lines]
    assert any("DeprecationWarning" in text for text in texts)
    assert any("ValueError: lost" in text for text in texts)
    assert texts[-1] == "half a line"
    assert not isinstance(sys.stderr, JsonLines)


def test_the_line_about_a_signal_is_json(capfd: pytest.CaptureFixture[str]) -> None:
    """It is written past the buffers of Python, because the main thread may hold their lock."""
    read_fd, write_fd = os.pipe()
    os.write(write_fd, bytes([2]))
    os.close(write_fd)
    with json_lines("apply"):
        SignalState().listen(read_fd)
        for thread in [thread for thread in threading.enumerate() if thread.name == "stopping"]:
            thread.join(10)
    os.close(read_fd)
    [line] = parse(capfd.readouterr().err)
    assert line["message"].startswith("stopping: no request is sent")
