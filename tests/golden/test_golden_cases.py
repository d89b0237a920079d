"""Each folder beside this file is one case: manifests and a cluster's facts, and the plan that follows from them.

A case says in the first lines of its manifests/policy.yaml what it shows. To write the plans of a new case, or of all after a wanted
change: `RECONCILER_GOLDEN=write make test-unit`, then read the diff; a plan that nobody read proves nothing.
"""

import json
import os
from pathlib import Path

import jsonschema
import pytest

from reconciler import __version__
from reconciler.load import files
from reconciler.model.plan import Plan, Source
from reconciler.plan import document, planner, render
from tests.golden import codec

HERE = Path(__file__).parent
CASES = sorted(folder.name for folder in HERE.iterdir() if (folder / "snapshot.json").is_file())
COMMIT = "4f2c9aa0d1e2f3a4b5c6d7e8f901234567890abc"
WRITE = os.environ.get("RECONCILER_GOLDEN") == "write"


def planned(case: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of a case; places are relative to its folder."""
    monkeypatch.chdir(HERE / case)
    part = files.load([Path("manifests")], now_ms=codec.NOW_MS).for_cluster()
    facts = codec.snapshot(Path("snapshot.json"), planner.needs(part.policies, codec.NOW_MS))
    return planner.plan(
        cluster=part.cluster,
        policies=part.policies,
        waivers=part.waivers,
        snapshot=facts,
        source=Source(commit=COMMIT, manifests=part.files),
    )


def rendered(plan: Plan) -> dict[str, str]:
    """What a case keeps, by file name. The program's own version is left out: a release is no other plan."""
    lines = [line.plain for line in render.text(plan, width=80)]
    return {
        "plan.json": document.dumps(plan).replace(f'"version": "{__version__}"', '"version": "0.0.0"'),
        "plan.md": render.markdown(plan),
        "plan.txt": "".join(f"{line}\n" for line in lines),
    }


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_the_plan_that_was_read(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same manifests and facts make the same bytes as when somebody last read them."""
    for name, text in rendered(planned(case, monkeypatch)).items():
        path = HERE / case / name
        if WRITE:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{case}/{name} is not what it was: see the top of this file"


@pytest.mark.parametrize("case", CASES)
def test_a_case_can_be_read_back_and_fits_the_schema(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed is a plan that apply would read, and no older format."""
    path = HERE / case / "plan.json"
    assert document.read(path) == planned(case, monkeypatch)
    jsonschema.Draft202012Validator(document.schema()).validate(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", CASES)
def test_a_case_says_what_it_shows(case: str) -> None:
    """The folder can be read as documentation."""
    first = (HERE / case / "manifests" / "policy.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first) > 30


def test_there_are_at_least_thirty_cases() -> None:
    """A folder that lost its snapshot would otherwise vanish from the list without a word."""
    folders = [folder for folder in HERE.iterdir() if folder.is_dir() and folder.name[:2].isdigit()]
    assert len(CASES) == len(folders) >= 30
