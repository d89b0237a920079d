"""The build of a distribution imports `reconciler.companions.github.workflows` before the program's packages are installed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_build_hook_needs_no_package() -> None:
    """`-S`: without site-packages. A policy class, which needs pydantic, once came in."""
    program = (
        "import reconciler.companions.github.workflows; print(reconciler.companions.github.workflows.is_source('a/b'))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "False\n"), result.stderr
