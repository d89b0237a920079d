"""Rules that need the complete set. Every error cites both manifests."""

import pytest

from reconciler.manifest.diagnostics import Diagnostic
from tests.unit.manifest.broken import CLUSTER, GOOD, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import outcome

US = cluster(name="prod-us", cluster_id="9QxT2nUdS7ujRk5w1yZ4LA")
C = {"c": CLUSTER}
BOTH = {"c": CLUSTER, "u": US}
Files = dict[str, str]


def diagnostics_of(**files: str) -> list[Diagnostic]:
    _, diagnostics = outcome({f"{name}.yaml": text for name, text in files.items()})
    return [diagnostic for diagnostic in diagnostics if diagnostic.code != "M403"]


def removal(groups: str, *, name: str, fields: str = "") -> str:
    return manifest("GroupRemoval", name, f"groups: {groups}\nidleFor: 3d\n{fields}")


def leaders(spec: str, *, name: str) -> str:
    return manifest("LeaderPolicy", name, spec)


def last(spec: str, name: str = "orders") -> str:
    """Return a floor that keeps five records."""
    return floor(f"{spec}\nkeep: {{last: 5}}", name=name)


def of_cluster(name: str, policy: str = "orders") -> str:
    return manifest("RetentionFloor", policy, GOOD, metadata=f"cluster: {name}")


def claims(first: str, second: str) -> Files:
    return {**C, "a": last(first, "first"), "b": last(second, "second")}


UNCLEAN = leaders("partitions: {orders: [3]}\nelection: unclean", name="unclean")
OFFSETS = floor("topics: [a]\nkeep: {fromOffset: {0: 5}}", name="offsets")
INVALID, UNREADABLE = last("topics: []"), "kind: [\n"
NAMELESS = last("topics: [a]").replace("name: orders", "owner: me")
LEADERS = leaders("topics: [orders]", name="orders")
OF_US = manifest("Waiver", "w", WAIVED, metadata="cluster: prod-us")

SETS: list[tuple[Files, list[str]]] = [
    # Each later manifest of a name cites the first. Other kinds, and other clusters, may use the name again.
    ({**C, "a": floor(GOOD), "b": last("topics: [clicks]")}, ["M301 b.yaml:3 a.yaml:3"]),
    ({**C, "a": floor(GOOD), "b": LEADERS}, []),
    (
        {**C, "a": floor(GOOD), "b": last("topics: [b]"), "d": last("topics: [c]")},
        ["M301 b.yaml:3 a.yaml:3", "M301 d.yaml:3 a.yaml:3"],
    ),
    ({**BOTH, "a": of_cluster("prod-eu"), "b": of_cluster("prod-us")}, []),
    ({**BOTH, "a": of_cluster("prod-eu", "one"), "b": of_cluster("prod-us", "two")}, []),
    ({**C, "a": floor(GOOD), "b": of_cluster("prod-eu")}, ["M301 b.yaml:3 a.yaml:3", "M302 b.yaml:5 a.yaml:5"]),
    # An error in one manifest does not cause errors in others, and its name still counts.
    ({**C, "a": INVALID, "b": floor(GOOD)}, ["M116 a.yaml:5", "M301 b.yaml:3 a.yaml:3"]),
    ({**C, "a": INVALID, "w": waiver(WAIVED)}, ["M116 a.yaml:5"]),
    # Two manifests for one cluster would be planned without each other's claims.
    ({"a": CLUSTER, "b": cluster(cluster_id="x")}, ["M301 b.yaml:3 a.yaml:3"]),
    ({"a": CLUSTER, "b": cluster(name="copy")}, ["M307 b.yaml:5 a.yaml:5"]),
    # Two floors that claim one topic by exact names; disjoint partitions do not clash.
    *(
        (claims(first, second), ["M302 b.yaml:5 a.yaml:5"])
        for first, second in (
            ("topics: [a]", "topics: [b, a]"),
            ("topics: [a]\npartitions: [0, 1]", "topics: [a]\npartitions: [1, 2]"),
            ("topics: [a]\npartitions: [0]", "topics: [a]"),
            ("topics: [a]", "topics: [a]\npartitions: [0]"),
        )
    ),
    *(
        (claims(first, second), [])
        for first, second in (
            ("topics: [a]\npartitions: [0, 1]", "topics: [a]\npartitions: [2]"),
            ("topics: [a, b]\nexceptTopics: [a]", "topics: [a]"),
            ("topics: [a]", "topics: [a, 'b*']\nexceptTopics: ['a*']\nexpectAtMost: 1"),
            ("topics: ['a*']\nexpectAtMost: 1", "topics: [a]"),
            ("topics: ['a*']\nexpectAtMost: 1", "topics: ['a*']\nexpectAtMost: 1"),
        )
    ),
    # The map of offsets selects just its partitions: the others may belong to another floor.
    ({**C, "a": OFFSETS, "b": last("topics: [a]\npartitions: [1]", "rest")}, []),
    ({**C, "a": OFFSETS, "b": last("topics: [a]\npartitions: [0]", "rest")}, ["M302 b.yaml:5 a.yaml:5"]),
    # Every further claimant is reported, partitions and whole topics mixed.
    (
        {
            **C,
            "a": last("topics: [a]\npartitions: [0]", "one"),
            "b": last("topics: [a]\npartitions: [1]", "two"),
            "d": last("topics: [a]", "three"),
            "e": last("topics: [a]\npartitions: [2]", "four"),
        },
        ["M302 d.yaml:5 a.yaml:5", "M302 e.yaml:5 d.yaml:5"],
    ),
    # Groups and leaders; an unclean election claims its partitions beside a preferred one.
    ({**C, "a": removal("[g]", name="one"), "b": removal("[h, g]", name="two")}, ["M302 b.yaml:5 a.yaml:5"]),
    ({**C, "a": removal("[g]", name="one"), "b": removal("[g, h]", name="two", fields="exceptGroups: ['g*']")}, []),
    ({**C, "a": leaders("topics: [orders]", name="preferred"), "b": UNCLEAN}, ["M302 b.yaml:5 a.yaml:5"]),
    ({**C, "a": leaders("topics: [orders, clicks]\nexceptTopics: [orders]", name="preferred"), "b": UNCLEAN}, []),
    # metadata.cluster may be left out where the set holds exactly one Cluster; without one: one error.
    ({**C, "a": floor(GOOD)}, []),
    ({"a": floor(GOOD), "b": LEADERS}, ["M306 a.yaml:3"]),
    # Absence proves nothing if a file could not be read: it may hold the missing Cluster or policy.
    ({"a": floor(GOOD), "b": UNREADABLE}, ["M101 b.yaml:2"]),
    ({**C, "w": waiver(WAIVED), "b": UNREADABLE}, ["M101 b.yaml:2"]),
    ({**C, "w": waiver(WAIVED), "b": NAMELESS}, ["M113 b.yaml:3"]),
    # A waiver names a policy of the same cluster.
    ({**BOTH, "a": of_cluster("prod-eu"), "w": OF_US}, ["M305 w.yaml:5"]),
]


