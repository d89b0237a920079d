"""Names and sentences on their way into text, Markdown and workflow commands. Every renderer passes everything through here.

The spelling itself is model/quoting.py's, so that reasons, log lines and renderings agree on it; here is what each medium adds.
"""

import re

from reconciler.model.names import GROUP_KIND, Address, SourceLocation
from reconciler.text.escape import escape_char, escape_name, escape_text, quoted, truncate

__all__ = [
    "display_name",
    "command_data",
    "command_property",
    "comment_value",
    "escape_name",
    "markdown_code",
    "markdown_prose",
    "place",
    "policy",
    "escape_sentence",
    "quoted",
    "subject",
    "format_address",
]

PROSE_MAX = 2_000
"""Characters of a sentence; the longest of ours, a refusal with its waivers, stays below."""

_TAME = re.compile(r"[A-Za-z0-9._/\[\]-]{1,300}")


def escape_sentence(value: str) -> str:
    """A sentence: reasons, next steps, owners. Names inside it are quoted by whoever wrote it."""
    return truncate(value, escape_text(value), PROSE_MAX)


def display_name(value: str) -> str:
    """A topic, path or address: as it is where it is tame, quoted otherwise."""
    return value if _TAME.fullmatch(value) else quoted(value)


def subject(address: Address) -> str:
    """What a decision is about: `orders[3]`, `"old-etl"`, or the policy itself."""
    if not address.name:
        return policy(address)
    if address.kind == GROUP_KIND:
        return quoted(address.name)
    topic = display_name(address.name)
    return topic if address.partition < 0 else f"{topic}[{address.partition}]"


def policy(address: Address) -> str:
    """`RetentionFloor/orders-gdpr`."""
    return display_name(f"{address.kind}/{address.policy}")


def format_address(address: Address) -> str:
    """A whole address; for a tame one exactly the text that `explain` takes."""
    return display_name(str(address))


def place(value: SourceLocation) -> str:
    """`manifests/prod-eu/orders.yaml:9`."""
    return f"{display_name(value.path)}:{value.line}"


def command_data(value: str) -> str:
    """The message of a GitHub workflow command."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(value: str) -> str:
    """A property of a GitHub workflow command, such as its file or title."""
    return command_data(value).replace(":", "%3A").replace(",", "%2C")


_PLAIN_MARKDOWN = re.compile(r"[\w ,;.:%'\"()/=+?\-–—→]*")
_LIVE_MARKDOWN = re.compile(r"_|://|:(?!\d\d:)[\w+-]+:|(?i:www\.|\bgh-)")


def markdown_code(value: str) -> str:
    """Escaped text as a code span: no markup, link, mention or emoji is read in there, and nothing in it can end it."""
    return "`" + value.replace("`", "\\u0060").replace("|", "\\u007c") + "`"


def markdown_prose(value: str) -> str:
    """A sentence in Markdown: plain where nothing in it can be read as markup, a code span otherwise."""
    text = escape_sentence(value)
    if _PLAIN_MARKDOWN.fullmatch(text) and not _LIVE_MARKDOWN.search(text):
        return text
    return markdown_code(text)


def comment_value(value: str) -> str:
    """A value in quotes inside an HTML comment: it can end neither."""
    text = escape_name(value)
    for char in '<>"':
        text = text.replace(char, escape_char(char))
    return f'"{text}"'
