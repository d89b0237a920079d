"""Ids, the file of ignored ids, and the JSON document."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.companions.suggest import drafts, findings
from reconciler.companions.suggest.findings import FindingKind, finding_id, parse_ignored
from reconciler.companions.suggest.rules import suggest
from tests.strategies import facts
from tests.unit.companions.suggest.test_rules import SHARED


@pytest.mark.parametrize(
    ("kind", "subject", "expected"),
    [
        (FindingKind.IDLE_GROUP, ("old-etl",), "idle-group/old-etl"),
        (FindingKind.LAGGING_GROUP, ("a/b", "orders"), "lagging-group/a%2Fb/orders"),
        (FindingKind.IDLE_GROUP, ("a # b\n::error",), "idle-group/a%20%23%20b%0A%3A%3Aerror"),
    ],
)
def test_an_id_is_one_word_that_names_its_subject(kind: FindingKind, subject: tuple[str, ...], expected: str) -> None:
    assert finding_id(kind, *subject) == expected


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_names_never_have_one_id(first: str, second: str) -> None:
    """Ids are short, and a file of ids gives each of them back."""
    ids = [finding_id(FindingKind.IDLE_GROUP, name) for name in (first, second)]
    assert (ids[0] == ids[1]) == (first == second)
    for identifier in ids:
        assert identifier.isascii()
        assert len(identifier) < 250
        assert parse_ignored(f"  {identifier}  # {first}".replace("\n", " ")) == (identifier,)


def test_a_long_name_has_a_short_id_of_its_own() -> None:
    first, second = (finding_id(FindingKind.IDLE_GROUP, "x" * 5_000 + ending) for ending in "ab")
    assert first != second
    assert len(first) < 150


def test_comments_and_empty_lines_are_no_ids() -> None:
    text = "# reviewed in May\n\nidle-group/old-etl # a yearly job\nidle-group/old-etl\r\nleader/orders\n"
    assert parse_ignored(text) == ("idle-group/old-etl", "leader/orders")


def test_the_document_has_a_version_and_a_finding_per_line() -> None:
    suggestions = suggest(SHARED, cluster=facts.cluster(), ignored=["idle-group/gone"])
    text = "".join(findings.dumps(suggestions, list(drafts.policy_texts(suggestions))))
    document = json.loads(text)
    assert document["format_version"] == "1.0"
    assert document["kind"] == "Suggestions"
    assert document["cluster_id"] == facts.CLUSTER_ID
    assert document["unmatched"] == ["idle-group/gone"]
    assert [section["kind"] for section in document["sections"]] == list(FindingKind)
    rows = [line for line in text.splitlines() if line.startswith('{"id"')]
    assert len(rows) == len(document["findings"]) == len(suggestions.findings)
    addresses = {manifest["address"]: manifest["findings"] for manifest in document["manifests"]}
    for finding in document["findings"]:
        if finding["manifest"] in addresses:
            assert finding["id"] in addresses[finding["manifest"]]
