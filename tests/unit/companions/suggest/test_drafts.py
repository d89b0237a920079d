"""The text of suggested manifests: valid, harmless and with the facts that they rest on."""

import pytest

from reconciler.companions.suggest import drafts
from reconciler.companions.suggest.findings import FindingKind, Suggestions
from reconciler.companions.suggest.rules import suggest
from reconciler.manifest.files import ClusterManifests, source_of, validate_sources
from reconciler.model.names import Address, TopicPartition
from reconciler.model.snapshot import ExternalPosition, GroupState
from reconciler.policies import GroupRemoval, RetentionFloor
from tests.strategies import facts
from tests.strategies.facts import HOUR, NOW_MS, group, reader, snapshot
from tests.unit.companions.suggest.test_rules import SHARED, mirrored, partition

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
    suggestions = suggest(SHARED, cluster=facts.cluster())
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
    _text, loaded = load(
        suggest(mirrored(ExternalPosition({TopicPartition("orders", 0): 40}, NOW_MS)), cluster=facts.cluster())
    )
    assert [(str(r.address), r.request.at) for r in loaded.readers] == [
        ("ExternalReader/mm2-offset-syncs.b.internal", "mm2-offset-syncs.B.internal")
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_group_names_stay_names(name: str) -> None:
    """The manifests hold exactly the names, as an idle group and as one of unreadBy."""
    snap = snapshot(
        partition("orders", readers=(reader(name, 90),)), group(name, idle=HOUR, state=GroupState.STABLE), group("old")
    )
    _text, loaded = load(suggest(snap, cluster=facts.cluster()))
    (floor,) = (policy for policy in loaded.policies if isinstance(policy, RetentionFloor))
    assert floor.awaited_groups == (name,)
    _text, loaded = load(suggest(snapshot(group(name), group("b", idle=0)), cluster=facts.cluster()))
    (removal,) = (policy for policy in loaded.policies if isinstance(policy, GroupRemoval))
    assert [selector.name for selector in removal.selectors] == [name]


def test_advice_for_a_cluster_of_another_file_is_in_comments() -> None:
    """A second Cluster of one id would be refused."""
    suggestions = suggest(SHARED, cluster=facts.cluster())
    advice = suggestions.of(FindingKind.LIMIT).findings
    text = drafts.file_text(suggestions, drafts.policy_texts(suggestions), advice=advice)
    assert "# For the manifest Cluster/prod-eu" in text
    assert "# limit/elections" in text
    assert "kind: Cluster" not in text


def test_many_findings_are_counted_in_the_comments() -> None:
    many = facts.cluster(limits={"groups": 100, "groupsPercent": 100})
    text, _loaded = load(suggest(snapshot(*(group(f"g-{n}") for n in range(50))), cluster=many))
    assert "# And 30 more findings, which the JSON output has." in text
