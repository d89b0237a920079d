"""How names and sentences are spelled for people: harmless on a terminal and in a CI log, and unambiguous, whoever chose them.

One escape language for all: a backslash and what follows (`\\n`, `\\u202e`, `\\\\`). It can be undone exactly, so two different names
never look alike. Escaped: control, format and bidirectional characters, everything invisible or blank, letters of right-to-left
scripts (they reorder the numbers beside them), combining marks and other text that has a second spelling (é as one or two
characters), and what a CI runner reads as a command (`::`, `##[`). Not escaped: look-alikes among visible letters (a and а).
"""

import hashlib
import re
import unicodedata
from functools import lru_cache

NAME_MAX = 100
"""Escaped characters of a group id that are shown in full; a topic's name has at most 249 and is always whole."""

_HEAD = 40
_AT_ONCE = re.compile(r"[^ -~]|::|##|  |\A | \Z")
_PAIRED = re.compile(r"(?<=:):|(?<=#)#|(?<= ) |\A | (?=\Z)")
_COMMAND = re.compile(r":(?=:)|#(?=#\[)|\x7f")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MARKS = frozenset({"Mn", "Me", "Mc"})
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_HIDDEN_CATEGORIES = _UNSEEN_CATEGORIES | _MARKS | {"Cn"}
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_UNSEEN_MARKS = (
    (0x034F, 0x034F),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2060, 0x206F),
    (0xFDD0, 0xFDEF),
    (0xFE00, 0xFE0F),
    (0xFFF0, 0xFFFC),
    (0xE0000, 0xE0FFF),
)
"""Joiners, variation selectors and code points that are no characters: Default_Ignorable_Code_Point and Noncharacter_Code_Point of Unicode."""
_JAMO = ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF))


@lru_cache(maxsize=4096)
def _character(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if " " <= char <= "~":
        return char
    code = ord(char)
    hidden = (
        unicodedata.category(char) in _HIDDEN_CATEGORIES
        or unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        or char in _BLANK
        or any(low <= code <= high for low, high in _JAMO)
        or unicodedata.normalize("NFC", char) != char
    )
    return escape_char(char) if hidden else char


def is_invisible(char: str) -> bool:
    """Whether nobody sees this character, or sees it as another blank than the space. Marks on letters are seen."""
    code = ord(char)
    return (
        (unicodedata.category(char) in _UNSEEN_CATEGORIES and char != " ")
        or char in _BLANK
        or code & 0xFFFE == 0xFFFE
        or any(low <= code <= high for low, high in _UNSEEN_MARKS)
    )


def escape_char(char: str) -> str:
    """One character as its escape."""
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def escape_text(sentence: str) -> str:
    """A sentence on one line. Its backslashes stay as they are: a name inside it is spelled by `quoted` already."""
    if not _AT_ONCE.search(sentence):
        return sentence
    return _PAIRED.sub(lambda found: escape_char(found[0]), "".join(map(_character, sentence)))


def harmless_json(text: str) -> str:
    """The same JSON, which its encoder made pure ASCII, with nothing in its strings that a CI runner reads as a command."""
    if "::" not in text and "##[" not in text and "\x7f" not in text:  # a tenth of the time, for nearly every text
        return text
    return _COMMAND.sub(lambda found: escape_char(found[0]), text)


def escape_name(name: str) -> str:
    """A whole name, its backslashes doubled: reading the escapes gives it back exactly."""
    return escape_text(name.replace("\\", "\\\\"))


def truncate(value: str, text: str, limit: int) -> str:
    """`text`, the spelling of `value`, or where it is too long its beginning with length and hash. Still unambiguous."""
    if len(text) <= limit:
        return text
    # 128 bits: two ids of one rendering would take 2^64 trials. No name's escapes hold a backslash before an ellipsis.
    told = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{escape_name(value[:_HEAD])}\\… {len(value)} characters, sha256 {told}"


def quoted(name: str) -> str:
    """A group id, in quotes that it cannot leave; an absurdly long one shortened."""
    return '"' + truncate(name, escape_name(name), NAME_MAX).replace('"', '\\"') + '"'
