"""LeaderPolicy manifests: the sentences of the documentation about their fields."""

import pytest

from reconciler.model.ports import Election
from reconciler.policies import LeaderPolicy
from tests.unit.manifest.broken import manifest
from tests.unit.manifest.checking import accepted, codes


def leaders(spec: str) -> str:
    return manifest("LeaderPolicy", "everything-preferred", spec)


def test_every_field_of_the_design() -> None:
    """The example of the design: "a leader move loses nothing: expectAtMost is not needed"."""
    (policy,) = accepted(leaders('topics: ["*"]\nelection: preferred\ntolerance: 0')).policies
    assert isinstance(policy, LeaderPolicy)
    assert policy.spec.election is Election.PREFERRED
    assert policy.spec.tolerance == 0
    (with_defaults,) = accepted(leaders('topics: ["*"]')).policies
    assert isinstance(with_defaults, LeaderPolicy)
    assert with_defaults.spec == policy.spec


def test_internal_topics_are_selected() -> None:
    """ "A LeaderPolicy's patterns select every topic, internal ones included: moving a leader loses
    nothing".
    """
    assert codes(leaders("topics: [__consumer_offsets, '__*']")) == []


def test_unclean_takes_exact_partitions() -> None:
    """ "unclean: exact partitions (`partitions: {orders: [3]}`)"."""
    (policy,) = accepted(leaders("partitions: {orders: [3]}\nelection: unclean")).policies
    assert isinstance(policy, LeaderPolicy)
    assert policy.spec.partitions == {"orders": (3,)}
    assert codes(leaders("election: unclean")) == ["M209"]
    assert (
        codes(leaders("partitions: {orders: [3]}\nelection: unclean\ntopics: [a]\nexceptTopics: [b]")) == ["M209"] * 2
    )


def test_preferred_takes_topics() -> None:
    """Partitions are for unclean elections; a preferred election needs topics."""
    assert codes(leaders("election: preferred")) == ["M209"]
    assert codes(leaders("topics: [a]\npartitions: {orders: [3]}")) == ["M209"]


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ("{'a/b': [1]}", "M119"),
        ("{'a*': [1]}", "M119"),
        ("{7: [1]}", "M115"),
        ("{orders: []}", "M116"),
        ("{orders: 3}", "M114"),
        ("{orders: [1, 1]}", "M117"),
        ("{}", "M116"),
    ],
)
def test_partitions_are_exact(partitions: str, expected: str) -> None:
    """An unclean election has exact topic names and partition numbers."""
    assert codes(leaders(f"partitions: {partitions}\nelection: unclean")) == [expected]


@pytest.mark.parametrize(("value", "expected"), [("-1", "M119"), ("100.5", "M119"), ("five", "M114"), ("true", "M114")])
def test_tolerance_is_a_percentage(value: str, expected: str) -> None:
    """ "tolerance: 0 # percent"."""
    assert codes(leaders(f"topics: [a]\ntolerance: {value}")) == [expected]
    assert codes(leaders("topics: [a]\ntolerance: 12.5")) == []


def test_election_is_one_of_two() -> None:
    """ "election: preferred # or unclean"."""
    assert codes(leaders("topics: [a]\nelection: uncleen")) == ["M118"]
