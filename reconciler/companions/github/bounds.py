"""Which reviewed plan bounds a merge: rules over answers of GitHub's API, and who asks for them.

A plan of a cluster bounds a merge into the default branch if `plan.yml` of that branch made it for
the last commit of the one pull request that was merged, in the newest attempt that planned the
cluster and ended before the last approval: a person with write permission gave it to that commit
and did not take it back. Where an operator names the cluster as unreviewed, the merge is an
approval, too. An attempt that planned and has no plan counts: what was shown before it is not what
was approved. Anyone who can push a branch makes runs, artifacts, comments and tags of any name, so
only what GitHub says about a run proves its origin.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from reconciler.companions.github.api import GitHub
from reconciler.companions.github.workflow_run import WorkflowRun, annotate
from reconciler.errors import Refused
from reconciler.text.escape import display_name

Answer = Mapping[str, Any]
"""An object of GitHub's API."""
_CLUSTER = r"[a-z0-9.-]{1,63}"
_PAUSES = 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What bounds the changes of a cluster: an artifact of a run, by their ids, or a refusal.

    Neither: nothing does, because the approval of the environment is still to come.
    """

    cluster: str
    artifact: str = ""
    run: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """An attempt of `plan.yml` that ended. `plans`: cluster → artifact; `lost`: planned, and no plan is left."""

    run: int
    number: int
    ended: datetime
    plans: Mapping[str, int]
    lost: Collection[str] = ()


def instant(text: str) -> datetime:
    """Return an instant of the API, which has a time zone. Raises ValueError."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return value


def merged_pull(pulls: Sequence[Answer], *, commit: str, branch: str) -> Answer | None:
    """Return the pull request whose merge into the branch is the commit; None: none, or not yet.

    Raises Refused for several: pull requests with one head are all closed by the merge of one.
    """
    merged = [
        pull
        for pull in pulls
        if (pull["merge_commit_sha"], pull["base"]["ref"]) == (commit, branch) and pull["merged_at"]
    ]
    if len(merged) > 1:
        numbers = ", ".join(f"#{pull['number']}" for pull in merged)
        raise Refused(
            f"GitHub says of the pull requests {numbers} that this commit is their merge, so none of their reviews is "
            "known to be of it. Run this workflow by hand for the cluster."
        )
    return merged[0] if merged else None


def approvals(reviews: Sequence[Answer], head: str) -> list[tuple[datetime, str]]:
    """Return when people approved the commit, and their logins, the last first.

    The last decision of each person counts; a comment is none. Bots and deleted accounts decide nothing.
    """
    decisions = {
        review["user"]["login"]: review
        for review in reviews
        if review["state"] not in ("COMMENTED", "PENDING") and is_person(review["user"])
    }
    approved = [row for row in decisions.values() if (row["state"], row["commit_id"]) == ("APPROVED", head)]
    return sorted(((instant(row["submitted_at"]), row["user"]["login"]) for row in approved), reverse=True)


def is_person(user: Answer | None) -> bool:
    """Whether an account is a person's. Logins of managed users have an underscore; GitHub's bots have brackets."""
    return user is not None and user.get("type") == "User" and re.fullmatch("[A-Za-z0-9_-]+", user["login"]) is not None


def may_write(permission: Answer) -> bool:
    """Whether a collaborator may push; GitHub reports the role `maintain` as `write`."""
    return permission["permission"] in ("admin", "write")


def is_run_of(
    run: Answer, comparison: Answer, *, workflow: str, events: Collection[str], branch: str, repository: str
) -> bool:
    """Whether a run executed the workflow file of the branch.

    `comparison`: of its commit with the branch, because a tag can have the name of the branch.
    """
    return (
        run["path"] == f".github/workflows/{workflow}"
        and run["event"] in events
        and run["head_branch"] == branch
        and (run["head_repository"] or {}).get("full_name") == repository
        and comparison["status"] in ("identical", "ahead")
    )


def plans_of(artifacts: Sequence[Answer], *, number: int, head: str, attempt: int) -> dict[str, int]:
    """Return cluster → artifact of the plans of an attempt for a commit of a pull request, without expired ones."""
    name = re.compile(f"plan_({_CLUSTER})_{number}_{re.escape(head)}_{attempt}")
    found = ((name.fullmatch(artifact["name"]), artifact) for artifact in artifacts)
    return {match[1]: artifact["id"] for match, artifact in found if match and not artifact.get("expired")}


