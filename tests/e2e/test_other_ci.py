"""The commands of the examples for GitLab and Kubernetes, run in a repository against real brokers."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from ruamel.yaml import YAML

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import cluster_manifest, commit, git
from tests.command import command, run_process
from tests.e2e.github.runner import run_script
from tests.e2e.workspace import Workspace, create_journal, floor, removal
from tests.toolbox import list_groups, log_start_offsets

EXAMPLES = Path(__file__).parents[2] / "examples"


def dead(group: str) -> str:
    return removal(group, name="dead, cluster: prod-eu")


class Repository:
    """A repository with the manifests of one cluster, and the clones that jobs get."""

    def __init__(self, folder: Path, cluster: SandboxCluster) -> None:
        self.folder = folder
        self.origin = folder / "origin"
        self.origin.mkdir()
        git(self.origin, "init", "-q", "-b", "main")
        self.cluster = cluster
        self.journal = create_journal(cluster)
        self.commit(cluster=self.declare_cluster(cluster.bootstrap_servers))

    def declare_cluster(self, servers: str, more: str = "") -> str:
        """Return the Cluster manifest."""
        limits, name = "groupsPercent: 100, recordsPercentPerTopic: 100", "prod-eu"
        text = cluster_manifest(servers, limits=limits, cluster_id=self.cluster.cluster_id, name=name)
        return f"{text}  journal: {{topic: {self.journal}}}\n{more}"

    def commit(self, **manifests: str) -> None:
        (self.origin / "manifests").mkdir(exist_ok=True)
        for name, text in manifests.items():
            (self.origin / "manifests" / f"{name}.yaml").write_text(text)
        commit(self.origin)

    def clone(self, name: str) -> Path:
        """Clone the branch that the origin is on."""
        target = self.folder / f"{name}-{uuid4().hex[:4]}"
        git(self.folder, "clone", "-q", str(self.origin), str(target))
        return target


@pytest.fixture
def repository(tmp_path: Path, cluster: SandboxCluster) -> Repository:
    return Repository(tmp_path, cluster)


@pytest.fixture
def group(space: Workspace) -> str:
    """A group without members on a topic of its own."""
    name = space.create_topic(1)
    return space.commit(name, name, 1)


class GitLab:
    """Runs jobs of the example as a runner does: the lines of `before_script` and `script` in one shell."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        text = (EXAMPLES / "gitlab" / ".gitlab-ci.yml").read_text(encoding="utf-8")
        self.pipeline: dict[str, Any] = YAML(typ="safe").load(text)

    def run(
        self, name: str, *, artifacts: Path | None = None, clone: Path | None = None, **variables: str
    ) -> tuple[Path, str, int]:
        """Run a job in a clone, by default a new one, with the artifacts of another job's clone."""
        job, folder = self.pipeline[name], clone or self.repository.clone(name)
        if artifacts:
            [needed] = job["needs"]
            for path in self.pipeline[needed]["artifacts"]["paths"]:
                (folder / path).write_bytes((artifacts / path).read_bytes())
        home = str(self.repository.folder)  # without credentials of this machine
        predefined = {"HOME": home, "CI_PROJECT_DIR": str(folder), "CI_DEFAULT_BRANCH": "main"}
        declared = {
            key: text.replace("$CI_PROJECT_DIR", str(folder)) for key, text in self.pipeline["variables"].items()
        }
        script = "\n".join((*self.pipeline["default"]["before_script"], *job["script"]))
        command = ["bash", "-eo", "pipefail", "-c", script]
        text, code = run_script(command, folder, predefined | declared | variables, [])
        if code == 0:
            missing = [path for path in job.get("artifacts", {}).get("paths", ()) if not (folder / path).exists()]
            assert missing == []
        return folder, text, code


def test_gitlab_plans_a_merge_request_and_applies_the_digest_that_a_person_types_in(
    repository: Repository, group: str, cluster: SandboxCluster
) -> None:
    """Each job in a clone of its own; a digest of another plan applies nothing."""
    gitlab = GitLab(repository)
    git(repository.origin, "checkout", "-q", "-b", "change")
    repository.commit(dead=dead(group))
    _, text, code = gitlab.run("validate")
    assert code == 0, text
    clone, text, code = gitlab.run("plan")
    assert code == 0, text
    assert group in text
    # A runner keeps a clone for the next job, and removes what git does not track.
    shutil.rmtree(clone / "trusted")
    _, text, code = gitlab.run("plan", clone=clone)
    assert code == 0, text
    git(repository.origin, "checkout", "-q", "main")
    git(repository.origin, "merge", "-q", "change")
    planned, text, code = gitlab.run("plan-merged")
    assert code == 0, text
    [digest] = re.findall(r"Digest (sha256:[0-9a-f]{64})", text)
    _, text, code = gitlab.run("apply", artifacts=planned, DIGEST=f"sha256:{'0' * 64}")
    assert code == 4, text
    assert group in list_groups(cluster)
    _, text, code = gitlab.run("apply", artifacts=planned, DIGEST=digest)
    assert code == 0, text
    assert group not in list_groups(cluster)


def test_gitlab_applies_with_the_manifests_of_the_moment(
    repository: Repository, group: str, cluster: SandboxCluster
) -> None:
    """A job that a person starts hours later has the commit of its pipeline, which protects less than the branch."""
    repository.commit(dead=dead(group))
    gitlab = GitLab(repository)
    planned, text, _code = gitlab.run("plan-merged")
    [digest] = re.findall(r"Digest (sha256:[0-9a-f]{64})", text)
    protect = f"  protect: {{groups: [{group}]}}\n"
    repository.commit(cluster=repository.declare_cluster(cluster.bootstrap_servers, protect))
    _, text, code = gitlab.run("apply", clone=planned, DIGEST=digest)
    assert (code, group in list_groups(cluster)) == (4, True), text


