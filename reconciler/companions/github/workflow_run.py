"""The run of a workflow on GitHub that this process is a step of, and what a step says and answers.

Names of variables and files are those that GitHub's runner sets for every step.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reconciler.cli import console, documents
from reconciler.companions.github.api import GitHub
from reconciler.errors import UsageError
from reconciler.text.escape import command_data, command_property, escape_text, harmless_json


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """An attempt of a run. `event`: the payload of what started it; `name`: the kind of event.

    `branch`: the name of the branch or tag; `actor`: who started this attempt; `actions_url`: of the repository.
    """

    github: GitHub
    name: str
    event: Mapping[str, Any]
    commit: str
    branch: str
    id: str
    attempt: str
    actor: str
    actions_url: str

    @classmethod
    def of(cls, timeout_s: float) -> "WorkflowRun":
        """Return the run of this process. Raises UsageError outside of a workflow."""
        repository = variable("GITHUB_REPOSITORY")
        return cls(
            github=GitHub.of(repository, timeout_s=timeout_s),
            name=variable("GITHUB_EVENT_NAME"),
            event=json.loads(Path(variable("GITHUB_EVENT_PATH")).read_text(encoding="utf-8")),
            commit=variable("GITHUB_SHA"),
            branch=variable("GITHUB_REF_NAME"),
            id=variable("GITHUB_RUN_ID"),
            attempt=variable("GITHUB_RUN_ATTEMPT"),
            actor=variable("GITHUB_TRIGGERING_ACTOR"),
            actions_url=f"{variable('GITHUB_SERVER_URL')}/{repository}/actions",
        )

    @property
    def inputs(self) -> Mapping[str, str]:
        """The inputs of a run by hand; empty for another event, and for an input that was left out."""
        return {name: text for name, text in (self.event.get("inputs") or {}).items() if text}

    @property
    def url(self) -> str:
        return f"{self.actions_url}/runs/{self.id}/attempts/{self.attempt}"


def variable(name: str) -> str:
    """Return a variable of a step. Raises UsageError outside of a workflow."""
    if not os.environ.get(name):
        raise UsageError(f"{name} is not set: only the workflows that `reconciler init` writes run this command")
    return os.environ[name]


def needs() -> Mapping[str, Any]:
    """Return result and outputs of the jobs before, which the workflow passes as NEEDS. Raises UsageError."""
    jobs: Mapping[str, Any] = json.loads(variable("NEEDS"))
    return jobs


def attempts(pauses: int, pause: Callable[[], None]) -> Iterator[None]:
    """Yield once, and again after each pause, for a question that GitHub may need some seconds to answer."""
    yield
    for _ in range(pauses):
        pause()
        yield


def annotate(level: Literal["error", "warning", "notice"], title: str, message: str) -> None:
    """Print an annotation of the run, on one line that holds no other command."""
    console.print_stderr(f"::{level} title={command_property(title)}::{command_data(escape_text(message))}")


def answer(**values: str | Sequence[object]) -> None:
    """Print values as JSON, and make each an output of the step: a text as it is, a list as JSON."""
    console.write(harmless_json(json.dumps(values, indent=1)) + "\n")
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    documents.write_step_outputs(texts)
