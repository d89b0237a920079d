"""Wheel and sdist can be built and are complete, and the shells complete the program's words.

test_offline_install.py shows that an installed wheel works, with only its dependencies.
"""

import json
import os
import re
import shlex
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from reconciler import __version__
from reconciler.companions.github import workflows
from tests.command import run_process

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("reconciler")
SOURCE = "acme/reconciler@" + "4f2c9aa0c1d2e3f405162738495a6b7c8d9e0f10"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this tree, as of the commit SOURCE."""
    target = tmp_path_factory.mktemp("dist")
    words = (sys.executable, "-m", "hatchling", "build", "--directory", target)
    run_process(ROOT, *words, env=environment() | {"RECONCILER_SOURCE": SOURCE}).check_returncode()
    return target


def environment() -> dict[str, str]:
    """The environment of this process, without what leads to this tree."""
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


def test_the_wheel_has_the_data_files(distributions: Path) -> None:
    """The wheel has all modules, the workflows that this repository runs, the demo's manifests, the lists of jars and the
    type marker.

    It has no tests and examples.
    """
    wheel = zipfile.ZipFile(next(distributions.glob("*.whl")))
    names = wheel.namelist()
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "reconciler").rglob("*.py")} <= set(names)
    for name in workflows.NAMES:
        packed = wheel.read(f"reconciler/companions/github/files/workflows/{name}.yml")
        assert packed == (ROOT / ".github" / "workflows" / f"{name}.yml").read_bytes()
    for required in (
        "companions/html/templates/page.css",
        "companions/html/templates/page.html",
        "companions/sandbox/demo/records.yaml",
        "py.typed",
    ):
        assert f"reconciler/{required}" in names
    assert any(name.startswith("reconciler/companions/sandbox/jars-") for name in names)
    assert not [name for name in names if not name.startswith(("reconciler/", "kafka_reconciler-"))]


def test_the_sdist_has_the_package_and_its_license(distributions: Path) -> None:
    """The sdist has all files that a wheel needs, and no secrets, environments or caches."""
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"pyproject.toml", "LICENSE", "README.md", "reconciler/__main__.py"} <= set(names)
    assert not [name for name in names if name.startswith((".venv", ".git/", ".reconciler")) or "__pycache__" in name]


def test_the_sdist_installs_what_the_wheel_installs(distributions: Path, tmp_path: Path) -> None:
    """pip builds the same wheel from the sdist, so the tests of the installed wheel are about both."""
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--wheel-dir", str(tmp_path)]
    command = [sys.executable, "-m", "pip", "wheel", *options, next(distributions.glob("*.tar.gz"))]
    run_process(tmp_path, *command, env=environment()).check_returncode()
    contents = []
    for folder in (distributions, tmp_path):
        [wheel] = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
        (record,) = (name for name in contents[-1] if name.endswith("/RECORD"))
        contents[-1][record] = b"\n".join(sorted(contents[-1][record].splitlines()))  # in any order
    assert len(contents[0]) > 150
    assert contents[0] == contents[1]


def test_what_an_index_would_show_is_valid_and_its_links_lead_to_the_commit(distributions: Path) -> None:
    """The strict check of twine for Markdown (a description and its type), and the rules of the metadata itself.

    A relative link leads nowhere on the page of an index.
    """
    [wheel], [sdist] = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"kafka_reconciler-{__version__}.dist-info/METADATA")
    with tarfile.open(sdist) as archive:
        file = archive.extractfile(f"kafka_reconciler-{__version__}/PKG-INFO")
        assert file is not None
        assert file.read() == text
    metadata = Metadata.from_email(text, validate=True)
    assert metadata.description_content_type == "text/markdown"
    assert metadata.summary
    tree = f"https://github.com/{SOURCE.replace('@', '/blob/')}/"
    links = re.findall(r"\]\(([^)]+)\)", metadata.description or "")
    assert len(links) > 30
    addresses = [*links, *(metadata.project_urls or {}).values()]
    for address in addresses:
        assert address.startswith(("https://github.com/acme/reconciler", "https://keepachangelog.com")), address
        assert not address.startswith(tree) or (ROOT / address.removeprefix(tree).partition("#")[0]).exists(), address
    assert set(metadata.project_urls or {}) == {"Repository", "Issues", "Documentation", "Changelog"}


def test_the_sbom_of_a_release_lists_the_packages_that_run(tmp_path: Path) -> None:
    """The command of the release workflow writes each package of the run lock, and nothing else."""
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8").replace("\\\n", " ")
    [command] = re.findall(r'"\$python" (-m cyclonedx_py .*)', workflow)
    (tmp_path / "dist").mkdir()
    words = shlex.split(command.replace("$RUNNER_TEMP", str(tmp_path)))
    run_process(ROOT, sys.executable, *words).check_returncode()
    document = json.loads((tmp_path / "dist" / "sbom.cdx.json").read_text(encoding="utf-8"))
    listed = sorted((part["name"], part["version"]) for part in document["components"])
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert listed == sorted(re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock, re.MULTILINE))
    assert document["metadata"]["component"]["name"] == "kafka-reconciler"


def test_bash_completes_commands_options_and_choices(tmp_path: Path) -> None:
    """A real bash with the completion script completes the commands."""
    expected = {
        "reconciler dri": {"drift"},
        "reconciler sandbox ": {"up", "down", "status", "stop", "start", "tools"},
        "reconciler drift --metr": {"--metrics"},
        "reconciler plan --color ": {"auto", "always", "never"},
    }
    script = """
source <(_RECONCILER_COMPLETE=source_bash reconciler)
for COMP_LINE in "$@"; do
  read -ra COMP_WORDS <<< "$COMP_LINE"
  [[ "$COMP_LINE" != *" " ]] || COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _reconciler_completion reconciler
  echo "${COMPREPLY[@]}"
done
"""
    words = ("bash", "--noprofile", "--norc", "-c", script, "bash", *expected)
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    result = run_process(tmp_path, *words, env={**environment(), "PATH": path})
    assert [set(line.split()) for line in result.stdout.splitlines()] == list(expected.values()), result.stderr


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef reconciler"), ("fish", "complete --command")],
)
def test_completion_is_offered_for_the_usual_shells(shell: str, expected: str, tmp_path: Path) -> None:
    """A shell's completion script has the command and its hook."""
    variables = {**environment(), "_RECONCILER_COMPLETE": f"source_{shell}"}
    result = run_process(tmp_path, PROGRAM, env=variables)
    assert expected in result.stdout, result.stderr