def lost_plans(jobs: Sequence[Answer], *, started: datetime, plans: Collection[str]) -> set[str]:
    """Return the clusters that an attempt planned and has no plan of: refused, failed, expired or deleted.

    `Re-run failed jobs` repeats no job that succeeded: such a job ended before the attempt began.
    """

    def is_repeated(job: Answer) -> bool:
        return job["conclusion"] != "success" or instant(job["completed_at"]) >= started

    ran = [job for job in jobs if job["conclusion"] != "skipped" and is_repeated(job)]
    return {match[1] for job in ran if (match := re.fullmatch(f"Plan ({_CLUSTER})", job["name"]))} - set(plans)


def bound_of(cluster: str, attempts: Sequence[RunAttempt], approved: datetime | None) -> Bound:
    """Return the plan of the newest attempt before the approval that planned the cluster, or why there is none.

    `approved`: the last approval; None: there is none. Of one second, nothing tells which came first.
    """

    def refuse(reason: str) -> Bound:
        return Bound(cluster=cluster, refusal=reason)

    planned = [attempt.ended for attempt in attempts if cluster in attempt.plans]
    if not planned:
        return refuse(
            f"The pull request has no plan for {cluster}: it was not finished, it failed, it is older than it is kept, or "
            "the pull request is a fork's. Require the check reconciler before merging."
        )
    if approved is None:
        return refuse(
            "No person with write permission has approved the last commit of the pull request, so no plan of it was "
            "reviewed."
        )
    if min(planned) >= approved:
        return refuse(
            f"Planned after the approval: {cluster} was planned at {max(planned):{_TIME}}, and the last approval is of "
            f"{approved:{_TIME}}, so that plan has no approval. Approve again after the plan."
        )
    known = [attempt for attempt in attempts if cluster in {*attempt.plans, *attempt.lost} and attempt.ended < approved]
    newest = max(known, key=lambda attempt: (attempt.ended, attempt.run, attempt.number))
    if cluster in newest.plans:
        return Bound(cluster=cluster, artifact=str(newest.plans[cluster]), run=str(newest.run))
    return refuse(
        f"The last attempt before the approval, of {newest.ended:{_TIME}}, has no plan of {cluster} (it failed, or its "
        "artifact is gone), and an earlier plan is not what was approved. Run that workflow again, and approve after it."
    )


