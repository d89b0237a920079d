"""Manifests of policies and waivers: the sentences of the documentation about their fields."""

from typing import Any

import pytest

from reconciler.model.ports import Election
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.operations.delete_records import LagPolicy
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.external_reader import ExternalReader
from reconciler.policies.retention_floor import RetentionFloorSpec
from tests.golden.wording import mentions
from tests.strategies.facts import DAY, TOPIC_ID
from tests.strategies.facts import manifest as as_data
from tests.unit.manifest.broken import GOOD, NOW_MS, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import accepted, codes, diagnostics_of, outcome

CONTINUOUS = "mode: continuous\n"
WAIVABLE = "---\n".join(
    (
        floor(GOOD),
        manifest("GroupRemoval", "dead", "groups: [g]\nidleFor: 3d"),
        manifest("LeaderPolicy", "all", 'topics: ["*"]'),
    )
)
EXPIRES = 1_796_083_200_000


def only_policy(text: str) -> Policy:
    (policy,) = accepted(text).policies
    return policy


def floor_of(spec: str) -> RetentionFloor:
    policy = only_policy(floor(spec))
    assert isinstance(policy, RetentionFloor)
    return policy


def keep(rules: str, more: str = "") -> str:
    """Return the spec of a floor on `orders`."""
    return f"topics: [orders]\nkeep: {{{rules}}}\n{more}"


def topic_of(selector: str) -> str:
    return f"topics: ['{selector}']\nexpectAtMost: 1\nkeep: {{last: 5}}"


def removal(spec: str) -> str:
    return manifest("GroupRemoval", "dead-etl", spec)


def group_of(selector: str) -> str:
    return f"groups: ['{selector}']\nidleFor: 3d\nexpectAtMost: 5"


def leaders(spec: str) -> str:
    return manifest("LeaderPolicy", "everything-preferred", spec)


def reader(position: str, *, more: str = "") -> str:
    spec = f"topics: [orders]\nposition: {{{position}}}"
    return manifest("ExternalReader", "orders-lake", spec, more=more) + "---\n" + floor(GOOD)


def waived(
    policy: str = "RetentionFloor/orders", limit: str = "recordsPercent", value: str = "100", **more: str
) -> str:
    fields = {"policy": policy, "limit": limit, "value": value, "expires": "2026-12-01T00:00:00Z"} | more
    return WAIVABLE + "---\n" + waiver("\n".join(f"{key}: {text}" for key, text in fields.items()))


# --- fields


def test_every_field_of_a_floor() -> None:
    """The values are those that the comments of the example describe; the defaults, too."""
    spec = floor_of(
        'topics: ["clicks-*"]\nexceptTopics: [clicks-audit]\nexpectAtMost: 40\npartitions: [0, 1]\n'
        "keep:\n  newerThan: 7d\n  since: 2026-11-01T00:00:00Z\n  last: 1_000_000\n  unreadBy: [billing, shipping]\n"
        "consumers: clamp\nexceptGroups: ['console-*']\nevery: 30s\ndriftAfter: 24h"
    ).spec
    assert [selector.text for selector in spec.topics] == ["clicks-*"]
    assert (spec.expect_at_most, spec.partitions, spec.consumers) == (40, (0, 1), LagPolicy.CLAMP)
    assert (spec.keep.newer_than, spec.keep.since, spec.keep.last) == (7 * DAY, 1_793_491_200_000, 1_000_000)
    assert spec.keep.unread_by == ("billing", "shipping")
    assert (spec.every, spec.drift_after) == (30_000, DAY)
    pinned = floor_of(keep(f"fromOffset: {{0: 1200, 1: 900}}, topicId: {TOPIC_ID}")).spec.keep
    assert (pinned.from_offset, pinned.topic_id) == ({0: 1200, 1: 900}, TOPIC_ID)
    # JSON is YAML, and its keys are text: "0" is partition 0.
    assert floor_of('topics: [orders]\nkeep: {"fromOffset": {"0": 5}}').spec.keep.from_offset == {0: 5}
    # The least time between two purges of a partition is 30s with unreadBy, and none otherwise.
    clocks = {"last: 5": None, "unreadBy: [billing]": 30_000}
    assert {rules: floor_of(keep(rules)).every_ms for rules in clocks} == clocks
    assert floor_of(keep("last: 5", "every: 5m")).every_ms == 300_000
    assert floor_of(keep("unreadBy: [billing]", "every: 0s")).every_ms == 0
    plain = floor_of(keep("last: 5")).spec
    assert (plain.partitions, plain.consumers, plain.drift_after) == (None, LagPolicy.BLOCK, DAY)


