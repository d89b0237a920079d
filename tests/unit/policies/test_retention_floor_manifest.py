"""RetentionFloor manifests: the sentences of the documentation about their fields."""

import pytest

from reconciler.model.selector import select
from reconciler.operations.delete_records import LagPolicy
from reconciler.policies import LeaderPolicy, RetentionFloor
from reconciler.policies.retention_floor import RetentionFloorSpec
from tests.golden.wording import mentions
from tests.unit.manifest.broken import CLUSTER, NOW_MS, cluster, floor, manifest
from tests.unit.manifest.checking import accepted, codes, diagnostics_of, outcome


def spec_of(spec: str) -> RetentionFloorSpec:
    (policy,) = accepted(floor(spec)).policies
    assert isinstance(policy, RetentionFloor)
    return policy.spec


def test_every_field_of_the_design() -> None:
    """The fields of the example, without those that exclude each other, have the values that its
    comments describe.
    """
    spec = spec_of(
        'topics: ["clicks-*"]\nexceptTopics: [clicks-audit]\nexpectAtMost: 40\npartitions: [0, 1]\n'
        "keep:\n  newerThan: 7d\n  since: 2026-11-01T00:00:00Z\n  last: 1_000_000\n  unreadBy: [billing, shipping]\n"
        "consumers: clamp\nexceptGroups: ['console-*']\nevery: 30s\ndriftAfter: 24h"
    )
    assert [selector.text for selector in spec.topics] == ["clicks-*"]
    assert spec.expect_at_most == 40
    assert spec.partitions == (0, 1)
    assert spec.keep.newer_than == 7 * 86_400_000
    assert spec.keep.since == 1_793_491_200_000
    assert spec.keep.last == 1_000_000
    assert spec.keep.unread_by == ("billing", "shipping")
    assert spec.consumers is LagPolicy.CLAMP
    assert (spec.every, spec.drift_after) == (30_000, 86_400_000)


def test_defaults() -> None:
    """ "partitions … default: all", "block (default)", "driftAfter: 24h"."""
    spec = spec_of("topics: [orders]\nkeep: {last: 5}")
    assert spec.partitions is None
    assert spec.consumers is LagPolicy.BLOCK
    assert spec.drift_after == 86_400_000


@pytest.mark.parametrize(
    ("rest", "every_ms"),
    [
        ("keep: {unreadBy: [billing]}", 30_000),
        ("keep: {last: 5}", None),
        ("keep: {last: 5}\nevery: 5m", 300_000),
        ("keep: {unreadBy: [billing]}\nevery: 0s", 0),
    ],
)
def test_every(rest: str, every_ms: int | None) -> None:
    """ "least time between two purges of a partition; default 30s with unreadBy, none otherwise"."""
    (policy,) = accepted(floor(f"topics: [orders]\n{rest}")).policies
    assert policy.every_ms == every_ms


@pytest.mark.parametrize("pattern", ["clicks-*", "click?", "clicks-[ab]", "regex:^clicks$"])
def test_a_pattern_needs_expect_at_most(pattern: str) -> None:
    """ "expectAtMost … required beside a pattern"."""
    (only,) = diagnostics_of(floor(f"topics: [orders, '{pattern}']\nkeep: {{last: 5}}"))
    assert (only.code, only.context) == ("M201", "in RetentionFloor/orders, spec.topics")
    assert pattern in only.message
    assert codes(floor(f"topics: ['{pattern}']\nexpectAtMost: 0\nkeep: {{last: 5}}")) == []


