"""A user's repository with the files of `init`: its commits, pull requests, reviews and merges."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconciler.companions.github import workflows
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests import build
from tests.command import run_process
from tests.e2e.github import gh
from tests.e2e.github.gh import Environment
from tests.e2e.github.runner import HOME, GitHub, WorkflowRun

PULL = 7
PURPOSES = ("plan", "apply", "elect", "converge")


class Repository:
    """A user's repository, and the events that GitHub sends.

    Its environments are protected as docs/github.md says.
    """

    def __init__(self, folder: Path, clusters: Mapping[str, SandboxCluster]) -> None:
        self.folder = folder / "origin"
        self.folder.mkdir()
        (folder / "state").mkdir()
        environments = {
            f"reconciler-{purpose}-{name}": Environment(
                {"KAFKA_BOOTSTRAP_SERVERS": cluster.bootstrap_servers},
                {"KAFKA_PASSWORD": "unused"},
                reviewers=("approver",) if purpose in ("apply", "elect") else (),
                branches=("main",),
            )
            for name, cluster in clusters.items()
            for purpose in PURPOSES
        }
        writers = dict.fromkeys(("reviewer", "second-reviewer", "mallory"), "write")
        self.state = gh.State(folder / "state", self.folder, environments, writers)
        self.hub, self.git = GitHub(self.state), self.state.git
        self.git("init", "-q", "-b", "main")
        for path, text in workflows.workflows(HOME).items():
            self.write(path, text)
        for name, cluster in clusters.items():
            self.write(f"manifests/{name}/cluster.yaml", cluster_manifest(name, cluster.cluster_id))
            self.write(f"manifests/{name}/leaders.yaml", leaders(name))
        self.save()

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def commit(self, files: Mapping[str, str] | None = None, *, branch: str = "main", **of_eu: str) -> str:
        """Commit files to a branch. An empty text removes its file. `of_eu`: manifests of the cluster eu by name."""
        self.checkout(branch)
        named = {f"manifests/eu/{name}.yaml": text for name, text in of_eu.items()}
        for path, text in {**(files or {}), **named}.items():
            self.write(path, text) if text else self.git("rm", "-q", path)
        return self.save()

    def checkout(self, branch: str) -> None:
        """Check out a branch, which begins at main if it is new."""
        exists = branch == "main" or self.git("branch", "--list", branch)
        self.git("checkout", "-q", *([branch] if exists else ["-b", branch, "main"]))

    def save(self) -> str:
        """Commit the files of the checkout."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def propose(self, files: Mapping[str, str] | None = None, **of_eu: str) -> dict[str, WorkflowRun]:
        """Commit to the branch `change` and push it to its pull request. Returns the runs by file name."""
        self.commit(files, branch="change", **of_eu)
        return self.update()

    def update(
        self, branch: str = "change", *, base: str = "main", owner: str = "acme", number: int = PULL
    ) -> dict[str, WorkflowRun]:
        """Open a pull request, or push to it. Returns the runs that GitHub starts by file name."""
        self.open(branch, base=base, owner=owner, number=number)
        return by_file(self.hub.pull_request(number))

    def open(self, branch: str = "change", *, base: str = "main", owner: str = "acme", number: int = PULL) -> None:
        """Record a pull request and its merge with the base, which GitHub computes."""
        head = self.git("rev-parse", f"refs/heads/{branch}")
        target = f"refs/heads/{base}"
        parents = ("-p", self.git("rev-parse", target), "-p", head)
        result = run_process(self.folder, "git", "merge-tree", "--write-tree", target, head)
        mergeable = result.returncode == 0
        merge = self.git("commit-tree", result.stdout.split()[0], "-m", "merge", *parents) if mergeable else None
        repo = {"full_name": f"{owner}/housekeeping", "owner": {"login": owner}}
        pull = {
            "number": number,
            "title": "change",
            "state": "open",
            "merged_at": None,
            "mergeable": mergeable,
            "merge_commit_sha": merge,
            "base": {"ref": base},
            "head": {"sha": head, "ref": branch, "repo": repo},
        }
        self.state.pulls = [*(row for row in self.state.pulls if row["number"] != number), pull]

    def approve(self, login: str = "reviewer", *, state: str = "APPROVED", number: int = PULL) -> None:
        """Submit a review of the present head."""
        review = {"pull": number, "state": state, "commit_id": self.head(number), "submitted_at": self.hub.now()}
        self.state.reviews.append({**review, "user": {"login": login, "type": "User"}})

    def pull(self, number: int = PULL) -> dict[str, Any]:
        return gh.find(self.state.pulls, "number", number)

    def head(self, number: int = PULL) -> str:
        """The last commit of a pull request."""
        return str(self.pull(number)["head"]["sha"])

    def merge(self, *, number: int = PULL, associated: bool = True) -> WorkflowRun:
        """Squash a pull request onto main and run its workflows. Returns the run of apply.yml."""
        before = self.git("rev-parse", "refs/heads/main")
        tree = self.git("merge-tree", "--write-tree", before, self.head(number)).splitlines()[0]
        merged = self.git("commit-tree", tree, "-m", "merged", "-p", before)
        self.git("checkout", "-q", "main")
        self.git("reset", "-q", "--hard", merged)
        if associated:
            closed = {"state": "closed", "merged_at": self.hub.now(), "merge_commit_sha": merged}
            self.pull(number).update(closed)
        return by_file(self.hub.push("refs/heads/main", before))["apply.yml"]

    def approve_and_merge(self) -> WorkflowRun:
        """Approve the present head, and merge it. Returns the run of apply.yml."""
        self.approve()
        return self.merge()

    def commands(self, name: str) -> list[dict[str, Any]]:
        """The commands `reconciler NAME` of the workflows, each with its arguments and variables."""
        return [row for row in self.hub.commands if row["arguments"][0] == name]

    @contextmanager
    def unreachable(self, cluster: str) -> Iterator[None]:
        """Let no broker of a cluster answer the plans of the block, which wait ten seconds."""
        name = f"reconciler-plan-{cluster}"
        reachable = self.state.environments[name]
        self.state.environments[name] = Environment({"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
        self.hub.machine = {"RECONCILER_TIMEOUT": "10"}
        yield
        self.state.environments[name], self.hub.machine = reachable, {}

    def gate(self, number: int = PULL) -> str:
        """State of the required check on the head of a pull request."""
        return self.hub.check(self.head(number), "reconciler")

    def comments(self, number: int = PULL) -> dict[str, str]:
        """Body of the comment on each cluster. Fails if a cluster has two."""
        bodies = [comment["body"] for comment in self.state.comments if comment["issue"] == number]
        plans = [body for body in bodies if body.startswith("<!-- reconciler plan ")]
        by_cluster = {body.split("-->")[0].split()[-1]: body for body in plans}
        assert len(by_cluster) == len(plans)
        return by_cluster

    def digest(self) -> str:
        """Digest of the newest plan of eu that a run of apply.yml made."""
        text = (self.artifact("apply_eu_") / "eu/1/plan.json").read_text()
        return re.findall(r'"plan_digest": "(sha256:[0-9a-f]{64})"', text)[0]

    def artifact(self, prefix: str) -> Path:
        """Folder of the newest artifact whose name begins with `prefix`."""
        row = [row for row in self.state.artifacts if row["name"].startswith(prefix)][-1]
        return self.state.folder / "artifacts" / str(row["id"])


def by_file(runs: list[WorkflowRun]) -> dict[str, WorkflowRun]:
    """Runs by the name of their workflow file."""
    return {Path(run.path).name: run for run in runs}


def cluster_manifest(
    name: str,
    cluster_id: str = CLUSTER_ID,
    *,
    servers: str = "${env:KAFKA_BOOTSTRAP_SERVERS}",
    limits: str = "groupsPercent: 100, recordsPercent: 100",
) -> str:
    return build.cluster_manifest(servers, limits=limits, cluster_id=cluster_id, name=name)


def leaders(name: str, topics: str = "no-such-topic-*") -> str:
    return build.policy("LeaderPolicy", f"leaders, cluster: {name}", f"topics: [{topics}]")


def removal(*groups: str, idle_for: str = "0s", mode: str = "") -> str:
    """`idleFor: 0s` needs no evidence, so planning takes two seconds instead of eight."""
    spec = f"groups: {json.dumps(groups)}, idleFor: {idle_for}"
    return build.policy("GroupRemoval", "dead, cluster: eu", spec, mode=mode)