def test_every_field_of_the_other_kinds() -> None:
    """A leader move loses nothing: expectAtMost is not needed."""
    old = only_policy(
        removal(
            'groups: [old-etl, "regex:^console-consumer-[0-9]+$"]\nexceptGroups: [console-consumer-1]\nidleFor: 3d\n'
            "types: [consumer]\nexpectAtMost: 200"
        )
    )
    plain = only_policy(removal("groups: [old-etl]\nidleFor: 3d"))
    assert isinstance(old, GroupRemoval)
    assert isinstance(plain, GroupRemoval)
    assert [selector.is_pattern for selector in old.spec.groups] == [False, True]
    assert (old.spec.idle_for, old.spec.types, old.spec.expect_at_most) == (3 * DAY, ("consumer",), 200)
    assert plain.spec.types == ("classic", "consumer")
    led = only_policy(leaders('topics: ["*"]\nelection: preferred\ntolerance: 0'))
    unclean = only_policy(leaders("partitions: {orders: [3]}\nelection: unclean"))
    assert isinstance(led, LeaderPolicy)
    assert isinstance(unclean, LeaderPolicy)
    assert (led.spec.election, led.spec.tolerance) == (Election.PREFERRED, 0)
    assert led.spec == only_policy(leaders('topics: ["*"]')).spec  # type: ignore[attr-defined]
    assert unclean.spec.partitions == {"orders": (3,)}
    (found,) = accepted(waived()).for_cluster().waivers
    assert (found.spec.policy, found.spec.limit, found.spec.value) == ("RetentionFloor/orders", "recordsPercent", 100)
    assert found.spec.expires == EXPIRES


@pytest.mark.parametrize("text", ["2026-12-01T01:00:00+01:00", "2026-11-30T19:00:00-05:00", "2026-12-01T00:00:00.000Z"])
def test_an_instant_is_the_same_in_any_zone(text: str) -> None:
    (found,) = accepted(waived(expires=text)).for_cluster().waivers
    assert found.spec.expires == EXPIRES


@pytest.mark.parametrize(
    ("field", "at"),
    [
        ("sparkCheckpoint", "s3://lake/checkpoints/orders"),
        ("sparkCheckpoint", "/data/checkpoints/orders/"),
        ("sparkCheckpoint", "abfss://lake/orders"),
        ("mirrorMakerSyncs", "mm2-offset-syncs.B.internal"),
        ("table", "file:///data/positions.csv"),
        ("table", "/data/positions.jsonl"),
    ],
)
def test_a_reader_says_what_a_scan_reads(field: str, at: str) -> None:
    """Each position gives one request, under a name that no group shares with its manifest."""
    accepted(reader(f"{field}: '{at}'"))
    loaded = ExternalReader.model_validate(
        as_data("ExternalReader", "orders-lake", {"topics": ["orders", "x-*"], "position": {field: at}})
    )
    topics = (Selector("orders"), Selector("x-*"))
    assert loaded.request == ExternalReaderRequest(
        name="ExternalReader/orders-lake", topics=topics, kind=PositionKind(field), at=at
    )


def test_models_created_in_code_have_the_same_rules() -> None:
    """Selectors are accepted as they are, and an error names the rule."""
    spec = floor_of(keep("last: 5")).spec
    assert RetentionFloorSpec(topics=spec.topics, keep=spec.keep) == spec
    with pytest.raises(ValueError, match="`__a`"):
        RetentionFloorSpec.model_validate({"topics": ["__a"], "keep": {"last": 5}})


