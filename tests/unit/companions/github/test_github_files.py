"""The workflows that `init` writes: complete, equal to those of this repository, and thin."""

import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from reconciler import __version__
from reconciler.companions.github import bounds, workflows

ROOT = Path(__file__).parents[4]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WRITTEN = workflows.workflows(f"acme/reconciler@{COMMIT}")
USED = f"acme/reconciler@{COMMIT} # reconciler {__version__}"
ACTION = "action.yml"
RED = "./.github/workflows/red.yml # zizmor: ignore[self-repository]"
"""A workflow of the same commit, which reports red runs."""
WORKFLOWS = [path for path in WRITTEN if path.startswith(".github/workflows/")]
OWN = {path: YAML(typ="safe").load(ROOT / path) for path in WORKFLOWS}


def test_init_writes_the_workflows_which_install_one_commit_of_this_program() -> None:
    """The package lacks no data, and no workflow installs by a name that anyone could register."""
    assert list(WRITTEN) == [
        ".github/dependabot.yml",
        ".github/workflows/apply.yml",
        ".github/workflows/converge.yml",
        ".github/workflows/drift.yml",
        ".github/workflows/plan.yml",
        ".github/workflows/red.yml",
        ".github/workflows/validate.yml",
    ]
    for path in WORKFLOWS:
        text = WRITTEN[path]
        installs = re.findall(r"uses: (.*/reconciler.*)", text)
        assert installs == [USED] * len(installs), path
        assert installs, path
        assert "pip install" not in text
        assert "pull_request_target" not in text, "zizmor does not see it beside a trigger that it may ignore"
        assert "\npermissions: {}\n" in text, "zizmor allows a workflow to begin with rights to read"


def test_this_repository_runs_the_workflows_that_init_writes() -> None:
    """Others differ in the line of the action only. Our Dependabot covers the image, too."""
    for path in WORKFLOWS:
        assert WRITTEN[path].replace(USED, workflows.OWN_ACTION) == (ROOT / path).read_text(encoding="utf-8")


def test_the_action_installs_the_program_of_its_own_commit() -> None:
    """Dependencies by hash from lock files; no index has the program, pip fetches no builder."""
    text = (ROOT / ACTION).read_text(encoding="utf-8")
    assert "kafka-reconciler" not in text
    assert "options=(--quiet --require-hashes --no-deps --no-build-isolation)\n" in text
    assert re.findall(r"pip install (.*)", text) == [
        '"${options[@]}" --requirement "$GITHUB_ACTION_PATH/$lock"',
        '--quiet --no-deps --no-build-isolation "$GITHUB_ACTION_PATH"',
    ]


def test_the_action_shares_downloads_between_jobs_only_where_a_job_asks_for_it() -> None:
    """Every job can write to a cache: without the input none is read or written."""
    action = YAML(typ="safe").load(ROOT / ACTION)
    assert action["inputs"]["cache"]["default"] == "false"
    steps = action["runs"]["steps"]
    [cache] = [step for step in steps if step.get("uses", "").startswith("actions/cache")]
    assert cache["if"] == "inputs.cache == 'true'"
    assert not [step for step in steps if "cache" in step.get("with", {})]


def test_dependabot_keeps_the_commits_of_the_actions_current() -> None:
    """In a user's repository and here; here the base image of the container, too."""
    ecosystems = {
        text: [update["package-ecosystem"] for update in YAML(typ="safe").load(text)["updates"]]
        for text in (WRITTEN[workflows.DEPENDABOT], (ROOT / workflows.DEPENDABOT).read_text(encoding="utf-8"))
    }
    assert list(ecosystems.values()) == [["github-actions"], ["github-actions", "docker"]]


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, *(f".github/workflows/{name}.yml" for name in ("ci", "long", "release")), ACTION]
)
def test_third_party_actions_are_pinned_by_commit_and_named_by_version(path: str) -> None:
    """Each `uses` is local or a full commit beside its version, the same one everywhere."""
    uses = re.findall(r"\buses: (.*)", (ROOT / path).read_text(encoding="utf-8"))
    assert uses or "red.yml" in path
    for reference in uses:
        assert reference in (workflows.OWN_ACTION, RED) or re.fullmatch(
            r"(actions|pypa)/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", reference
        ), reference


def test_one_commit_per_third_party_action() -> None:
    """The same action is never pinned to two commits: an incomplete update would do that."""
    pins: dict[str, set[str]] = {}
    for path in ((ROOT / ACTION), *(ROOT / ".github").rglob("*.yml")):
        for action, pin in re.findall(r"uses: (actions/[a-z-]+)[a-z/]*@(.*)", path.read_text(encoding="utf-8")):
            pins.setdefault(action, set()).add(pin)
    assert {action: len(commits) for action, commits in pins.items()} == dict.fromkeys(pins, 1)


SHELL_MAX = 10
"""Lines of a step's script: a workflow holds steps, the program holds rules."""


@pytest.mark.parametrize("path", [*WORKFLOWS, "examples/gitlab/.gitlab-ci.yml"])
def test_a_step_is_a_command_and_no_program(path: str) -> None:
    """What decides is in the program, with tests; a step once had a hundred lines of shell."""
    jobs = YAML(typ="safe").load(ROOT / path)
    if "jobs" in jobs:
        scripts = [step["run"] for job in jobs["jobs"].values() for step in job.get("steps", ()) if "run" in step]
    else:
        scripts = ["\n".join(job["script"]) for job in jobs.values() if isinstance(job, dict) and "script" in job]
    assert scripts
    for script in scripts:
        assert len(script.strip().splitlines()) <= SHELL_MAX, script
        assert not re.search(r"\b(gh|jq|awk|curl|python)\b", script), script


