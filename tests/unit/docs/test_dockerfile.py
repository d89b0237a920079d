"""The Dockerfile: its paths exist and its claims are true.

The tests read it and do not build it, so they need no container engine.
"""

import re
import shlex
import tomllib

from tests.command import run_process
from tests.unit.docs.pages import ROOT, read
from tools.version_matrix import JAVAS, PYTHONS

DOCKERFILE = read("Dockerfile")
EXECUTOR = read("examples/executor/Dockerfile")
LINES = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def arguments(instruction: str) -> list[str]:
    return [line.removeprefix(f"{instruction} ").strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_both_stages_use_one_base_image_with_tested_versions() -> None:
    """The second stage copies the environment of the first. The matrix tests both versions."""
    bases = [base.partition(" AS ")[0] for base in arguments("FROM")]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    version = re.fullmatch(r"python:(\d+\.\d+)-slim-[a-z]+@sha256:[0-9a-f]{64}", bases[0])
    assert version
    assert version[1] in PYTHONS
    assert int(re.findall(r"openjdk-(\d+)-jre-headless", DOCKERFILE)[0]) in JAVAS


def test_copied_paths_exist_and_dockerignore_admits_them() -> None:
    """Each source of a COPY exists, and .dockerignore names it and nothing else."""
    admitted = {line.removeprefix("!") for line in read(".dockerignore").splitlines() if line.startswith("!")}
    sources = {
        source for copy in arguments("COPY") if not copy.startswith("--from") for source in shlex.split(copy)[:-1]
    }
    assert sources == admitted
    assert all((ROOT / source).exists() for source in sources)


def test_it_installs_what_the_action_installs() -> None:
    """By the hashes of the same lock files, in the same order; test_lock_files.py has the options of both."""
    assert len(re.findall(r"pip install", DOCKERFILE)) == 2
    assert 'for lock in requirements-base.lock "$LOCK"; do' in DOCKERFILE
    inline, spark = re.findall(r"LOCK=(\S+)", DOCKERFILE)
    locks = ["requirements-base.lock", "requirements-inline.lock", "requirements.lock"]
    assert ["requirements-base.lock", inline, spark] == locks
    variants = [locks[0], '"requirements-$SCAN.lock"', *locks[2:], "requirements-tokens.lock"]
    assert re.findall(r"locks\+?=\(([^)]*)\)", read("action.yml")) == variants


def test_it_runs_the_command_as_an_unprivileged_user() -> None:
    """The entry point is the script of the package, and asks no questions."""
    scripts = tomllib.loads(read("pyproject.toml"))["project"]["scripts"]
    assert arguments("ENTRYPOINT") == ['["reconciler"]']
    assert list(scripts) == ["reconciler"]
    assert arguments("USER") == re.findall(r"--uid (\d+) reconciler", DOCKERFILE)
    assert "RECONCILER_NO_INPUT=1" in DOCKERFILE
    assert 'envvar="RECONCILER_NO_INPUT"' in read("reconciler/cli/settings.py")


def test_the_commands_in_its_comment_are_those_of_the_docs() -> None:
    """getting-started.md builds and runs with the same commands."""
    commands = [line.removeprefix("#").strip() for line in DOCKERFILE.splitlines() if line.startswith("#   docker ")]
    page = read("docs/getting-started.md")
    assert sorted(commands) == sorted(re.findall(r"^\$ (docker .*)$", page, re.MULTILINE))
    assert len(commands) == 3


def test_executors_run_the_python_of_the_driver_with_the_packages() -> None:
    """Spark refuses workers of another minor version.

    It runs the first `python3` on PATH, and reads no PYSPARK_PYTHON there, which the image once set.
    """
    (base,) = re.findall(r"^FROM (python:.*)$", EXECUTOR, re.MULTILINE)
    assert arguments("FROM")[1] == base
    (folder,) = re.findall(r"python -m venv (\S+)", EXECUTOR)
    assert f" PATH={folder}/bin:$PATH " in EXECUTOR
    assert "PYSPARK_PYTHON=" not in EXECUTOR


def test_executors_have_what_tasks_import() -> None:
    """The command of the image takes two packages with their hashes from the lock file, and no other."""
    (program,) = re.findall(r"awk '(.*)' /tmp/requirements.lock", EXECUTOR)
    lock = run_process(ROOT, "awk", program, "requirements.lock")
    names = re.findall(r"^([a-z0-9-]+)==", lock.stdout, re.MULTILINE)
    assert names == ["confluent-kafka", "pyarrow"]
    assert len(re.findall("--hash=sha256:", lock.stdout)) > 2 * len(names)
