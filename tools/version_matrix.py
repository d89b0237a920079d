"""`make test-matrix`: the tests that touch the outside, against every Kafka, Python and Java that the project says it works with.

Each Kafka (one per committed list of jars) runs tests/kafka, tests/contract and the e2e slice. Each Python runs the unit tests and the slice, each
Java the slice. Versions are looked for on this machine and nothing is installed but the packages of the lock file, under `.venv/matrix`; what is not
there is a row of its own, not a silence. Exit 1 where anything failed, or where a Kafka could not be tried.
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

from reconciler.sandbox.jars import DEFAULT_VERSION, VERSION_VARIABLE, versions
from reconciler.sandbox.java import find_java, major_version

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
JAVAS = (17, 21)
BROKERS = ("tests/kafka", "tests/contract", "tests/e2e/test_slice.py")
SLICE = ("tests/e2e/test_slice.py",)
UNIT = ("tests/unit", "tests/properties", "tests/golden")
LIMIT_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One version of one thing. `python` runs the tests; without it the version was not found."""

    name: str
    where: str
    python: Path | None
    paths: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """What became of a cell."""

    cell: Cell
    told: str
    good: bool
    seconds: float = 0.0


def cells() -> Iterator[Cell]:
    """All that is wanted, in the order in which it is tried."""
    here = Path(sys.executable)
    for version in versions():
        yield Cell(
            name=f"kafka={version}",
            where=f"jars-{version}.sha256",
            python=here,
            paths=BROKERS,
            environment={VERSION_VARIABLE: version},
        )
    for wanted in PYTHONS:
        found = python_of(wanted)
        yield Cell(name=f"python={wanted}", where=str(found or "not found"), python=found, paths=(*UNIT, *SLICE))
    for major in JAVAS:
        home = java_of(major)
        yield Cell(
            name=f"java={major}",
            where=str(home or "not found"),
            python=here if home else None,
            paths=SLICE,
            environment={"JAVA_HOME": str(home)},
        )


def python_of(wanted: str) -> Path | None:
    """An interpreter of this minor version: on PATH, or one of pyenv's. A shim of pyenv that leads nowhere is not one."""
    candidates = [shutil.which(f"python{wanted}")]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += [str(path) for path in sorted(root.glob(f"versions/{wanted}.*/bin/python"), reverse=True)]
    for candidate in filter(None, candidates):
        asked = [candidate, "-c", "import sys; print(sys.executable, '%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 and done.stdout.split()[-1] == wanted:
            return Path(done.stdout.rsplit(None, 1)[0])
    return None


def java_of(major: int) -> Path | None:
    """A Java home of this major version: the usual one, one of RECONCILER_MATRIX_JAVA_HOMES (colons between), or one of the usual folders."""
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


def environment_of(python: Path, name: str) -> Path:
    """The interpreter of an environment with this project and its lock file's packages; the one that runs us is one already."""
    if python.samefile(Path(sys.base_prefix) / "bin" / "python3"):
        return Path(sys.executable)
    folder = ROOT / ".venv" / "matrix" / name.replace("=", "-")
    own = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"matrix: making {folder}", file=sys.stderr, flush=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True)
        subprocess.run([*pip, "--no-build-isolation", "--no-deps", "-e", ROOT], check=True)
        (folder / ".ready").touch()
    return own


def tried(cell: Cell) -> Row:
    """Run a cell's tests in a process of their own."""
    if cell.python is None:
        return Row(cell, "not on this machine, not tried", good=True)
    began = time.monotonic()
    report = ROOT / ".venv" / "matrix" / f"{cell.name.replace('=', '-')}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    python = environment_of(cell.python, cell.name)
    words = [
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
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **cell.environment}, stdout=sys.stderr, timeout=LIMIT_S, check=False
    )
    seconds = time.monotonic() - began
    if not report.exists():
        return Row(cell, f"pytest ended with {done.returncode}", good=False, seconds=seconds)
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    total, failed, skipped = (
        int(suite.get("tests", 0)),
        int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
        int(suite.get("skipped", 0)),
    )
    told = f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped"
    return Row(cell, told, good=done.returncode == 0 and skipped == 0, seconds=seconds)


def table(rows: Sequence[Row]) -> str:
    """One line per version: where it was found, what passed, how long it took."""
    width = max(len(row.cell.where) for row in rows)
    lines = [f"{'version':14}{'found':{width}}  {'outcome':42}{'seconds':>7}"]
    for row in rows:
        seconds = f"{row.seconds:.0f}" if row.seconds else "-"
        lines.append(f"{row.cell.name:14}{row.cell.where:{width}}  {row.told:42}{seconds:>7}")
    return "\n".join(lines)


def main() -> int:
    """Try every cell, or those of --only, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="such as kafka=3.9.1, python=3.12, java; may be repeated"
    )
    asked = parser.parse_args()
    assert DEFAULT_VERSION in versions()
    wanted = [
        cell for cell in cells() if not asked.only or any(re.match(f"{only}(=|$)", cell.name) for only in asked.only)
    ]
    if not wanted:
        parser.error(f"nothing is called {asked.only}")
    rows = [tried(cell) for cell in wanted]
    print(table(rows))
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
