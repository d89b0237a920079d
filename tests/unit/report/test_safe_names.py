"""Names are harmless and unambiguous in every medium, whoever chose them."""

import html
import json
import re
import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconciler.model.names import Address, format_address, format_subject
from reconciler.text import escape
from reconciler.text.escape import escape_name, escape_text, harmless_json, quoted
from tests.strategies.plans import FEW, LONG, NASTY

names = st.one_of(
    st.sampled_from(NASTY), st.text(max_size=60), st.text(alphabet='\\"u0:# `a\u202e\u200b\n', max_size=12)
)
anything = st.one_of(names, st.text(st.characters(), max_size=30))

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}


def unescaped(text: str) -> str:
    """What a reader of the escapes reads."""
    return _ESCAPE.sub(
        lambda found: chr(int(found[1] or found[2], 16)) if found[1] or found[2] else _PLAIN[found[3]], text
    )


def is_harmless(text: str) -> None:
    for character in text:
        assert character == " " or unicodedata.category(character)[0] not in "CZM", f"{character!a} in {text!a}"
        assert unicodedata.bidirectional(character) not in (
            "R",
            "AL",
            "AN",
            "RLO",
            "LRO",
            "RLE",
            "LRE",
            "PDF",
            "RLI",
            "LRI",
            "FSI",
            "PDI",
        )
        assert character not in "\u115f\u1160\u3164\uffa0\u2800"
        assert unicodedata.normalize("NFC", character) == character
    assert "::" not in text
    assert "##[" not in text


@FEW
@given(anything)
def test_an_escaped_name_can_be_read_back_exactly(name: str) -> None:
    """So two different names never look alike."""
    assert unescaped(escape_name(name)) == name


@FEW
@given(anything)
def test_nothing_that_is_shown_moves_hides_or_commands(name: str) -> None:
    """No control, format, blank, right-to-left or combining character, no second spelling, no command of a CI runner."""
    for text in (
        escape_name(name),
        quoted(name),
        escape_text(name),
        escape.escape_sentence(name),
        escape.display_name(name),
    ):
        is_harmless(text)
        assert "  " not in text


@FEW
@given(anything)
def test_a_quoted_name_ends_where_its_quotes_end(name: str) -> None:
    """No name can close its quotes and go on as if it were the program's own words."""
    text = quoted(name)
    assert text[0] == text[-1] == '"'
    assert '"' not in re.sub(r"\\.", "", text[1:-1])
    if len(escape_name(name)) <= 100:
        assert unescaped(text[1:-1]) == name


@FEW
@given(anything, anything)
@example("a", "a\u200b")
@example("billing", "b\u0456lling")
@example("\u00e9", "e\u0301")
@example("\u212b", "\u00c5")
@example("x\\u200b", "x\u200b")
@example(LONG, LONG + "x")
@example(LONG, LONG[:-1] + "y")
def test_two_names_never_render_alike(one: str, other: str) -> None:
    """In no medium, short or shortened."""
    assume(one != other)
    for how in (
        escape_name,
        quoted,
        escape.display_name,
        lambda name: escape.markdown_code(quoted(name)),
        escape.comment_value,
    ):
        assert how(one) != how(other)
    sentence = "group {} is at 5"
    assert escape.escape_sentence(sentence.format(quoted(one))) != escape.escape_sentence(
        sentence.format(quoted(other))
    )


def test_a_long_name_is_short_and_says_how_long_it_is() -> None:
    """10 kB of name must not drown the plan."""
    text = quoted(LONG)
    assert len(text) < 150
    assert "10240 characters, sha256 " in text
    assert quoted("x" * 100) == '"' + "x" * 100 + '"'
    assert "101 characters" in quoted("x" * 101)


def test_no_short_name_poses_as_a_shortened_one() -> None:
    """The mark of a shortened name occurs in no name that is shown in full."""
    assert quoted(quoted(LONG)[1:-1]) != quoted(LONG)


@pytest.mark.parametrize(
    ("name", "shown"),
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
def test_how_names_look(name: str, shown: str) -> None:
    """Readable where they are tame, legible where they are not."""
    assert quoted(name) == shown


def test_tame_addresses_are_shown_as_they_are_typed() -> None:
    """What a plan shows can be pasted into `explain`."""
    for text in ("RetentionFloor/orders-gdpr/orders[3]", "GroupRemoval/dead-etl/old-etl", "LeaderPolicy/all"):
        assert format_address(Address.parse(text)) == text
    assert format_subject(Address.parse("RetentionFloor/a/orders[3]")) == "orders[3]"
    assert format_subject(Address.parse("GroupRemoval/a/b c")) == '"b c"'
    assert format_subject(Address.parse("GroupRemoval/a")) == "GroupRemoval/a"


@FEW
@given(anything)
def test_a_name_in_markdown_is_one_code_span(name: str) -> None:
    """One opening and one closing backtick, no cell border, and no line end: nothing inside is read as markup."""
    text = escape.markdown_code(escape.quoted(name))
    assert text[0] == text[-1] == "`"
    assert not set("`|\n\r") & set(text[1:-1])


@FEW
@given(anything)
def test_a_sentence_in_markdown_is_plain_words_or_one_code_span(sentence: str) -> None:
    """Markup, HTML, mentions, references, links, emoji and formulas are never outside a code span."""
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
    """The marker stays hidden, and its fields stay apart."""
    text = escape.comment_value(value)
    assert not set('<>"') & set(text[1:-1])
    assert unescaped(text[1:-1]) == value
    assert "\n" not in text


@FEW
@given(anything)
def test_a_workflow_command_is_one_line_and_can_be_read_back(value: str) -> None:
    """The runner splits at line ends, and properties at colons and commas."""
    data, name = escape.command_data(value), escape.command_property(value)
    assert not set("\r\n") & set(data)
    assert not set("\r\n:,") & set(name)
    undone = data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
    assert undone == value


@FEW
@given(st.lists(st.one_of(names, st.text(alphabet='\\":#[ a\x7f', max_size=12))))
@example([":::", "a::b", "###[error]", "\\##[x]", "\\\\::", '"::"', "\x7f"])
def test_json_holds_no_command_and_the_same_value(texts: list[str]) -> None:
    """A runner looks for commands anywhere in a line of its log, and a plan's JSON may be printed into one."""
    quiet = harmless_json(json.dumps(texts))
    assert "::" not in quiet
    assert "##[" not in quiet
    assert "\x7f" not in quiet
    assert json.loads(quiet) == texts
