"""Outputs of a step on GitHub: digest, counts and exit code of the documents of a command."""

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.cli import documents
from reconciler.cli.app import run
from reconciler.errors import ExitCode
from reconciler.model.outcome import Outcome, Status
from reconciler.plan import plan_file
from reconciler.report.document import StepOutputs
from reconciler.report.plan import plan_document
from reconciler.report.results import results_document
from tests.strategies.examples import blocked, plan, purge, removal
from tests.unit.apply.test_results import HEADER


def test_a_command_that_fails_has_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later step with `if: always()` decides by it; GitHub itself gives no exit code to other steps."""
    plan_file.write(plan(purge()), tmp_path / "plan.json")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    words = ["apply", str(tmp_path / "plan.json"), str(tmp_path), "--expect-digest", "sha256:other"]
    assert run(words) == ExitCode.PLAN_UNUSABLE
    assert (tmp_path / "outputs").read_text() == "exit_code=4\n"


def test_outputs_have_counts_and_the_digest_and_no_name() -> None:
    """Numbers and a digest: no name of a topic or a group gets into the shell of another step."""
    planned = plan(purge(), removal(), blocked())
    outputs = StepOutputs()
    outputs.take(plan_document(planned).outputs())
    outcomes = [
        Outcome(action=purge(), status=Status.APPLIED, detail="", removed_max=7),
        Outcome(action=removal(), status=Status.STALE, detail=""),
    ]
    header = replace(HEADER, plan_digest=plan_file.digest(planned))
    outputs.take(results_document(header, outcomes, lambda: "").outputs())
    assert outputs == {
        "digest": plan_file.digest(planned),
        "actions": 2,
        "irreversible": 2,
        "records_removed_max": 97_213,
        "blocked": 1,
        "unread": 0,
        "refused": 0,
        "applied": 1,
        "failed": 0,
        "undone": 1,
        "records_removed": 7,
    }


def test_several_clusters_add_up_and_have_no_digest() -> None:
    """The digest of the second cluster alone would be taken for the digest of what was planned."""
    outputs = StepOutputs()
    for planned in (plan(purge()), plan(removal()), plan(purge())):
        outputs.take(plan_document(planned).outputs())
    assert (outputs["digest"], outputs["actions"]) == ("", 3)


def test_nothing_is_written_outside_of_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    documents.write_step_outputs({"exit_code": 0})


def test_a_file_that_cannot_be_written_changes_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was applied stays applied."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path))
    assert run(["apply", str(tmp_path / "missing.json")]) == ExitCode.PLAN_UNUSABLE
    assert "GITHUB_OUTPUT" in capsys.readouterr().err