# --- errors

FLOORS = {
    "": [
        # By pattern, topics with `__` are simply never selected.
        topic_of("__*"),
        "topics: [_schemas]\nkeep: {last: 5}",
        # Only the journal topic of the own cluster cannot be the subject of a floor.
        "topics: [orders, _reconciler.journal]\nkeep: {last: 5}",
        keep("since: 2026-11-21T10:00:00Z"),
        *(f"topics: ['{glob}']\nexpectAtMost: 0\nkeep: {{last: 5}}" for glob in ("click?", "clicks-[ab]")),
        # Sets, optional groups, alternatives and repetitions of regular expressions.
        *(
            topic_of(f"regex:{text}")
            for text in (
                r"^test-[0-9]+$",
                r"^(dev|test)-.*-v[0-9]{1,3}$",
                r"^(a[)]|b\)|[]x]|[^]y])?z",
                r"^a(b(c)?)?d*",
                r"(eu|us|ap|sa)\.(prod|stage|dev)\.(orders|payments|users|clicks|logs|audit)\.(v1|v2|v3|v4)",
                "(" + "|".join("abcdefghijklmnopqrstuvwxyz") + ")-[0-9]+",
                r"\0ab",
                r"[a-z]+(?:x)*",
                r"a*?b+?c??(?i:d)(?:e)?\??\?",
                r"\pL+",
            )
        ),
    ],
    # A partition is a 32-bit number, an offset a 64-bit one; neither is negative.
    "M110": [keep("fromOffset: {01: 1}")],
    "M113": ["topics: [orders]"],
    "M114": [keep(f"fromOffset: {offsets}") for offsets in ("{x: 1}", "{true: 1}", "{0: x}", "{0: 1.0}")],
    "M119": [
        keep("fromOffset: {-1: 1}"),
        keep("fromOffset: {0: -1}"),
        keep("fromOffset: {0: 9223372036854775808}"),
        keep("fromOffset: {2147483648: 1}"),
        keep("fromOffset: {0: 1}, topicId: short"),
        # A number of zero is not a rule.
        keep("last: 0"),
    ],
    # A value that is twice in a list was probably meant to be another one.
    "M117 M117": [
        "topics: [a, b, a, a]\nkeep: {last: 5}",
        "topics: [a]\npartitions: [1, 1]\nkeep: {unreadBy: [g, g]}",
    ],
    # A selector that matches no valid topic name.
    "M123": [
        *map(topic_of, ("a/b", "a b", "é", ".", "..", "a" * 250, "a*/b")),
        *map(topic_of, ("regex:", "regex:(", "regex:[", "regex:(?P<x", "a" * 501)),
    ],
    "M204": [f"topics: [a, b]\nkeep: {{fromOffset: {{0: 1}}, topicId: {TOPIC_ID}}}"],
    # All errors of one manifest are reported.
    "M201 M205 M203 M202": ['topics: ["a*", __a]\npartitions: [0]\nkeep: {fromOffset: {0: 1}}'],
}
ANY_GROUP = [
    *('["*"]', '[billing, "**"]', '["regex:.*"]', '["[a-zA-Z0-9]*"]', '["[a-m]*", "[!a-m]*"]', "['regex:[^_].*']"),
    *('["*-*"]', '["[A-Z]*"]', '["????*"]'),
]
MODES = {
    # A continuous floor has no review, which these need.
    "M216": [keep("fromOffset: {0: 7}"), *(keep("last: 7", f"exceptGroups: {groups}") for groups in ANY_GROUP)],
    "": [
        keep(f"fromOffset: {{0: 7}}, topicId: {TOPIC_ID}"),
        *(keep("last: 7", f"exceptGroups: {text}") for text in ("['console-*']", "['q*', '*-etl']", "['[a-m]*-test']")),
    ],
    # A CI runner forgets the file of the journal.
    "M401": ["topics: ['my-app-*-repartition']\nexpectAtMost: 6\nkeep: {unreadBy: [my-app]}"],
}
REMOVALS = {
    "": [
        # A group id may be any text, with spaces and slashes.
        "groups: ['a b/c', é, '7']\nidleFor: 3d",
        # 0s gives up the evidence, for exact names only.
        *(f"groups: [old-etl]\nidleFor: {zero}" for zero in ("0s", "0m", "0h", "0d")),
        # Exact names may have characters that globs may not.
        *(f"groups: ['{name}']\nidleFor: 3d" for name in (r"CORP\app", "a^b", "{a}", "a,b", "x]", "my-regex:x")),
        *map(group_of, ("[!p]*", "app[blue]", "[]a]x", "[!]]x", "[a-z0-9_-]*", "[-a]", "[!^]*", "[[]*")),
        *map(group_of, ("a[._-]*", "[:a]*", "{x}-*", "[a-]", "*[a-a]", r"regex:\{a,b\}")),
    ],
    "M208": [f"groups: [old-etl, 'x-*']\nexpectAtMost: 5\nidleFor: {zero}" for zero in ("0m", "0h", "0d")],
    "M201": ["groups: ['x-*']\nidleFor: 3d"],
    "M201 M208": ["groups: ['x-*']\nidleFor: 0s"],
    # share, streams and connect groups are never touched.
    "M118": ["groups: [old-etl]\nidleFor: 3d\ntypes: [share]"],
    "M116": ["groups: [old-etl]\nidleFor: 3d\ntypes: []"],
    "M117": ["groups: [old-etl]\nidleFor: 3d\ntypes: [classic, classic]"],
}
LEADERS = {
    # Internal topics included: moving a leader loses nothing.
    "": ["topics: [__consumer_offsets, '__*']", "topics: [a]\ntolerance: 12.5"],
    # Partitions are for unclean elections; a preferred election needs topics.
    "M209": ["election: unclean", "election: preferred", "topics: [a]\npartitions: {orders: [3]}"],
    "M209 M209": ["partitions: {orders: [3]}\nelection: unclean\ntopics: [a]\nexceptTopics: [b]"],
    # An unclean election has exact topic names and partition numbers; tolerance is a percentage.
    "M119": [
        *(f"partitions: {{{names}: [1]}}\nelection: unclean" for names in ("'a/b'", "'a*'")),
        "topics: [a]\ntolerance: -1",
        "topics: [a]\ntolerance: 100.5",
    ],
    "M114": [
        "partitions: {orders: 3}\nelection: unclean",
        "topics: [a]\ntolerance: five",
        "topics: [a]\ntolerance: true",
    ],
    "M115": ["partitions: {7: [1]}\nelection: unclean"],
    "M116": ["partitions: {orders: []}\nelection: unclean", "partitions: {}\nelection: unclean"],
    "M117": ["partitions: {orders: [1, 1]}\nelection: unclean"],
    "M118": ["topics: [a]\nelection: uncleen"],
}
READERS = {
    # Exactly one position, and its path can choose no host, no account and no option.
    "M222": ["sparkCheckpoint: /a, table: /b.csv"],
    "M221": [
        "sparkCheckpoint: checkpoints/orders",
        "sparkCheckpoint: 's3a://lake/x'",
        "sparkCheckpoint: 's3://key@lake/x'",
        "sparkCheckpoint: 's3://lake/../x'",
        "table: '/data/x?format=csv'",
        "table: /data/positions",
        "table: /data/positions.xlsx",
    ],
    "M119": ["mirrorMakerSyncs: 'mm2-*'"],
    "M222 M112": ["flinkSavepoint: /a"],
}
DEAD, ALL, ORDERS = "GroupRemoval/dead", "LeaderPolicy/all", "RetentionFloor/orders"
WAIVERS = {
    "": [
        # At most 30 days ahead, of unclean elections 24 hours.
        waived(expires="2026-12-21T10:00:00Z"),
        waived(ALL, "uncleanElections", expires="2026-11-22T10:00:00Z"),
        waived(ALL, "elections"),
        waived(DEAD, "groupsPercent"),
        waived(limit="recordsPercentPerTopic"),
        waived(limit="topics", value="500"),
        floor(GOOD) + "---\n" + waiver(WAIVED),
        # A proposal that connects elsewhere needs one, and no limit of a policy binds a Cluster.
        waived("Cluster/prod-eu", "connection", "1"),
    ],
    "M210": [
        waived(expires="2026-12-21T10:00:01Z"),
        waived(ALL, "uncleanElections", expires="2026-11-22T10:00:01Z"),
    ],
    "M402": [waived(limit="topics", expires="2026-11-21T09:59:59Z")],
    "M305": [waived("Cluster/prod-us", "connection", "1")],
    # A kind of policy, and a name.
    "M119": [
        *map(waived, ("Waiver/x", "orders", "RetentionFloor/", "RetentionFloor/a/b")),
        # A percentage is at most 100, a count is a whole number.
        waived(limit="recordsPercentPerTopic", value="100.5"),
        waived(limit="topics", value="1.5"),
        waived(DEAD, "groups", "-1"),
    ],
    # A limit that never applies to the policy's kind cannot be waived for it.
    "M215": [
        waived(limit="groups"),
        waived(DEAD, "topics"),
        waived(ALL, "recordsPercent"),
        waived("Cluster/prod-eu", "topics", "1"),
        waived(limit="connection", value="1"),
    ],
    "M118": [waived(ALL, "topicz")],
    "M114": [waived(DEAD, "groups", "'9'"), waived(expires="[a]")],
    "M115": [waived(expires="20261201")],
    # Instants are RFC 3339 with a zone.
    "M122": [
        waived(expires=text)
        for text in (
            *("2026-12-01", "2026-12-01T00:00:00", "2026-12-01 00:00:00Z", "2026-13-01T00:00:00Z", "tomorrow"),
            *("2026-02-30T00:00:00Z", "2026-12-01T25:00:00Z", "0001-01-01T00:00:00+14:00"),
            *("2026-12-01T00:00:00+25:00", "2026-12-01T00:00:00z"),
        )
    ],
}
READER = manifest("ExternalReader", "x", "position: {table: /x.csv}") + "---\n" + floor(GOOD)
TEXTS = [
    *((expected, floor(spec)) for expected, specs in FLOORS.items() for spec in specs),
    *((expected, floor(spec, more=CONTINUOUS)) for expected, specs in MODES.items() for spec in specs),
    *(
        (expected.replace("M216", "").replace("M401", ""), floor(spec))
        for expected in MODES
        for spec in MODES[expected]
    ),
    *((expected, removal(spec)) for expected, specs in REMOVALS.items() for spec in specs),
    *((expected, leaders(spec)) for expected, specs in LEADERS.items() for spec in specs),
    *((expected, reader(position)) for expected, positions in READERS.items() for position in positions),
    *((expected, text) for expected, texts in WAIVERS.items() for text in texts),
    # An unreadable position names no topic, and a reader changes nothing that needs a mode.
    ("M113", READER),
    ("M112", reader("table: /x.csv", more="mode: merge\n")),
]


