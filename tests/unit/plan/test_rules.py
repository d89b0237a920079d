"""What runs without another review, and what a proposal changes of the rules against the trusted
manifests.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.manifest import files
from reconciler.model.plan import Change, Rule, Setting
from reconciler.plan.rules import continuous_policies, rule_changes
from reconciler.policies import POLICIES
from tests import rendering as report
from tests.build import cluster_manifest
from tests.build import policy as manifest
from tests.golden.wording import mentions
from tests.strategies.examples import plan, removal

CLUSTER = (
    cluster_manifest("broker-1:9093", limits="", cluster_id="id-of-prod-000000000", name="prod")
    + "  protect: {topics: [payments]}\n  limits: {topics: 5, groups: 20}\n"
)
STREAM = "---\n" + manifest(
    "RetentionFloor",
    "stream",
    'topics: ["a-*", b], exceptTopics: [a-1], expectAtMost: 40, keep: {unreadBy: [app], newerThan: 7d}',
    mode="continuous",
)
LEADERS = "---\n" + manifest("LeaderPolicy", "all", 'topics: ["*"]', mode="continuous")
WAIVED = 'policy: RetentionFloor/stream, limit: recordsPercent, value: 90, expires: "1970-01-20T00:00:00Z"'
WAIVER = "---\n" + manifest("Waiver", "once", WAIVED)
READER = "---\n" + manifest("ExternalReader", "lake", 'topics: [a-1, b], position: {sparkCheckpoint: "s3://lake/a"}')
ALL = CLUSTER + STREAM + LEADERS + WAIVER + READER
MERGED = ALL.replace('mode: continuous\nspec: {topics: ["a', 'spec: {topics: ["a')


def manifests(text: str, path: Path) -> files.ManifestSet:
    path.write_text(text)
    return files.load([path], now_ms=0)


def compare(
    tmp_path: Path, proposed: str, base: str, name: str | None = None
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the continuous policies and the rule changes as `plan --connect-as` finds them. `name`: of the Cluster."""
    trusted = manifests(base, tmp_path / "base.yaml")
    cluster = manifests(proposed, tmp_path / "proposed.yaml").for_cluster(name).connect_as(trusted)
    assert cluster.base is not None
    return continuous_policies(cluster.rules, cluster.base), rule_changes(cluster.rules, cluster.base)


def settings(rule: Rule) -> dict[str, tuple[tuple[str, ...], tuple[str, ...] | None]]:
    return {setting.name: (setting.values, setting.before) for setting in rule.settings}


def test_a_continuous_policy_shows_selectors_clock_and_limits(tmp_path: Path) -> None:
    """In the words of the manifest, with deciding defaults: `every`, and the Cluster's limits."""
    cluster = manifests(ALL, tmp_path / "all.yaml").for_cluster()
    leaders, stream = continuous_policies(cluster.rules)
    assert (stream.change, str(stream.address), stream.declared_at.line) == (None, "RetentionFloor/stream", 10)
    shown = {name: values for name, (values, before) in settings(stream).items() if before is None}
    assert shown == {
        "topics": ("a-*", "b"),
        "exceptTopics": ("a-1",),
        "expectAtMost": ("40",),
        "keep.unreadBy": ("app",),
        "keep.newerThan": ("7d",),
        "every": ("30s",),
        "limits.topics": ("5",),
        "limits.recordsPercentPerTopic": ("90",),
        "limits.recordsPercent": ("50",),
        "Waiver/once": ("recordsPercent up to 90 until 1970-01-20T00:00:00Z",),
    }
    assert settings(leaders)["topics"] == (("*",), None)


def test_policies_that_wait_for_a_review_are_not_listed(tmp_path: Path) -> None:
    cluster = manifests(ALL.replace("mode: continuous\n", ""), tmp_path / "all.yaml").for_cluster()
    assert continuous_policies(cluster.rules) == ()


def test_the_same_manifests_change_nothing(tmp_path: Path) -> None:
    """Comments, spaces and defaults that are written out are not changes."""
    written_out = ALL.replace('["*"]}', '["*"], tolerance: 0} # all').replace(
        "groups: 20", "groups: 20, groupsPercent: 50"
    )
    continuous, changes = compare(tmp_path, written_out, ALL)
    assert {rule.change for rule in continuous} == {Change.UNCHANGED}
    assert changes == ()


