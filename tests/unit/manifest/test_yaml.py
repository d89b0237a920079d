"""The YAML reader: positions, values of unquoted scalars, and the parts of YAML that are refused."""

import pytest

from reconciler.manifest.yaml import DEEPEST, INVALID, MOST_SHOWN, Node, TextRange, YamlDocument, plain_value, read

IGNORABLE = (
    *((code, code) for code in (0xAD, 0x34F, 0x61C, 0x3164, 0xFEFF, 0xFFA0)),
    *((0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F)),
    *((0xFE00, 0xFE0F), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of Unicode 16.0 (DerivedCoreProperties.txt)."""


def only(text: str) -> YamlDocument:
    (document,) = read(text)
    return document


def root(text: str) -> Node:
    document = only(text)
    assert document.complete
    assert not document.errors
    assert document.root is not None
    return document.root


def error_codes(text: str) -> list[str]:
    return [error.code for document in read(text) for error in document.errors]


SCALARS = {
    **{str(value): value for value in (7, -7, 0, 1.5, -0.5)},
    "1_000_000": 1_000_000,
    "true": True,
    "FALSE": False,
    **{text: text for text in ("yes", "off", "12:30:45", "1.2.3", "2026-11-01T00:00:00Z", "2026-11-01", "-")},
    **dict.fromkeys(("1_0", "010", "0x1F", "0o17", "0b1", "+5", "1e3", "1.5E-3", ".5", "5."), INVALID),
    **dict.fromkeys((".inf", "-.INF", ".nan", "9" * 5000, "", "~", "Null"), INVALID),
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=lambda text: str(text)[:20])
def test_unquoted_scalars_have_the_value_of_all_readers(text: str, value: object) -> None:
    """An unquoted scalar has the value that all YAML readers agree on, or it is invalid."""
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


MARKS = "a\u0300 é ü ñ 東京 Ελλάδα ąę ไทย 🚀 – … €"
"""Names and reasons may hold any visible letters, composed or not, and emoji without a selector."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Quotes make text of anything; an unquoted timestamp stays the text that it is.
        ("{a: '7', b: \"true\", c: '', d: \"~\"}\n", [{"a": "7", "b": "true", "c": "", "d": "~"}]),
        ("since: 2026-11-01T00:00:00Z\n", [{"since": "2026-11-01T00:00:00Z"}]),
        (f"a: {MARKS}\n", [{"a": MARKS}]),
        # Only the unquoted << merges.
        ('"<<": 1\n', [{"<<": 1}]),
        # True, 1.0 and 1 are one key to a dict; {1: 5, true: 9} once meant {1: 9}.
        ("{1: 5, true: 9, 1.0: 7}\n", [{1: 5, "true": 9, "1.0": 7}]),
        # Several documents per file; a file of comments holds nothing.
        ("a: 1\n---\nb: 2\n...\n---\nc: 3\n", [{"a": 1}, {"b": 2}, {"c": 3}]),
        ("# nothing\n\n", []),
    ],
)
def test_what_a_file_means(text: str, expected: list[object]) -> None:
    documents = read(text)
    assert [document.root.value for document in documents if document.root is not None] == expected
    assert all(document.complete and not document.errors for document in documents)
    assert len(documents) == len(expected)


def test_every_node_knows_its_span() -> None:
    """YAML is read with positions: each key and each value knows its lines and columns."""
    top = root("spec:\n  topics: [orders, clicks]\n  keep:\n    last: 5\n")
    key, topics = top.entries["spec"][1].entries["topics"]
    assert key.span == TextRange(2, 3, 2, 9)
    assert topics.span == TextRange(2, 11, 2, 27)
    assert topics.entries["1"][1].span == TextRange(2, 20, 2, 26)
    assert top.entries["spec"][1].entries["keep"][1].entries["last"][1].span == TextRange(4, 11, 4, 12)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_end_as_they_end(newline: str) -> None:
    """Those of Windows count as one line end."""
    top = root(f"a: 1{newline}b: 2{newline}")
    assert top.entries["b"][1].span == TextRange(2, 4, 2, 5)


