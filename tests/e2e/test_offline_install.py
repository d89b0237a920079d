"""Installations from a downloaded folder with the network closed: as image, action, wheel and hook.

What the lock files name is enough, and nothing else runs: beside their packages the folder has a
newer setuptools, as a package index could serve one. It leaves a mark if anything imports it.

pip takes two minutes to build and install pyspark and the other large packages. `make setup` has done
exactly that with the same hashes and options, so its large packages are used here, its small ones are
installed from wheels that are packed again, and its pip is in each environment. `make test-long` makes
the environments with Python's own pip and downloads and installs all packages again.
"""

import csv
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, PathDistribution, distribution
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reconciler import __version__
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.suggest.starter import starter_manifests
from tests.build import git, policy, write_manifests
from tests.command import run_process
from tests.e2e.github import expressions
from tests.e2e.github.runner import read_outputs
from tests.e2e.workspace import Workspace
from tests.repeats import LONG

ROOT = Path(__file__).parents[2]
REPOSITORY = "acme/reconciler"
LARGE = ("numpy", "pandas", "pyarrow", "pyspark")
"""Packages of `make setup` that a short run uses. No other package of the lock file needs one of them."""
ENTRY = re.compile(r"^([a-z0-9-]+)==.*\n(?: .*\n)+", re.MULTILINE)
"""A package of a lock file, with its hashes."""
CLOSED = "http://127.0.0.1:9"
"""A proxy on the discard port, where nothing listens."""


