"""What only the whole set shows. Every error cites both manifests."""

import pytest

from reconciler.manifest.diagnostics import Diagnostic
from tests.unit.manifest.broken import CLUSTER, GOOD, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import outcome

US = cluster(name="prod-us", cluster_id="9QxT2nUdS7ujRk5w1yZ4LA")


def found_in(**files: str) -> list[Diagnostic]:
    _, found = outcome({f"{name}.yaml": text for name, text in files.items()})
    return [each for each in found if each.code != "M403"]


def cited(each: Diagnostic) -> tuple[str, str, list[str]]:
    return each.code, str(each.location), [str(other.location) for other in each.related]


def removal(groups: str, *, name: str, rest: str = "") -> str:
    return manifest("GroupRemoval", name, f"groups: {groups}\nidleFor: 3d\n{rest}")


def leaders(spec: str, *, name: str) -> str:
    return manifest("LeaderPolicy", name, spec)


def test_two_manifests_of_one_name() -> None:
    """ "two manifests with one name" is an error that cites both; other kinds may use the name again."""
    found = found_in(c=CLUSTER, a=floor(GOOD), b=floor("topics: [clicks]\nkeep: {last: 5}"))
    assert [cited(each) for each in found] == [("M301", "b.yaml:3", ["a.yaml:3"])]
    assert found_in(c=CLUSTER, a=floor(GOOD), b=leaders("topics: [orders]", name="orders")) == []


def test_three_manifests_of_one_name_cite_the_first() -> None:
    """Each later manifest cites the first."""
    third = floor("topics: [c]\nkeep: {last: 5}")
    found = found_in(c=CLUSTER, a=floor(GOOD), b=floor("topics: [b]\nkeep: {last: 5}"), d=third)
    assert [cited(each) for each in found] == [("M301", "b.yaml:3", ["a.yaml:3"]), ("M301", "d.yaml:3", ["a.yaml:3"])]


def test_names_are_unique_per_cluster() -> None:
    """ "name … unique per kind and cluster": the same name in two clusters is two policies."""
    mine = [manifest("RetentionFloor", "orders", GOOD, metadata=f"cluster: {name}") for name in ("prod-eu", "prod-us")]
    assert found_in(c=CLUSTER, u=US, a=mine[0], b=mine[1]) == []
    found = found_in(
        c=CLUSTER, a=floor(GOOD), b=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    )
    assert sorted({each.code for each in found}) == ["M301", "M302"]


def test_a_refused_manifest_keeps_its_name() -> None:
    """A typing mistake in one manifest must not make others look wrong, nor hide that its name is taken."""
    broken = floor("topics: []\nkeep: {last: 5}")
    assert [each.code for each in found_in(c=CLUSTER, a=broken, b=floor(GOOD))] == ["M116", "M301"]
    assert [each.code for each in found_in(c=CLUSTER, a=broken, w=waiver(WAIVED))] == ["M116"]


def test_two_clusters_of_one_name_and_of_one_id() -> None:
    """Two manifests for one cluster would not see each other's claims."""
    assert [cited(each) for each in found_in(a=CLUSTER, b=cluster(cluster_id="x"))] == [
        ("M301", "b.yaml:3", ["a.yaml:3"])
    ]
    assert [cited(each) for each in found_in(a=CLUSTER, b=cluster(name="copy"))] == [("M307", "b.yaml:5", ["a.yaml:5"])]


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
    """ "Two policies that claim one subject: by exact names an error here, citing both"; disjoint partitions do not clash."""
    rest = "\nkeep: {last: 5}"
    found = found_in(c=CLUSTER, a=floor(first + rest, name="first"), b=floor(second + rest, name="second"))
    assert [cited(each) for each in found] == ([("M302", "b.yaml:5", ["a.yaml:5"])] if clash else [])


def test_offsets_claim_just_their_partitions() -> None:
    """ "the map selects just its partitions": the others may belong to another floor."""
    offsets = floor("topics: [a]\nkeep: {fromOffset: {0: 5}}", name="offsets")
    assert found_in(c=CLUSTER, a=offsets, b=floor("topics: [a]\npartitions: [1]\nkeep: {last: 5}", name="rest")) == []
    found = found_in(c=CLUSTER, a=offsets, b=floor("topics: [a]\npartitions: [0]\nkeep: {last: 5}", name="rest"))
    assert [each.code for each in found] == ["M302"]


def test_the_third_claimant_is_told_as_well() -> None:
    """Three floors on one topic make two errors, partitions and whole topics mixed."""
    found = found_in(
        c=CLUSTER,
        a=floor("topics: [a]\npartitions: [0]\nkeep: {last: 5}", name="one"),
        b=floor("topics: [a]\npartitions: [1]\nkeep: {last: 5}", name="two"),
        d=floor("topics: [a]\nkeep: {last: 5}", name="three"),
        e=floor("topics: [a]\npartitions: [2]\nkeep: {last: 5}", name="four"),
    )
    assert [cited(each) for each in found] == [
        ("M302", "d.yaml:5", ["a.yaml:5"]),
        ("M302", "e.yaml:5", ["d.yaml:5"]),
    ]
    assert "`RetentionFloor/one`" in found[0].related[0].message


