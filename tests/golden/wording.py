"""Compares the facts in a sentence and ignores its words."""

import re


def mentions(sentence: str, *facts: str) -> bool:
    """Whether the sentence has each fact (a name, a number, a field, a state) as a full word."""
    return all(re.search(rf"(?<![\w.,-]){re.escape(fact)}(?![\w[]|[.,]\d)", sentence) for fact in facts)


def names_and_numbers(sentence: str) -> list[str]:
    """Return the quoted names and the numbers of a sentence, in order.

    Raises AssertionError for an empty sentence.
    """
    assert sentence.strip(), "an empty sentence"
    return re.findall(r'"(?:[^"\\]|\\.)*"|\d+', sentence)
