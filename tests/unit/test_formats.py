"""Files of earlier versions are read, and what manifests, exit codes and metrics promise stays.

docs/compatibility.md says for how long. The files in tests/formats/ were written by earlier versions:
add some, never change one.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.apply import restore, results
from reconciler.errors import ExitCode
from reconciler.journal.entry import JournalEntry
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.journal.release import Release, ReviewedTree
from reconciler.manifest import files
from reconciler.manifest.parse import kinds
from reconciler.model.outcome import Status
from reconciler.plan import drift, plan_file
from reconciler.report import metrics

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "formats"
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
EXIT_CODES = {
    "DONE": 0,
    "ERROR": 1,
    "ACTIONS": 2,
    "REFUSED": 3,
    "PLAN_UNUSABLE": 4,
    "PARTLY": 5,
    "USAGE": 64,
    "INTERRUPTED": 130,
}


@pytest.mark.parametrize("path", sorted(FILES.glob("plan-*.json")), ids=lambda path: path.name)
def test_a_plan_of_an_earlier_version_can_be_applied(path: Path) -> None:
    """With its digest, which an approval names: a plan that is approved today is applied after an upgrade."""
    planned = plan_file.read(path)
    stored = json.loads(path.read_text())
    assert plan_file.digest(planned) == stored["plan_digest"]
    assert len(planned.actions) == len(stored["actions"]) == 3


def test_results_of_an_earlier_version_undo_a_removal() -> None:
    """They are kept for years: nothing else brings the offsets of a removed group back."""
    text = (FILES / "results-2.0.json").read_text()
    header, rows = results.parse(text)
    assert (header.exit_code, [row.status for row in rows]) == (0, [Status.APPLIED] * 2)
    [commit] = restore.find_removal(text, "old-etl", name="results-2.0.json").offsets
    assert (commit.topic, commit.partition, commit.offset) == ("orders", 3, 52_000)
    assert (commit.metadata, commit.metadata_base64) == ("m", None), "before it was written in base64"


def test_all_lines_of_a_journal_are_read() -> None:
    """Formats 2 to 6: a journal lives longer than a version, and a line that is not read stops each run."""
    lines = (FILES / "journal.jsonl").read_bytes().splitlines()
    assert {json.loads(line)["v"] for line in lines} == {2, 3, 4, 5, 6}
    journal = ActionJournal(JournalFile(FILES / "journal.jsonl"))
    history = list(journal.history())
    kinds_of = [type(entry) for entry in history]
    assert kinds_of == [JournalEntry] * 6 + [ReviewedTree, Release] + [JournalEntry] * 2
    assert journal.last_purges(every_ms=10**12, now_ms=1_795_255_300_000)
    [seen] = journal.observations(["old-etl"], since_ms=0, cluster_id="5L6g3nShT-eMCtK--X86sw")["old-etl"]
    assert [(commit.partition, commit.offset) for commit in seen.commits] == [(3, 52_000)]
    text = (FILES / "journal.jsonl").read_text()
    [commit] = restore.find_removal(text, "old-etl", name="journal").offsets
    assert commit.offset == 52_000
    spread = restore.find_removal(text, "wide-etl", name="journal")
    assert ([commit.offset for commit in spread.offsets], spread.total) == ([7, 9], 2)


def test_a_drift_report_of_an_earlier_version_dates_drift() -> None:
    [report] = drift.parse((FILES / "drift-1.2.json").read_text())
    assert report.subjects


def test_manifests_of_an_earlier_version_are_valid() -> None:
    """At the time of their waiver, as a checkout of that commit has them."""
    manifests = files.load([FILES / "manifests-v1"], now_ms=1_795_255_200_000)
    assert len(manifests.policies) >= 4
    assert manifests.warnings == ()


def fields(schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield each field below a schema, and each word that it takes."""
    if "$ref" in schema:
        yield from fields(definitions[schema["$ref"].rpartition("/")[2]], definitions, path)
    for word in (*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())):
        yield f"{path}: {word}"
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from fields(part, definitions, path)
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from fields(part, definitions, f"{path}.{name}")


def present_fields() -> set[str]:
    models = {name: kind.model_json_schema() for name, kind in kinds().items()}
    return {field for name, model in models.items() for field in fields(model, model.get("$defs", {}), name)}


def test_every_field_and_word_of_v1_stays() -> None:
    """A manifest that was valid once must not become an unknown field; new fields join the file."""
    promised = set((FILES / "manifests-v1.txt").read_text().splitlines())
    assert len(promised) > 100
    assert promised - present_fields() == set()


def test_every_metric_and_label_stays() -> None:
    """A dashboard that names one would be empty, and an alert would never fire."""
    promised = dict(line.split(" ", 1) for line in (FILES / "metrics.txt").read_text().splitlines())
    present = {name: kind.labels for name, kind in metrics._METRICS.items()}
    assert {name: labels for name, labels in promised.items() if not {*labels.split(",")} <= {*present[name]}} == {}


def test_exit_codes_keep_their_meaning() -> None:
    """Scripts and schedules decide by them; a new one needs a new number."""
    assert {code.name: code.value for code in ExitCode if code.name in EXIT_CODES} == EXIT_CODES


def test_the_page_names_the_formats_that_are_written_and_read() -> None:
    written = {"plan": plan_file.FORMAT_VERSION, "results": results.FORMAT_VERSION, "drift": drift.FORMAT_VERSION}
    rows = dict(re.findall(r"^\| (plan|results|drift)[^|]*\| ([\d.]+) \|", PAGE, re.MULTILINE))
    assert rows == written
    assert {path.stem.rpartition("-")[2] for path in FILES.glob("*.json")} == set(re.findall(r"from (\d\.\d) on", PAGE))