def test_groups_and_leaders_are_claimed_once() -> None:
    """The same holds for groups and for leaders; an unclean election claims its partitions beside a preferred one."""
    found = found_in(c=CLUSTER, a=removal("[g]", name="one"), b=removal("[h, g]", name="two"))
    assert [each.code for each in found] == ["M302"]
    excepted = removal("[g, h]", name="two", rest="exceptGroups: ['g*']")
    assert found_in(c=CLUSTER, a=removal("[g]", name="one"), b=excepted) == []
    preferred = leaders("topics: [orders]", name="preferred")
    unclean = leaders("partitions: {orders: [3]}\nelection: unclean", name="unclean")
    assert [cited(each) for each in found_in(c=CLUSTER, a=preferred, b=unclean)] == [("M302", "b.yaml:5", ["a.yaml:5"])]
    spared = leaders("topics: [orders, clicks]\nexceptTopics: [orders]", name="preferred")
    assert found_in(c=CLUSTER, a=spared, b=unclean) == []


def test_kinds_do_not_clash() -> None:
    """A floor and a leader policy on one topic claim different things."""
    assert found_in(c=CLUSTER, a=floor(GOOD), b=leaders("topics: [orders]", name="orders")) == []


def test_clusters_do_not_clash() -> None:
    """Policies of two clusters on one topic name claim different topics."""
    mine = [manifest("RetentionFloor", name, GOOD, metadata=f"cluster: {name}") for name in ("prod-eu", "prod-us")]
    assert found_in(c=CLUSTER, u=US, a=mine[0], b=mine[1]) == []


def test_cluster_may_be_left_out() -> None:
    """ "may be left out where the set holds exactly one Cluster"."""
    assert found_in(c=CLUSTER, a=floor(GOOD)) == []
    (only,) = found_in(c=CLUSTER, u=US, a=floor(GOOD))
    assert only.code == "M304"
    assert "prod-eu" in only.hint
    assert "prod-us" in only.hint


def test_unknown_cluster() -> None:
    """metadata.cluster has to name a Cluster of the set; the near one is suggested, or all are listed."""
    (only,) = found_in(c=CLUSTER, a=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-ue"))
    assert (only.code, only.location.column) == ("M303", 35)
    assert "`prod-eu`" in only.hint
    (only,) = found_in(c=CLUSTER, a=manifest("RetentionFloor", "orders", GOOD, metadata="cluster: staging"))
    assert "prod-eu" in only.hint
    assert "`" not in only.hint, "nothing near it is suggested"


def test_no_cluster_is_told_once() -> None:
    """Without a Cluster nothing says which one is meant: one error, not one per policy."""
    found = found_in(a=floor(GOOD), b=leaders("topics: [orders]", name="orders"))
    assert [each.code for each in found] == ["M306"]


def test_absence_proves_nothing_where_something_could_not_be_read() -> None:
    """A Cluster or a policy may stand in the file that is broken: its absence is not told then."""
    assert [each.code for each in found_in(a=floor(GOOD), b="kind: [\n")] == ["M101"]
    assert [each.code for each in found_in(c=CLUSTER, w=waiver(WAIVED), b="kind: [\n")] == ["M101"]
    nameless = floor("topics: [a]\nkeep: {last: 5}").replace("name: orders", "owner: me")
    assert [each.code for each in found_in(c=CLUSTER, w=waiver(WAIVED), b=nameless)] == ["M113"]


def test_a_waiver_counts_in_its_own_cluster() -> None:
    """A waiver is addressed to a policy of the same cluster."""
    text = manifest("Waiver", "w", WAIVED, metadata="cluster: prod-us")
    policy = manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    assert [each.code for each in found_in(c=CLUSTER, u=US, a=policy, w=text)] == ["M305"]


def test_a_waiver_for_another_kind_of_that_name() -> None:
    """The name may be right and the kind wrong."""
    text = waiver(WAIVED.replace("RetentionFloor", "GroupRemoval").replace("recordsPercent", "groups"))
    (only,) = found_in(c=CLUSTER, a=floor(GOOD), w=text)
    assert "`RetentionFloor/orders`" in only.hint


def test_a_cluster_without_policies_is_warned_about() -> None:
    """Nothing desired of one of two clusters is worth a warning, but not where another error explains it."""
    policy = manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-eu")
    made, found = outcome({"c": CLUSTER, "u": US, "a": policy})
    assert made is not None
    assert [(each.code, each.location.path) for each in found] == [("M403", "u")]
    _, found = outcome({"c": CLUSTER, "u": US, "a": floor(GOOD)})
    assert [each.code for each in found] == ["M304"]
