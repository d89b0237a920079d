"""Any manifest file gives a manifest set or diagnostics, never a traceback and never a hang.

The schemas agree with the models.
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
from reconciler.errors import ManifestsInvalid
from reconciler.manifest.diagnostics import Diagnostic, Rendering, Severity, render
from reconciler.manifest.error_codes import CODES
from reconciler.manifest.files import source_of, validate_sources
from reconciler.manifest.source_file import SourceFile
from tests.strategies.manifests import changed_manifests, mutated_text, text_soup, valid_manifests

ROOT = Path(__file__).parents[2]
NOW_MS = 1_795_255_200_000  # 2026-11-21T10:00:00Z
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / "manifest.json").read_text(encoding="utf-8")))
TEXT_LINE = re.compile(r"(error|warning)\[M\d{3}\]: .|  +--> .| +\|( |$)| \d+ \|( |$)|  += .|$")
ACROSS = frozenset(code for code in CODES if code[1] in "34") | {"M207"}
"""Rules across manifests, which the schema of one document cannot express."""
ONLY_LOADED = frozenset({"M206", "M210", "M123", "M122"})
"""Rules about time, regular expressions and calendar days, which a schema cannot express."""


def loaded(*contents: bytes) -> tuple[bool, tuple[Diagnostic, ...]]:
    """Return whether the set is valid, and its diagnostics.

    Any error but ManifestsInvalid is a bug.
    """
    files: list[SourceFile | Diagnostic] = [
        source_of(f"{number}.yaml", content) for number, content in enumerate(contents)
    ]
    try:
        manifest_set = validate_sources(files, now_ms=NOW_MS)
    except ManifestsInvalid as error:
        return False, tuple(diagnostic for diagnostic in error.diagnostics if isinstance(diagnostic, Diagnostic))
    for part in manifest_set.each():
        assert part.files
    return True, manifest_set.warnings


def held_to_their_promise(valid: bool, diagnostics: tuple[Diagnostic, ...], text: str) -> None:
    """Every diagnostic has a position in the file and a message, and every format renders it."""
    assert valid is not any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for diagnostic in diagnostics:
        assert diagnostic.code in CODES
        assert diagnostic.message
        assert diagnostic.hint
        if diagnostic.place.line and diagnostic.place.path == "0.yaml":
            assert diagnostic.place.line <= len(lines)
            assert 1 <= diagnostic.place.column <= len(lines[diagnostic.place.line - 1]) + 1
            assert (diagnostic.end_line, diagnostic.end_column) >= (diagnostic.place.line, diagnostic.place.column)
    for rendering in Rendering:
        output = render(diagnostics, rendering)
        output.encode("utf-8")
        if rendering is Rendering.TEXT:
            assert all(TEXT_LINE.match(line) for line in output.split("\n")), (
                "text of a manifest made a line of its own"
            )
        if rendering is Rendering.GITHUB:
            assert all(line.startswith(("::error ", "::warning ")) for line in output.splitlines())
        if rendering in (Rendering.JSON, Rendering.SARIF):
            json.loads(output)


@given(st.one_of(text_soup, st.text(max_size=200)))
def test_any_text(text: str) -> None:
    """No text causes a traceback or a hang."""
    valid, diagnostics = loaded(text.encode("utf-8", errors="surrogatepass"))
    held_to_their_promise(valid, diagnostics, text)
    event("valid" if valid else diagnostics[0].code)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """No bytes cause a traceback or a hang."""
    _, diagnostics = loaded(content)
    for rendering in Rendering:
        render(diagnostics, rendering)


@given(mutated_text(), mutated_text())
def test_mutated_examples(text: str, other_text: str) -> None:
    """No damaged valid manifest causes a traceback or a hang, also with two files at a time."""
    valid, diagnostics = loaded(text.encode(), other_text.encode())
    held_to_their_promise(valid, diagnostics, text)
    event("valid" if valid else diagnostics[0].code)


def codes_of(document: dict[str, Any]) -> set[str]:
    """Errors of a single document."""
    _, diagnostics = loaded(json.dumps(document, ensure_ascii=False).encode())
    return {diagnostic.code for diagnostic in diagnostics} - ACROSS


@given(valid_manifests())
def test_valid_manifests_are_accepted_by_both(document: dict[str, Any]) -> None:
    """The schema and the models accept manifests that are valid by construction."""
    assert not codes_of(document)
    SCHEMA.validate(document)


@given(changed_manifests())
def test_schema_and_models_agree(document: dict[str, Any]) -> None:
    """Schema and models agree, except for the listed rules that a schema cannot express."""
    refused = codes_of(document)
    by_schema = SCHEMA.is_valid(document)
    event(f"refused: {bool(refused)}, by schema: {not by_schema}")
    if by_schema:
        assert not refused - ONLY_LOADED, refused
    else:
        assert refused, next(SCHEMA.iter_errors(document)).message


@given(changed_manifests())
def test_blocks_and_flows_are_one(document: dict[str, Any]) -> None:
    """Block style and flow style of the same data give the same errors."""
    stream = io.StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.dump(document, stream)
    _, diagnostics = loaded(stream.getvalue().encode())
    text = stream.getvalue()
    if "!!" in text or "&" in text:  # the writer's own doing
        return
    assert {diagnostic.code for diagnostic in diagnostics} - ACROSS == codes_of(document)


@given(
    st.one_of(text_soup, st.text(max_size=200), mutated_text()), st.sampled_from(["text", "json", "github", "sarif"])
)
def test_the_command_answers_0_or_1(text: str, rendering: str) -> None:
    """`validate` exits with 0 or 1 for any file; a bug would be exit 1 with a sentence that says
    so.
    """
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(output):
        path = Path(folder) / "manifest.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        code = run(["validate", str(path), "-o", rendering])
    assert code in (0, 1)
    assert "this is a bug" not in output.getvalue()