def test_from_offset() -> None:
    """ "exact topic names only; the map selects just its partitions; topicId: … may pin the topic's
    incarnation".
    """
    keep = spec_of("topics: [orders]\nkeep: {fromOffset: {0: 1200, 1: 900}, topicId: kAwXdc4bS8uMfEXAMPLE0g}").keep
    assert keep.from_offset == {0: 1200, 1: 900}
    assert keep.topic_id == "kAwXdc4bS8uMfEXAMPLE0g"
    assert codes(floor('topics: ["a*"]\nexpectAtMost: 1\nkeep: {fromOffset: {0: 1}}')) == ["M202"]
    assert codes(floor("topics: [orders]\npartitions: [0]\nkeep: {fromOffset: {0: 1}}")) == ["M203"]
    assert codes(floor("topics: [a]\nkeep: {last: 1, topicId: kAwXdc4bS8uMfEXAMPLE0g}")) == ["M204"]
    assert codes(floor("topics: [a, b]\nkeep: {fromOffset: {0: 1}, topicId: kAwXdc4bS8uMfEXAMPLE0g}")) == ["M204"]
    assert codes(floor("topics: [a]\nkeep: {fromOffset: {0: 1}, topicId: short}")) == ["M119"]


def test_all_errors_of_one_manifest_are_reported() -> None:
    """A pattern, an offset and partitions together make three errors."""
    spec = 'topics: ["a*", __a]\npartitions: [0]\nkeep: {fromOffset: {0: 1}}'
    assert sorted(codes(floor(spec))) == ["M201", "M202", "M203", "M205"]


def test_keys_of_json_objects_are_numbers() -> None:
    """JSON is YAML, and its keys are text: "0" is partition 0."""
    assert spec_of('topics: [orders]\nkeep: {"fromOffset": {"0": 5}}').keep.from_offset == {0: 5}


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("{x: 1}", "M114"),
        ("{01: 1}", "M110"),
        ("{-1: 1}", "M119"),
        ("{0: -1}", "M119"),
        ("{0: 9223372036854775808}", "M119"),
        ("{2147483648: 1}", "M119"),
        ("{true: 1}", "M114"),
        ("{0: x}", "M114"),
        ("{0: 1.0}", "M114"),
    ],
)
def test_offsets_are_offsets(offsets: str, expected: str) -> None:
    """A partition is a 32-bit number, an offset a 64-bit one; neither is negative."""
    assert codes(floor(f"topics: [orders]\nkeep: {{fromOffset: {offsets}}}")) == [expected]


def test_system_topics() -> None:
    """ "Names starting with `__` … cannot be the subject of a floor at all"; by pattern they are
    simply never selected.
    """
    assert codes(floor("topics: [__consumer_offsets]\nkeep: {last: 5}")) == ["M205"]
    assert codes(floor('topics: ["__*"]\nexpectAtMost: 1\nkeep: {last: 5}')) == []
    assert codes(floor("topics: [_schemas]\nkeep: {last: 5}")) == []


def test_no_pattern_selects_a_leading_underscore() -> None:
    """ "In a RetentionFloor no pattern ever selects a topic whose name starts with `_`"; a
    LeaderPolicy's selects every topic.
    """
    names = ["_schemas", "__remote_log_metadata", "connect-offsets", "orders"]
    (policy,) = accepted(floor("topics: ['*', 'regex:.*', _schemas]\nexpectAtMost: 9\nkeep: {last: 5}")).policies
    assert isinstance(policy, RetentionFloor)
    (need,) = policy.scan_request(NOW_MS).topics
    selected = select(names, need.topics, patterns_skip_underscore=need.patterns_skip_underscore)
    assert selected == {"_schemas": True, "connect-offsets": False, "orders": False}
    (policy,) = accepted(manifest("LeaderPolicy", "all", 'topics: ["*"]')).policies
    assert isinstance(policy, LeaderPolicy)
    (need,) = policy.scan_request(NOW_MS).topics
    assert list(select(names, need.topics, patterns_skip_underscore=need.patterns_skip_underscore)) == sorted(names)


def test_the_journal_topic() -> None:
    """ "… and the journal topic cannot be the subject of a floor at all"; another cluster's journal
    can.
    """
    text = floor("topics: [orders, _reconciler.journal]\nkeep: {last: 5}")
    _, diagnostics = outcome({"c.yaml": cluster("journal: {topic: _reconciler.journal}"), "it.yaml": text})
    assert [diagnostic.code for diagnostic in diagnostics] == ["M207"]
    assert [str(other.location) for other in diagnostics[0].related] == ["c.yaml:7"]
    assert codes(text) == []


