"""The installation, the archive of its code for executors, and the clock."""

import sys
import time
from pathlib import Path

import pytest

import reconciler
from reconciler import pipeline
from reconciler.installation import find_foreign_code
from reconciler.scan import code_archive
from tests.command import run_process

OURS = {"reconciler/__init__.py": "ours", "reconciler/cli/__init__.py": "", "reconciler/cli/plan.py": "plan"}
THEIRS = {"reconciler/__init__.py": "theirs, longer", "reconciler/main.py": "reconcile"}


def install(site: Path, name: str, files: dict[str, str]) -> None:
    """Write files and their RECORD as pip does, with bytecode, which has no size there."""
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    rows = [f"{path},sha256=x,{len(text)}" for path, text in files.items()]
    (site / f"{name}.dist-info").mkdir()
    bytecode = "reconciler/__pycache__/__init__.cpython-311.pyc"
    (site / bytecode).parent.mkdir(exist_ok=True)
    (site / bytecode).write_text("bytecode")
    lines = [*rows, f"{bytecode},,", f"{name}.dist-info/RECORD,,", ""]
    (site / f"{name}.dist-info" / "RECORD").write_text("\n".join(lines))


def uninstall(site: Path, files: dict[str, str]) -> None:
    for path in files:
        (site / path).unlink()
    (site / "reconciler-0.2.2.dist-info" / "RECORD").unlink()


def test_an_installation_alone_is_what_was_installed(tmp_path: Path) -> None:
    """Bytecode, a file of the desktop and other distributions beside the package are none of it."""
    install(tmp_path, "kafka_reconciler-0.1.0", OURS)
    install(tmp_path, "other-1.0", {"other/__init__.py": ""})
    (tmp_path / "reconciler" / ".DS_Store").write_text("x")
    assert find_foreign_code(tmp_path / "reconciler") == ""


@pytest.mark.parametrize("order", ["before", "after"])
def test_another_distribution_is_named(order: str, tmp_path: Path) -> None:
    """Installed before ours, its other files stay; installed after ours, its `__init__.py` has replaced ours."""
    both = {"kafka_reconciler-0.1.0": OURS, "reconciler-0.2.2": THEIRS}
    for name in sorted(both, reverse=order == "before"):
        install(tmp_path, name, both[name])
    said = find_foreign_code(tmp_path / "reconciler")
    assert "reconciler/main.py" in said
    assert ("reconciler/__init__.py" in said) == (order == "after")
    assert "because reconciler-0.2.2 also installs into it; install this program into a new environment" in said


def test_what_another_distribution_took_along_is_missing(tmp_path: Path) -> None:
    """pip removes with it what both had: the program would run on without its `__init__.py`."""
    install(tmp_path, "kafka_reconciler-0.1.0", OURS)
    install(tmp_path, "reconciler-0.2.2", THEIRS)
    uninstall(tmp_path, THEIRS)
    said = find_foreign_code(tmp_path / "reconciler")
    assert "reconciler/__init__.py (another size, missing or foreign), because something else has written" in said


def test_a_checkout_is_not_compared() -> None:
    """Nor is an editable installation: no list of files lies beside the package."""
    assert find_foreign_code(Path(reconciler.__file__).parent) == ""


def test_the_program_ends_before_it_imports_foreign_code(tmp_path: Path) -> None:
    """The foreign `__init__.py` has a `__version__`, too, with which the program once ran on."""
    package = Path(reconciler.__file__).parent
    start = {f"reconciler/{file}": (package / file).read_text() for file in ("__main__.py", "installation.py")}
    install(tmp_path, "kafka_reconciler-0.1.0", {"reconciler/__init__.py": "# ours", **start})
    install(tmp_path, "reconciler-0.2.2", {"reconciler/__init__.py": '__version__ = "0.2.2"\n'})
    words = (sys.executable, "-P", "-m", "reconciler", "--version")
    answer = run_process(tmp_path, *words, env={"PYTHONPATH": str(tmp_path), "PATH": ""})
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(
        f"error: the code in {tmp_path / 'reconciler'} is not what this program installed: "
    )


@pytest.mark.parametrize(("moved_s", "passed_s"), [(-3600, 10), (0, 10), (3600, 3610)])
def test_a_wall_clock_that_is_set_back_makes_nothing_younger(
    monkeypatch: pytest.MonkeyPatch, moved_s: int, passed_s: int
) -> None:
    """A clock that is set forward makes facts older, which is the safe side."""
    wall_ns, steady_ns = 1_800_000_000 * 10**9, 5 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady_ns)
    clock = pipeline.steady_clock()
    start_ms = clock()
    wall_ns += (moved_s + 10) * 10**9
    steady_ns += 10 * 10**9
    assert clock() - start_ms == passed_s * 1000


def test_tasks_import_from_the_archive_alone(tmp_path: Path) -> None:
    """Executors have no other copy: a package that is missing there fails every task."""
    path = code_archive.write(tmp_path)
    others = ("deepdiff", "re2", "platformdirs", "prometheus_client", "pydantic", "rich", "ruamel.yaml", "typer")
    program = f"""
import sys
sys.path.insert(0, {str(path)!r})
sys.modules.update(dict.fromkeys({others}))
import reconciler.companions.sources.data_sources
import reconciler.scan.task_rows as module
print(module.__file__)
"""
    answer = run_process(tmp_path, sys.executable, "-c", program)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(str(path))