def test_the_rules_read_the_names_that_plan_yml_writes() -> None:
    """`bounds` finds runs, plans and failed plans by the names of artifacts and of a job."""
    jobs = OWN[".github/workflows/plan.yml"]["jobs"]
    head, number = "a" * 40, 7
    values = {
        "matrix.cluster": "eu",
        "needs.find.outputs.number": str(number),
        "github.event.workflow_run.head_sha": head,
        "github.run_attempt": "2",
    }

    def text(template: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values[match[1]], template)

    names = [text(step["with"]["name"]) for job in jobs.values() for step in job["steps"] if "upload" in str(step)]
    assert f"pull_{number}_{head}" in names
    rows = [{"id": row, "name": name} for row, name in enumerate(names)]
    assert bounds.plans_of(rows, number=number, head=head, attempt=2).keys() == {"eu"}
    failed = {"name": text(jobs["plan"]["name"]), "conclusion": "failure"}
    assert bounds.lost_plans([failed], started=datetime.now(UTC), plans=[]) == {"eu"}


def test_no_python_imports_modules_of_the_checkout() -> None:
    """Python and Spark's workers put it before the standard library, but for PYTHONSAFEPATH."""
    for path in WORKFLOWS:
        assert OWN[path]["env"]["PYTHONSAFEPATH"] == "1", path
    steps = YAML(typ="safe").load(ROOT / ACTION)["runs"]["steps"]
    running_python = [step for step in steps if "python" in step.get("run", "")]
    assert running_python
    assert [step["env"].get("PYTHONSAFEPATH") for step in running_python] == ["1"] * len(running_python)


@pytest.mark.parametrize("files", ["this repository's", "init's"])
def test_zizmor_finds_nothing_in_the_workflows(files: str, tmp_path: Path) -> None:
    """At its strictest level, in our workflows and in those of users.

    It finds an expression inside a script, and credentials that persist.
    """
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent))
    assert zizmor
    audited = [ROOT / ".github", ROOT / ACTION]
    if files == "init's":
        audited = [tmp_path / ".github"]
        for path, text in WRITTEN.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
    result = subprocess.run(
        [zizmor, "--offline", "--quiet", "--no-progress", "--persona=auditor", *map(str, audited)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


WRITING = {("plan.yml", "comment"), ("apply.yml", "results"), ("red.yml", "issue"), ("drift.yml", "issue")}
GATES = {("plan.yml", "gate"), ("validate.yml", "queue")}


DEFAULT_BRANCH = {
    "apply.yml": "${{ github.ref_name }}",
    "converge.yml": "${{ github.ref_name }}",
    "drift.yml": "${{ github.ref_name }}",
    "plan.yml": "${{ github.sha }}",
    "validate.yml": "${{ github.event.repository.default_branch }}",
}
"""How a job names the default branch; without a name, its events run there."""


def test_a_job_that_writes_has_no_secret_and_runs_one_command_of_the_program() -> None:
    """It checks out the default branch, and runs nothing but `reconciler github`."""
    writing = set()
    for path in WORKFLOWS:
        name = Path(path).name
        for job_id, job in OWN[path]["jobs"].items():
            if "steps" in job and "write" in job["permissions"].values():
                writing.add((name, job_id))
                assert "environment" not in job
                [checkout] = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
                assert (checkout.get("ref"), "path" in checkout) == (DEFAULT_BRANCH.get(name), False), path
                [script] = [step["run"] for step in job["steps"] if "run" in step]
                assert re.fullmatch(r'exec reconciler github [a-z-]+( [a-z]+| "\$TITLE")?', script), path
    assert writing == WRITING | GATES


def test_a_job_with_the_secrets_of_a_cluster_runs_no_file_of_a_pull_request() -> None:
    """The merge is data, in a folder below the default branch, which only `plan` gets."""
    for path in WORKFLOWS:
        for job in OWN[path]["jobs"].values():
            if "environment" not in job:
                continue
            assert job["environment"].startswith("reconciler-")
            steps = [step for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
            trusted, *proposed = [step["with"] for step in steps]
            assert trusted["ref"] == DEFAULT_BRANCH[Path(path).name]
            assert "path" not in trusted
            assert [checkout["path"] for checkout in proposed] == (["proposed"] if path.endswith("/plan.yml") else [])
            scripts = [step["run"] for step in job["steps"] if "proposed" in step.get("run", "")]
            assert len(scripts) == len(proposed)
            assert all("reconciler plan proposed/manifests --connect-as manifests " in script for script in scripts)


def test_what_changes_a_cluster_is_the_last_command_of_its_step_and_hears_a_cancel() -> None:
    """GitHub signals a cancel to the shell of the step only, and `exec` replaces this shell."""
    commands = []
    for path in WORKFLOWS:
        for job in OWN[path]["jobs"].values():
            for step in job.get("steps", ()):
                script = step.get("run", "").replace("\\\n", " ")
                if re.search(r"reconciler (apply|converge) ", script):
                    commands.append(script.splitlines()[-1])
    assert len(commands) == 2
    assert all(command.startswith("exec reconciler ") for command in commands)
