"""Escapes names and sentences of any origin for terminals, CI logs, Markdown and workflow commands.

One escape language for all: a backslash and what follows (`\\n`, `\\u202e`, `\\\\`). It can be
undone exactly, so two different names never look alike. Escaped: control, format and bidirectional
characters, everything invisible or blank, letters of right-to-left scripts (they reorder the
numbers beside them), combining marks and other text that has a second spelling (é as one or two
characters), and what a CI runner reads as a command (`::`, `##[`). Not escaped: look-alikes among
visible letters (a and а). The second half of the module adds what each medium needs on top.
"""

import hashlib
import re
import unicodedata
from functools import lru_cache

NEXT = ". Next: "
"""Between a sentence and what to do about it. No name holds it: who may create a group must not advise a reviewer."""

NAME_MAX = 100
"""Escaped characters of a group id that reports show; topic names, at most 249, are never cut."""

SENTENCE_MAX = 2_000
"""Characters of a sentence that reports show; our longest, a refusal with waivers, is shorter."""

_HEAD = 40
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z0-9._/\[\]-]{1,300}")
_PLAIN_MARKDOWN = re.compile(r"[\w ,;.:%'\"()/=+?\-–—→]*")
_ACTIVE_MARKDOWN = re.compile(r"_|://|:(?!\d\d:)[\w+-]+:|(?i:www\.|\bgh-)")
_NEEDS_ESCAPE = re.compile(r"[^ -~]|::|##|  |\A | \Z")
_PAIRED = re.compile(r"(?<=:):|(?<=#)#|(?<= ) |\A | (?=\Z)")
_COMMAND = re.compile(r":(?=:)|#(?=#\[)|\x7f")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'\\(?:u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4}|[nrt\\"])')
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_HIDDEN_CATEGORIES = _UNSEEN_CATEGORIES | {"Mn", "Me", "Mc", "Cn"}
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_BLANK = "\u115f\u1160\u3164\uffa0\u2800"
_BLANK_OR_JAMO = re.compile(f"[{_BLANK}\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
_IGNORABLE = "\u034f\u17b4\u17b5\u180b-\u180f\u2060-\u206f\ufdd0-\ufdef\ufe00-\ufe0f\ufff0-\ufffc\U000e0000-\U000e0fff"
"""Joiners, variation selectors and code points that are not characters: Unicode's properties
Default_Ignorable_Code_Point and Noncharacter_Code_Point.
"""
_BLANK_OR_IGNORABLE = re.compile(f"[{_BLANK}{_IGNORABLE}]")


@lru_cache(maxsize=4096)
def _character(char: str) -> str:
    if char in _SHORT or " " <= char <= "~":
        return _SHORT.get(char, char)
    hidden = (
        unicodedata.category(char) in _HIDDEN_CATEGORIES
        or unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        or _BLANK_OR_JAMO.match(char)
        or unicodedata.normalize("NFC", char) != char
    )
    return escape_char(char) if hidden else char


def is_invisible(char: str) -> bool:
    """Whether the character is invisible, or a blank but no space. Marks on letters are visible."""
    unseen = char != " " and unicodedata.category(char) in _UNSEEN_CATEGORIES
    return unseen or ord(char) & 0xFFFE == 0xFFFE or _BLANK_OR_IGNORABLE.match(char) is not None


def escape_char(char: str) -> str:
    """One character as its escape."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def escape_text(sentence: str) -> str:
    """A sentence on one line. Its backslashes stay: its author has quoted the names in it."""
    if not _NEEDS_ESCAPE.search(sentence):
        return sentence
    return _PAIRED.sub(lambda match: escape_char(match[0]), "".join(map(_character, sentence)))


def harmless_json(text: str) -> str:
    """The same JSON, pure ASCII, without anything that a CI runner reads as a command."""
    if "::" not in text and "##[" not in text and "\x7f" not in text:  # a tenth of the time, for nearly every text
        return text
    return _COMMAND.sub(lambda match: escape_char(match[0]), text)


def escape_name(name: str) -> str:
    """A whole name, its backslashes doubled: reading the escapes gives it back exactly."""
    return escape_text(name.replace("\\", "\\\\")).replace(NEXT, NEXT.replace(" ", escape_char(" ")))


def unescape_name(text: str) -> str:
    """Return the name that reports show as this text: the inverse of `escape_name` and `quoted`.

    Text that they never write, such as an unknown escape, stays as it is.
    """
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        text = text[1:-1]
    return _ESCAPED.sub(lambda match: match[0].encode("ascii").decode("unicode_escape"), text)


def truncate(value: str, text: str, limit: int) -> str:
    """`text`, the escaped `value`; if it is too long, its beginning with length and hash."""
    if len(text) <= limit:
        return text
    # 128 bits: a collision takes 2^64 trials. No escape is a backslash before an ellipsis.
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{escape_name(value[:_HEAD])}\\… {len(value)} characters, sha256 {digest}"


def quoted(name: str, *, most: int = NAME_MAX) -> str:
    """A group id, in quotes that it cannot leave; one of more than `most` escaped characters shortened."""
    return '"' + truncate(name, escape_name(name), most).replace('"', '\\"') + '"'


def display_name(value: str, *, most: int = NAME_MAX) -> str:
    """A topic, path or address: as it is where it needs no quotes, quoted otherwise."""
    return value if _NEEDS_NO_QUOTES.fullmatch(value) else quoted(value, most=most)


def escape_sentence(value: str) -> str:
    """A sentence such as a reason or a next step, on one line and not too long."""
    return truncate(value, escape_text(value), SENTENCE_MAX)


def markdown_code(value: str) -> str:
    """Escaped text as a code span, which nothing in the text can end."""
    return "`" + value.replace("`", "\\u0060").replace("|", "\\u007c") + "`"


def markdown_prose(value: str) -> str:
    """A sentence in Markdown: plain text, or a code span where a part could be read as markup."""
    text = escape_sentence(value)
    if _PLAIN_MARKDOWN.fullmatch(text) and not _ACTIVE_MARKDOWN.search(text):
        return text
    return markdown_code(text)


def comment_value(value: str) -> str:
    """A value in quotes inside an HTML comment: it can end neither."""
    return '"' + re.sub('[<>"]', lambda match: escape_char(match[0]), escape_name(value)) + '"'


def command_data(value: str) -> str:
    """The message of a GitHub workflow command."""
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(value: str) -> str:
    """A property of a GitHub workflow command, such as its file or title."""
    return command_data(value).replace(":", "%3A").replace(",", "%2C")
