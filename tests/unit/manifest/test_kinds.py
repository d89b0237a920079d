"""A kind in the list of kinds is loaded, checked and described without a change of manifest/."""

import io
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field

from reconciler import policies
from reconciler.manifest import schema
from reconciler.policies import POLICIES
from reconciler.policies.validation import ValidationIssue
from tests.extension.topic_cleanup import TopicCleanup, TopicCleanupSpec
from tests.unit.manifest.broken import CLUSTER, cluster, manifest
from tests.unit.manifest.checking import accepted, codes, diagnostics_of, outcome

ROOT = Path(__file__).parents[3]


class TopicNoteSpec(TopicCleanupSpec):
    """The body of a TopicNote."""

    until_ms: int | None = Field(default=None, description="A made-up rule about time.", examples=[1])


class TopicNote(TopicCleanup):
    """A policy that exists only in this test."""

    kind: Literal["TopicNote"] = Field(description="Which kind of manifest this is.", examples=["TopicNote"])
    spec: TopicNoteSpec = Field(description="Which topics.")

    @property
    def every_ms(self) -> int | None:
        return 30_000

    def problems_at(self, now_ms: int) -> Iterator[ValidationIssue]:
        if self.spec.until_ms is not None and self.spec.until_ms < now_ms:
            yield ValidationIssue(code="M206", message="too late", at=("spec", "untilMs"), hint="a later time")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "POLICIES", (*POLICIES, TopicNote))


def note(spec: str, *, name: str = "note", more: str = "") -> str:
    return manifest("TopicNote", name, f"{spec}\ncleanup: delete", more=more)


def test_a_new_kind_is_loaded_as_a_policy() -> None:
    """The set holds it among its policies, with its address and its location."""
    (policy,) = accepted(note("topics: [orders]")).policies
    assert isinstance(policy, TopicNote)
    assert (str(policy.address), str(policy.declared_at)) == ("TopicNote/note", "it.yaml:1")


def test_a_new_kind_is_validated() -> None:
    """Unknown kinds and fields suggest its names, and its rules about time are checked."""
    assert "`TopicNote`" in diagnostics_of(note("topics: [orders]").replace("TopicNote", "TopicNoet"))[0].hint
    (only,) = diagnostics_of(note("topcis: [orders]"))
    assert (only.code, only.hint) == ("M112", "did you mean `topics`?")
    assert codes(note("topics: [orders]\nuntilMs: 5")) == ["M206"]


def test_a_new_kind_is_cross_checked() -> None:
    """Double names and claims, journal topic and file, waivers, clusters without policies."""
    assert codes(note("topics: [a]") + "---\n" + note("topics: [b]")) == ["M301"]
    assert codes(note("topics: [a]") + "---\n" + note("topics: [a]", name="other")) == ["M302"]
    assert codes(note("topics: [a]", more="mode: continuous\n")) == ["M401"]
    journal = cluster("journal: {topic: _journal}")
    _, diagnostics = outcome({"cluster.yaml": journal, "it.yaml": note("topics: [_journal]")})
    assert [diagnostic.code for diagnostic in diagnostics] == ["M207"]
    _, diagnostics = outcome({"cluster.yaml": CLUSTER, "it.yaml": note("topics: [a]")})
    assert diagnostics == ()


def test_a_new_kind_is_in_the_schema() -> None:
    """It has a file of its own and a branch of manifest.json."""
    files = schema.schemas()
    assert json.loads(files["topic-note.json"])["title"] == "TopicNote"
    assert "TopicNote" in json.loads(files["manifest.json"])["properties"]["kind"]["enum"]


@pytest.mark.parametrize("path", sorted((ROOT / "reconciler" / "manifest").glob("*.py")), ids=lambda path: path.name)
def test_no_module_names_the_kind_of_a_policy(path: Path) -> None:
    """Such code would not know the next one; docstrings and messages may give examples."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    names = {token.string.strip("\"'") for token in tokens if token.type in (tokenize.NAME, tokenize.STRING)}
    assert names.isdisjoint(kind.__name__ for kind in POLICIES)
