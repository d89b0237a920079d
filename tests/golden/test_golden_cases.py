"""Golden cases: each folder beside this file has manifests, a cluster's facts, and the resulting
plan.

The first lines of manifests/policy.yaml say what the case shows. Its plan.json is the
specification. The test compares decisions, codes, addresses, offsets, requests, guards, limits and
the digest; of each sentence it compares only the quoted names and the numbers. A few cases also
have the text and the Markdown, as documentation. To write the files of a new case, or of all cases
after an intended change, run `RECONCILER_GOLDEN=write make test-unit` and read the diff; it also
writes the sentences.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reconciler import __version__
from reconciler.manifest import files
from reconciler.manifest.files import ClusterManifests
from reconciler.model.plan import Plan, Source
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.plan import plan_file, planner
from tests import rendering as report
from tests.golden import codec
from tests.golden.wording import names_and_numbers
from tests.strategies.examples import plan_text, sealed

HERE = Path(__file__).parent
INTENDED = "an intended change: RECONCILER_GOLDEN=write make test-unit, then read the diff; see the top of this file"
CASES = sorted(folder.name for folder in HERE.iterdir() if (folder / "snapshot.json").is_file())
SNAPSHOTS = (
    "01-one-of-each-kind",
    "19-a-broker-is-away",
    "28-many-partitions",
    "37-hostile-names",
    "44-a-waiver-allows",
    "56-nobody-guards-it",
    "57-idle-is-not-dead",
    "58-offsets-that-are-not-records",
    "59-external-readers",
    "60-hidden-consumer-offsets",
)
COMMIT = "4f2c9aa0d1e2f3a4b5c6d7e8f901234567890abc"
WRITE = os.environ.get("RECONCILER_GOLDEN") == "write"


def load_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ClusterManifests, ClusterSnapshot]:
    """Return the manifests of a case and its facts; source locations are relative to its folder."""
    monkeypatch.chdir(folder)
    manifests = files.load([Path("manifests")], now_ms=codec.NOW_MS).for_cluster()
    request = replace(planner.scan_request(manifests.policies, codec.NOW_MS), external=manifests.reader_requests)
    return manifests, codec.snapshot(Path("snapshot.json"), request)


def plan_case(case: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    manifests, facts = load_case(HERE / case, monkeypatch)
    return planner.plan(manifests, facts, source=Source(commit=COMMIT, manifests=manifests.files))


def render_plan_file(plan: Plan) -> str:
    """Render the plan file, without the program's version, which changes with each release."""
    return sealed(plan_text(plan).replace(f'"tool_version": "{__version__}"', '"tool_version": "0.0.0"'))


def render_snapshots(plan: Plan) -> dict[str, str]:
    """Render the snapshots of a case by file name."""
    lines = [line.plain for line in report.text(plan, width=80)]
    return {"plan.md": report.markdown(plan), "plan.txt": "".join(f"{line}\n" for line in lines)}


def replace_wording(text: str) -> dict[str, Any]:
    """Replace each of the planner's sentences by its quoted names and numbers."""
    content: dict[str, Any] = json.loads(text)
    for section in ("unmatched", "limits", "actions", "waiting", "blocked", "unread", "skipped"):
        for row in content[section]:
            for field in row.keys() & {"message", "reason", "next_step"}:
                row[field] = names_and_numbers(row[field])
    content["incomplete"] = [names_and_numbers(sentence) for sentence in content["incomplete"]]
    return content


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_plan(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same manifests and facts give the reviewed decisions, codes, numbers and digest."""
    path, text = HERE / case / "plan.json", render_plan_file(plan_case(case, monkeypatch))
    if WRITE:
        path.write_text(text, encoding="utf-8")
    assert replace_wording(path.read_text(encoding="utf-8")) == replace_wording(text), INTENDED


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_a_case_has_its_snapshots(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text and the Markdown of these cases equal the reviewed files."""
    for name, text in render_snapshots(plan_case(case, monkeypatch)).items():
        path = HERE / case / name
        if WRITE:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{case}/{name}: {INTENDED}"


@pytest.mark.parametrize("case", CASES)
def test_a_case_can_be_read_back_and_fits_the_schema(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply would read the committed file, and it has the present format."""
    path = HERE / case / "plan.json"
    text = path.read_text(encoding="utf-8")
    assert render_plan_file(plan_file.read(path)) == text
    jsonschema.Draft202012Validator(plan_file.schema()).validate(json.loads(text))


@pytest.mark.parametrize("case", CASES)
def test_a_case_says_what_it_shows(case: str) -> None:
    """The first lines of each case describe it."""
    first = (HERE / case / "manifests" / "policy.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 30


def test_there_are_at_least_thirty_cases() -> None:
    """A case without a snapshot would disappear silently; a rendered file without a test would
    become outdated.
    """
    folders = [folder for folder in HERE.iterdir() if folder.is_dir() and folder.name[:2].isdigit()]
    assert len(CASES) == len(folders) >= 30
    assert {path.parent.name for path in HERE.glob("*/plan.[mt]*")} == set(SNAPSHOTS)
