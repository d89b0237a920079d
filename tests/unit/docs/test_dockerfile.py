"""The image's recipe, read and not built: no container engine is wanted for the tests. What it names exists, and what it claims is so."""

import re
import shlex
import tomllib
from pathlib import Path

from reconciler import cli
from tools.version_matrix import JAVAS, PYTHONS

ROOT = Path(__file__).parents[3]
RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LINES = [line for line in RECIPE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def arguments(instruction: str) -> list[str]:
    return [line.removeprefix(f"{instruction} ").strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_both_stages_stand_on_one_base_of_a_version_that_the_matrix_tries() -> None:
    """An environment is copied from one stage to the next, which works on the very same interpreter only; Java is one that is tried, too."""
    bases = [base.partition(" AS ")[0] for base in arguments("FROM")]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    version = re.fullmatch(r"python:(\d+\.\d+)-slim-[a-z]+", bases[0])
    assert version
    assert version[1] in PYTHONS
    assert int(re.findall(r"openjdk-(\d+)-jre-headless", RECIPE)[0]) in JAVAS


def test_what_is_copied_is_there_and_let_through() -> None:
    """Each source of a COPY exists, and .dockerignore, which keeps everything else out, names it."""
    let_through = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    sources = {
        source for copied in arguments("COPY") if not copied.startswith("--from") for source in shlex.split(copied)[:-1]
    }
    assert sources == let_through
    assert all((ROOT / source).exists() for source in sources)


def test_it_installs_what_the_action_installs() -> None:
    """Packages by the hashes of the lock file, the program from the source, and nothing resolved: the same words as in the action."""
    action = (ROOT / ".github/actions/reconciler/action.yml").read_text(encoding="utf-8")
    for words in ("--require-hashes", "--no-deps --no-build-isolation"):
        assert words in RECIPE
        assert words in action
    assert len(re.findall(r"pip install", RECIPE)) == 2


def test_it_runs_the_command_as_nobody_in_particular() -> None:
    """The entry point is the package's script, the user is none with rights, and nothing is ever asked."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert arguments("ENTRYPOINT") == ['["reconciler"]']
    assert list(scripts) == ["reconciler"]
    assert arguments("USER") == ["reconciler"]
    assert "RECONCILER_NO_INPUT=1" in RECIPE
    settings = (Path(cli.__file__).parent / "settings.py").read_text(encoding="utf-8")
    assert 'envvar="RECONCILER_NO_INPUT"' in settings


def test_the_commands_at_its_head_are_those_of_the_docs() -> None:
    """One way to build it and one to run it, told twice and not differently."""
    told = [line.removeprefix("#").strip() for line in RECIPE.splitlines() if line.startswith("#   docker ")]
    page = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    assert told == re.findall(r"^\$ (docker .*)$", page, re.MULTILINE)
    assert len(told) == 2
