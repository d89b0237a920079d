"""Any manifest file yields a set or diagnostics, never a traceback or a hang.

Schemas and models agree.
"""

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import event, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from reconciler.cli.app import run
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.error_codes import CODES
from reconciler.report.diagnostics import diagnostics_document
from tests.strategies.manifests import ROOT, changed_manifests, mutated_text, text_soup, valid_manifests
from tests.unit.manifest.checking import outcome

SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / "manifest.json").read_text(encoding="utf-8")))
TEXT_LINE = re.compile(r"(error|warning)\[M\d{3}\]: .|  +--> .| +\|( |$)| \d+ \|( |$)|  += .|$")
CROSS_CODES = frozenset(code for code in CODES if code[1] in "34") | {"M207"}
"""Rules across manifests, which the schema of one document cannot express."""
MODEL_CODES = frozenset({"M206", "M210", "M123", "M122"})
"""Rules about time, valid regular expressions, and days that no month has."""


def load(*contents: bytes) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Return whether the set is valid, and its diagnostics. Any exception is a bug."""
    manifests, diagnostics = outcome({f"{number}.yaml": content for number, content in enumerate(contents)})
    assert manifests is None or all(part.files for part in manifests.by_cluster)
    return manifests is not None, diagnostics


def check_diagnostics(valid: bool, diagnostics: tuple[Diagnostic, ...], text: str) -> None:
    """Every diagnostic points into the file, has all its parts and renders in every format."""
    assert valid is not any(diagnostic.severity == "error" for diagnostic in diagnostics)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    for diagnostic in diagnostics:
        assert diagnostic.code in CODES
        assert diagnostic.message
        assert diagnostic.hint
        if diagnostic.location.line and diagnostic.location.path == "0.yaml":
            assert diagnostic.location.line <= len(lines)
            assert 1 <= diagnostic.location.column <= len(lines[diagnostic.location.line - 1]) + 1
            assert (diagnostic.end_line, diagnostic.end_column) >= (
                diagnostic.location.line,
                diagnostic.location.column,
            )
    for rendering, write in diagnostics_document(diagnostics).writers.items():
        output = str(write())
        output.encode("utf-8")
        if rendering == "text":
            assert all(TEXT_LINE.match(line) for line in output.split("\n")), "text of a manifest starts a line"
        if rendering == "github":
            assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in output.splitlines())
        if rendering in ("json", "sarif"):
            json.loads(output)


@given(st.one_of(text_soup, st.text(max_size=200)))
def test_any_text(text: str) -> None:
    """Any text yields diagnostics or a set."""
    valid, diagnostics = load(text.encode("utf-8", errors="surrogatepass"))
    check_diagnostics(valid, diagnostics, text)
    event("valid" if valid else diagnostics[0].code)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """Any bytes yield diagnostics or a set."""
    _, diagnostics = load(content)
    for write in diagnostics_document(diagnostics).writers.values():
        write()


@given(mutated_text(), mutated_text())
def test_mutated_examples(text: str, second_text: str) -> None:
    """Valid manifests, cut, doubled, swapped and overwritten, two files at a time."""
    valid, diagnostics = load(text.encode(), second_text.encode())
    check_diagnostics(valid, diagnostics, text)
    event("valid" if valid else diagnostics[0].code)


def error_codes(document: dict[str, Any]) -> set[str]:
    """Return the error codes of one document on its own."""
    _, diagnostics = load(json.dumps(document, ensure_ascii=False).encode())
    return {diagnostic.code for diagnostic in diagnostics} - CROSS_CODES


@given(valid_manifests())
def test_schema_and_models_accept_valid_manifests(document: dict[str, Any]) -> None:
    """The schema and the models accept every document that is valid by construction."""
    assert not error_codes(document)
    SCHEMA.validate(document)


@given(changed_manifests())
def test_schema_and_models_agree(document: dict[str, Any]) -> None:
    """Both accept or both refuse, except for the listed rules that a schema cannot express."""
    by_models = error_codes(document)
    by_schema = SCHEMA.is_valid(document)
    event(f"refused: {bool(by_models)}, by schema: {not by_schema}")
    if by_schema:
        assert not by_models - MODEL_CODES, by_models
    else:
        assert by_models, next(SCHEMA.iter_errors(document)).message


@given(changed_manifests())
def test_block_style_and_flow_style_are_equal(document: dict[str, Any]) -> None:
    """Block style and flow style of the same data give the same errors."""
    stream = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.dump(document, stream)
    _, diagnostics = load(stream.getvalue().encode())
    text = stream.getvalue()
    if "!!" in text or "&" in text:  # the writer added a tag or an anchor
        return
    assert {diagnostic.code for diagnostic in diagnostics} - CROSS_CODES == error_codes(document)


@given(
    st.one_of(text_soup, st.text(max_size=200), mutated_text()), st.sampled_from(["text", "json", "github", "sarif"])
)
def test_the_command_exits_with_0_or_1(text: str, rendering: str) -> None:
    """`validate` exits with 0 or 1 for any file; a bug would be exit 1 with a message that says so."""
    stderr = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(stderr):
        path = Path(folder) / "manifest.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        code = run(["validate", str(path), "-o", rendering])
    assert code in (0, 1)
    assert "this is a bug" not in stderr.getvalue()
