"""`make test-matrix`: runs tests on every supported version of Kafka, Python and Java.

Each Kafka version with a list of jars runs tests/kafka, tests/contract and tests/e2e/test_slice.py.
Each Python runs the unit tests and test_slice.py, each Java runs test_slice.py. The program
searches for versions on this machine and installs only the packages of the lock file, under
`.venv/matrix`. A version that is not on this machine has its own row. The exit code is 1 if a test
failed or was skipped.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.companions.sandbox.jars import DEFAULT_VERSION, VERSION_VARIABLE, versions
from reconciler.companions.sandbox.java import find_java
from reconciler.scan.java import major_version

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
JAVAS = (17, 21)
BROKER_TESTS = ("tests/kafka", "tests/contract", "tests/e2e/test_slice.py")
SLICE_TESTS = ("tests/e2e/test_slice.py",)
UNIT_TESTS = ("tests/unit", "tests/properties", "tests/golden")
TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One version of Kafka, Python or Java.

    `location` is the place of the version, `python` the interpreter for the tests; None if the
    version was not found.
    """

    name: str
    location: str
    python: Path | None
    paths: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one cell."""

    cell: Cell
    summary: str
    passed: bool
    seconds: float = 0.0


def cells() -> Iterator[Cell]:
    """All versions, in the order of their runs."""
    python = Path(sys.executable)
    for version in versions():
        yield Cell(
            name=f"kafka={version}",
            location=f"jars-{version}.sha256",
            python=python,
            paths=BROKER_TESTS,
            environment={VERSION_VARIABLE: version},
        )
    for version in PYTHONS:
        interpreter = find_python(version)
        yield Cell(
            name=f"python={version}",
            location=str(interpreter or "not found"),
            python=interpreter,
            paths=(*UNIT_TESTS, *SLICE_TESTS),
        )
    for major in JAVAS:
        home = find_java_home(major)
        yield Cell(
            name=f"java={major}",
            location=str(home or "not found"),
            python=python if home else None,
            paths=SLICE_TESTS,
            environment={"JAVA_HOME": str(home)},
        )


def find_python(version: str) -> Path | None:
    """Find an interpreter of this minor version on PATH or in pyenv.

    A broken shim of pyenv does not count.
    """
    candidates = [shutil.which(f"python{version}")]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    for candidate in filter(None, candidates):
        command = [candidate, "-c", "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2])"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if result.returncode == 0 and result.stdout.split()[-1] == version:
            return Path(result.stdout.rsplit(None, 1)[0])
    return None


def find_java_home(major: int) -> Path | None:
    """Find a Java home of this major version.

    The candidates are the default Java, the paths of RECONCILER_MATRIX_JAVA_HOMES (with colons
    between them), and the usual folders.
    """
    homes = [find_java().resolve().parents[1]]
    homes += [Path(text) for text in os.environ.get("RECONCILER_MATRIX_JAVA_HOMES", "").split(os.pathsep) if text]
    for folder, pattern in (
        ("/usr/lib/jvm", "*"),
        ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
        ("~/.sdkman/candidates/java", "*"),
    ):
        homes += sorted(Path(folder).expanduser().glob(pattern))
    for home in homes:
        if os.access(home / "bin" / "java", os.X_OK) and major_version(home / "bin" / "java") == major:
            return home
    return None


def create_environment(python: Path, name: str) -> Path:
    """Return the interpreter of an environment with this project and the packages of its lock
    files.

    The running interpreter already has such an environment.
    """
    if python.samefile(Path(sys.base_prefix) / "bin" / "python3"):
        return Path(sys.executable)
    folder = ROOT / ".venv" / "matrix" / name.replace("=", "-")
    interpreter = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"matrix: creating {folder}", file=sys.stderr, flush=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip: list[str | Path] = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for lock in ("requirements-base.lock", "requirements-dev.lock"):  # the first has what builds pyspark
            subprocess.run(
                [*pip, "--require-hashes", "--no-deps", "--no-build-isolation", "-r", ROOT / lock], check=True
            )
        subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", ROOT], check=True)
        (folder / ".ready").touch()
    return interpreter


def run_cell(cell: Cell) -> Row:
    """Run a cell's tests in a new process."""
    if cell.python is None:
        return Row(cell, "not on this machine, not run", passed=True)
    start = time.monotonic()
    report = ROOT / ".venv" / "matrix" / f"{cell.name.replace('=', '-')}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    python = create_environment(cell.python, cell.name)
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        f"--junit-xml={report}",
        *cell.paths,
    ]
    print(f"matrix: {cell.name}: {' '.join(cell.paths)}", file=sys.stderr, flush=True)
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **cell.environment}, stdout=sys.stderr, timeout=TIMEOUT_S, check=False
    )
    seconds = time.monotonic() - start
    if not report.exists():
        return Row(cell, f"pytest ended with {result.returncode}", passed=False, seconds=seconds)
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    total, failed, skipped = (
        int(suite.get("tests", 0)),
        int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        int(suite.get("skipped", 0)),
    )
    summary = f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped"
    return Row(cell, summary, passed=result.returncode == 0 and skipped == 0, seconds=seconds)


def table(rows: Sequence[Row]) -> str:
    """Render one line per version: its location, its result and its seconds."""
    width = max(len(row.cell.location) for row in rows)
    lines = [f"{'version':14}{'found':{width}}  {'outcome':42}{'seconds':>7}"]
    for row in rows:
        seconds = f"{row.seconds:.0f}" if row.seconds else "-"
        lines.append(f"{row.cell.name:14}{row.cell.location:{width}}  {row.summary:42}{seconds:>7}")
    return "\n".join(lines)


def main() -> int:
    """Run every cell, or those of --only, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="a version such as kafka=3.7.2, python=3.12 or java; repeat the option for several",
    )
    options = parser.parse_args()
    assert DEFAULT_VERSION in versions()
    selected = [
        cell
        for cell in cells()
        if not options.only or any(re.match(f"{only}(=|$)", cell.name) for only in options.only)
    ]
    if not selected:
        parser.error(f"no version is called {options.only}")
    rows = [run_cell(cell) for cell in selected]
    print(table(rows))
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