def check_inputs(inputs: Mapping[str, str], *, actor: str, clusters: Collection[str], branch: str) -> None:
    """Raise Refused for a run by hand of another cluster, of a digest that is none, or by a bot with a digest."""
    cluster, digest = inputs.get("cluster", ""), inputs.get("digest")
    if not re.fullmatch(_CLUSTER, cluster):
        raise Refused(
            "The input cluster is not a name of a Cluster: it has 1 to 63 of the characters a-z, 0-9, dot and hyphen. "
            "Enter a name that reconciler clusters prints."
        )
    if cluster not in clusters:
        raise Refused(f"There is no Cluster {cluster} in the manifests of {branch}.")
    if digest and actor.endswith("[bot]"):
        raise Refused(
            f"{actor} is a bot, and the digest of a plan is an approval, which only a person gives. Run this workflow as "
            "a person, or without a digest."
        )
    if digest and not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise Refused(
            f"{display_name(digest)} is not a digest: sha256: and 64 hex digits, as the summary of a plan shows it."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Asks GitHub for what the rules need, in the run of `apply.yml`.

    Raises Refused, and GitHubUnavailable where there is no answer or one of another form: what cannot be read
    bounds nothing. `pause`: waits; GitHub may need some seconds to report the pull request of a commit.
    """

    run: WorkflowRun
    clusters: Sequence[str]
    unreviewed: Collection[str]
    pause: Callable[[], None]

    def find(self) -> tuple[list[Bound], str]:
        """Return what bounds each cluster, and the number of the merged pull request; empty: a run by hand."""
        with GitHub.documented_form():
            return self._of_digest() if self.run.name == "workflow_dispatch" else self._of_merge()

    def _of_digest(self) -> tuple[list[Bound], str]:
        inputs = self.run.inputs
        check_inputs(inputs, actor=self.run.actor, clusters=self.clusters, branch=self.run.branch)
        cluster, digest = inputs["cluster"], inputs.get("digest")
        if not digest:
            return [Bound(cluster=cluster)], ""
        for artifact in self._artifacts(f"apply_{cluster}_{digest.removeprefix('sha256:')}"):
            number = artifact["workflow_run"]["id"]
            if self._run_of(number, "apply.yml", "push", "workflow_dispatch"):
                return [Bound(cluster=cluster, artifact=str(artifact["id"]), run=str(number))], ""
        raise Refused(
            f"No run of this workflow has a plan of {cluster} with the digest {digest}. Run it without a digest: that "
            "plans, and shows the digest."
        )

    def _of_merge(self) -> tuple[list[Bound], str]:
        pull = self._merged_pull()
        number, head = int(pull["number"]), str(pull["head"]["sha"])
        approved, merged = self._approved(number, head), instant(pull["merged_at"])
        attempts = list(self._attempts(number, head))

        def bound(cluster: str) -> Bound:
            accepted = [approved, merged] if cluster in self.unreviewed else [approved]
            return bound_of(cluster, attempts, max(filter(None, accepted), default=None))

        return list(map(bound, self.clusters)), str(number)

    def _merged_pull(self) -> Answer:
        for remaining in reversed(range(_PAUSES + 1)):
            pulls = self.run.github.get_all(f"commits/{self.run.commit}/pulls")
            if pull := merged_pull(pulls, commit=self.run.commit, branch=self.run.branch):
                return pull
            if remaining:
                self.pause()
        raise Refused(
            "This commit was not merged from a pull request of this repository, so there is no reviewed plan and nothing "
            "is applied. Bring the change in a pull request."
        )

    def _approved(self, number: int, head: str) -> datetime | None:
        for submitted, login in approvals(self.run.github.get_all(f"pulls/{number}/reviews"), head):
            permission = self.run.github.find(f"collaborators/{login}/permission")
            if permission is not None and may_write(permission):  # None: no collaborator any more
                return submitted
        return None

    def _attempts(self, number: int, head: str) -> Iterator[RunAttempt]:
        """Yield the attempts of `plan.yml` that ended for this head, of each run that names the pull request."""
        for run in sorted({artifact["workflow_run"]["id"] for artifact in self._artifacts(f"pull_{number}_{head}")}):
            if (facts := self._run_of(run, "plan.yml", "workflow_run")) is None:
                continue
            artifacts = self.run.github.get_all(f"actions/runs/{run}/artifacts", "artifacts")
            for attempt in range(1, facts["run_attempt"] + 1):
                path = f"actions/runs/{run}/attempts/{attempt}"
                state = self.run.github.get(path)
                if state["status"] != "completed":
                    continue
                plans = plans_of(artifacts, number=number, head=head, attempt=attempt)
                jobs = self.run.github.get_all(f"{path}/jobs", "jobs") if set(self.clusters) - plans.keys() else []
                lost = lost_plans(jobs, started=instant(state["run_started_at"]), plans=plans)
                yield RunAttempt(run=run, number=attempt, ended=instant(state["updated_at"]), plans=plans, lost=lost)

    def _artifacts(self, name: str) -> Sequence[Answer]:
        return self.run.github.get_all("actions/artifacts", "artifacts", name=name)

    def _run_of(self, number: int, workflow: str, *events: str) -> Answer | None:
        """Return a run of the workflow file of the default branch; None, with a warning: it is another one."""
        github, branch = self.run.github, self.run.branch
        run: Answer = github.get(f"actions/runs/{number}")
        tip = github.get(f"git/ref/heads/{quote(branch)}")["object"]["sha"]
        # The repository need not have the commit, such as a fork's.
        comparison = github.find(f"compare/{run['head_sha']}...{tip}") or {"status": "unknown"}
        if is_run_of(run, comparison, workflow=workflow, events=events, branch=branch, repository=github.repository):
            return run
        repository = (run["head_repository"] or {}).get("full_name")
        annotate(
            "warning",
            "Not trusted",
            f"Run {number} ({run['path']} on {run['event']}, {run['head_branch']} of {repository}, commit "
            f"{run['head_sha']}) is not {workflow} of {branch}, so its artifacts do not count.",
        )
        return None