def run(command: list[str | Path], folder: Path, **variables: str | Path) -> str:
    """Run a command outside this tree's environment and return its output. Fails with that output."""
    removed = ("PYTHONPATH", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")
    environment = {key: value for key, value in os.environ.items() if key not in removed}
    environment |= {key: str(value) for key, value in variables.items()}
    result = run_process(folder, *command, env=environment, timeout=1800)
    assert result.returncode == 0, f"{shlex.join(map(str, command))}\n{result.stdout}{result.stderr}"
    return result.stdout


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the run lock, and a setuptools that no lock file names.

    A long run downloads the packages, which is the only step with a network. RECONCILER_TEST_WHEELHOUSE
    names a folder that has them already, for quick repetitions.
    """
    folder = tmp_path_factory.mktemp("wheelhouse")
    lock = ROOT / "requirements.lock"
    if LONG:
        options = ["--quiet", "--require-hashes", "--no-deps", "--no-build-isolation", "--dest", folder]
        if downloaded := os.environ.get("RECONCILER_TEST_WHEELHOUSE"):
            options += ["--no-index", "--find-links", downloaded]
        run([sys.executable, "-m", "pip", "download", *options, "--requirement", lock], ROOT)
    else:
        for name in {match[1] for match in ENTRY.finditer(lock.read_text(encoding="utf-8"))}.difference(LARGE):
            pack_installed(name, folder)
    leave_mark = f"import pathlib\npathlib.Path({str(folder / 'mark')!r}).touch()\n"
    files = {
        "setuptools/__init__.py": leave_mark,
        "setuptools/build_meta.py": leave_mark,
        "setuptools-999.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: setuptools\nVersion: 999.0\n",
        "setuptools-999.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "setuptools-999.0.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(folder / "setuptools-999.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return folder


def pack_installed(name: str, folder: Path) -> None:
    """Write the wheel of a package of this environment. Packages of other systems are not installed."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return
    assert isinstance(package, PathDistribution)
    wheel_text, record_text = (package.read_text(file) or "" for file in ("WHEEL", "RECORD"))
    [dist_info] = re.findall(r"^([^/]+)/WHEEL,", record_text, re.MULTILINE)
    of_the_installation = {f"{dist_info}/{file}" for file in ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")}
    rows = [
        row
        for row in csv.reader(record_text.splitlines())
        if not row[0].startswith("..") and not row[0].endswith(".pyc") and row[0] not in of_the_installation
    ]
    tags = zip(*(tag.split("-") for tag in re.findall(r"^Tag: (\S+)", wheel_text, re.MULTILINE)), strict=True)
    tag = "-".join(".".join(sorted(set(parts))) for parts in tags)
    record = io.StringIO()
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{dist_info}/RECORD", "", "")])
    with zipfile.ZipFile(folder / f"{dist_info.removesuffix('.dist-info')}-{tag}.whl", "w") as wheel:
        for path, *_ in rows:
            wheel.write(str(package.locate_file(path)), path)
        wheel.writestr(f"{dist_info}/RECORD", record.getvalue())


@pytest.fixture(scope="module")
def locks(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the lock files of the packages in the wheelhouse.

    A short run leaves out the large packages and names the hashes of the wheels that it packed.
    """
    folder = tmp_path_factory.mktemp("locks")
    hashes: dict[str, str] = {}
    for wheel in [] if LONG else wheelhouse.glob("*.whl"):
        name, version = wheel.name.split("-")[:2]
        if version != "999.0":
            hashes[re.sub("[-_.]+", "-", name).lower()] = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for lock in ("requirements-base.lock", "requirements.lock"):
        text = (ROOT / lock).read_text(encoding="utf-8")
        if not LONG:
            names = {match[1] for match in ENTRY.finditer(text)}
            assert len(names & hashes.keys()) > 20, names - hashes.keys()
            text = ENTRY.sub(lambda entry: with_hash(entry, hashes), text)
        (folder / lock).write_text(text, encoding="utf-8")
    return folder


def with_hash(entry: re.Match[str], hashes: Mapping[str, str]) -> str:
    """Return an entry of a lock file with the hash of the packed wheel, or nothing for a large package."""
    if entry[1] in LARGE:
        return ""
    first_line = entry[0].partition("\n")[0]
    return f"{first_line}\n    --hash=sha256:{hashes[entry[1]]}\n" if entry[1] in hashes else entry[0]


@pytest.fixture(scope="module")
def offline(wheelhouse: Path) -> Iterator[Mapping[str, str]]:
    """Variables that close the network for pip and whatever it starts."""
    yield {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheelhouse),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_NO_COMPILE": "no",  # pip's way to set --no-compile: Python compiles what a test imports, and no more
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), CLOSED),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    assert not (wheelhouse / "mark").exists(), "a setuptools ran that no lock file names"


@pytest.fixture(scope="module")
def clone(locks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this tree's files, with `locks`, as one commit that its origin on GitHub has."""
    folder = tmp_path_factory.mktemp("clone")
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    shutil.copytree(locks, folder, dirs_exist_ok=True)
    changes = folder / "CHANGELOG.md"  # a release has a dated section
    changes.write_text(changes.read_text().replace("## [Unreleased]", f"## [{__version__}] - 2026-11-26"))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "release")
    git(folder, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    return folder


@pytest.fixture(scope="module")
def commit(clone: Path) -> str:
    return git(clone, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def image(clone: Path, commit: str, offline: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/` of the image's environment: the steps of the Dockerfile's first stage, in an empty folder.

    Its COPY takes files of the context only, as .dockerignore does.
    """
    folder = tmp_path_factory.mktemp("image")
    source, target = folder / "src", folder / "opt"
    source.mkdir()
    dockerfile = (clone / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    stage = dockerfile.split("\nFROM ")[1].splitlines()[1:]
    # A stage that names an argument from before its FROM has the value from there.
    given = dict(re.findall(r"^ARG (\w+)=(\S*)$", dockerfile, re.MULTILINE)) | {"SOURCE": f"{REPOSITORY}@{commit}"}
    arguments: dict[str, str] = {}
    for instruction, _, text in (line.partition(" ") for line in stage if line and not line.startswith("#")):
        match instruction:
            case "WORKDIR":
                pass
            case "COPY":
                copy_into(source, clone, *shlex.split(text))
            case "ARG":
                name = text.partition("=")[0]
                arguments[name] = given[name]
            case "RUN":
                script = text.replace("/opt/reconciler", str(target)).replace("bin/pip ", "bin/python -m pip ")
                run(["sh", "-ec", with_environment(script, target)], source, **offline, **arguments)
            case _:
                raise AssertionError(f"the Dockerfile's {instruction} is new: run it here, too")
    if not LONG:
        link_packages(target, LARGE)
    return target / "bin"


def with_environment(script: str, folder: Path) -> str:
    """Return a script that makes the environment `folder` with Python of this environment.

    Python takes five seconds to install and compile pip, so a short run has the pip of `make setup`.
    """
    made = f"{sys.executable} -m venv"
    if not LONG:
        made += " --without-pip"
        venv.create(folder, with_pip=False, symlinks=True)
        link_packages(folder, ["pip"])
    assert script.count("python -m venv ") == 1
    return script.replace("python -m venv", made)


def link_packages(folder: Path, names: Iterable[str]) -> None:
    """Add packages of this environment to the one in `folder`."""
    [site] = folder.glob("lib/python*/site-packages")
    for name in names:
        for pattern in (name, f"{name}.libs", f"{name}-[0-9]*.dist-info"):
            for package in Path(sysconfig.get_path("purelib")).glob(pattern):
                if not (site / package.name).exists():
                    (site / package.name).symlink_to(package)


def copy_into(folder: Path, context: Path, *words: str) -> None:
    *names, target = words
    for name in names:
        if (context / name).is_dir():
            shutil.copytree(context / name, folder / target)
        else:
            shutil.copy(context / name, folder / target)


def environment_of(packages: Path, folder: Path) -> Path:
    """`bin/` of an environment that has the packages of another one (its `bin/`) and its own first."""
    venv.create(folder, with_pip=False, symlinks=True)
    [site] = folder.glob("lib/python*/site-packages")
    [other] = packages.parent.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{other}\n")
    return folder / "bin"


def run_step(
    workflow: Path, name: str, folder: Path, temporary: Path, environment: str, **variables: Any
) -> dict[str, str]:
    """Run the script of a step as GitHub does, and return the step's outputs and its `stdout`.

    The script makes an environment in the folder `environment` of `temporary`.
    """
    document = YAML(typ="safe").load(workflow.read_text(encoding="utf-8"))
    jobs: list[Any] = [document["runs"]] if "runs" in document else list(document["jobs"].values())
    [step] = [step for job in jobs for step in job["steps"] if step.get("name") == name]
    inputs = variables.pop("inputs", {})
    values = {
        key: expressions.text(expressions.value(text, {"inputs": inputs})) for key, text in step.get("env", {}).items()
    }
    files = {key: temporary / key.lower() for key in ("GITHUB_OUTPUT", "GITHUB_PATH")}
    for file in files.values():
        file.touch()
    options = ["--noprofile", "--norc", "-eo", "pipefail", "-c"]
    variables = {**variables, **values, **files, "RUNNER_TEMP": temporary}
    script = with_environment(step["run"], temporary / environment)
    stdout = run(["bash", *options, script], folder, **variables)
    path = files["GITHUB_PATH"].read_text().strip()
    return {**read_outputs(files["GITHUB_OUTPUT"]), "stdout": stdout, "path": path}


@pytest.fixture(scope="module")
def release(
    clone: Path, commit: str, image: Path, offline: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder with wheel and sdist: the release workflow's own script, which builds them twice.

    It builds with the packages of the image, so that they are installed once.
    """
    folder = tmp_path_factory.mktemp("release")
    environment_of(image, folder / "build")
    variables = {
        **offline,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_SHA": commit,
        "GITHUB_REF_NAME": f"v{__version__}",
    }
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    outputs = run_step(workflow, "Build twice, and see that both are the same", clone, folder, "build", **variables)
    assert outputs["version"] == __version__
    return folder / "dist"


@pytest.fixture(scope="module")
def released(release: Path, image: Path, offline: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin/` of an environment with the release's wheel and the packages of the run lock."""
    binaries = environment_of(image, tmp_path_factory.mktemp("released"))
    [wheel] = release.glob("*.whl")
    options = ["--quiet", "--no-deps", "--force-reinstall"]
    run([binaries / "python", "-m", "pip", "install", *options, wheel], release, **offline)
    return binaries


@pytest.mark.spark
def test_a_release_validates_and_plans_with_the_network_closed(
    released: Path, offline: Mapping[str, str], tmp_path: Path, cluster: SandboxCluster
) -> None:
    """A wheel of the release workflow's commands, beside the packages of the run lock: Spark and its
    workers import the installed package, and the plan of a floor has one record to delete.
    """
    topic = Workspace(cluster, tmp_path).create_topic(11)
    floor = policy("RetentionFloor", "floor", f"topics: [{topic}], keep: {{last: 10}}")
    write_manifests(tmp_path, cluster.bootstrap_servers, floor, limits="")
    program = released / "reconciler"
    assert run([program, "validate"], tmp_path, **offline).startswith("valid: 1 policy for local")
    plan = run([program, "plan", "--spark-master", "local[1]"], tmp_path, **offline)
    assert f"{topic}[0] (floor): at most 1 record (9.1 %), log start from 0 to 1" in plan


def test_the_image_runs_as_its_entry_point_says(image: Path, offline: Mapping[str, str], tmp_path: Path) -> None:
    """The steps of the Dockerfile, run one by one in an empty folder, end with the program."""
    assert run([image / "reconciler", "--version"], tmp_path, **offline) == f"reconciler {__version__}\n"
    listed = json.loads(run([image / "python", "-m", "pip", "list", "--format", "json"], tmp_path, **offline))
    versions = {re.sub("[-_.]+", "-", package["name"]).lower(): package["version"] for package in listed}
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)(?: ;.*)? \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert versions.items() - {("pip", versions["pip"]), ("kafka-reconciler", __version__)} <= set(locked)


@pytest.mark.parametrize("way", ["wheel", "image", "clone"])
def test_init_ends_with_workflows_that_install_what_they_name(
    way: str,
    request: pytest.FixtureRequest,
    clone: Path,
    commit: str,
    image: Path,
    tmp_path: Path,
    cluster: SandboxCluster,
) -> None:
    """A wheel and an image carry their commit, and a clone is at it. That commit has the action which
    the workflows name. A wheel once ended with a question for --action.
    """
    if way == "clone":
        binaries = environment_of(image, tmp_path / "env")
        options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--force-reinstall", "--editable"]
        editables = sysconfig.get_path("purelib")  # only the develop lock has it
        run([binaries / "python", "-m", "pip", "install", *options, clone], tmp_path, PYTHONPATH=editables)
    else:
        binaries = request.getfixturevalue("released") if way == "wheel" else image
    (tmp_path / "work").mkdir()
    run([binaries / "reconciler", "init", "--bootstrap-server", cluster.bootstrap_servers], tmp_path / "work")
    workflows = list((tmp_path / "work" / ".github" / "workflows").iterdir())
    assert len(workflows) >= 4
    sources = {
        source for file in workflows for source in re.findall(rf"uses: ({REPOSITORY}\S*) #", file.read_text("utf-8"))
    }
    assert sources == {f"{REPOSITORY}@{commit}"}
    assert "using: composite" in git(clone, "show", f"{commit}:action.yml")


def test_the_action_installs_its_own_source(
    clone: Path, commit: str, image: Path, offline: Mapping[str, str], tmp_path: Path
) -> None:
    """The action's script, as on a runner, installs the version of its own folder.

    Without scans it installs no Spark: `validate` works, and `plan` says what is missing before it
    connects. With scans it adds the packages of the run lock.
    """
    variables = {
        **offline,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(clone),
    }

    def install(scan: str) -> Path:
        at, inputs = (tmp_path, tmp_path, "reconciler"), {"scan": scan, "cache": "false"}
        outputs = run_step(clone / "action.yml", "Install", *at, inputs=inputs, **variables)
        assert outputs["stdout"] == f"reconciler {__version__}\n"
        [record] = tmp_path.glob("reconciler/lib/python*/site-packages/kafka_reconciler-*/direct_url.json")
        assert json.loads(record.read_text())["url"] == clone.as_uri()
        [source] = tmp_path.glob("reconciler/lib/python*/site-packages/reconciler/companions/github/source.txt")
        assert source.read_text() == f"{REPOSITORY}@{commit}\n", "its folder is a clean checkout"
        return Path(outputs["path"].splitlines()[-1])

    binaries = install("false")
    program = binaries / "reconciler"
    write_files(tmp_path, starter_manifests("5L6g3nShT-eMCtK--X86sw", ["127.0.0.1:9"], "prod-eu"))
    assert run([program, "validate"], tmp_path).startswith("valid: ")
    assert run([program, "clusters", "-o", "json"], tmp_path) == '["prod-eu"]\n'
    plan = run_process(tmp_path, program, "plan")
    assert (plan.returncode, plan.stdout) == (1, "")
    assert "a scan needs pyarrow" in plan.stderr
    find = "import importlib.util; print(importlib.util.find_spec('grpc') is not None)"
    has_connect = [binaries / "python", "-c", find]
    assert run(has_connect, tmp_path) == "False\n"
    if LONG:  # the packages of the image, so that Spark is installed once
        environment_of(image, tmp_path / "reconciler")
    assert install("true") == binaries
    assert run(has_connect, tmp_path) == "True\n"


def test_the_hook_of_pre_commit_validates_without_spark(
    clone: Path, commit: str, offline: Mapping[str, str], tmp_path: Path
) -> None:
    """pre-commit installs the hook from a clone, and the hook refuses a manifest with an error."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    hooks = {"repos": [{"repo": str(clone), "rev": commit, "hooks": [{"id": "reconciler-validate"}]}]}
    files = {".pre-commit-config.yaml": json.dumps(hooks)}
    files |= starter_manifests("5L6g3nShT-eMCtK--X86sw", ["broker-1:9093"], "prod-eu")
    write_files(repository, files)
    git(repository, "add", "-A")
    command: list[str | Path] = [Path(sys.executable).parent / "pre-commit", "run", "--all-files"]
    variables = {**offline, "PRE_COMMIT_HOME": str(tmp_path / "cache")}
    assert "Passed" in run(command, repository, **variables)
    installed = {path.name for path in tmp_path.glob("cache/*/py_env-*/lib/python*/site-packages/*")}
    assert "pydantic" in installed
    assert not installed & {"pyspark", "pyarrow", "pandas"}
    (repository / "manifests" / "prod-eu" / "cluster.yaml").write_text("kind: Cluster\n")
    git(repository, "add", "-A")
    with pytest.raises(AssertionError, match=r"reconciler validate.*Failed"):
        run(command, repository, **variables)
