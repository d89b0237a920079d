"""Findings of `suggest` and the drafts of their manifests."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.companions.suggest import drafts, findings
from reconciler.companions.suggest.command import read_ignored
from reconciler.companions.suggest.findings import FindingKind, Suggestions, finding_id, parse_ignored
from reconciler.errors import UsageError
from reconciler.manifest.files import ClusterManifests, source_of, validate_sources
from reconciler.model.names import Address, TopicPartition
from reconciler.model.snapshot import ExternalPosition, GroupState
from reconciler.policies import GroupRemoval, RetentionFloor
from tests.strategies import facts
from tests.strategies.facts import HOUR, NOW_MS, group, reader, snapshot
from tests.unit.companions.suggest.test_rules import SHARED, mirrored, partition, suggest


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
@example("x" * 5_000 + "a", "x" * 5_000 + "b")
def test_two_names_never_have_one_id(first: str, second: str) -> None:
    """Ids are short, and a file of ids gives each of them back."""
    ids = [finding_id(FindingKind.IDLE_GROUP, name) for name in (first, second)]
    assert (ids[0] == ids[1]) == (first == second)
    for identifier in ids:
        assert identifier.isascii()
        assert len(identifier) < 250
        assert parse_ignored(f"  {identifier}  # {first}".replace("\n", " ")) == (identifier,)


def test_comments_and_empty_lines_are_no_ids() -> None:
    text = "# reviewed in May\n\nidle-group/old-etl # a yearly job\nidle-group/old-etl\r\nleader/orders\n"
    assert parse_ignored(text) == ("idle-group/old-etl", "leader/orders")


def test_a_file_of_ids_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """As an editor of Windows writes it: the first id was one that no finding has."""
    (tmp_path / "ignored").write_text("idle-group/old-etl\nleader/orders\n", encoding="utf-8-sig")
    assert read_ignored(tmp_path / "ignored") == ("idle-group/old-etl", "leader/orders")
    (tmp_path / "ignored").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"--ignore .*: byte 1 of the text is not UTF-8"):
        read_ignored(tmp_path / "ignored")


def test_the_document_has_a_version_and_a_finding_per_line() -> None:
    suggestions = suggest(SHARED, ignored=["idle-group/gone"])
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


HOSTILE = (
    "no: yaml",
    '"quoted" # comment',
    "line\nbreak\n---",
    "\u202eright-to-left",
    "true",
    "null",
    "1e3",
    "- x",
    "é",
)


def load(suggestions: Suggestions) -> tuple[str, ClusterManifests]:
    cluster = drafts.cluster_text(
        suggestions, cluster=Address("Cluster", "prod-eu"), servers=["b:1"], client={"client.rack": "a"}
    )
    text = drafts.file_text(suggestions, [cluster, *drafts.policy_texts(suggestions)])
    return text, validate_sources([source_of("first.yaml", text.encode())], now_ms=NOW_MS).by_cluster[0]


def test_the_file_is_a_complete_set_of_manifests() -> None:
    """It validates alone, with the protections and the limits of the findings."""
    suggestions = suggest(SHARED)
    text, loaded = load(suggestions)
    assert loaded.cluster.spec.cluster_id == facts.CLUSTER_ID
    assert loaded.cluster.spec.scan.engine == "auto"
    limits = {f.subject: f.value for f in suggestions.of(FindingKind.LIMIT).findings}
    assert loaded.cluster.spec.limits.model_dump(by_alias=True).items() >= limits.items()
    assert {policy.address for policy in loaded.policies} == {draft.policy.address for draft in suggestions.drafts}
    assert "# idle-group/old-etl (medium confidence): EMPTY, no activity for 6 d" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("#")) <= 100


def test_a_drafted_reader_is_a_valid_manifest() -> None:
    """It loads with the request that was read, now with topics and a name."""
    _text, loaded = load(suggest(mirrored(ExternalPosition({TopicPartition("orders", 0): 40}, NOW_MS))))
    assert [(str(r.address), r.request.at) for r in loaded.readers] == [
        ("ExternalReader/mm2-offset-syncs.b.internal", "mm2-offset-syncs.B.internal")
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_group_names_stay_names(name: str) -> None:
    """The manifests hold exactly the names, as an idle group and as one of unreadBy."""
    snap = snapshot(
        partition("orders", readers=(reader(name, 90),)), group(name, idle=HOUR, state=GroupState.STABLE), group("old")
    )
    _text, loaded = load(suggest(snap))
    (floor,) = (policy for policy in loaded.policies if isinstance(policy, RetentionFloor))
    assert floor.awaited_groups == (name,)
    _text, loaded = load(suggest(snapshot(group(name), group("b", idle=0))))
    (removal,) = (policy for policy in loaded.policies if isinstance(policy, GroupRemoval))
    assert [selector.name for selector in removal.selectors] == [name]


def test_advice_for_a_cluster_of_another_file_is_in_comments() -> None:
    """A second Cluster of one id would be refused."""
    suggestions = suggest(SHARED)
    text = drafts.file_text(suggestions, list(drafts.policy_texts(suggestions)))
    assert "# For the manifest Cluster/prod-eu" in text
    assert "# limit/elections" in text
    assert "kind: Cluster" not in text


def test_many_findings_are_counted_in_the_comments() -> None:
    many = facts.cluster(limits={"groups": 100, "groupsPercent": 100})
    text, _loaded = load(suggest(snapshot(*(group(f"g-{n}") for n in range(50))), cluster=many))
    assert "# And 30 more findings, which the JSON output has." in text