@pytest.mark.parametrize(
    ("proposed", "base", "change", "expected"),
    [
        (ALL, CLUSTER + LEADERS, Change.NEW, {}),
        (ALL, MERGED, Change.NEW, {"mode": (("continuous",), ("merge",))}),
        (CLUSTER + LEADERS, ALL, Change.REMOVED, {}),
        (MERGED, ALL, Change.REMOVED, {"mode": (("merge",), ("continuous",))}),
        (MERGED.replace("unreadBy: [app], ", ""), ALL, Change.REMOVED, {
            "mode": (("merge",), ("continuous",)), "keep.unreadBy": ((), ("app",)), "every": ((), ("30s",))
        }),
        (ALL.replace(", b]", "]"), MERGED, Change.NEW, {
            "mode": (("continuous",), ("merge",)), "topics": (("a-*",), ("a-*", "b"))
        }),
        (ALL.replace("7d", "1h"), ALL, Change.CHANGED, {"keep.newerThan": (("1h",), ("7d",))}),
        (ALL.replace("exceptTopics: [a-1], ", ""), ALL, Change.CHANGED, {"exceptTopics": ((), ("a-1",))}),
        (ALL.replace(", newerThan: 7d", ""), ALL, Change.CHANGED, {"keep.newerThan": ((), ("7d",))}),
        (ALL.replace("{name: stream}", "{name: stream, expectNone: [a-1]}"), ALL, Change.CHANGED, {"expectNone": (("a-1",), ())}),
        (ALL.replace("topics: 5", "topics: 50"), ALL, Change.CHANGED, {"limits.topics": (("50",), ("5",))}),
        (ALL.replace("value: 90", "value: 95"), ALL, Change.CHANGED, {"Waiver/once": (
            ("recordsPercent up to 95 until 1970-01-20T00:00:00Z",), ("recordsPercent up to 90 until 1970-01-20T00:00:00Z",)
        )}),
    ],
    ids=["new", "was merge", "removed", "is merge", "is merge, and less", "was merge, and more", "narrower", "no exception", "no rule", "no warning", "limit", "waiver"],
)  # fmt: skip
def test_a_policy_is_marked_against_the_base(
    tmp_path: Path, proposed: str, base: str, change: Change, expected: dict[str, object]
) -> None:
    """What a later run may do more of is in the policy, in the Cluster or in a waiver."""
    continuous, _changes = compare(tmp_path, proposed, base)
    by_name = {rule.address.policy: rule for rule in continuous}
    assert by_name["stream"].change is change
    differing = {name: pair for name, pair in settings(by_name["stream"]).items() if pair[1] is not None}
    assert differing == expected
    assert by_name["all"].change is Change.UNCHANGED


@pytest.mark.parametrize(
    ("old", "new", "address", "expected"),
    [
        ("groups: 20", "groups: 200", "Cluster/prod", {"limits.groups": (("200",), ("20",))}),
        (", groups: 20", ", groupsPercent: 100", "Cluster/prod", {"limits.groupsPercent": (("100",), ("50",))}),
        ("[payments]", "[orders]", "Cluster/prod", {"protect.topics": (("orders",), ("payments",))}),
        ("  protect: {topics: [payments]}\n", "", "Cluster/prod", {"protect.topics": ((), ("payments",))}),
        ("broker-1", "evil", "Cluster/prod", {"bootstrapServers": (("evil:9093",), ("broker-1:9093",))}),
        ("  protect", "  client: {client.id: x}\n  protect", "Cluster/prod", {"client.client.id": (("x",), ())}),
        ("  protect", "  journal: {topic: j}\n  protect", "Cluster/prod", {"journal.topic": (("j",), ())}),
        ("  protect", "  consumerOffsets: hidden\n  protect", "Cluster/prod", {"consumerOffsets": (("hidden",), ())}),
        ("{name: prod}", "{name: prod, expectNone: [x]}", "Cluster/prod", {"expectNone": (("x",), ())}),
        ("value: 90", "value: 95", "Waiver/once", {"value": (("95",), ("90",))}),
        ("01-20T", "01-21T", "Waiver/once", {"expires": (("1970-01-21T00:00:00Z",), ("1970-01-20T00:00:00Z",))}),
        ("[a-1, b]", "[b]", "ExternalReader/lake", {"topics": (("b",), ("a-1", "b"))}),
        ("lake/a", "lake/b", "ExternalReader/lake", {"position.sparkCheckpoint": (("s3://lake/b",), ("s3://lake/a",))}),
    ],
)  # fmt: skip
def test_changes_of_rules_have_both_values(
    tmp_path: Path, old: str, new: str, address: str, expected: dict[str, object]
) -> None:
    """Limits, protections, servers, waivers, readers and paths are seen before the merge, and warnings that go.

    `expectNone` silenced a misspelt protection, and a MirrorMaker 2 that nothing guards, and no reviewer saw it.
    """
    assert old in ALL
    _continuous, changes = compare(tmp_path, ALL.replace(old, new), ALL)
    (rule,) = changes
    assert (str(rule.address), rule.change, settings(rule)) == (address, Change.CHANGED, expected)


