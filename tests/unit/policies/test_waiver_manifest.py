"""Waiver manifests: the sentences of the documentation about their fields."""

import pytest

from tests.unit.manifest.broken import GOOD, NOW_MS, WAIVED, floor, manifest, waiver
from tests.unit.manifest.checking import accepted, codes, diagnostics_of

POLICIES = (
    "---\n".join(
        (
            floor(GOOD),
            manifest("GroupRemoval", "dead", "groups: [g]\nidleFor: 3d"),
            manifest("LeaderPolicy", "all", 'topics: ["*"]'),
        )
    )
    + "---\n"
)


def with_waiver(**changes: str) -> str:
    fields = {"policy": "RetentionFloor/orders", "limit": "recordsPercent", "value": "100"}
    fields |= {"expires": "2026-12-01T00:00:00Z"} | changes
    return POLICIES + waiver("\n".join(f"{key}: {value}" for key, value in fields.items()))


def test_every_field_of_the_design() -> None:
    """The example is accepted, and applies to the policy that it names."""
    (found,) = accepted(with_waiver()).for_cluster().waivers
    assert (found.spec.policy, found.spec.limit, found.spec.value) == ("RetentionFloor/orders", "recordsPercent", 100)
    assert found.spec.expires == 1_796_083_200_000


@pytest.mark.parametrize(
    ("policy", "limit", "expires", "expected"),
    [
        ("RetentionFloor/orders", "recordsPercent", "2026-12-21T10:00:00Z", []),
        ("RetentionFloor/orders", "recordsPercent", "2026-12-21T10:00:01Z", ["M210"]),
        ("LeaderPolicy/all", "uncleanElections", "2026-11-22T10:00:00Z", []),
        ("LeaderPolicy/all", "uncleanElections", "2026-11-22T10:00:01Z", ["M210"]),
        ("LeaderPolicy/all", "elections", "2026-12-01T00:00:00Z", []),
        ("RetentionFloor/orders", "topics", "2026-11-21T09:59:59Z", ["M402"]),
    ],
)
def test_expires(policy: str, limit: str, expires: str, expected: list[str]) -> None:
    """ "at most 30 days ahead"; "a waiver of at most 24 h" for unclean elections.

    An expired waiver gets a warning.
    """
    assert codes(with_waiver(policy=policy, limit=limit, expires=expires), now_ms=NOW_MS) == expected


def test_the_policy_must_exist() -> None:
    """A waiver without a policy is an error that suggests the closest policy."""
    (only,) = diagnostics_of(with_waiver(policy="RetentionFloor/order"))
    assert only.code == "M305"
    assert "`RetentionFloor/orders`" in only.hint
    (only,) = diagnostics_of(with_waiver(policy="RetentionFloor/something-else"))
    assert only.code == "M305"
    assert "RetentionFloor/orders" not in only.hint


@pytest.mark.parametrize("policy", ["Waiver/x", "orders", "RetentionFloor/", "RetentionFloor/a/b"])
def test_policy_is_an_address(policy: str) -> None:
    """ "policy: RetentionFloor/clicks": a kind of policy, and a name."""
    assert codes(with_waiver(policy=policy)) == ["M119"]


@pytest.mark.parametrize(
    ("policy", "limit", "expected"),
    [
        ("RetentionFloor/orders", "groups", ["M215"]),
        ("GroupRemoval/dead", "groupsPercent", []),
        ("GroupRemoval/dead", "topics", ["M215"]),
        ("LeaderPolicy/all", "recordsPercent", ["M215"]),
        ("LeaderPolicy/all", "topicz", ["M118"]),
    ],
)
def test_the_limit_must_apply_to_the_kind(policy: str, limit: str, expected: list[str]) -> None:
    """A limit that never applies to the policy's kind cannot be waived for it."""
    assert codes(with_waiver(policy=policy, limit=limit)) == expected


@pytest.mark.parametrize(
    ("policy", "limit", "value", "expected"),
    [
        ("RetentionFloor/orders", "recordsPercentPerTopic", "100", []),
        ("RetentionFloor/orders", "recordsPercentPerTopic", "100.5", ["M119"]),
        ("RetentionFloor/orders", "topics", "500", []),
        ("RetentionFloor/orders", "topics", "1.5", ["M119"]),
        ("GroupRemoval/dead", "groups", "-1", ["M119"]),
        ("GroupRemoval/dead", "groups", "'9'", ["M114"]),
    ],
)
def test_the_value_must_fit_the_limit(policy: str, limit: str, value: str, expected: list[str]) -> None:
    """A percentage is at most 100, a count is a whole number."""
    assert codes(with_waiver(policy=policy, limit=limit, value=value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-12-01", "M122"),
        ("2026-12-01T00:00:00", "M122"),
        ("2026-12-01 00:00:00Z", "M122"),
        ("2026-13-01T00:00:00Z", "M122"),
        ("2026-02-30T00:00:00Z", "M122"),
        ("2026-12-01T25:00:00Z", "M122"),
        ("0001-01-01T00:00:00+14:00", "M122"),
        ("2026-12-01T00:00:00+25:00", "M122"),
        ("2026-12-01T00:00:00z", "M122"),
        ("tomorrow", "M122"),
        ("20261201", "M115"),
        ("[a]", "M114"),
    ],
)
def test_instants_are_rfc_3339_with_a_zone(value: str, expected: str) -> None:
    """ "instants are RFC 3339 with a zone"."""
    assert codes(with_waiver(expires=value)) == [expected]


@pytest.mark.parametrize(
    "value", ["2026-12-01T01:00:00+01:00", "2026-11-30T19:00:00-05:00", "2026-12-01T00:00:00.000Z"]
)
def test_instants_in_any_zone(value: str) -> None:
    """An instant is the same in any zone."""
    (found,) = accepted(with_waiver(expires=value)).for_cluster().waivers
    assert found.spec.expires == 1_796_083_200_000


def test_the_plain_waiver_is_valid() -> None:
    """The waiver of the broken examples is valid without its one error."""
    assert codes(floor(GOOD) + "---\n" + waiver(WAIVED)) == []


def test_a_waiver_of_the_connection_names_its_cluster() -> None:
    """A proposal that connects elsewhere needs one, and no limit of a policy binds a Cluster."""
    assert codes(with_waiver(policy="Cluster/prod-eu", limit="connection", value="1")) == []
    assert codes(with_waiver(policy="Cluster/prod-us", limit="connection", value="1")) == ["M305"]
    assert codes(with_waiver(policy="Cluster/prod-eu", limit="topics", value="1")) == ["M215"]
    assert codes(with_waiver(policy="RetentionFloor/orders", limit="connection", value="1")) == ["M215"]
