"""The lock files: one resolution, hashes and no addresses, and every installation uses them."""

import re
import tomllib
from importlib import metadata

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.docs.pages import ROOT, read

BASE, INLINE = "requirements-base.lock", "requirements-inline.lock"
CONNECT, LIGHT_CLIENT = "requirements-connect.lock", "pyspark-client"
RUN, DEVELOP = "requirements.lock", "requirements-dev.lock"
TOKENS = "requirements-tokens.lock"


def entries(lock: str) -> dict[str, tuple[str, ...]]:
    """Name and marker → the version and all hashes, of each package of a lock file."""
    lines = [line for line in read(lock).splitlines() if not line.lstrip().startswith("#")]
    packages = re.split(r"\n(?=\S)", "\n".join(lines))
    parsed = [re.fullmatch(r"([a-z0-9-]+)==([^ ;]+)((?: ;[^\\]*)?) \\\n(.*)", text, re.DOTALL) for text in packages]
    return {
        f"{match[1]}{match[3]}": (match[2], *sorted(match[4].replace("\\", "").split())) for match in parsed if match
    }


@pytest.mark.parametrize("lock", [BASE, INLINE, CONNECT, RUN, TOKENS, DEVELOP])
def test_every_package_has_hashes_and_no_address(lock: str) -> None:
    """A line that is not a package with hashes would name an address, or be installed unchecked."""
    text = read(lock)
    assert len(entries(lock)) == len(re.findall(r"^\S+==", text, re.MULTILINE)) > 20
    for name, (_, *hashes) in entries(lock).items():
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", option) for option in hashes), name
    assert not re.search(r"://|^-", text, re.MULTILINE)


def test_the_lock_files_are_of_one_resolution() -> None:
    """What runs was tested: each file is part of the larger one, but for the light client."""
    assert entries(BASE).items() <= entries(INLINE).items() <= entries(RUN).items() <= entries(DEVELOP).items()
    assert entries(TOKENS).items() <= entries(DEVELOP).items()
    assert entries(INLINE).items() <= entries(CONNECT).items()
    assert {name for name, _ in entries(CONNECT).items() - entries(DEVELOP).items()} == {LIGHT_CLIENT}


def test_each_lock_file_has_what_it_is_for_and_no_more() -> None:
    """No Spark where manifests are checked, no developers' tool beside what deletes."""
    project = tomllib.loads(read("pyproject.toml"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]

    def names(requirements: list[object]) -> set[str]:
        words = {re.split(r"[\[<>=]", text)[0].replace(".", "-") for text in requirements if isinstance(text, str)}
        return words - {project["project"]["name"]}

    installed = {
        lock: {entry.partition(" ")[0] for entry in entries(lock)}
        for lock in (BASE, INLINE, CONNECT, RUN, TOKENS, DEVELOP)
    }
    base, tools = names(project["project"]["dependencies"]), names(groups["dev"])
    assert base | names(groups["build"]) <= installed[BASE]
    assert names(extras["inline"]) == installed[INLINE] - installed[BASE]
    assert names(extras["spark"]) <= installed[RUN] - installed[INLINE]
    assert names(extras["connect"]) == {LIGHT_CLIENT, "pandas"} <= installed[CONNECT] - installed[INLINE]
    assert "pyspark" not in installed[CONNECT]
    assert names(extras["gcp"]) | names(extras["msk-iam"]) <= installed[TOKENS] - installed[RUN]
    assert tools <= installed[DEVELOP] - installed[RUN]
    assert names(project["build-system"]["requires"]) <= installed[BASE]


def test_the_bound_of_typer_is_the_minor_version_that_was_tested() -> None:
    """The command line uses parts that come and go: with 0.16 to 0.28, which were allowed, no command began."""
    project = tomllib.loads(read("pyproject.toml"))
    [bound] = (text for text in project["project"]["dependencies"] if text.startswith("typer>="))
    locked = ".".join(entries(BASE)["typer"][0].split(".")[:2])
    assert bound == f"typer>={locked}"


@pytest.mark.parametrize(
    "path",
    [
        "Makefile",
        "Dockerfile",
        "action.yml",
        "tools/version_matrix.py",
        ".github/workflows/release.yml",
        "docs/releases.md",
    ],
)
def test_pip_checks_every_hash_and_builds_with_what_is_installed(path: str) -> None:
    """pip once built pyspark in isolation, with the newest setuptools that the index had."""
    text = read(path).replace("\\\n", " ")
    for line in re.findall(r"pip (?:install|download) .*|\[\*pip, .*", text):
        options = line.replace('"${options[@]}"', "--require-hashes --no-deps --no-build-isolation")
        is_isolated = "--no-deps" in options and ("--no-build-isolation" in options or ".whl" in options)
        assert is_isolated or "mutmut==" in options, line
        assert ("--require-hashes" in options) == (re.search(r"lock\b", options) is not None), line


@pytest.mark.parametrize("lock", [BASE, INLINE, RUN, TOKENS, DEVELOP])
def test_a_lock_file_has_all_that_its_packages_need(lock: str) -> None:
    """pip installs it without looking for dependencies, and once failed when it did."""
    packages = dict(name.partition(" ; ")[::2] for name in entries(lock))
    pending = [(name, "") for name, marker in packages.items() if not marker or Marker(marker).evaluate()]
    seen = set(pending)
    for name, extra in pending:
        assert name in packages, f"{name} is not in {lock}"
        for text in metadata.requires(name) or ():
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                needed = {(canonicalize_name(need.name), its_extra) for its_extra in ("", *need.extras)}
                pending += sorted(needed - seen)
                seen |= needed


def test_no_page_installs_by_a_name_that_a_stranger_could_take() -> None:
    """The program is on no index: pages install a commit or a wheel file, and the upload is off."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.*")]
    lines = [line for page in pages for line in read(page).splitlines()]
    named = [line for line in lines if re.search(r"(pip|pipx|uv) .*install|uvx ", line) and "reconciler" in line]
    assert len(named) > 1
    for line in named:
        assert re.search(
            r"kafka-reconciler(\[\w+\])? @ git\+https://|reconciler-[\d.]+-py3-none-any[.]whl|ADR", line
        ), line
    workflow = read(".github/workflows/release.yml")
    upload = workflow[workflow.index("\n  index:\n") :]
    assert "\n    if: vars.PUBLISH_TO_INDEX == 'true'\n" in upload
    assert re.findall(r"uses: (\S+)@", upload) == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
