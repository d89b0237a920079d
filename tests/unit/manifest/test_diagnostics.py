"""All renderings of a diagnostic carry the same facts, and the text of a manifest cannot forge them."""

import json

import pytest

from reconciler.manifest.diagnostics import Diagnostic, Related
from reconciler.manifest.error_codes import CODES
from reconciler.model.names import NOWHERE, SourceLocation
from reconciler.report.diagnostics import diagnostics_document, escape_invisible
from reconciler.report.document import DIAGNOSTICS
from tests.unit.manifest.broken import BROKEN, CLUSTER
from tests.unit.manifest.checking import outcome

DUPLICATE = Diagnostic(
    code="M107",
    message="duplicate key `topics`",
    location=SourceLocation("manifests/orders.yaml", 12, 3),
    end_line=12,
    end_column=9,
    source_line="  topics: [clicks]",
    context="in RetentionFloor/orders, spec",
    hint="keep one of the two",
    related=(Related(SourceLocation("manifests/orders.yaml", 9, 3), "first given here"),),
)
FILE_WARNING = Diagnostic(code="M403", message="m", location=SourceLocation("a b,c:d.yaml", 0, 0), hint="h")
NO_FILE = Diagnostic(code="M005", message="no manifests", location=NOWHERE)


def render(diagnostics: list[Diagnostic], form: str) -> str:
    return diagnostics_document(diagnostics).writers[form]()


def text(diagnostic: Diagnostic) -> str:
    return render([diagnostic], "text")


def at(line: str, start: int, end: int, *, end_line: int = 1) -> list[str]:
    diagnostic = Diagnostic(
        code="M101",
        message="m",
        location=SourceLocation("f", 1, start),
        end_line=end_line,
        end_column=end,
        source_line=line,
        hint="h",
    )
    return text(diagnostic).splitlines()[3:5]


def test_text() -> None:
    """Message, position, source line with the span underlined, hint, related positions, field."""
    assert render([DUPLICATE], "text") == (
        "error[M107]: duplicate key `topics`\n"
        "   --> manifests/orders.yaml:12:3\n"
        "    |\n"
        " 12 |   topics: [clicks]\n"
        "    |   ^^^^^^ keep one of the two\n"
        "    = manifests/orders.yaml:9:3: first given here\n"
        "    = in RetentionFloor/orders, spec\n"
    )
    assert text(FILE_WARNING) == "warning[M403]: m\n  --> a b,c:d.yaml\n   = h\n"
    assert text(NO_FILE) == "error[M005]: no manifests\n"
    assert render([FILE_WARNING, NO_FILE], "text") == text(FILE_WARNING) + "\n" + text(NO_FILE)


def test_nothing_renders_to_nothing() -> None:
    """No diagnostics: no text, one annotation with the totals, and valid empty documents."""
    assert render([], "text") == ""
    assert render([], "github") == "::notice title=manifests::valid: 0 errors, 0 warnings\n"
    assert json.loads(render([], "json"))["diagnostics"] == []
    assert json.loads(render([], "sarif"))["runs"][0]["results"] == []


def test_underlines() -> None:
    """With tabs, wide and combining characters, past the end, over several lines."""
    assert at("abc", 2, 3) == [" 1 | abc", "   |  ^ h"]
    assert at("abc", 4, 4) == [" 1 | abc", "   |    ^ h"]
    assert at("\tabc", 2, 5) == [" 1 |  abc", "   |  ^^^ h"]
    assert at("日本 x", 4, 5) == [" 1 | 日本 x", "   |      ^ h"]
    assert at("e\u0301 x", 4, 5) == [" 1 | e\u0301 x", "   |   ^ h"]
    assert at("a: |  ", 4, 1, end_line=3) == [" 1 | a: |", "   |    ^ h"]
    assert at("a\x1bb", 3, 4) == [" 1 | a\\u001bb", "   |        ^ h"]