@pytest.mark.parametrize(
    ("document", "name", "value"), [(WAIVER, "policy", "RetentionFloor/stream"), (READER, "topics", "a-1")]
)
def test_what_is_new_or_removed_is_shown_with_its_values(tmp_path: Path, document: str, name: str, value: str) -> None:
    """A waiver that is added and a reader that is removed let more go, and a reviewer sees both."""
    (rule,) = compare(tmp_path, ALL, ALL.replace(document, ""))[1]
    assert (rule.change, settings(rule)[name][0][0]) == (Change.NEW, value)
    (rule,) = compare(tmp_path, ALL.replace(document, ""), ALL)[1]
    assert (rule.change, settings(rule)[name][0][0]) == (Change.REMOVED, value)


def test_every_kind_can_say_what_it_is_set_to(tmp_path: Path) -> None:
    """A field that cannot be written as text would hide a change."""
    documents = Path("docs/kinds")
    assert {path.stem.replace("-", "") for path in documents.glob("*.md")} >= {
        kind.__name__.lower() for kind in POLICIES
    }
    policies = [
        manifest("RetentionFloor", "a", "topics: [x], keep: {fromOffset: {0: 9007199254740993}}"),
        manifest("GroupRemoval", "b", "groups: ['regex:^g[0-9]$'], idleFor: 36h, expectAtMost: 3"),
        manifest("LeaderPolicy", "c", "partitions: {orders: [3, 5]}, election: unclean, tolerance: 2.5"),
    ]
    text = "---\n".join([CLUSTER, *policies])
    shown = {
        policy.metadata.name: policy.spec.settings(explicit=True)
        for policy in manifests(text, tmp_path / "a.yaml").policies
    }
    assert shown == {
        "a": {"topics": ("x",), "keep.fromOffset.0": ("9007199254740993",)},
        "b": {"groups": ("regex:^g[0-9]$",), "idleFor": ("36h",), "expectAtMost": ("3",)},
        "c": {"partitions.orders": ("3", "5"), "election": ("unclean",), "tolerance": ("2.5",)},
    }


def rule(name: str, change: Change | None, *, address: str = "RetentionFloor", values: int = 2) -> Rule:
    example = removal()
    topics = tuple(f"{name}-{number}-*" for number in range(values))
    setting = Setting(name="topics", values=topics, before=("z",) if change is Change.CHANGED else None)
    place = example.declared_at
    return Rule(address=type(example.address)(address, name), declared_at=place, change=change, settings=(setting,))


def test_the_comment_shows_the_rules_before_the_actions() -> None:
    """What runs later without a review is shown first; what did so before is folded."""
    example = plan(
        removal(),
        continuous=(
            rule("n", Change.NEW),
            rule("c", Change.CHANGED),
            rule("gone", Change.REMOVED),
            rule("u", Change.UNCHANGED),
        ),
        rule_changes=(rule("prod", Change.CHANGED, address="Cluster"),),
    )
    text = report.markdown(example)
    marks = ("Changes to the rules", "`Cluster/prod`", "From the merge on, without further review", "**New** `RetentionFloor/n`",
             "**Changed** `RetentionFloor/c`", "**Removed** `RetentionFloor/gone`", "1 rule without further review, the same in the base", "`RetentionFloor/u`", "Irreversible")  # fmt: skip
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert '  - `topics`: `"c-0-*"`, `"c-1-*"`, before: `z`' in text
    assert "4 changed rules" in text.splitlines()[1]
    terminal = "\n".join(line.plain for line in report.text(example, width=60))
    assert mentions(terminal, "From the merge on", "New: RetentionFloor/n", "Removed: RetentionFloor/gone")
    assert "RetentionFloor/u" not in terminal
    assert "RetentionFloor/u" in "\n".join(line.plain for line in report.text(example, full=True))


