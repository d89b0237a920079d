"""One diagnostic type and its renderings: they carry the same, and none can be forged by what a manifest holds."""

import json

import pytest

from reconciler.manifest.diagnostics import Diagnostic, Related, Rendering, Severity, escape_invisible, render, text
from reconciler.manifest.error_codes import CODES
from reconciler.model.names import NOWHERE, SourceLocation
from tests.unit.manifest.broken import BROKEN, CLUSTER
from tests.unit.manifest.checking import outcome

DUPLICATE = Diagnostic(
    code="M107",
    severity=Severity.ERROR,
    message="duplicate key `topics`",
    place=SourceLocation("manifests/orders.yaml", 12, 3),
    end_line=12,
    end_column=9,
    source_line="  topics: [clicks]",
    where="in RetentionFloor/orders, spec",
    hint="keep one of the two",
    related=(Related(SourceLocation("manifests/orders.yaml", 9, 3), "first given here"),),
)
WHOLE_FILE = Diagnostic(
    code="M002", severity=Severity.WARNING, message="m", place=SourceLocation("a b,c:d.yaml", 0, 0), hint="h"
)
NOTHING = Diagnostic(code="M005", severity=Severity.ERROR, message="no manifests", place=NOWHERE)


def at(line: str, start: int, end: int, *, end_line: int = 1) -> list[str]:
    each = Diagnostic(
        code="M101",
        severity=Severity.ERROR,
        message="m",
        place=SourceLocation("f", 1, start),
        end_line=end_line,
        end_column=end,
        source_line=line,
        hint="h",
    )
    return text(each).splitlines()[3:5]


def test_text() -> None:
    """Text: what, where, the source line with the span underlined, the hint beside it, other places, where in the manifest."""
    assert render([DUPLICATE], Rendering.TEXT) == (
        "error[M107]: duplicate key `topics`\n"
        "   --> manifests/orders.yaml:12:3\n"
        "    |\n"
        " 12 |   topics: [clicks]\n"
        "    |   ^^^^^^ keep one of the two\n"
        "    = manifests/orders.yaml:9:3: first given here\n"
        "    = in RetentionFloor/orders, spec\n"
    )
    assert text(WHOLE_FILE) == "warning[M002]: m\n  --> a b,c:d.yaml\n   = h\n"
    assert text(NOTHING) == "error[M005]: no manifests\n"
    assert render([WHOLE_FILE, NOTHING], Rendering.TEXT) == text(WHOLE_FILE) + "\n" + text(NOTHING)


def test_nothing_renders_to_nothing() -> None:
    """No diagnostics: no text and no annotation, and valid empty documents."""
    assert render([], Rendering.TEXT) == ""
    assert render([], Rendering.GITHUB) == ""
    assert json.loads(render([], Rendering.JSON))["diagnostics"] == []
    assert json.loads(render([], Rendering.SARIF))["runs"][0]["results"] == []


def test_underlines() -> None:
    """The underline stands below the span: with tabs, wide and combining characters, past the end, over several lines."""
    assert at("abc", 2, 3) == [" 1 | abc", "   |  ^ h"]
    assert at("abc", 4, 4) == [" 1 | abc", "   |    ^ h"]
    assert at("\tabc", 2, 5) == [" 1 |  abc", "   |  ^^^ h"]
    assert at("日本 x", 4, 5) == [" 1 | 日本 x", "   |      ^ h"]
    assert at("e\u0301 x", 4, 5) == [" 1 | e\u0301 x", "   |   ^ h"]
    assert at("a: |  ", 4, 1, end_line=3) == [" 1 | a: |", "   |    ^ h"]
    assert at("a\x1bb", 3, 4) == [" 1 | a\\x1bb", "   |      ^ h"]


def test_long_lines_are_cut_around_the_span() -> None:
    """A line of a megabyte shows the two hundred characters that matter."""
    shown, under = at("x" * 500 + "HERE" + "y" * 500, 501, 505)
    assert "HERE" in shown
    assert shown.index("HERE") == under.index("^")
    assert len(shown) < 220
    assert (shown[5], shown[-1]) == ("…", "…")
    shown, under = at("x" * 500 + "HERE", 501, 505)
    assert shown.endswith("HERE")
    shown, under = at("HERE" + "x" * 500, 1, 5)
    assert shown.startswith(" 1 | HERE")
    shown, under = at("x" * 1000, 1, 1001)
    assert len(under) < 220


