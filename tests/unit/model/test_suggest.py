"""Suggestions for mistyped words."""

import pytest

from reconciler.text.suggest import did_you_mean, suggestion_of_many

FIELDS = ("topics", "exceptTopics", "expectAtMost", "partitions", "keep", "consumers", "every", "driftAfter")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("partitons", "partitions"),
        ("topic", "topics"),
        ("excepttopics", "exceptTopics"),
        ("except_topics", "exceptTopics"),
        ("expect-at-most", "expectAtMost"),
        ("evrey", "every"),
        ("replicas", None),
        ("", None),
        ("x" * 300, None),
    ],
)
def test_near_words(word: str, expected: str | None) -> None:
    """The word that was probably meant, or none."""
    assert did_you_mean(word, FIELDS) == expected


def test_swapped_letters_win() -> None:
    """prod-ue is prod-eu, though prod-us has as many letters in place."""
    assert did_you_mean("prod-ue", ["prod-us", "prod-eu"]) == "prod-eu"


def test_order_changes_nothing() -> None:
    """The answer depends on the set of candidates only."""
    assert did_you_mean("tpics", ["topics", "tropics"]) == did_you_mean("tpics", ["tropics", "topics"])


def test_itself_is_no_suggestion() -> None:
    """A word that is known is not suggested for itself; too long names are not compared."""
    assert did_you_mean("keep", ["keep", "x" * 300]) is None
    assert suggestion_of_many("nothing-like-it", ["orders"]) == ""