@pytest.mark.parametrize(("expected", "text"), TEXTS)
def test_what_a_manifest_may_say(expected: str, text: str) -> None:
    """The broken examples of the documentation show one text of each code; here are the others."""
    assert codes(text, now_ms=NOW_MS) == expected.split()


@pytest.mark.parametrize(
    "text",
    [
        *(r"(a+)+$", r"(a|a)*$", r"((a*))*$", r"(a{2,})+", r".*.*.*.*.*x", "a?" * 22 + "a" * 22, r"(a?){22}a{22}"),
        *("(a|aa)" * 13 + "x", "(a|aa)" * 9 + ".*.*x", "((a|b)|(c|d))" * 5),
    ],
)
def test_no_name_makes_a_regular_expression_slow(text: str) -> None:
    """Any client may create names. With a matcher that goes back, this test would not end."""
    assert not floor_of(topic_of(f"regex:{text}")).selectors[0].matches("a" * 30 + "\n" * 219)


# What Python's `re` reads in another way than RE2 is an error with the rewrite, never another selection.
LACKED = {
    "M124": (
        (r"(a)\1", r"\1"),
        (r"\\\\\12", r"\1"),
        (r"(?P<x>a)(?P=x)", "(?P"),
        (r"(?!dev-).*", "(?!"),
        (r".*(?<=-v1)", "(?<="),
        (r"(?>a|b)", "(?>"),
        (r"a++", "++"),
        (r"a\Z", r"\Z"),
        (r"(a)?(?(1)b|c)", "(?("),
    ),
    "M123": (
        (r"a{,3}", "{,3}"),
        (r"[[a]", "nested set"),
        (r"[a&&b]", "set intersection"),
        (r"a{1001}", "{1001}"),
        (r"((a{100}){100}){100}", "{100}"),
    ),
}
HINTS: list[tuple[str, str, str]] = [
    # A bare number has no unit. The hint chooses none: 7 is more often days than seconds, which delete more.
    *(
        (f"groups: [old-etl]\nidleFor: {text}", "M121", "")
        for text in ("3w", "'3 d'", "03d", "-3d", "P3D", "''", "1.5d", "d")
    ),
    ("groups: [old-etl]\nidleFor: 9999999999d", "M121", ""),
    ("groups: [old-etl]\nidleFor: 3", "M121", "add the unit that you mean, such as"),
    ("groups: [old-etl]\nidleFor: '3'", "M121", "add the unit that you mean, such as"),
    ("groups: [old-etl]\nidleFor: 1.5", "M115", ""),
    ("groups: [old-etl]\nidleFor: true", "M115", ""),
    ("groups: [old-etl]\nidleFor: [3d]", "M114", ""),
    ("groups: [old-etl]", "M113", "idleFor: 3d"),
    ("groups: ['x-*']\nexpectAtMost: 5\nidleFor: 0s", "M208", "name each group, or idleFor: 3d"),
    # Shells read `[^p]` as "not p", fnmatch as `^` or `p`, which selects the opposite groups.
    *(
        (group_of(glob), "M123", spelling)
        for spelling, globs in {
            "[!…]": ("[^p]*", "a[^p]"),
            "[[]": ("app[blue", "a*[]", "a*[!]"),
            "lower end": ("[z-a]*", "[!abz-y]"),
            "[*]": (r"app\[blue\]",),
            "regex:…": ("{dev,test}-*",),
            "[0-9]": ("app-[[:digit:]]*", "app-[a[:digit:]]"),
            r"regex:\{dev,test\}": ("{dev,test}",),
            "regex:": ("Regex:^bill.*", "REGEX:bill"),
        }.items()
        for glob in globs
    ),
]