def test_json_carries_all() -> None:
    """`-o json` carries the same diagnostics: every part of the type, as one document."""
    (each,) = json.loads(render([DUPLICATE], Rendering.JSON))["diagnostics"]
    assert each == {
        "code": "M107",
        "title": CODES["M107"].title,
        "severity": "error",
        "message": "duplicate key `topics`",
        "path": "manifests/orders.yaml",
        "line": 12,
        "column": 3,
        "end_line": 12,
        "end_column": 9,
        "source_line": "  topics: [clicks]",
        "where": "in RetentionFloor/orders, spec",
        "hint": "keep one of the two",
        "related": [{"path": "manifests/orders.yaml", "line": 9, "column": 3, "message": "first given here"}],
    }


def test_github_annotations() -> None:
    """`-o github` (annotations): one workflow command per diagnostic, columns inclusive, properties escaped."""
    assert render([DUPLICATE], Rendering.GITHUB) == (
        "::error col=3,endColumn=8,endLine=12,file=manifests/orders.yaml,line=12,"
        f"title=M107 {CODES['M107'].title}::"
        "duplicate key `topics`%0Akeep one of the two%0Amanifests/orders.yaml:9:3: first given here%0A"
        "in RetentionFloor/orders, spec\n"
    )
    assert (
        render([WHOLE_FILE], Rendering.GITHUB)
        == f"::warning file=a b%2Cc%3Ad.yaml,title=M002 {CODES['M002'].title}::m%0Ah\n"
    )
    assert render([NOTHING], Rendering.GITHUB) == f"::error title=M005 {CODES['M005'].title}::no manifests\n"


def test_github_commands_cannot_be_forged() -> None:
    """A line end in a message does not end the command, a percent sign is not an escape."""
    forged = Diagnostic(code="M101", severity=Severity.ERROR, message="a\n::error::b %0A\r", place=NOWHERE)
    title = CODES["M101"].title
    assert render([forged], Rendering.GITHUB) == f"::error title=M101 {title}::a\\x0a::error::b %250A\\x0d\n"


def test_sarif() -> None:
    """`-o sarif` carries the same: a rule for each code, a location with its region, related places."""
    log = json.loads(render([DUPLICATE, WHOLE_FILE, NOTHING], Rendering.SARIF))
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["M002", "M005", "M107"]
    first, second, third = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("M107", 2, "error")
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "manifests/orders.yaml"},
        "region": {"startLine": 12, "startColumn": 3, "endLine": 12, "endColumn": 9},
    }
    assert first["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 9, "startColumn": 3}
    assert second["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "a%20b%2Cc%3Ad.yaml"}}
    assert "locations" not in third


@pytest.mark.parametrize("rendering", list(Rendering))
def test_every_rendering_names_every_code(rendering: Rendering) -> None:
    """All renderings carry the code and the line of all broken examples."""
    for code, files in BROKEN.items():
        if code == "M501":
            continue
        contents = {name: text for name, text in {"cluster.yaml": CLUSTER, **files}.items() if text}
        _, found = outcome(contents)
        assert code in render(found, rendering)
        assert all(each.hint for each in found)


def test_escapes() -> None:
    """Terminal control, bidirectional and invisible characters, and lone surrogates are shown as escapes."""
    assert escape_invisible("a\x1b[31m\u202e\u200b\udcff\x7f é日") == "a\\x1b[31m\\u202e\\u200b\\udcff\\x7f é日"


def test_codes_are_a_table() -> None:
    """Every code has a title and an explanation for `explain CODE`."""
    for code, told in CODES.items():
        assert len(code) == 4
        assert told.title
        assert told.title[0].islower() or told.title.startswith(("YAML", "UTF"))
        assert told.explanation.endswith(".")