REFUSED = {
    "M101": [
        *("a: [\n", "a: 'x\n", "a:\t- b\n", "\ta: b\n", "a: b: c\n", 'a: "\\q"\n', 'a: "\\UFFFFFFFF"\n', "a: @x\n"),
        # A tag with a handle that no directive defines stops the result; it does not crash it.
        *("a: !!undefined!x y\n", "a: !x!y 1\n"),
    ],
    "M102": [
        *(f"%YAML {version}\n---\na: 1\n" for version in ("1.1", "1.2", "2.0")),
        *("%YAML\n", "%TAG ! tag:x,2000:\n---\na: 1\n", "%WHATEVER x\n---\na: 1\n"),
        "a: 1\n...\n# then\n%YAML 1.2\n---\nb: 1\n",
    ],
    "M103": ["a: !!str 1\n", "a: !mine 1\n", "a: ! 1\n", "!!map {a: 1}\n", "a: !!seq [1]\n"],
    "M104": ["a: &x 1\n", "a: *x\n", "&x {a: 1}\n", "*x\n"],
    "M105": ["<<: {a: 1}\nb: 2\n"],
    "M106": ["- a\n", "text\n", "7\n", "---\n"],
    "M107": ["a: 1\na: 2\n", 'a: 1\n"a": 2\n', '{0: 1, "0": 2}\n', "{1000: 1, 1_000: 2}\n"],
    "M108": [
        f"a: {text}\n" for text in ("x\u200by", "1 # \u202e", "\u0085", "\ufeff", "\U000e0041", "\x00", "1 # x\rb: 2")
    ],
    "M109": ["a: " + "[" * DEEPEST + "]" * DEEPEST + "\n"],
    "M110": ["a: 010\n"],
    "M111": ["[a]: 1\n", "{a: 1}: 1\n", "? [x, [y]]\n: 1\n", "~: 1\n", ": 1\n"],
    "M116": ["a:\n", "a: [1, ~]\n", "a: {b: null}\n"],
}


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts])
def test_parts_of_yaml_that_are_refused(code: str, text: str) -> None:
    assert error_codes(text) == [code]


def test_documents_before_a_syntax_error_are_read() -> None:
    """A syntax error in the third document leaves the first two."""
    first, second, third = read("a: 1\n---\nb: 2\n---\nc: [\n")
    assert [document.root and document.root.value for document in (first, second)] == [{"a": 1}, {"b": 2}]
    assert [document.complete for document in (first, second, third)] == [True, True, False]


def test_an_error_has_the_path_of_its_collection() -> None:
    """The path leads to the innermost list or mapping around the error, and to the last position before a break."""
    document = only("a: *x\nspec:\n  topics: [x, {deep: [y\u200b]}]\n")
    assert [error.path for error in document.errors] == [(), ("spec", "topics", 1, "deep")]
    assert only("a:\n  - b: [1, {c: [}\n").errors[0].path == ("a", 0, "b", 1, "c")
    assert only("%YAML 3\n---\n").errors[0].path == ()
    assert only("%YAML 3\n---\n").root is None
    # Before the first event, an error points at the start of the file.
    assert [error.span.line for error in only('"\\UFFFFFFFF": 1\n').errors] == [1]


def test_errors_before_a_syntax_error_are_reported() -> None:
    """The part of a document before a syntax error has its own errors, and its values are known."""
    document = only("a: *x\nb: 1\nc: [\n")
    assert [error.code for error in document.errors] == ["M104", "M101"]
    assert document.root is not None
    assert document.root.value["b"] == 1


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
def test_invisible_characters_are_refused(char: str) -> None:
    """One in a protection once made it protect nothing."""
    assert "M108" in error_codes(f"protect: [billing{char}]\n")


def test_invisible_characters_hide_nothing_else() -> None:
    """Each invisible character is reported with its code point, and the rest of the file is read."""
    document = only("a: x\u200by\nb: [1, 1]\nc: \u202e!\n")
    assert [error.code for error in document.errors] == ["M108", "M108"]
    assert [error.message[-6:] for error in document.errors] == ["U+200B", "U+202E"]
    assert [error.span for error in document.errors] == [TextRange(1, 5, 1, 6), TextRange(3, 4, 3, 5)]
    assert document.errors[0].hint.count('"\\u200B"') == 1
    assert only("a: \U000e0041\n").errors[0].hint.count('"\\U000E0041"') == 1
    assert "LF or CRLF" in only("a: 1 # x\rb: 2\n").errors[0].hint
    assert document.root is not None
    assert document.root.value["b"] == [1, 1]
    assert document.root.value["a"] is INVALID
    # A line of them yields a bounded number of errors.
    assert len(only("a: " + "\u200b" * 5000).errors) == MOST_SHOWN


def test_duplicate_keys_cite_both_places() -> None:
    """Unknown and duplicate keys (citing both places)."""
    (error,) = only("topics: [a]\nkeep: 1\ntopics: [b]\n").errors
    assert error.span == TextRange(3, 1, 3, 7)
    assert [span for span, _ in error.related] == [TextRange(1, 1, 1, 7)]


def test_hints_for_breaks() -> None:
    """A break in the YAML says what to look at; where it began is cited if that is another line."""
    (error,) = only("a: [1\nb: 2\n").errors
    assert "bracket" in error.hint
    assert [span.line for span, _ in error.related] == [1]
    (error,) = only("a: b: c\n").errors
    assert error.related == ()
    assert "quote" in error.hint
    (error,) = only("a: !x!y 1\n").errors
    assert error.hint
    assert error.related == ()