@pytest.mark.parametrize(
    ("spec", "code", "part", "spelling"),
    [
        *((group_of(f"regex:{text}"), code, part, "") for code, texts in LACKED.items() for text, part in texts),
        *((spec, code, "", spelling) for spec, code, spelling in HINTS),
    ],
)
def test_the_hint_of_a_refused_text_says_what_to_write(spec: str, code: str, part: str, spelling: str) -> None:
    (only,) = diagnostics_of(removal(spec))
    assert only.code == code
    assert part in only.message
    assert only.hint
    assert spelling in only.hint


FIXED = "keep: {fromOffset: {0: 1}"
PREFERRED, UNCLEAN = "an unclean election names exact partitions", "partitions: {orders: [3]}"
# Place, field: names and what to write. All errors of one manifest are reported together.
ERRORS: list[tuple[str, list[str]]] = [
    *(
        (
            floor(f"topics: [a, '{pattern}', 'z*']\nkeep: {{last: 5}}"),
            [f"M201 5:15 spec.topics: `{pattern}`, expectAtMost"],
        )
        for pattern in ("clicks-*", "click?", "clicks-[ab]", "regex:^clicks$")
    ),
    (removal("groups: [a, 'b*']\nidleFor: 3d"), ["M201 5:15 spec.groups: `b*`, expectAtMost"]),
    (removal("groups: ['b*']\nidleFor: 0s\nexpectAtMost: 3"), ["M208 6:12 spec: `b*`, `idleFor: 0s`"]),
    (
        leaders("topics: ['*']\nexceptTopics: [a]\nelection: unclean"),
        [
            f"M209 5:3 spec: `topics`, {PREFERRED}",
            f"M209 6:3 spec: `exceptTopics`, {PREFERRED}",
            f"M209 7:13 spec: `partitions`, {UNCLEAN}",
        ],
    ),
    (leaders(UNCLEAN), ['M209 4:1 spec: `topics`, topics: ["*"]', "M209 5:3 spec: `partitions`, name topics instead"]),
    (floor("topics: [a]\nkeep: {}"), ["M214 6:3 spec.keep: `keep`, newerThan, unreadBy"]),
    (floor(keep(f"last: 1, topicId: {TOPIC_ID}")), ["M204 6:28 spec.keep: `topicId`, fromOffset"]),
    (floor("topics: [a, __x]\nkeep: {last: 1}"), ["M205 5:15 spec.topics: `__x`"]),
    (floor(f"topics: ['b*']\nexpectAtMost: 3\n{FIXED}}}"), ["M202 7:10 spec.keep: `fromOffset`, `b*`"]),
    (floor(f"topics: [a]\npartitions: [0]\n{FIXED}}}"), ["M203 6:3 spec: `fromOffset`, partitions"]),
    (floor(f"topics: [a, b]\n{FIXED}, topicId: {TOPIC_ID}}}"), ["M204 6:39 spec.keep: `topicId`, 2"]),
    (floor(keep("since: 2026-11-21T10:00:01Z")), ["M206 6:17 spec.keep: 2026-11-21T10:00:01Z"]),
    (
        reader("sparkCheckpoint: 's3://lake:9000/x'"),
        ["M221 6:31 spec.position: it has a port, write SCHEME://BUCKET/PATH; the machine names the endpoint"],
    ),
    # A waiver without a policy is an error that suggests the closest policy.
    (waived("RetentionFloor/order"), ["M305 25:11 spec: `RetentionFloor/orders`"]),
]


