"""GroupRemoval manifests: the sentences of the documentation about their fields."""

import pytest

from reconciler.policies import GroupRemoval
from tests.unit.manifest.broken import manifest
from tests.unit.manifest.checking import accepted, codes, diagnostics_of


def removal(spec: str) -> str:
    return manifest("GroupRemoval", "dead-etl", spec)


def test_every_field_of_the_design() -> None:
    """The fields of the example have the values that its comments describe."""
    text = (
        'groups: [old-etl, "regex:^console-consumer-[0-9]+$"]\nexceptGroups: [console-consumer-1]\nidleFor: 3d\n'
        "types: [classic, consumer]\nexpectAtMost: 200"
    )
    (policy,) = accepted(removal(text)).policies
    assert isinstance(policy, GroupRemoval)
    assert [selector.is_pattern for selector in policy.spec.groups] == [False, True]
    assert policy.spec.idle_for == 3 * 86_400_000
    assert policy.spec.types == ("classic", "consumer")
    assert policy.spec.expect_at_most == 200


def test_idle_for_is_required() -> None:
    """ "idleFor: 3d # required"."""
    (only,) = diagnostics_of(removal("groups: [old-etl]"))
    assert only.code == "M113"
    assert "idleFor: 3d" in only.hint


@pytest.mark.parametrize("zero", ["0s", "0m", "0h", "0d"])
def test_zero_is_valid_for_exact_names_only(zero: str) -> None:
    """ "0s gives up the evidence, for exact names only"."""
    assert codes(removal(f"groups: [old-etl]\nidleFor: {zero}")) == []
    assert codes(removal(f"groups: [old-etl, 'x-*']\nexpectAtMost: 5\nidleFor: {zero}")) == ["M208"]


def test_expect_at_most() -> None:
    """ "expectAtMost … required beside a pattern"."""
    assert codes(removal("groups: ['x-*']\nidleFor: 3d")) == ["M201"]
    assert sorted(codes(removal("groups: ['x-*']\nidleFor: 0s"))) == ["M201", "M208"]


def test_types() -> None:
    """ "default both; share, streams and connect groups are never touched"."""
    (policy,) = accepted(removal("groups: [old-etl]\nidleFor: 3d")).policies
    assert isinstance(policy, GroupRemoval)
    assert policy.spec.types == ("classic", "consumer")
    assert codes(removal("groups: [old-etl]\nidleFor: 3d\ntypes: [share]")) == ["M118"]
    assert codes(removal("groups: [old-etl]\nidleFor: 3d\ntypes: []")) == ["M116"]
    assert codes(removal("groups: [old-etl]\nidleFor: 3d\ntypes: [classic, classic]")) == ["M117"]


def test_group_ids_are_arbitrary_text() -> None:
    """A group id may be any text, with spaces and slashes."""
    assert codes(removal("groups: ['a b/c', é, '7']\nidleFor: 3d")) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", "M121"),
        ("3w", "M121"),
        ("'3 d'", "M121"),
        ("1.5", "M115"),
        ("03d", "M121"),
        ("-3d", "M121"),
        ("P3D", "M121"),
        ("9999999999d", "M121"),
        ("true", "M115"),
        ("[3d]", "M114"),
        ("''", "M121"),
    ],
)
def test_durations_are_strings(value: str, expected: str) -> None:
    """ "Durations are strings (`30s`, `15m`, `12h`, `7d`)"; a bare number has no unit."""
    (only,) = diagnostics_of(removal(f"groups: [old-etl]\nidleFor: {value}"))
    assert only.code == expected
    assert only.hint


def test_a_number_without_a_unit_gets_a_hint() -> None:
    """The hint has the number with a unit."""
    (only,) = diagnostics_of(removal("groups: [old-etl]\nidleFor: 3"))
    assert '"3s"' in only.hint


@pytest.mark.parametrize(
    ("glob", "spelling"),
    [
        ("[^p]*", "[!…]"),
        ("a[^p]", "[!…]"),
        ("app[blue", "[[]"),
        ("a*[]", "[[]"),
        ("a*[!]", "[[]"),
        ("[z-a]*", "lower end"),
        ("[!abz-y]", "lower end"),
        (r"app\[blue\]", "[*]"),
        ("{dev,test}-*", "regex:…"),
        ("app-[[:digit:]]*", "[0-9]"),
        ("app-[a[:digit:]]", "[0-9]"),
        ("{dev,test}", r"regex:\{dev,test\}"),
        ("Regex:^bill.*", "regex:"),
        ("REGEX:bill", "regex:"),
    ],
)
def test_ambiguous_globs_are_refused(glob: str, spelling: str) -> None:
    """Shells read `[^p]` as "not p", fnmatch as `^` or `p`, which selects the opposite groups."""
    (only,) = diagnostics_of(removal(f"groups: ['{glob}']\nidleFor: 3d\nexpectAtMost: 5"))
    assert only.code == "M123"
    assert spelling in only.hint


@pytest.mark.parametrize(
    "glob",
    [
        "[!p]*",
        "app[blue]",
        "[]a]x",
        "[!]]x",
        "[a-z0-9_-]*",
        "[-a]",
        "[!^]*",
        "[[]*",
        "a[._-]*",
        "[:a]*",
        "{x}-*",
        "[a-]",
        "*[a-a]",
    ],
)
def test_unambiguous_globs(glob: str) -> None:
    assert codes(removal(f"groups: ['{glob}']\nidleFor: 3d\nexpectAtMost: 5")) == []


@pytest.mark.parametrize("name", [r"CORP\app", "a^b", "{a}", "a,b", "x]", "my-regex:x"])
def test_exact_names_may_have_characters_that_globs_may_not(name: str) -> None:
    assert codes(removal(f"groups: ['{name}']\nidleFor: 3d")) == []


def test_a_name_with_braces_can_be_written() -> None:
    """The error message shows how."""
    assert codes(removal("groups: ['regex:\\{a,b\\}']\nidleFor: 3d\nexpectAtMost: 1")) == []