def test_long_lines_are_cut_around_the_span() -> None:
    """A line of a megabyte shows the two hundred characters that matter."""
    shown, under = at("x" * 500 + "HERE" + "y" * 500, 501, 505)
    assert shown.index("HERE") == under.index("^")
    assert (len(shown) < 220, shown[5], shown[-1]) == (True, "…", "…")
    assert at("x" * 500 + "HERE", 501, 505)[0].endswith("HERE")
    assert at("HERE" + "x" * 500, 1, 5)[0].startswith(" 1 | HERE")
    assert len(at("x" * 1000, 1, 1001)[1]) < 220


def test_json_carries_all() -> None:
    """`-o json` carries the same diagnostics: every part of the type, as one document."""
    (entry,) = json.loads(render([DUPLICATE], "json"))["diagnostics"]
    assert entry == {
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
    """A workflow command each, columns inclusive, properties escaped, and the totals."""
    assert render([DUPLICATE], "github") == (
        "::error file=manifests/orders.yaml,line=12,col=3,endColumn=8,"
        f"title={CODES['M107'].title} (M107)::"
        "duplicate key `topics`; keep one of the two; manifests/orders.yaml:9:3: first given here; "
        "in RetentionFloor/orders, spec\n"
        "::notice title=manifests::invalid: 1 error, 0 warnings\n"
    )
    first, second, totals = render([NO_FILE, FILE_WARNING], "github").splitlines()
    assert first == f"::error title={CODES['M005'].title} (M005)::no manifests"
    assert second == f"::warning file=a b%2Cc%3Ad.yaml,title={CODES['M403'].title} (M403)::m; h"
    assert totals == "::notice title=manifests::invalid: 1 error, 1 warning"


def test_annotations_name_all_errors() -> None:
    """GitHub shows ten of them, and the log of the step has all: no other report lists the rest."""
    assert render([DUPLICATE] * 12, "github").count("::error ") == 12


def test_github_commands_cannot_be_forged() -> None:
    """A line end in a message does not end the command, a percent sign is not an escape."""
    forged = Diagnostic(code="M101", message="a\n::error::b %0A\r", location=NOWHERE)
    command = render([forged], "github").splitlines()[0]
    assert command == f"::error title={CODES['M101'].title} (M101)::a\\n:\\u003aerror:\\u003ab %250A\\r"


def test_sarif() -> None:
    """A rule for each code, a location with its region, related places."""
    log = json.loads(render([DUPLICATE, FILE_WARNING, NO_FILE], "sarif"))
    run = log["runs"][0]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["M005", "M107", "M403"]
    first, second, third = run["results"]
    assert (first["ruleId"], first["ruleIndex"], first["level"]) == ("M107", 1, "error")
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "manifests/orders.yaml"},
        "region": {"startLine": 12, "startColumn": 3, "endLine": 12, "endColumn": 9},
    }
    assert first["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 9, "startColumn": 3}
    assert second["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "a%20b%2Cc%3Ad.yaml"}}
    assert third["locations"] == []


@pytest.mark.parametrize("rendering", DIAGNOSTICS.formats)
def test_every_rendering_names_every_code(rendering: str) -> None:
    """All renderings carry the code and the line of all broken examples."""
    for code, files in BROKEN.items():
        if code == "M501":
            continue
        contents = {name: text for name, text in {"cluster.yaml": CLUSTER, **files}.items() if text}
        _, diagnostics = outcome(contents)
        assert code in render(list(diagnostics), rendering)
        assert all(diagnostic.hint for diagnostic in diagnostics)


def test_escapes() -> None:
    """Of terminal control, bidirectional and invisible characters, and lone surrogates."""
    assert escape_invisible("a\x1b[31m\u202e\u200b\udcff\x7f é日") == "a\\u001b[31m\\u202e\\u200b\\udcff\\u007f é日"


def test_codes_are_a_table() -> None:
    """Every code has a title and an explanation for `explain CODE`."""
    for code, entry in CODES.items():
        assert len(code) == 4
        assert entry.title
        assert entry.title[0].islower() or entry.title.startswith(("YAML", "UTF"))
        assert entry.explanation.endswith(".")