@pytest.mark.parametrize(("text", "expected"), ERRORS)
def test_an_error_says_where_and_what(text: str, expected: list[str]) -> None:
    """Line, column and field of the wrong value or key; its names and fields, and what to write."""
    for error, says in zip(diagnostics_of(text), expected, strict=True):
        place, _, facts = says.partition(": ")
        field = error.context.rpartition(" ")[2]
        assert f"{error.code} {error.location.line}:{error.location.column} {field}" == place
        assert error.hint
        assert mentions(f"{error.message}; {error.hint}", *facts.split(", ")), error


def test_a_waiver_of_a_policy_without_a_similar_one_has_no_suggestion() -> None:
    (only,) = diagnostics_of(waived("RetentionFloor/something-else"))
    assert only.code == "M305"
    assert not mentions(only.hint, "RetentionFloor/orders")


@pytest.mark.parametrize(
    ("journal", "floor_text", "expected"),
    [
        (
            "_reconciler.journal",
            floor("topics: [orders, _reconciler.journal]\nkeep: {last: 5}"),
            [("M207", "c.yaml:7")],
        ),
        ("_j", floor(keep("unreadBy: [billing]"), more=CONTINUOUS), []),
    ],
)
def test_the_journal_topic(journal: str, floor_text: str, expected: list[Any]) -> None:
    """It cannot be the subject of a floor at all, and a continuous policy with `every` needs one."""
    _, diagnostics = outcome({"c.yaml": cluster(f"journal: {{topic: {journal}}}"), "it.yaml": floor_text})
    assert [(found.code, str(found.related[0].location)) for found in diagnostics] == expected
