"""Refuses selectors with two readings, and regular expressions that RE2 does not have.

A pattern of `protect` that matches nothing looks just like one that protects.
"""

import re
import warnings

from reconciler.model.selector import Selector

MAX_LENGTH = 500
"""Characters of a selector."""

_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
_GLOB_SET = re.compile(r"\[(!?)(\]?[^\]]*)(\]?)")
_RANGE = re.compile("(.)-(.)", re.DOTALL)
_REGEX_TOKEN = re.compile(r"\\.|\{,[0-9]*\}|.", re.DOTALL)
_BACK_REFERENCES = frozenset(f"\\{digit}" for digit in range(1, 10))
_LOOKAROUND = "select more, and name in exceptTopics or exceptGroups what must not be selected"
_POSSESSIVE = "write the repetition without the second +"
_REPEATED = "write one alternative for each text that may be repeated"
_REWRITES = {
    "(?=": _LOOKAROUND,
    "(?!": _LOOKAROUND,
    "(?<=": _LOOKAROUND,
    "(?<!": _LOOKAROUND,
    "(?P": _REPEATED,
    "(?(": "write one alternative for each of the two cases",
    "(?>": "write (?:…)",
    "(?#": "write the comment in a line of its own in the manifest",
    "(?x": "write the expression without spaces",
    "++": _POSSESSIVE,
    "*+": _POSSESSIVE,
    "?+": _POSSESSIVE,
    "\\Z": "leave it out: the whole name must match",
    "\\u": "write the character itself",
}
"""How to write in RE2 what only Python's `re` has, which earlier versions used."""


def selector_error(text: str) -> tuple[str, str, str] | None:
    """Return the code, the problem and a hint; None: the selector has one meaning."""
    if text.startswith("regex:") and len(text) <= MAX_LENGTH:
        return _regex_error(text)
    error = _name_error(text)
    return error and ("M123", *error)


def _name_error(text: str) -> tuple[str, str] | None:
    if len(text) > MAX_LENGTH:
        return f"a selector of {len(text)} characters", f"at most {MAX_LENGTH}"
    if text.lower().startswith("regex:"):
        return f"`{text[:6]}` begins no regular expression", "write regex:"
    if not re.search(r"[*?[]", text):
        hint = f"one selector for each, or regex:{re.escape(text)} for just that name"
        return ("{a,b} is not a choice here", hint) if _BRACES.search(text) else None
    return _glob_error(text)


def _glob_error(text: str) -> tuple[str, str] | None:
    """Check that shells and other tools read a glob as Python's fnmatch does."""
    if "\\" in text:
        return "a glob has no escapes, and this one holds a backslash", "write [*] for a star, or regex:…"
    if _BRACES.search(text):
        return "a glob has no {a,b}", "one selector for each, or regex:…"
    for negation, characters, end in _GLOB_SET.findall(text):
        if not end:
            return "a glob with `[` and no `]`", "write [[] for the bracket itself"
        if not negation and characters.startswith("^"):
            return "in a glob `[^…]` holds the character `^`, and elsewhere means none of these", "write [!…]"
        if re.search(r"\[[:.=]", characters):
            return "a glob has no classes such as [:digit:]", "write [0-9]"
        for low, high in _RANGE.findall(characters):
            if low > high:
                return f"a range that ends before it begins: {low}-{high}", "write the lower end first"
    return None


def _regex_error(text: str) -> tuple[str, str, str] | None:
    pattern = text.removeprefix("regex:")
    for part in _REGEX_TOKEN.findall(pattern):
        if part.startswith("{,"):  # re: up to this number
            return "M123", f"RE2 reads `{part}` as text", f"write {{0{part[1:]}"
        if part in _BACK_REFERENCES:  # RE2 refuses \1, and reads \12 as a newline
            return "M124", f"RE2 has no back references such as `{part}`", _REPEATED
    try:
        Selector(text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except Warning as warning:  # [[a], [a&&b] and [a--b] are operations on sets elsewhere
        return "M123", f"a regular expression with two readings: {warning}", "escape it"
    except (re.error, RecursionError, OverflowError):
        return None  # RE2 has what re has not, such as \pL
    except ValueError as error:
        part = str(error).rpartition(": ")[2]
        if part in _REWRITES:
            return "M124", f"RE2 does not have `{part}`", _REWRITES[part]
        return "M123", str(error), "a name, a glob or regex:… in the syntax of RE2"
    return None