def test_limits_that_stay_take_one_line(tmp_path: Path) -> None:
    """A phone shows few lines; one that the proposal changes has its own, with both values."""
    continuous, _changes = compare(tmp_path, ALL.replace("topics: 5", "topics: 50"), ALL)
    lines = report.markdown(plan(removal(), continuous=continuous)).splitlines()
    assert "  - `limits.topics`: `50`, before: `5`" in lines
    assert "  - `limits`: `recordsPercentPerTopic` `90`, `recordsPercent` `50`" in lines


EIGHT = [f"ord-{letter}" for letter in "abcdefgh"]
WIDE = "regex:({})".format("|".join([*(f"tmp-{letter}" for letter in "abcdefghijklm"), "wide", "tmp-n", "tmp-o"]))


@pytest.mark.parametrize(
    ("now", "before", "shown"),
    [
        (
            {"topics": [*EIGHT[:6], "payments", "ord-h"]},
            {"topics": EIGHT},
            "`topics`: added: `payments`; removed: `ord-g`; 7 unchanged",
        ),
        ({"topics": EIGHT[::-1]}, {"topics": EIGHT}, "`topics`: 8 unchanged"),
        ({"topics": [*EIGHT, "pay*"]}, None, '`ord-h`, `"pay*"`'),
        ({"topics": [WIDE]}, {"topics": ["ord-a"]}, "|wide|".replace("|", "\\u007c")),
        (
            {
                "topics": ["ord-a"],
                "keep": {"topicId": "kAwXdc4bS8uMfEXAMPLE0g", "fromOffset": dict.fromkeys(range(16), 2)},
                "consumers": "ignore",
            },
            {
                "topics": ["ord-a"],
                "keep": {"topicId": "kAwXdc4bS8uMfEXAMPLE0g", "fromOffset": dict.fromkeys(range(16), 1)},
            },
            "`consumers`: `ignore`",
        ),
    ],
    ids=["behind the fifth", "another order", "new", "a long expression", "behind the fifteenth setting"],
)
def test_no_change_of_a_rule_hides(
    now: dict[str, Any], before: dict[str, Any] | None, shown: str, tmp_path: Path
) -> None:
    """What a reviewer had to know stood in no report: a protection could be swapped for what loses records."""
    base, changed = (
        CLUSTER if spec is None else CLUSTER + policy("f", json.dumps({"keep": {"last": 9}, "expectAtMost": 99, **spec}), mode="continuous")
        for spec in (before, now)
    )  # fmt: skip
    continuous, _changes = compare(tmp_path, changed, base)
    example = plan(removal(), continuous=continuous)
    assert shown in report.markdown(example)
    terminal = "\n".join(line.plain for line in report.text(example, width=1000))
    assert shown.replace("`", "").replace("\\u007c", "|") in terminal


def test_without_a_base_the_policies_are_listed_and_no_change_is_claimed() -> None:
    text = report.markdown(plan(removal(), continuous=(rule("n", None),)))
    assert "- `RetentionFloor/n`: in " in text
    assert "Changes to the rules" not in text
    assert "changed rule" not in text
    assert "From the merge on" not in "\n".join(
        line.plain for line in report.text(plan(removal(), continuous=(rule("n", None),)))
    )


def test_long_rules_never_displace_the_actions() -> None:
    """A proposal with hundreds of rules could otherwise hide what it removes now behind the cut."""
    many = tuple(rule(f"{number:03}-{'x' * 50}", Change.NEW, values=900) for number in range(400))
    text = report.markdown(plan(removal(), continuous=many, rule_changes=many))
    assert len(text) < 60_000
    assert 'truncated="no"' in text.splitlines()[0]
    assert '"old-etl"' in text
    notes = [line for line in text.splitlines() if line.startswith("- … and ")]
    named = text.count("**New** `RetentionFloor/")
    assert sum(int(note.split()[3].replace(",", "")) for note in notes) == 800 - named
    assert all("in the plan file of the run's artifact" in note for note in notes)


def policy(name: str, spec: str, *, kind: str = "RetentionFloor", mode: str = "merge", cluster: str = "prod") -> str:
    return "---\n" + manifest(kind, f"{name}, cluster: {cluster}", spec.removeprefix("{").removesuffix("}"), mode=mode)


