"""Refuses selectors with two readings, and slow regular expressions.

A pattern of `protect` that matches nothing looks just like one that protects. Names come from the
cluster, any client may create one, and Python's matcher backtracks.
"""

import re
import warnings

MAX_LENGTH = 500
"""Characters of a selector."""

_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
_GLOB_SET = re.compile(r"\[(!?)(\]?[^\]]*)(\]?)")
_RANGE = re.compile("(.)-(.)", re.DOTALL)
_REGEX_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?|\(\?P=|\(\?\(|.", re.DOTALL)
_BACK_REFERENCE = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")
_REPETITIONS = frozenset("*+{")
_MAX_REPETITIONS = 4
"""Each repetition is one more power of the name's length: five can take minutes."""
_MAX_WAYS = 4_096
"""Each `?` doubles the ways to read a name, and a group of three words triples them."""


def selector_error(text: str) -> tuple[str, str] | None:
    """Return what is wrong with a selector, and a hint; None: it has one meaning."""
    if len(text) > MAX_LENGTH:
        return f"a selector of {len(text)} characters", f"at most {MAX_LENGTH}"
    if text.startswith("regex:"):
        return _regex_error(text.removeprefix("regex:"))
    if text.lower().startswith("regex:"):
        return f"`{text[:6]}` begins no regular expression", "write regex:"
    if not re.search(r"[*?[]", text):
        hint = f"one selector for each, or regex:{re.escape(text)} for just that name"
        return ("{a,b} is no choice here", hint) if _BRACES.search(text) else None
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


def _regex_error(pattern: str) -> tuple[str, str] | None:
    if not pattern:
        return "empty selector", "a name, a glob or regex:…"
    if _can_backtrack(pattern):
        hint = "no repeated group with a choice or a repetition in it, no back reference, at most four repetitions"
        return "a regular expression that may take forever on some name", hint
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except Warning as warning:  # re warns if a later version will read the same text differently
        return f"a regular expression with two readings: {warning}", "escape it"
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}", "as Python's re"
    return None


def _can_backtrack(pattern: str) -> bool:
    """Whether matching may take very long on some name.

    So may a repeated group that repeats or has a choice in it, a back reference, more than four
    repetitions, and more than 4,096 ways through choices and `?` (a quarter of that for each
    repetition). The check reads text, so it also refuses some harmless expressions.
    """
    repetitions, ways = 0, 1
    groups: list[bool] = []  # per open group: whether it holds a repetition or a choice
    choices: list[int] = []  # per open group: their number
    risky = False  # of the group that the previous part closed
    previous = ""
    for part in _REGEX_TOKEN.findall(pattern):
        repeats = part in _REPETITIONS
        if (repeats and risky) or _BACK_REFERENCE.match(part):
            return True
        risky = False
        # After `(` a `?` begins an extension, after a repetition it makes that lazy.
        optional = part == "?" and previous not in {"(", "*", "+", "}", "?"}
        repetitions += repeats
        ways *= 1 + optional
        if part == "(":
            groups.append(False)
            choices.append(1)
        elif part == ")" and groups:
            risky = groups.pop()
            ways *= choices.pop()
            if groups:
                groups[-1] |= risky
        elif groups:
            groups[-1] |= repeats or optional or part == "|"
            choices[-1] += part == "|"
        previous = part
    return repetitions > _MAX_REPETITIONS or ways > _MAX_WAYS >> 2 * repetitions
