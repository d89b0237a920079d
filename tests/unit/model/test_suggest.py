"""Suggestions for mistyped words."""

from collections.abc import Sequence

import pytest

from reconciler.text.suggest import did_you_mean, suggestion_of_many

FIELDS = ("topics", "exceptTopics", "expectAtMost", "partitions", "keep", "consumers", "every", "driftAfter")


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("partitons", FIELDS, "partitions"),
        ("topic", FIELDS, "topics"),
        ("excepttopics", FIELDS, "exceptTopics"),
        ("except_topics", FIELDS, "exceptTopics"),
        ("expect-at-most", FIELDS, "expectAtMost"),
        ("evrey", FIELDS, "every"),
        ("replicas", FIELDS, None),
        ("", FIELDS, None),
        ("x" * 300, FIELDS, None),
        # prod-us has as many letters in place.
        ("prod-ue", ("prod-us", "prod-eu"), "prod-eu"),
        ("tpics", ("topics", "tropics"), "topics"),
        # A word that is known is not suggested for itself; too long names are not compared.
        ("keep", ("keep", "x" * 300), None),
    ],
)
def test_near_words(word: str, candidates: Sequence[str], expected: str | None) -> None:
    """The word that was probably meant, or none, in whatever order the candidates are."""
    assert did_you_mean(word, candidates) == did_you_mean(word, candidates[::-1]) == expected


def test_nothing_near_is_no_suggestion() -> None:
    assert suggestion_of_many("nothing-like-it", ["orders"]) == ""
