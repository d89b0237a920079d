"""Rules that need the complete set. Every error cites both manifests."""

import pytest

from reconciler.manifest.diagnostics import Diagnostic
from tests.unit.manifest.broken import CLUSTER, GOOD, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import outcome

US = cluster(name="prod-us", cluster_id="9QxT2nUdS7ujRk5w1yZ4LA")


def diagnostics_of(**files: str) -> list[Diagnostic]:
    _, diagnostics = outcome({f"{name}.yaml": text for name, text in files.items()})
    return [diagnostic for diagnostic in diagnostics if diagnostic.code != "M403"]


def cited(diagnostic: Diagnostic) -> tuple[str, str, list[str]]:
    return diagnostic.code, str(diagnostic.location), [str(other.location) for other in diagnostic.related]


def removal(groups: str, *, name: str, fields: str = "") -> str:
    return manifest("GroupRemoval", name, f"groups: {groups}\nidleFor: 3d\n{fields}")


def leaders(spec: str, *, name: str) -> str:
    return manifest("LeaderPolicy", name, spec)


def test_two_manifests_of_one_name() -> None:
    """The error cites both; other kinds may use the name again."""
    diagnostics = diagnostics_of(c=CLUSTER, a=floor(GOOD), b=floor("topics: [clicks]\nkeep: {last: 5}"))
    assert [cited(diagnostic) for diagnostic in diagnostics] == [("M301", "b.yaml:3", ["a.yaml:3"])]
    assert diagnostics_of(c=CLUSTER, a=floor(GOOD), b=leaders("topics: [orders]", name="orders")) == []


def test_three_manifests_of_one_name_cite_the_first() -> None:
    """Each later manifest cites the first."""
    third = floor("topics: [c]\nkeep: {last: 5}")
    diagnostics = diagnostics_of(c=CLUSTER, a=floor(GOOD), b=floor("topics: [b]\nkeep: {last: 5}"), d=third)
    assert [cited(diagnostic) for diagnostic in diagnostics] == [
        ("M301", "b.yaml:3", ["a.yaml:3"]),
        ("M301", "d.yaml:3", ["a.yaml:3"]),
    ]


def test_names_are_unique_per_cluster() -> None:
    """ "name … unique per kind and cluster": the same name in two clusters is two policies."""
    policies = [
        manifest("RetentionFloor", "orders", GOOD, metadata=f"cluster: {name}") for name in ("prod-eu", "prod-us")
    ]
    assert diagnostics_of(c=CLUSTER, u=US, a=policies[0], b=policies[1]) == []
    diagnostics = diagnostics_of(
        c=CLUSTER, a=floor(GOOD), b=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    )
    assert sorted({diagnostic.code for diagnostic in diagnostics}) == ["M301", "M302"]


def test_a_refused_manifest_keeps_its_name() -> None:
    """An error in one manifest does not cause errors in others, and its name still counts."""
    invalid = floor("topics: []\nkeep: {last: 5}")
    assert [diagnostic.code for diagnostic in diagnostics_of(c=CLUSTER, a=invalid, b=floor(GOOD))] == ["M116", "M301"]
    assert [diagnostic.code for diagnostic in diagnostics_of(c=CLUSTER, a=invalid, w=waiver(WAIVED))] == ["M116"]