EU = "---\n" + CLUSTER.replace("prod", "eu").replace("broker-1", "broker-9")
FLOORS = policy(
    "stream", '{topics: ["a-*", b], exceptTopics: [a-x], expectAtMost: 40, keep: {last: 1}}', mode="continuous"
)
REMOVALS = policy("dead", '{groups: ["bill*"], expectAtMost: 5, idleFor: 1d}', kind="GroupRemoval", mode="continuous")
AWAITS = policy("guard", "{topics: [z], keep: {unreadBy: [billing]}}")


@pytest.mark.parametrize(
    ("continuous", "before", "after", "change", "fields"),
    [
        (REMOVALS, AWAITS, "", Change.REMOVED, {"topics", "keep.unreadBy"}),
        (REMOVALS, "", AWAITS, Change.NEW, {"keep.unreadBy"}),
        (REMOVALS, AWAITS, AWAITS.replace("[billing]", "[other]"), Change.CHANGED, {"keep.unreadBy"}),
        (REMOVALS, AWAITS, AWAITS.replace("prod", "eu"), Change.REMOVED, {"keep.unreadBy"}),
        (FLOORS, policy("one", "{topics: [a-1], keep: {last: 9}}"), "", Change.REMOVED, {"topics"}),
        (
            FLOORS,
            policy("one", '{topics: ["a-1*"], expectAtMost: 9, keep: {last: 9}}'),
            policy("one", '{topics: ["a-1*"], exceptTopics: [a-12], expectAtMost: 9, keep: {last: 9}}'),
            Change.CHANGED,
            {"exceptTopics"},
        ),
        (
            FLOORS,
            policy("one", '{topics: ["*-1"], expectAtMost: 9, keep: {last: 9}}'),
            policy("one", '{topics: ["*-2"], expectAtMost: 9, keep: {last: 9}}'),
            Change.CHANGED,
            {"topics"},
        ),
        (
            FLOORS,
            policy("one", '{topics: ["regex:[a-c]-[0-9]+"], expectAtMost: 9, keep: {last: 9}}'),
            "",
            Change.REMOVED,
            {"topics"},
        ),
        (
            REMOVALS,
            policy("some", "{groups: [billing], idleFor: 30d}", kind="GroupRemoval"),
            "",
            Change.REMOVED,
            {"groups"},
        ),
        ("", AWAITS + REMOVALS, REMOVALS.replace("continuous", "merge"), Change.REMOVED, {"keep.unreadBy"}),
    ],
)
def test_a_policy_that_holds_a_continuous_one_back_is_shown(
    tmp_path: Path, continuous: str, before: str, after: str, change: Change, fields: set[str]
) -> None:
    """A floor that awaited a group, or a claim, went away, and the plan showed nothing."""
    same = CLUSTER + EU + continuous
    policies, (rule,) = compare(tmp_path, same + after, same + before, "prod")
    assert rule.change is change
    assert fields <= settings(rule).keys()
    assert all(shown.change is not None for shown in policies)


def test_a_guard_that_moves_to_another_cluster_is_shown_there_too(tmp_path: Path) -> None:
    """It holds something back on its new cluster, as a policy that is new there."""
    at_eu = REMOVALS.replace("prod", "eu").replace("name: dead", "name: dead-eu")
    same = CLUSTER + EU + at_eu
    _policies, (rule,) = compare(tmp_path, same + AWAITS.replace("prod", "eu"), same + AWAITS, "eu")
    assert (str(rule.address), rule.change) == ("RetentionFloor/guard", Change.NEW)


@pytest.mark.parametrize(
    "other",
    [
        policy("one", "{topics: [c], keep: {last: 9}}"),
        policy("one", "{topics: [a-x], keep: {last: 9}}"),
        policy("one", '{topics: ["c-*", "?"], exceptTopics: ["?"], expectAtMost: 9, keep: {last: 9}}'),
        policy("one", '{topics: ["a-*"]}', kind="LeaderPolicy"),
        policy("one", '{topics: ["a-*"], expectAtMost: 9, keep: {last: 9}}', mode="continuous"),
    ],
)
def test_a_policy_that_holds_nothing_back_is_not_among_the_rules(tmp_path: Path, other: str) -> None:
    """Its actions are in the plan. A continuous one is shown once, as such."""
    for proposed, base in ((FLOORS + other, FLOORS), (FLOORS, FLOORS + other)):
        _continuous, changes = compare(tmp_path, CLUSTER + proposed, CLUSTER + base)
        assert changes == ()