def test_gitlab_connects_where_the_default_branch_says(repository: Repository, tmp_path: Path) -> None:
    """A merge request with other servers is refused, and its plan is still of the trusted cluster.

    A tag with the name of the branch was fetched in its place, so the password went to those servers. A
    link in place of the plan let the job write elsewhere.
    """
    git(repository.origin, "checkout", "-q", "-b", "change")
    (repository.origin / "plan.json").symlink_to(tmp_path / "elsewhere")
    repository.commit(cluster=repository.declare_cluster("127.0.0.1:9"))
    git(repository.origin, "tag", "main")
    clone, text, code = GitLab(repository).run("plan")
    assert code == 3, text
    assert "connects elsewhere after the merge" in text
    assert not (clone / "plan.json").is_symlink()
    assert not (tmp_path / "elsewhere").exists()


ANY_USER = ("--reuid=1000660000", "--regid=0", "--clear-groups", "--no-new-privs")
READ_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""The interpreter of these tests may lie where only its user can read; that of the image does not."""


def cron_job(name: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The containers of a CronJob: the one that clones, and the one that runs this program."""
    text = (EXAMPLES / "kubernetes" / "reconciler.yaml").read_text(encoding="utf-8")
    documents = YAML(typ="safe").load_all(text)
    [job] = [document for document in documents if document["metadata"]["name"] == name]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [clone], [container] = pod["initContainers"], pod["containers"]
    grace_s, timeout_s = pod.get("terminationGracePeriodSeconds", 30), 30  # the defaults of Kubernetes and of --timeout
    assert container["args"][0] != "converge" or grace_s > 4 * timeout_s, "it is killed before its results are written"
    assert container["workingDir"] == "/git/current"
    return clone, container


def run_container(name: str, repository: Repository, pod: Path) -> tuple[str, int]:
    """Run a CronJob's containers in a folder with its volumes, as root as a user of OpenShift.

    That user has an id without a name, group 0 and no right to write to anything but the volumes.
    """
    clone, container = cron_job(name)
    for volume in ("git", "tmp", "origin"):  # of this run only
        shutil.rmtree(pod / volume, ignore_errors=True)
    for volume in ("git", "tmp", "state"):
        (pod / volume).mkdir(parents=True, exist_ok=True)
        (pod / volume).chmod(0o777)
    shutil.copytree(repository.origin, pod / "origin")
    user = ["setpriv", *ANY_USER, *READ_ALL] if os.geteuid() == 0 else []
    if user:  # a repository of another user needs no trust over HTTPS, but as a folder
        subprocess.run(["chown", "-R", ANY_USER[0].partition("=")[2], str(pod / "origin")], check=True, timeout=60)
    address = clone["command"][-2]
    program = [*user, *clone["command"][:-2], (pod / "origin").as_uri(), str(pod / "git" / "current")]
    assert address.startswith("https://")
    subprocess.run(program, env=variables(clone, pod), check=True, timeout=60)
    arguments = [argument.replace("/state", str(pod / "state")) for argument in container["args"]]
    environment = variables(container, pod) | {"RECONCILER_NO_INPUT": "1", "PYTHONPATH": str(EXAMPLES.parent)}
    result = run_process(pod / "git" / "current", *user, *command(*arguments), env=environment)
    return result.stdout + result.stderr, result.returncode


def variables(container: Mapping[str, Any], pod: Path) -> dict[str, str]:
    """Return the variables of a container, and nothing of this machine but the path of programs."""
    declared = {variable["name"]: variable["value"].replace("/tmp", str(pod / "tmp")) for variable in container["env"]}
    return {"PATH": os.environ["PATH"], "TMPDIR": str(pod / "tmp"), **declared}


@pytest.fixture
def pod() -> Iterator[Path]:
    """A folder that any user may enter, as no user may enter those of pytest."""
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_the_drift_job_fails_while_something_drifts(repository: Repository, group: str, pod: Path) -> None:
    """The first run and the next, which has the report of the first."""
    repository.commit(dead=dead(group))
    for _ in range(2):
        text, code = run_container("reconciler-drift", repository, pod)
        assert code == 2, text
        assert group in text
    assert json.loads((pod / "state" / "drift.json").read_text())


def test_the_converge_job_acts_on_reviewed_manifests_only(
    repository: Repository, group: str, cluster: SandboxCluster, pod: Path
) -> None:
    """A continuous policy waits until an apply has released its manifests in the journal topic."""
    servers = cluster.bootstrap_servers
    client.commit(servers, group, {(group, 0): 0})
    read = floor(group, f"keep: {{unreadBy: [{group}]}}", name="read, cluster: prod-eu", mode="continuous")
    repository.commit(read=read)
    text, code = run_container("reconciler-converge", repository, pod)
    assert code == 4, text
    assert "not released" in text
    gitlab = GitLab(repository)
    planned, text, _code = gitlab.run("plan-merged")
    [digest] = re.findall(r"Digest (sha256:[0-9a-f]{64})", text)
    text, code = gitlab.run("apply", artifacts=planned, DIGEST=digest)[1:]
    assert code == 0, text
    client.commit(servers, group, {(group, 0): 1})
    text, code = run_container("reconciler-converge", repository, pod)
    assert code == 0, text
    assert log_start_offsets(cluster, group) == {0: 1}
