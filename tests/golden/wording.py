"""Compares the facts in a sentence and ignores its words."""

import re
from collections.abc import Iterable


def mentions(sentence: str, *facts: str) -> bool:
    """Whether the sentence has each fact (a name, a number, a field, a state) as a full word."""
    return all(re.search(rf"(?<![\w.,-]){re.escape(fact)}(?![\w[]|[.,]\d)", sentence) for fact in facts)


def names_and_numbers(sentence: str) -> list[str]:
    """Return the quoted names and the numbers of a sentence, in order.

    Raises AssertionError for an empty sentence.
    """
    assert sentence.strip(), "an empty sentence"
    return re.findall(r'"(?:[^"\\]|\\.)*"|\d+', sentence)


def numbers(text: str) -> list[str]:
    """Return the numbers of a line as they are written."""
    return re.findall(r"\d[\d,]*", text)


def items(lines: Iterable[str]) -> list[str]:
    """Group each line with the more indented lines below it; an empty line ends an item."""
    grouped: list[str] = []
    indent = -1
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            indent = -1
        elif 0 <= indent < depth:
            grouped[-1] += f"\n{line}"
        else:
            grouped.append(line)
            indent = depth
    return grouped