@pytest.mark.parametrize(("files", "expected"), SETS)
def test_a_set_cites_each_error_and_the_other_manifest(files: Files, expected: list[str]) -> None:
    assert [
        " ".join((diagnostic.code, str(diagnostic.location), *(str(other.location) for other in diagnostic.related)))
        for diagnostic in diagnostics_of(**files)
    ] == expected


def test_the_other_claimant_is_named() -> None:
    (only,) = diagnostics_of(**claims("topics: [a]", "topics: [a]"))
    assert "`RetentionFloor/first`" in only.related[0].message


OF_NO_GROUPS = waiver(WAIVED.replace("RetentionFloor", "GroupRemoval").replace("recordsPercent", "groups"))


@pytest.mark.parametrize(
    ("files", "code", "names"),
    [
        ({**BOTH, "a": floor(GOOD)}, "M304", ("prod-eu", "prod-us")),
        # A Cluster of the set is suggested if it is near, or all are listed.
        ({**C, "a": of_cluster("prod-ue")}, "M303", ("`prod-eu`",)),
        ({**C, "a": of_cluster("staging")}, "M303", ("prod-eu",)),
        # The policy of the right kind.
        ({**C, "a": floor(GOOD), "w": OF_NO_GROUPS}, "M305", ("`RetentionFloor/orders`",)),
    ],
)
def test_the_hint_has_the_name_that_was_meant(files: Files, code: str, names: tuple[str, ...]) -> None:
    (only,) = diagnostics_of(**files)
    assert only.code == code
    assert all(name in only.hint for name in names)
    assert ("`" in only.hint) == ("`" in names[0]), "of no similar name"
    assert code != "M303" or only.location.column == 35


def test_a_cluster_without_policies_is_warned_about() -> None:
    """A cluster without policies gets a warning, unless another error explains the absence."""
    manifests, diagnostics = outcome({**BOTH, "a": of_cluster("prod-eu")})
    assert manifests is not None
    assert [(diagnostic.code, diagnostic.location.path) for diagnostic in diagnostics] == [("M403", "u")]
    _, diagnostics = outcome({**BOTH, "a": floor(GOOD)})
    assert [diagnostic.code for diagnostic in diagnostics] == ["M304"]
