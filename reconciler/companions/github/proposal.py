"""The pull request that a run of `plan.yml` plans, and the state of the required check for it."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.companions.github.api import GitHub
from reconciler.companions.github.workflow_run import WorkflowRun, annotate, attempts

NOTHING_CHANGES = "no manifests change"
_MANIFESTS, _FOLDER = "manifests", "040000"
_PAUSES = 5
_DESCRIPTION_MAX = 140
"""Characters of a status on GitHub."""


@GitHub.documented_form()
def find_proposal(run: WorkflowRun, pause: Callable[[], None]) -> Mapping[str, str]:
    """Return `number`, `merge`, and `plan: yes` or the `verdict` of the pull request that `validate.yml` checked.

    Empty: none is open any more. The workflow that ended is the pull request's and proves nothing, so each fact is
    asked from the API. `pause`: waits; GitHub merges head and base on its own, and its last merge may be of an
    older head. Raises GitHubUnavailable.
    """
    github, checked = run.github, run.event["workflow_run"]
    base, head, source = run.event["repository"]["default_branch"], checked["head_sha"], checked["head_repository"]
    name = (source or {}).get("full_name")
    label = f"{source['owner']['login']}:{checked['head_branch']}" if source else ""
    pulls = github.get_all("pulls", state="open", base=base, head=label) if label else []
    open_pulls = [
        pull["number"]
        for pull in pulls
        if (pull["head"]["sha"], (pull["head"]["repo"] or {}).get("full_name")) == (head, name)  # None: it was deleted
    ]
    if not open_pulls:
        annotate("notice", "No plan", f"No open pull request to {base} has the head {head} of {name}.")
        return {}
    found = {"number": str(open_pulls[0])}
    for _attempt in attempts(_PAUSES, pause):
        pull = github.get(f"pulls/{found['number']}")
        if pull["mergeable"] is False:
            return {**found, "verdict": f"it conflicts with {base}: merge {base} into it"}
        if pull["mergeable"]:
            merge = pull["merge_commit_sha"]
            parents = [parent["sha"] for parent in github.get(f"git/commits/{merge}")["parents"]]
            if parents[1:] == [head] and github.has_commit(base, parents[0]):
                break
    else:
        return {**found, "verdict": f"GitHub has not merged its head with {base} yet: run this workflow again"}
    found["merge"] = merge
    trees = (github.get(f"git/trees/{commit}")["tree"] for commit in (parents[0], merge))
    before, after = ([row for row in rows if row["path"] == _MANIFESTS] for rows in trees)
    if any(row["mode"] != _FOLDER for row in (*before, *after)):  # a link stays the same while its target changes
        return {**found, "verdict": f"{_MANIFESTS} is no folder: put the manifests into it"}
    if [row["sha"] for row in before] == [row["sha"] for row in after]:
        return {**found, "verdict": NOTHING_CHANGES}
    if name != github.repository:
        verdict = "manifests of a fork are not planned: push its commits to a branch of this repository"
        return {**found, "verdict": verdict}
    return {**found, "plan": "yes"}


def gate(needs: Mapping[str, Any]) -> tuple[str, str]:
    """Return state and description of the required check.

    `needs`: results and outputs of the jobs of `plan.yml`, or of `validate.yml` in a merge queue. Only what is
    known to be complete is a success.
    """
    if "validate" in needs:
        state = "success" if needs["validate"]["result"] == "success" else "failure"
        return state, f"validate of the merge queue: {state}"
    results = tuple(needs[name]["result"] for name in ("find", "clusters", "plan", "comment"))
    verdict = needs["find"]["outputs"].get("verdict") or ""
    outputs = needs["clusters"]["outputs"]
    state, text = "failure", "no valid plan for each cluster: see the run"
    if verdict and results == ("success", "skipped", "skipped", "skipped"):
        state, text = "success" if verdict == NOTHING_CHANGES else "failure", verdict
    elif not verdict and results == ("success",) * 4:
        state, text = "success", "planned for each cluster; approve after reading the comments"
    elif not verdict and results == ("success", "success", "skipped", "skipped") and outputs.get("clusters") == "[]":
        state, text = "success", "no cluster of the default branch to plan"
    if outputs.get("removed"):
        text = f"removes the Cluster {outputs['removed']}; {text}"
    return state, text[:_DESCRIPTION_MAX]
