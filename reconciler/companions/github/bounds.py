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

from reconciler.companions.github.api import GitHub
from reconciler.companions.github.workflow_run import WorkflowRun, annotate, attempts
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


def approvals(reviews: Sequence[Answer], head: str) -> list[tuple[datetime, str]]:
    """Return when people approved the commit, and their logins, the last first.

    The last decision of each person counts; a comment is none. Bots and deleted accounts decide nothing: logins of
    managed users have an underscore, those of GitHub's bots have brackets.
    """
    decisions = {
        review["user"]["login"]: review
        for review in reviews
        if review["state"] not in ("COMMENTED", "PENDING")
        and review["user"]
        and review["user"].get("type") == "User"
        and re.fullmatch("[A-Za-z0-9_-]+", review["user"]["login"])
    }
    approved = [row for row in decisions.values() if (row["state"], row["commit_id"]) == ("APPROVED", head)]
    return sorted(((instant(row["submitted_at"]), row["user"]["login"]) for row in approved), reverse=True)


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
        """Return what bounds a run by hand. A digest is an approval, which only a person gives."""
        cluster, digest = self.run.inputs.get("cluster", ""), self.run.inputs.get("digest")
        if not re.fullmatch(_CLUSTER, cluster):
            raise Refused(
                "The input cluster is not a name of a Cluster: it has 1 to 63 of the characters a-z, 0-9, dot and hyphen. "
                "Enter a name that reconciler clusters prints."
            )
        if cluster not in self.clusters:
            raise Refused(f"There is no Cluster {cluster} in the manifests of {self.run.branch}.")
        if not digest:
            return [Bound(cluster=cluster)], ""
        if self.run.actor.endswith("[bot]"):
            raise Refused(
                f"{self.run.actor} is a bot, and the digest of a plan is an approval, which only a person gives. Run this "
                "workflow as a person, or without a digest."
            )
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise Refused(
                f"{display_name(digest)} is not a digest: sha256: and 64 hex digits, as the summary of a plan shows it."
            )
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
        planned = list(self._attempts(number, head))

        def bound(cluster: str) -> Bound:
            accepted = [approved, merged] if cluster in self.unreviewed else [approved]
            return bound_of(cluster, planned, max(filter(None, accepted), default=None))

        return list(map(bound, self.clusters)), str(number)

    def _merged_pull(self) -> Answer:
        """Return the pull request whose merge into the branch is the commit.

        Raises Refused for several: pull requests with one head are all closed by the merge of one.
        """
        merge = self.run.commit, self.run.branch
        for _attempt in attempts(_PAUSES, self.pause):
            pulls: list[Answer] = self.run.github.get_all(f"commits/{self.run.commit}/pulls")
            merged = [
                pull for pull in pulls if (pull["merge_commit_sha"], pull["base"]["ref"]) == merge and pull["merged_at"]
            ]
            if len(merged) > 1:
                numbers = ", ".join(f"#{pull['number']}" for pull in merged)
                raise Refused(
                    f"GitHub says of the pull requests {numbers} that this commit is their merge, so none of their reviews "
                    "is known to be of it. Run this workflow by hand for the cluster."
                )
            if merged:
                return merged[0]
        raise Refused(
            "This commit was not merged from a pull request of this repository, so there is no reviewed plan and nothing "
            "is applied. Bring the change in a pull request."
        )

    def _approved(self, number: int, head: str) -> datetime | None:
        for submitted, login in approvals(self.run.github.get_all(f"pulls/{number}/reviews"), head):
            # None: no collaborator any more. GitHub reports the role `maintain` as `write`.
            collaborator = self.run.github.find(f"collaborators/{login}/permission")
            if collaborator is not None and collaborator["permission"] in ("admin", "write"):
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
        """Return a run that executed the workflow file of the default branch; None, with a warning: it is another one."""
        github, branch = self.run.github, self.run.branch
        run: Answer = github.get(f"actions/runs/{number}")
        repository = (run["head_repository"] or {}).get("full_name")
        if (
            run["path"] == f".github/workflows/{workflow}"
            and run["event"] in events
            and (run["head_branch"], repository) == (branch, github.repository)
            and github.has_commit(branch, run["head_sha"])
        ):
            return run
        annotate(
            "warning",
            "Not trusted",
            f"Run {number} ({run['path']} on {run['event']}, {run['head_branch']} of {repository}, commit "
            f"{run['head_sha']}) is not {workflow} of {branch}, so its artifacts do not count.",
        )
        return None