def test_since_in_the_future() -> None:
    """ "an instant in the future is refused"."""
    (only,) = diagnostics_of(floor("topics: [orders]\nkeep: {since: 2026-11-21T10:00:01Z}"))
    assert (only.code, only.context) == ("M206", "in RetentionFloor/orders, spec.keep")
    assert mentions(only.message, "2026-11-21T10:00:01Z")
    assert codes(floor("topics: [orders]\nkeep: {since: 2026-11-21T10:00:00Z}")) == []


def test_at_least_one_rule() -> None:
    """ "at least one rule"; a number of zero is not a rule either."""
    assert codes(floor("topics: [orders]\nkeep: {}")) == ["M214"]
    assert codes(floor("topics: [orders]")) == ["M113"]
    assert codes(floor("topics: [orders]\nkeep: {last: 0}")) == ["M119"]
    assert codes(floor("topics: [orders]\nkeep: {newerThan: 0s}")) == ["M217"]


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ("keep:\n  fromOffset: {0: 7}", True),
        ("keep:\n  fromOffset: {0: 7}\n  topicId: kAwXdc4bS8uMfEXAMPLE0g", False),
        ('keep: {last: 7}\nexceptGroups: ["*"]', True),
        ('keep: {last: 7}\nexceptGroups: [billing, "**"]', True),
        ('keep: {last: 7}\nexceptGroups: ["regex:.*"]', True),
        ('keep: {last: 7}\nexceptGroups: ["console-*"]', False),
    ],
)
def test_mode_continuous_refuses_what_needs_a_review(spec: str, refused: bool) -> None:
    text = floor(f"topics: [orders]\n{spec}", more="mode: continuous\n")
    assert codes(text) == (["M216"] if refused else [])
    assert codes(text.replace("continuous", "merge")) == []


def test_continuous_with_a_file_journal_is_warned_about() -> None:
    """ "`validate` warns where a continuous policy with `every` has only a file: a CI runner forgets
    it".
    """
    text = floor("topics: [orders]\nkeep: {unreadBy: [billing]}", more="mode: continuous\n")
    assert codes(text) == ["M401"]
    manifests, diagnostics = outcome({"c.yaml": cluster("journal: {topic: _j}"), "it.yaml": text})
    assert manifests is not None
    assert diagnostics == ()
    assert codes(floor("topics: [orders]\nkeep: {last: 5}", more="mode: continuous\n")) == []
    assert codes(text.replace("mode: continuous\n", "")) == []


def test_streams_manifest() -> None:
    """ "Kafka Streams: topics …-repartition, keep: {unreadBy: [my-app]}, mode: continuous"."""
    text = manifest(
        "RetentionFloor",
        "my-app",
        'topics: ["my-app-*-repartition"]\nexpectAtMost: 6\nkeep: {unreadBy: [my-app]}',
        more="mode: continuous\n",
    )
    assert codes(text) == ["M401"]


