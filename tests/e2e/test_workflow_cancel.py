"""A cancelled job stops the program, which then finishes its request and writes its results."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler.companions.sandbox import client

PROGRAM = """\
#!{python}
import signal, sys, time
from pathlib import Path
def stop(*_):
    Path("heard").touch()
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
Path("started").write_text(" ".join(sys.argv[1:]))
time.sleep(300)
"""
"""`reconciler`: records its arguments, and whether it heard the signal."""


ROOT = Path(__file__).parents[2]


def _last_script(workflow: str, job: str) -> Any:
    steps = YAML(typ="safe").load(ROOT / ".github" / "workflows" / workflow)["jobs"][job]["steps"]
    return [step["run"] for step in steps if "run" in step][-1]


@pytest.mark.parametrize("name", ["apply", "converge"])
def test_a_cancel_is_heard(name: str, tmp_path: Path) -> None:
    """GitHub sends SIGINT to the shell of the step and to no other process.

    A shell that waits for its command does not pass it on: `apply` was killed ten seconds later,
    in the middle of a request and without results.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "reconciler").write_text(PROGRAM.format(python=sys.executable))
    for program in (tmp_path / "bin").iterdir():
        program.chmod(0o755)
    (tmp_path / "script.sh").write_text(_last_script(f"{name}.yml", name))
    variables = dict.fromkeys(("CLUSTER", "DIGEST", "OPERATIONS", "KIND", "GITHUB_STEP_SUMMARY"), "value")
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "script.sh"],
        cwd=tmp_path,
        env=os.environ
        | variables
        | {"FOLDER": "plan", "RESULTS": "results", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        start_new_session=True,
    ) as step:
        try:
            client.wait_until((tmp_path / "started").exists, 120, "the program to start")
            step.send_signal(signal.SIGINT)
            assert step.wait(120) == 130
        finally:
            step.kill()
    assert (tmp_path / "started").read_text().startswith(f"{name} ")
    assert (tmp_path / "heard").exists()