def test_two_clusters_of_one_name_and_of_one_id() -> None:
    """Two manifests for one cluster would be planned without each other's claims."""
    assert [cited(diagnostic) for diagnostic in diagnostics_of(a=CLUSTER, b=cluster(cluster_id="x"))] == [
        ("M301", "b.yaml:3", ["a.yaml:3"])
    ]
    assert [cited(diagnostic) for diagnostic in diagnostics_of(a=CLUSTER, b=cluster(name="copy"))] == [
        ("M307", "b.yaml:5", ["a.yaml:5"])
    ]


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("topics: [a]", "topics: [b, a]", True),
        ("topics: [a]\npartitions: [0, 1]", "topics: [a]\npartitions: [1, 2]", True),
        ("topics: [a]\npartitions: [0, 1]", "topics: [a]\npartitions: [2]", False),
        ("topics: [a]\npartitions: [0]", "topics: [a]", True),
        ("topics: [a]", "topics: [a]\npartitions: [0]", True),
        ("topics: [a, b]\nexceptTopics: [a]", "topics: [a]", False),
        ("topics: [a]", "topics: [a, 'b*']\nexceptTopics: ['a*']\nexpectAtMost: 1", False),
        ("topics: ['a*']\nexpectAtMost: 1", "topics: [a]", False),
        ("topics: ['a*']\nexpectAtMost: 1", "topics: ['a*']\nexpectAtMost: 1", False),
    ],
)
def test_two_floors_that_claim_one_topic(first: str, second: str, clash: bool) -> None:
    """By exact names an error that cites both; disjoint partitions do not clash."""
    keep = "\nkeep: {last: 5}"
    diagnostics = diagnostics_of(c=CLUSTER, a=floor(first + keep, name="first"), b=floor(second + keep, name="second"))
    assert [cited(diagnostic) for diagnostic in diagnostics] == ([("M302", "b.yaml:5", ["a.yaml:5"])] if clash else [])


def test_offsets_claim_just_their_partitions() -> None:
    """ "the map selects just its partitions": the others may belong to another floor."""
    offsets = floor("topics: [a]\nkeep: {fromOffset: {0: 5}}", name="offsets")
    assert (
        diagnostics_of(c=CLUSTER, a=offsets, b=floor("topics: [a]\npartitions: [1]\nkeep: {last: 5}", name="rest"))
        == []
    )
    diagnostics = diagnostics_of(
        c=CLUSTER, a=offsets, b=floor("topics: [a]\npartitions: [0]\nkeep: {last: 5}", name="rest")
    )
    assert [diagnostic.code for diagnostic in diagnostics] == ["M302"]


def test_every_further_claimant_is_reported() -> None:
    """Three floors on one topic make two errors, partitions and whole topics mixed."""
    diagnostics = diagnostics_of(
        c=CLUSTER,
        a=floor("topics: [a]\npartitions: [0]\nkeep: {last: 5}", name="one"),
        b=floor("topics: [a]\npartitions: [1]\nkeep: {last: 5}", name="two"),
        d=floor("topics: [a]\nkeep: {last: 5}", name="three"),
        e=floor("topics: [a]\npartitions: [2]\nkeep: {last: 5}", name="four"),
    )
    assert [cited(diagnostic) for diagnostic in diagnostics] == [
        ("M302", "d.yaml:5", ["a.yaml:5"]),
        ("M302", "e.yaml:5", ["d.yaml:5"]),
    ]
    assert "`RetentionFloor/one`" in diagnostics[0].related[0].message


def test_groups_and_leaders_are_claimed_once() -> None:
    """An unclean election claims its partitions beside a preferred one."""
    diagnostics = diagnostics_of(c=CLUSTER, a=removal("[g]", name="one"), b=removal("[h, g]", name="two"))
    assert [diagnostic.code for diagnostic in diagnostics] == ["M302"]
    excepted = removal("[g, h]", name="two", fields="exceptGroups: ['g*']")
    assert diagnostics_of(c=CLUSTER, a=removal("[g]", name="one"), b=excepted) == []
    preferred = leaders("topics: [orders]", name="preferred")
    unclean = leaders("partitions: {orders: [3]}\nelection: unclean", name="unclean")
    assert [cited(diagnostic) for diagnostic in diagnostics_of(c=CLUSTER, a=preferred, b=unclean)] == [
        ("M302", "b.yaml:5", ["a.yaml:5"])
    ]
    spared = leaders("topics: [orders, clicks]\nexceptTopics: [orders]", name="preferred")
    assert diagnostics_of(c=CLUSTER, a=spared, b=unclean) == []