@pytest.mark.parametrize(
    "selector",
    ["a/b", "a b", "é", ".", "..", "a" * 250, "a*/b", "regex:", "regex:(", "regex:[", "regex:(?P<x", "a" * 501],
)
def test_selectors_without_a_possible_topic(selector: str) -> None:
    """ "Selectors are exact names, globs or regex:…"; a selector that matches no valid topic name is
    refused.
    """
    assert codes(floor(f"topics: ['{selector}']\nexpectAtMost: 1\nkeep: {{last: 5}}")) == ["M123"]


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        (r"regex:(a)\1", "M124", r"\1"),
        (r"regex:\\\\\12", "M124", r"\1"),
        (r"regex:(?P<x>a)(?P=x)", "M124", "(?P"),
        (r"regex:(?!dev-).*", "M124", "(?!"),
        (r"regex:.*(?<=-v1)", "M124", "(?<="),
        (r"regex:(?>a|b)", "M124", "(?>"),
        (r"regex:a++", "M124", "++"),
        (r"regex:a\Z", "M124", r"\Z"),
        (r"regex:a{,3}", "M123", "{,3}"),
        (r"regex:[[a]", "M123", "nested set"),
        (r"regex:[a&&b]", "M123", "set intersection"),
        (r"regex:a{1001}", "M123", "{1001}"),
        (r"regex:((a{100}){100}){100}", "M123", "{100}"),
        (r"regex:(a)?(?(1)b|c)", "M124", "(?("),
    ],
)
def test_regular_expressions_that_re2_lacks_or_reads_differently(text: str, code: str, part: str) -> None:
    """What Python's `re` read in another way is an error with the rewrite, never another selection."""
    (error,) = diagnostics_of(floor(f"topics: ['{text}']\nexpectAtMost: 1\nkeep: {{last: 5}}"))
    assert error.code == code
    assert part in error.message
    assert error.hint


@pytest.mark.parametrize(
    "text",
    [
        r"regex:^test-[0-9]+$",
        r"regex:^(dev|test)-.*-v[0-9]{1,3}$",
        r"regex:^(a[)]|b\)|[]x]|[^]y])?z",
        r"regex:^a(b(c)?)?d*",
        r"regex:(eu|us|ap|sa)\.(prod|stage|dev)\.(orders|payments|users|clicks|logs|audit)\.(v1|v2|v3|v4)",
        "regex:(" + "|".join("abcdefghijklmnopqrstuvwxyz") + ")-[0-9]+",
        r"regex:\0ab",
        r"regex:[a-z]+(?:x)*",
        r"regex:a*?b+?c??(?i:d)(?:e)?\??\?",
        r"regex:\pL+",
    ],
)
def test_ordinary_regular_expressions(text: str) -> None:
    """Sets, optional groups, alternatives and repetitions are accepted."""
    assert codes(floor(f"topics: ['{text}']\nexpectAtMost: 1\nkeep: {{last: 5}}")) == []


@pytest.mark.parametrize(
    "text",
    [
        r"regex:(a+)+$",
        r"regex:(a|a)*$",
        r"regex:((a*))*$",
        r"regex:(a{2,})+",
        r"regex:.*.*.*.*.*x",
        "regex:" + "a?" * 22 + "a" * 22,
        r"regex:(a?){22}a{22}",
        "regex:" + "(a|aa)" * 13 + "x",
        "regex:" + "(a|aa)" * 9 + ".*.*x",
        "regex:" + "((a|b)|(c|d))" * 5,
    ],
)
def test_no_name_makes_a_regular_expression_slow(text: str) -> None:
    """Any client may create names. With a matcher that goes back, this test would not end."""
    (policy,) = accepted(floor(f"topics: ['{text}']\nexpectAtMost: 1\nkeep: {{last: 5}}")).policies
    assert not policy.selectors[0].matches("a" * 30 + "\n" * 219)


def test_repeated_values() -> None:
    """A value that is twice in a list was probably meant to be another one."""
    assert codes(floor("topics: [a, b, a, a]\nkeep: {last: 5}")) == ["M117", "M117"]
    assert codes(floor("topics: [a]\npartitions: [1, 1]\nkeep: {unreadBy: [g, g]}")) == ["M117", "M117"]


def test_models_created_in_code_have_the_same_rules() -> None:
    """Selectors are accepted as they are, and an error names the rule."""
    spec = spec_of("topics: [orders]\nkeep: {last: 5}")
    copied_spec = RetentionFloorSpec(topics=spec.topics, keep=spec.keep)
    assert copied_spec == spec
    with pytest.raises(ValueError, match="`__a`"):
        RetentionFloorSpec.model_validate({"topics": ["__a"], "keep": {"last": 5}})


def test_cluster_fixture_is_valid() -> None:
    """The Cluster of these tests is accepted."""
    manifests, _ = outcome({"c.yaml": CLUSTER})
    assert manifests is not None
