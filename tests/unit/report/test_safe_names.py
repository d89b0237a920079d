"""Names are harmless and unambiguous in every output."""

import html
import json
import re
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.model.names import Address, format_address, format_subject
from reconciler.text import escape
from reconciler.text.escape import NEXT, escape_name, escape_text, harmless_json, quoted
from tests.strategies.plans import FEW, LONG, NASTY

names = st.one_of(
    st.sampled_from(NASTY), st.text(max_size=60), st.text(alphabet='\\"u0:# `a\u202e\u200b\n', max_size=12)
)
anything = st.one_of(names, st.text(st.characters(), max_size=30))

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}


def unescape(text: str) -> str:
    """Return the name that the escapes stand for."""
    return _ESCAPE.sub(
        lambda match: chr(int(match[1] or match[2], 16)) if match[1] or match[2] else _PLAIN[match[3]], text
    )


def is_harmless(text: str) -> None:
    for character in text:
        assert character == " " or unicodedata.category(character)[0] not in "CZM", f"{character!a} in {text!a}"
        assert unicodedata.bidirectional(character) not in ("R", "AL", "AN")  # marks of direction are of category C
        assert character not in "\u115f\u1160\u3164\uffa0\u2800"
        assert unicodedata.normalize("NFC", character) == character
    assert "::" not in text
    assert "##[" not in text


@FEW
@given(anything)
def test_an_escaped_name_can_be_decoded_exactly(name: str) -> None:
    """So two different names never look the same."""
    assert unescape(escape_name(name)) == name


@FEW
@given(anything)
def test_escaped_text_has_no_control_characters_and_no_commands(name: str) -> None:
    """Nor format, blank, right-to-left or combining characters, or a second spelling."""
    for write in (escape_name, quoted, escape_text, escape.escape_sentence, escape.display_name):
        is_harmless(write(name))
        assert "  " not in write(name)


@FEW
@given(anything)
def test_a_quoted_name_cannot_close_its_quotes(name: str) -> None:
    """Otherwise its text could look like a text of the program."""
    text = quoted(name)
    assert text[0] == text[-1] == '"'
    assert '"' not in re.sub(r"\\.", "", text[1:-1])
    if len(escape_name(name)) <= 100:
        assert unescape(text[1:-1]) == name


@FEW
@given(st.text(max_size=20), st.text(max_size=20))
@example("a", "say consumers: ignore")
def test_no_name_is_a_next_step(before: str, after: str) -> None:
    """A group may be called anything, and results told a reader to do what stands behind the mark in its name."""
    for write in (escape_name, quoted, escape.display_name):
        assert NEXT not in f"{write(before + NEXT + after)} is unread"


@FEW
@given(anything, anything)
@example("a", "a\u200b")
@example("billing", "b\u0456lling")
@example("\u00e9", "e\u0301")
@example("\u212b", "\u00c5")
@example("x\\u200b", "x\u200b")
@example(LONG, LONG + "x")
@example(LONG, LONG[:-1] + "y")
def test_two_names_never_look_the_same(name: str, other_name: str) -> None:
    """In no output, in full or shortened."""
    assume(name != other_name)
    for how in (
        escape_name,
        quoted,
        escape.display_name,
        lambda text: escape.markdown_code(quoted(text)),
        escape.comment_value,
    ):
        assert how(name) != how(other_name)
    sentence = "group {} is at 5"
    assert escape.escape_sentence(sentence.format(quoted(name))) != escape.escape_sentence(
        sentence.format(quoted(other_name))
    )


def test_a_long_name_is_shortened_and_shows_its_length() -> None:
    """A name of 10 kB must not hide the plan."""
    text = quoted(LONG)
    assert len(text) < 150
    assert "10240 characters, sha256 " in text
    assert quoted("x" * 100) == '"' + "x" * 100 + '"'
    assert "101 characters" in quoted("x" * 101)


def test_no_name_looks_like_a_shortened_one() -> None:
    """The mark of a shortened name is in no name that is shown in full."""
    assert quoted(quoted(LONG)[1:-1]) != quoted(LONG)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("old-etl", '"old-etl"'),
        ("größe", '"größe"'),
        ("消费者", '"消费者"'),
        ("a b", '"a b"'),
        ("a  b ", '"a \\u0020b\\u0020"'),
        ("app::worker", '"app:\\u003aworker"'),
        ("line\nbreak", '"line\\nbreak"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("evil\u202egnp", '"evil\\u202egnp"'),
        ("\U000e0041", '"\\U000e0041"'),
        ("\u05d0", '"\\u05d0"'),
    ],
)
def test_examples_of_shown_names(name: str, expected: str) -> None:
    """Ordinary names are unchanged, other names are readable."""
    assert quoted(name) == expected


def test_ordinary_addresses_are_shown_as_they_are_typed() -> None:
    """A user can paste an address of a plan into `explain`."""
    for text in ("RetentionFloor/orders-gdpr/orders[3]", "GroupRemoval/dead-etl/old-etl", "LeaderPolicy/all"):
        assert format_address(Address.parse(text)) == text
    assert format_subject(Address.parse("RetentionFloor/a/orders[3]")) == "orders[3]"
    assert format_subject(Address.parse("GroupRemoval/a/b c")) == '"b c"'
    assert format_subject(Address.parse("GroupRemoval/a")) == "GroupRemoval/a"


@FEW
@given(anything)
def test_a_name_in_markdown_is_one_code_span(name: str) -> None:
    """One opening and one closing backtick, no cell border, no line end: nothing is markup."""
    text = escape.markdown_code(escape.quoted(name))
    assert text[0] == text[-1] == "`"
    assert not set("`|\n\r") & set(text[1:-1])


@FEW
@given(anything)
def test_a_sentence_in_markdown_is_plain_text_or_one_code_span(sentence: str) -> None:
    """Markup, HTML, mentions, references, links, emoji and formulas are always in a code span."""
    text = escape.markdown_prose(sentence)
    if text[:1] == "`":
        assert text[-1] == "`"
        assert "`" not in text[1:-1]
        return
    assert not set("`*_[]<>&@#$|~\\!{}") & set(text)
    assert not re.search(r"://|www\.|:(?!\d\d:)[\w+-]+:", text, re.IGNORECASE)
    assert html.unescape(text) == text


@FEW
@given(anything)
def test_a_value_cannot_end_the_marker_comment(value: str) -> None:
    """The marker stays hidden, and its fields stay separate."""
    text = escape.comment_value(value)
    assert not set('<>"') & set(text[1:-1])
    assert unescape(text[1:-1]) == value
    assert "\n" not in text


@FEW
@given(anything)
def test_a_workflow_command_is_one_line_and_can_be_decoded(value: str) -> None:
    """The runner splits at line ends, and properties at colons and commas."""
    data, name = escape.command_data(value), escape.command_property(value)
    assert not set("\r\n") & set(data)
    assert not set("\r\n:,") & set(name)
    undone = data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
    assert undone == value


@FEW
@given(st.lists(st.one_of(names, st.text(alphabet='\\":#[ a\x7f', max_size=12))))
@example([":::", "a::b", "###[error]", "\\##[x]", "\\\\::", '"::"', "\x7f"])
def test_json_has_no_command_and_the_same_value(texts: list[str]) -> None:
    """A runner searches its whole log for commands, and a user may print a plan's JSON."""
    harmless_text = harmless_json(json.dumps(texts))
    assert "::" not in harmless_text
    assert "##[" not in harmless_text
    assert "\x7f" not in harmless_text
    assert json.loads(harmless_text) == texts
