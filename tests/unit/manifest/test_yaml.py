"""The YAML reader: where things stand, what unquoted scalars are, and what of YAML is refused."""

import pytest

from reconciler.manifest.nodes import BROKEN, Node, Span, enclosing_path
from reconciler.manifest.scalars import value_of
from reconciler.manifest.yaml import DEEPEST, MOST_SHOWN, read

IGNORABLE = (
    *((code, code) for code in (0xAD, 0x34F, 0x61C, 0x3164, 0xFEFF, 0xFFA0)),
    *((0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F)),
    *((0xFE00, 0xFE0F), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of Unicode 16.0 (DerivedCoreProperties.txt)."""


def root(text: str) -> Node:
    reading = read(text)
    assert reading.complete
    assert not reading.flaws
    assert not reading.documents[0].flaws
    return reading.documents[0].root


def flaw_codes(text: str) -> list[str]:
    reading = read(text)
    return [flaw.code for flaw in reading.flaws] + [f.code for d in reading.documents for f in d.flaws]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("1_000_000", 1_000_000),
        ("1.5", 1.5),
        ("-0.5", -0.5),
        ("true", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("off", "off"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("2026-11-01", "2026-11-01"),
        ("-", "-"),
        ("1_0", BROKEN),
        ("010", BROKEN),
        ("0x1F", BROKEN),
        ("0o17", BROKEN),
        ("0b1", BROKEN),
        ("+5", BROKEN),
        ("1e3", BROKEN),
        ("1.5E-3", BROKEN),
        (".5", BROKEN),
        ("5.", BROKEN),
        (".inf", BROKEN),
        ("-.INF", BROKEN),
        (".nan", BROKEN),
        ("9" * 5000, BROKEN),
        ("", BROKEN),
        ("~", BROKEN),
        ("Null", BROKEN),
    ],
)
def test_unquoted_scalars_are_what_every_reader_reads(text: str, value: object) -> None:
    """An unquoted scalar has the value that all readers of YAML agree on, or none."""
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_quoted_scalars_stay_text() -> None:
    """Quotes make text of anything."""
    assert root("{a: '7', b: \"true\", c: '', d: \"~\"}\n").value == {"a": "7", "b": "true", "c": "", "d": "~"}


def test_instants_need_no_quotes() -> None:
    """A timestamp stays the text it is: `since: 2026-11-01T00:00:00Z` is fine unquoted."""
    assert root("since: 2026-11-01T00:00:00Z\n").value == {"since": "2026-11-01T00:00:00Z"}


def test_every_node_knows_its_span() -> None:
    """YAML is read with positions: each key and each value knows its lines and columns."""
    top = root("spec:\n  topics: [orders, clicks]\n  keep:\n    last: 5\n")
    key, topics = top.entries["spec"][1].entries["topics"]
    assert key is not None
    assert key.span == Span(2, 3, 2, 9)
    assert topics.span == Span(2, 11, 2, 27)
    assert topics.entries["1"][1].span == Span(2, 20, 2, 26)
    assert top.entries["spec"][1].entries["keep"][1].entries["last"][1].span == Span(4, 11, 4, 12)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_end(newline: str) -> None:
    """Windows and old Macintosh line ends count as one line end."""
    top = root(f"a: 1{newline}b: 2{newline}")
    assert top.entries["b"][1].span == Span(2, 4, 2, 5)


def test_several_documents() -> None:
    """Several documents per file."""
    assert [d.root.value for d in read("a: 1\n---\nb: 2\n...\n---\nc: 3\n").documents] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_comment_is_no_document() -> None:
    """A file of comments holds nothing."""
    assert read("# nothing\n\n").documents == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [\n", "M101"),
        ("a: 'x\n", "M101"),
        ("a:\t- b\n", "M101"),
        ("\ta: b\n", "M101"),
        ("a: b: c\n", "M101"),
        ('a: "\\q"\n', "M101"),
        ('a: "\\UFFFFFFFF"\n', "M101"),
        ("a: !!undefined!x y\n", "M101"),
        ("a: @x\n", "M101"),
        ("%YAML 1.1\n---\na: 1\n", "M102"),
        ("%YAML 1.2\n---\na: 1\n", "M102"),
        ("%YAML 2.0\n---\na: 1\n", "M102"),
        ("%YAML\n", "M102"),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", "M102"),
        ("%WHATEVER x\n---\na: 1\n", "M102"),
        ("a: 1\n...\n# then\n%YAML 1.2\n---\nb: 1\n", "M102"),
        ("a: !!str 1\n", "M103"),
        ("a: !mine 1\n", "M103"),
        ("a: ! 1\n", "M103"),
        ("!!map {a: 1}\n", "M103"),
        ("a: !!seq [1]\n", "M103"),
        ("a: &x 1\n", "M104"),
        ("a: *x\n", "M104"),
        ("&x {a: 1}\n", "M104"),
        ("*x\n", "M104"),
        ("<<: {a: 1}\nb: 2\n", "M105"),
        ("- a\n", "M106"),
        ("text\n", "M106"),
        ("7\n", "M106"),
        ("---\n", "M106"),
        ("a: 1\na: 2\n", "M107"),
        ('a: 1\n"a": 2\n', "M107"),
        ('{0: 1, "0": 2}\n', "M107"),
        ("{1000: 1, 1_000: 2}\n", "M107"),
        ("a: x\u200by\n", "M108"),
        ("a: 1 # \u202e\n", "M108"),
        ("a: \u0085\n", "M108"),
        ("a: \ufeff\n", "M108"),
        ("a: \U000e0041\n", "M108"),
        ("a: \x00\n", "M108"),
        ("a: " + "[" * DEEPEST + "]" * DEEPEST + "\n", "M109"),
        ("a: 010\n", "M110"),
        ("[a]: 1\n", "M111"),
        ("{a: 1}: 1\n", "M111"),
        ("? [x, [y]]\n: 1\n", "M111"),
        ("~: 1\n", "M111"),
        (": 1\n", "M111"),
        ("a:\n", "M116"),
        ("a: [1, ~]\n", "M116"),
        ("a: {b: null}\n", "M116"),
    ],
)
def test_what_of_yaml_is_refused(text: str, code: str) -> None:
    """Tags, anchors and merge keys, a `%YAML` directive, documents that are not mappings, duplicate keys: each has its code."""
    assert flaw_codes(text) == [code]


def test_an_undefined_tag_handle_is_told() -> None:
    """A tag with a handle that no directive defines stops the reading; it does not crash it."""
    assert flaw_codes("a: !x!y 1\n") == ["M101"]


def test_quoted_merge_key_is_an_ordinary_key() -> None:
    """Only the unquoted << merges."""
    assert root('"<<": 1\n').value == {"<<": 1}


def test_what_came_before_the_break_is_read() -> None:
    """A file that breaks in its third document still yields the first two."""
    reading = read("a: 1\n---\nb: 2\n---\nc: [\n")
    assert [document.root.value for document in reading.documents] == [{"a": 1}, {"b": 2}]
    assert not reading.complete


def test_a_break_says_where_it_was() -> None:
    """The path to where reading stopped is known, lists and mappings alike."""
    assert read("a:\n  - b: [1, {c: [}\n").unfinished[1] == ("a", 0, "b", 1, "c")
    assert read("? [1, [\n").unfinished[1] == ()
    assert read("%YAML 3\n---\n").unfinished == (None, ())


def test_a_key_broken_before_any_event() -> None:
    """A break before anything was read points at the start of the file."""
    (flaw,) = read('"\\UFFFFFFFF": 1\n').flaws
    assert flaw.span.line == 1


@pytest.mark.parametrize(
    "char",
    [
        *(chr(code) for code in (0xA0, 0x1680, 0x2003, 0x202F, 0x205F, 0x2800, 0x3000, 0xE000, 0xF0000, 0xFFFC)),
        *(chr(code) for low, high in IGNORABLE for code in (low, (low + high) // 2, high)),
        *(
            chr(code)
            for code in (0xFDD0, 0xFDEF, *(plane * 0x10000 + end for plane in range(17) for end in (0xFFFE, 0xFFFF)))
        ),
    ],
    ids=lambda char: f"U+{ord(char):04X}",
)
def test_what_nobody_sees_is_refused(char: str) -> None:
    """Blanks, ignorable code points and those that are no characters: one in a protection once made it protect nothing."""
    assert "M108" in flaw_codes(f"protect: [billing{char}]\n")


def test_letters_with_marks_are_seen() -> None:
    """People write their names and their reasons as they are spelled, composed or not; emoji without a selector too."""
    text = "a\u0300 é ü ñ 東京 Ελλάδα ąę ไทย 🚀 – … €"
    assert root(f"a: {text}\n").entries["a"][1].value == text


def test_invisible_characters_hide_nothing_else() -> None:
    """Each invisible character is told with its code point, and the rest of the file is read as well."""
    reading = read("a: x\u200by\nb: [1, 1]\nc: \u202e!\n")
    assert [flaw.code for flaw in reading.flaws] == ["M108", "M108"]
    assert [flaw.message[-6:] for flaw in reading.flaws] == ["U+200B", "U+202E"]
    assert [flaw.span for flaw in reading.flaws] == [Span(1, 5, 1, 6), Span(3, 4, 3, 5)]
    assert reading.flaws[0].hint.count('"\\u200B"') == 1
    assert read("a: \U000e0041\n").flaws[0].hint.count('"\\U000E0041"') == 1
    assert reading.documents[0].root.value["b"] == [1, 1]
    assert reading.documents[0].root.value["a"] is BROKEN


def test_a_flood_of_invisible_characters_is_bounded() -> None:
    """One line of invisible characters cannot drown the rest."""
    assert len(read("a: " + "\u200b" * 5000).flaws) == MOST_SHOWN


def test_duplicate_keys_cite_both_places() -> None:
    """Unknown and duplicate keys (citing both places)."""
    (flaw,) = read("topics: [a]\nkeep: 1\ntopics: [b]\n").documents[0].flaws
    assert flaw.span == Span(3, 1, 3, 7)
    assert [span for span, _ in flaw.related] == [Span(1, 1, 1, 7)]


def test_keys_that_are_one_to_python_stay_two() -> None:
    """True, 1.0 and 1 are one key to a dict; {1: 5, true: 9} once meant {1: 9}."""
    assert root("{1: 5, true: 9, 1.0: 7}\n").value == {1: 5, "true": 9, "1.0": 7}


def test_container_of_a_position() -> None:
    """The path of the innermost list or mapping around a position."""
    top = root("a: 1\nspec:\n  topics: [x, {deep: [y]}]\n")
    assert enclosing_path(top, Span(3, 22, 3, 23)) == ("spec", "topics", 1, "deep")
    assert enclosing_path(top, Span(1, 4, 1, 5)) == ()


def test_hints_for_breaks() -> None:
    """A break in the YAML says what to look at; where it began is cited if that is another line."""
    (flaw,) = read("a: [1\nb: 2\n").flaws
    assert "bracket" in flaw.hint
    assert [span.line for span, _ in flaw.related] == [1]
    (flaw,) = read("a: b: c\n").flaws
    assert flaw.related == ()
    assert "quote" in flaw.hint
    (flaw,) = read("a: !x!y 1\n").flaws
    assert flaw.hint
    assert flaw.related == ()
