"""Sentences in tests: what a sentence names is compared, and its words are not."""

import re


def mentions(sentence: str, *facts: str) -> bool:
    """Whether each fact (a name, a number, a field, a state) stands in the sentence as a whole word."""
    return all(re.search(rf"(?<![\w.,-]){re.escape(fact)}(?![\w[]|[.,]\d)", sentence) for fact in facts)


def names_and_numbers(sentence: str) -> list[str]:
    """The quoted names and the numbers of a sentence, in its order. An empty sentence is an AssertionError."""
    assert sentence.strip(), "an empty sentence"
    return re.findall(r'"(?:[^"\\]|\\.)*"|\d+', sentence)
