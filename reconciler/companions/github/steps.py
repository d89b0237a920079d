"""`reconciler github`: what the workflows that `init` writes decide and report, one command a step.

The token comes from GH_TOKEN. A step that gets no answer from GitHub fails, and one cluster's failure stops no
other's.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from reconciler.cli import app, console, loading
from reconciler.cli.loading import Paths
from reconciler.cli.settings import SPARK, Settings, accepts_settings
from reconciler.companions import code_host
from reconciler.companions.github import proposal
from reconciler.companions.github.bounds import Finder
from reconciler.companions.github.check import unreviewed_clusters
from reconciler.companions.github.workflow_run import WorkflowRun, annotate, answer, needs
from reconciler.errors import ExitCode, PlanUnusable, Refused
from reconciler.journal.release import manifests_hash
from reconciler.operations import OPERATIONS, Operation
from reconciler.plan import plan_file
from reconciler.plan.plan_file import SavedPlan
from reconciler.text.escape import markdown_prose

github = app.Application(
    name="github",
    help="Decide and report in the workflows that `init` writes.",
    add_completion=False,
    no_args_is_help=True,
)


def _step(command: Callable[..., int | None]) -> Callable[..., int | None]:
    return github.command()(accepts_settings(None, without=SPARK)(command))


Folder = Annotated[Path, typer.Argument(help="The folder of the downloaded artifacts.")]


@_step
def bounds(settings: Settings, paths: Paths = None) -> None:
    """Find the reviewed plan that bounds each cluster in this run of apply.yml.

    Outputs: plans (cluster, artifact, run, refusal) and number, of the merged pull request.
    """
    clusters = [part.cluster.metadata.name for part in loading.load_clusters(paths, settings)]
    pause = partial(time.sleep, settings.timeout / 6)
    run = WorkflowRun.of(settings.timeout)
    with _annotated("Not reviewed"):
        plans, number = Finder(run=run, clusters=clusters, unreviewed=unreviewed_clusters(), pause=pause).find()
    answer(plans=list(map(asdict, plans)), number=number)


@_step
def agenda(settings: Settings, folder: Folder) -> None:
    """List the jobs that ask for an approval, of the last attempt of each cluster.

    Output: jobs, one for each environment that a plan with something to approve needs.
    """
    digest, unreviewed = WorkflowRun.of(settings.timeout).inputs.get("digest"), unreviewed_clusters()
    jobs: list[object] = []
    for attempts in sorted(folder.iterdir()) if folder.is_dir() else ():
        attempt = max(attempts.iterdir(), key=lambda path: int(path.name))
        file = attempt / "plan.json"
        if not file.exists():
            text = f"Attempt {attempt.name} of this run has no plan for {attempts.name}, so nothing is applied there."
            annotate("notice", f"No plan for {attempts.name}", text)
            continue
        plan = plan_file.open_plan(file)
        found = plan_file.digest(plan)
        if plan.cluster != attempts.name or found != (digest or found):
            raise PlanUnusable(f"{file} is the plan {found} of {plan.cluster}: run the workflow again")
        approved = plan.cluster not in unreviewed or _is_of(attempt / "reviewed" / "plan.json", plan)
        if plan.continuous and not approved:
            text = (
                f"{plan.cluster}: the plan of the pull request is of other manifests, so no plan has shown together what "
                "`converge` would do with these. Bring a change of them in a new pull request, or run this workflow by "
                "hand: without a digest it plans, and the digest of that plan approves it."
            )
            annotate("warning", "Not released", text)
        jobs += [{**job, "attempt": attempt.name} for job in plan_jobs(plan, release=approved)]
    answer(jobs=jobs)


def _is_of(reviewed: Path, plan: SavedPlan) -> bool:
    """Whether a reviewed plan is of the manifests of the plan. Where the merge is the approval, it is of those only."""
    return reviewed.exists() and (
        manifests_hash(plan_file.open_plan(reviewed).source.manifests) == manifests_hash(plan.source.manifests)
    )


def plan_jobs(plan: SavedPlan, *, release: bool = True) -> Iterator[dict[str, str]]:
    """Yield the jobs of a plan, each with the operations that its principal has the rights for.

    Continuous policies need the approval, too: what converges later must have been approved. `release`: whether it is.
    """
    digest = plan_file.digest(plan)
    row = {"cluster": plan.cluster, "digest": digest, "artifact": f"apply_{plan.cluster}_{digest.partition(':')[2]}"}
    # ALTER on the cluster can grant everything, so its operations have a principal of their own.
    elections = [operation for operation in OPERATIONS if operation.RIGHT.resource == "cluster"]
    others = [operation for operation in OPERATIONS if operation not in elections]

    def job(kind: str, title: str, operations: Iterable[type[Operation]]) -> dict[str, str]:
        names = ",".join(operation.API[0] for operation in operations)
        released = "yes" if release and kind == "apply" else ""
        return {**row, "kind": kind, "title": title, "operations": names, "release": released}

    present = {action.OPERATION for action in plan.actions}
    if (release and plan.continuous) or any(operation.OPERATION in present for operation in others):
        yield job("apply", "Apply to", others)
    if any(operation.OPERATION in present for operation in elections):
        yield job("elect", "Elect leaders on", elections)


@_step
def approvers(settings: Settings, environment: Annotated[str, typer.Argument(help="Of the job.")]) -> None:
    """Name who approved: the reviewers of the environment, and who started this run with a digest.

    Output: approver, the logins.
    """
    run = WorkflowRun.of(settings.timeout)
    with run.github.documented_form():
        logins = {
            row["user"]["login"]
            for row in run.github.get(f"actions/runs/{run.id}/approvals")
            if row["state"] == "approved" and environment in [approved["name"] for approved in row["environments"]]
        }
    answer(approver=",".join(sorted(logins | ({run.actor} if "digest" in run.inputs else set()))))


@_step
def pull(settings: Settings) -> None:
    """Find the pull request that a run of plan.yml plans, and what its merge holds.

    Outputs: number, merge, and plan (yes) or verdict.
    """
    answer(**proposal.find_proposal(WorkflowRun.of(settings.timeout), partial(time.sleep, settings.timeout / 3)))


@_step
def clusters(settings: Settings, proposed: Annotated[Path, typer.Argument(help="Manifests of the merge.")]) -> None:
    """List the clusters that a pull request plans, and judge those that the default branch does not have.

    GitHub creates an environment that does not exist, so a pull request must not name new ones.
    Outputs: clusters, and removed, those without a plan from the merge on.
    """
    before, after = (
        {part.cluster.metadata.name for part in loading.load_clusters(paths, settings)} for paths in (None, [proposed])
    )
    for cluster in sorted(before - after):
        text = "After the merge no workflow plans, applies or reports anything on it."
        annotate("warning", f"Cluster {cluster} is removed", text)
    refused = [
        cluster
        for cluster in sorted(after - before)
        # It connects to nothing: the default branch says where to connect, and does not know the cluster.
        if app.run_within(["plan", str(proposed), "--connect-as", "manifests", "--cluster", cluster]) != ExitCode.DONE
    ]
    if refused:
        with _annotated("New Cluster"):
            names = " ".join(refused)
            raise Refused(f"The default branch has no Cluster {names}: the log says what the pull request needs.")
    answer(clusters=sorted(before & after), removed=",".join(sorted(before - after)))


@_step
def gate(settings: Settings) -> None:
    """Report the required check `reconciler` on the head of the pull request, or of the merge queue."""
    run = WorkflowRun.of(settings.timeout)
    head = run.event["workflow_run"]["head_sha"] if "workflow_run" in run.event else run.commit
    state, text = proposal.gate(needs())
    run.github.send("POST", f"statuses/{head}", context="reconciler", state=state, target_url=run.url, description=text)


@_step
def plan_comments(settings: Settings, folder: Folder) -> int:
    """Keep one comment per cluster on the pull request, edited in place."""
    run, jobs = WorkflowRun.of(settings.timeout), needs()
    clusters = json.loads(jobs["clusters"]["outputs"]["clusters"])
    return code_host.keep_plan_comments(run.github, jobs["find"]["outputs"]["number"], clusters, folder, run.url)


@_step
def result_comments(settings: Settings, folder: Folder) -> int:
    """Post the results of each job that applied to the merged pull request."""
    run, number = WorkflowRun.of(settings.timeout), needs()["reviewed"]["outputs"]["number"]
    return code_host.post_result_comments(run.github, number, folder, run.url)


@_step
def drift_issues(settings: Settings, folder: Folder) -> int:
    """Keep one issue per cluster: open it on drift, edit it, close it in sync."""
    run = WorkflowRun.of(settings.timeout)

    def keep(cluster: str) -> None:
        marker, file = f"<!-- reconciler drift {cluster} -->", folder / cluster / "status"
        status = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        if status == str(ExitCode.ACTIONS):
            body = (folder / cluster / "drift.md").read_text(encoding="utf-8")
            hint = (
                f"To apply what is merged: [run the workflow]({run.actions_url}/workflows/apply.yml) for the cluster "
                f"`{cluster}`. It plans, and waits for an approval."
            )
            run.github.keep_issue(marker, f"{body}\n\n{hint}\n", title=f"Drift on {cluster}")
        elif status == str(ExitCode.DONE):
            run.github.keep_issue(marker, "", closing="In sync again.")
        else:
            console.print_stderr(f"{cluster}: too little could be seen, so its issue stays as it is")

    return code_host.report_each(run.github, json.loads(needs()["clusters"]["outputs"]["clusters"]), keep)


@_step
def red_issue(settings: Settings, title: Annotated[str, typer.Argument(help="Title of the issue.")]) -> None:
    """Keep one open issue while a workflow fails, and close it after a green run."""
    run, marker = WorkflowRun.of(settings.timeout), f"<!-- {title} -->"
    jobs = run.github.get_all(f"actions/runs/{run.id}/attempts/{run.attempt}/jobs", "jobs")
    failed = [
        f"- [{markdown_prose(job['name'])}]({job['html_url']}): {job['conclusion']}"
        for job in jobs
        if job["conclusion"] in ("failure", "timed_out", "cancelled")
    ]
    lines = "\n".join(failed)
    body = (
        f"### [The last run]({run.url}) failed\n\n{lines}\n\nThe logs say why and what to do. What is not applied "
        "appears as drift. This closes by itself after a green run.\n"
    )
    run.github.keep_issue(marker, body if failed else "", title=title, closing=f"Green again: {run.url}")


@contextmanager
def _annotated(title: str) -> Iterator[None]:
    """Make a refusal an annotation of the run, and end with its exit code."""
    try:
        yield
    except Refused as error:
        annotate("error", title, str(error))
        raise typer.Exit(error.exit_code) from error
