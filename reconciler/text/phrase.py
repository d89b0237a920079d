"""Phrases: text in which names, sentences of others and important words stay marked.

A plain string is the program's own words, not escaped. A writer decides how to show the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reconciler.text.escape import display_name, escape_sentence


@dataclass(frozen=True, slots=True)
class Span:
    """One marked part of a phrase: an escaped name, a raw sentence, or words that matter most.

    `link`: the address of a page that says more, for media with links; empty: none. No part of it comes
    from a cluster or a manifest.
    """

    text: str
    style: Literal["name", "sentence", "strong"]
    link: str = ""


Phrase = tuple[str | Span, ...]


def escaped_name(text: str) -> Span:
    """Mark a name that is escaped already, such as the result of `quoted` or `format_address`."""
    return Span(text, "name")


def name(value: str, *, link: str = "") -> Span:
    """Escape and mark a topic, path, cluster, address or code."""
    return Span(display_name(value), "name", link)


def sentence(value: str) -> Span:
    """Mark a sentence of another author: a reason, a message, an owner. Writers escape it."""
    return Span(value, "sentence")


def strong(text: str) -> Span:
    """Mark own words that matter most in their line."""
    return Span(text, "strong")


def given(words: str, value: str | None, mark: Callable[[str], Span] = sentence) -> Phrase:
    """Return the words and the marked value; nothing without a value."""
    return (words, mark(value)) if value else ()


def join(separator: str, *phrases: Phrase) -> Phrase:
    """Join the phrases that are not empty."""
    return tuple(part for phrase in phrases if phrase for part in (separator, *phrase))[1:]


def plain(phrase: Phrase) -> str:
    """The phrase for a terminal, a log or an annotation: escaped text without markup."""
    return "".join(
        part if isinstance(part, str) else escape_sentence(part.text) if part.style == "sentence" else part.text
        for part in phrase
    )