def test_kinds_do_not_clash() -> None:
    """A floor and a leader policy on one topic claim different things."""
    assert diagnostics_of(c=CLUSTER, a=floor(GOOD), b=leaders("topics: [orders]", name="orders")) == []


def test_clusters_do_not_clash() -> None:
    """Policies of two clusters on one topic name claim different topics."""
    policies = [manifest("RetentionFloor", name, GOOD, metadata=f"cluster: {name}") for name in ("prod-eu", "prod-us")]
    assert diagnostics_of(c=CLUSTER, u=US, a=policies[0], b=policies[1]) == []


def test_cluster_may_be_left_out() -> None:
    """ "may be left out where the set holds exactly one Cluster"."""
    assert diagnostics_of(c=CLUSTER, a=floor(GOOD)) == []
    (only,) = diagnostics_of(c=CLUSTER, u=US, a=floor(GOOD))
    assert only.code == "M304"
    assert "prod-eu" in only.hint
    assert "prod-us" in only.hint


def test_unknown_cluster() -> None:
    """A Cluster of the set is suggested if it is near, or all are listed."""
    (only,) = diagnostics_of(c=CLUSTER, a=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-ue"))
    assert (only.code, only.location.column) == ("M303", 35)
    assert "`prod-eu`" in only.hint
    (only,) = diagnostics_of(c=CLUSTER, a=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: staging"))
    assert "prod-eu" in only.hint
    assert "`" not in only.hint, "no similar name is suggested"


def test_a_missing_cluster_is_reported_once() -> None:
    """Without a Cluster the cluster is unknown: one error, not one per policy."""
    diagnostics = diagnostics_of(a=floor(GOOD), b=leaders("topics: [orders]", name="orders"))
    assert [diagnostic.code for diagnostic in diagnostics] == ["M306"]


def test_absence_proves_nothing_if_a_file_could_not_be_read() -> None:
    """The unreadable file may hold the missing Cluster or policy: its absence is not reported."""
    assert [diagnostic.code for diagnostic in diagnostics_of(a=floor(GOOD), b="kind: [\n")] == ["M101"]
    assert [diagnostic.code for diagnostic in diagnostics_of(c=CLUSTER, w=waiver(WAIVED), b="kind: [\n")] == ["M101"]
    nameless = floor("topics: [a]\nkeep: {last: 5}").replace("name: orders", "owner: me")
    assert [diagnostic.code for diagnostic in diagnostics_of(c=CLUSTER, w=waiver(WAIVED), b=nameless)] == ["M113"]


def test_a_waiver_counts_in_its_own_cluster() -> None:
    """A waiver names a policy of the same cluster."""
    text = manifest("Waiver", "w", WAIVED, metadata="cluster: prod-us")
    policy = manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    assert [diagnostic.code for diagnostic in diagnostics_of(c=CLUSTER, u=US, a=policy, w=text)] == ["M305"]


def test_a_waiver_for_another_kind_of_that_name() -> None:
    """The hint suggests the policy of the right kind."""
    text = waiver(WAIVED.replace("RetentionFloor", "GroupRemoval").replace("recordsPercent", "groups"))
    (only,) = diagnostics_of(c=CLUSTER, a=floor(GOOD), w=text)
    assert "`RetentionFloor/orders`" in only.hint


def test_a_cluster_without_policies_is_warned_about() -> None:
    """A cluster without policies gets a warning, unless another error explains the absence."""
    policy = manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    manifests, diagnostics = outcome({"c": CLUSTER, "u": US, "a": policy})
    assert manifests is not None
    assert [(diagnostic.code, diagnostic.location.path) for diagnostic in diagnostics] == [("M403", "u")]
    _, diagnostics = outcome({"c": CLUSTER, "u": US, "a": floor(GOOD)})
    assert [diagnostic.code for diagnostic in diagnostics] == ["M304"]
