"""Wheel and sdist: they build, hold everything, and work where nothing but their dependencies is."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from reconciler import __version__, gitops
from reconciler.load.first import first_set

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from this tree."""
    target = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return target


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/` of an environment that holds the wheel; its dependencies come from this one, so that nothing is downloaded twice."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    wheel = next(built.glob("*.whl"))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--quiet", str(wheel)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    # Only the folder of packages: .pth files in it, such as the one of an editable install, are not read this way.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(binaries: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        [str(binaries / "reconciler"), *words],
        cwd=folder,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_wheel_holds_what_the_program_reads_beside_its_code(built: Path) -> None:
    """Workflows, lists of jars and the type marker are in the wheel; tests and manifests are not."""
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    for wanted in ("gitops/github/workflows/plan.yml", "gitops/github/actions/reconciler/action.yml", "py.typed"):
        assert f"reconciler/{wanted}" in names
    assert any(name.startswith("reconciler/sandbox/jars-") for name in names)
    assert not [name for name in names if not name.startswith(("reconciler/", "kafka_reconciler-"))]


def test_the_sdist_holds_the_package_and_its_licence(built: Path) -> None:
    """What is needed to build the wheel again is in the sdist, and no secrets, environments or caches."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"pyproject.toml", "LICENSE", "README.md", "reconciler/__main__.py"} <= set(names)
    assert not [name for name in names if name.startswith((".venv", ".git/", ".reconciler")) or "__pycache__" in name]


def test_the_installed_wheel_tells_its_version_and_validates(installed: Path, tmp_path: Path) -> None:
    """The command runs from the wheel alone, not from this tree."""
    version = run(installed, tmp_path, "--version")
    assert (version.returncode, version.stdout) == (0, f"reconciler {__version__}\n"), version.stderr
    for path, text in first_set("5L6g3nShT-eMCtK--X86sw", ["broker-1:9093"], "prod-eu").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    valid = run(installed, tmp_path, "validate")
    assert valid.returncode == 0, valid.stderr
    where = subprocess.run(
        [
            str(installed / "python"),
            "-c",
            "import reconciler, reconciler.gitops as g; print(reconciler.__file__, len(g.github('1')))",
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert where.stdout.startswith(str(installed.parent)), where.stdout
    assert where.stdout.split()[-1] == str(len(gitops.github("1")))


def test_completion_is_offered_for_the_usual_shells(installed: Path, tmp_path: Path) -> None:
    """The completion script of a shell names the command and its hook."""
    for shell, told in (
        ("bash", "complete -o default -F"),
        ("zsh", "#compdef reconciler"),
        ("fish", "complete --command"),
    ):
        done = subprocess.run(
            [str(installed / "reconciler")],
            cwd=tmp_path,
            env={**os.environ, "_RECONCILER_COMPLETE": f"source_{shell}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert told in done.stdout, f"{shell}: {done.stdout}{done.stderr}"
