"""The pages about manifests: their generated parts are up to date, and their examples are valid."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.cli.codes import ALL_CODES, page
from reconciler.errors import ManifestsInvalid, SecretMissing
from reconciler.manifest.error_codes import CODES
from reconciler.manifest.files import load
from reconciler.manifest.secrets import resolve
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.report.diagnostics import write_diagnostics
from tests.unit.docs.pages import assert_fresh
from tests.unit.manifest.blocked import blocked_examples
from tests.unit.manifest.broken import BROKEN, CLUSTER, NOW_MS
from tools import generate_docs

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
KIND_PAGES = sorted((DOCS / "kinds").glob("*.md"))
TABLES = {**generate_docs.field_tables(), **generate_docs.code_tables()}


def output_of(files: dict[str, str], folder: Path, *, code: str) -> str:
    """Return the diagnostics of the files as text, without M403 unless `code` is M403."""
    for name, text in {"cluster.yaml": CLUSTER, **files}.items():
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    try:
        loaded = load(sorted(Path().iterdir()), now_ms=NOW_MS)
        reported = loaded.warnings
        if code == "M501":
            resolve(loaded.for_cluster().cluster, environment={})
    except ManifestsInvalid as invalid:
        reported = invalid.diagnostics
    except SecretMissing as missing:
        return f"error: {missing}\n"
    return write_diagnostics([diagnostic for diagnostic in reported if diagnostic.code != "M403" or code == "M403"])


def unreadable(folder: Path) -> Mapping[str, Path]:
    """Return M code → path, for each code that is about a file and not about its text."""
    os.mkfifo(folder / "pipe.yaml")
    (folder / "latin.yaml").write_bytes("owner: Zoë\n".encode("latin-1"))
    (folder / "export.yaml").write_bytes(b"#" * 2_000_000)
    (folder / "empty").mkdir()
    (folder / "link.yaml").symlink_to("/etc/hostname")
    (folder / "dump.yaml").write_text("".join(f"field{number}:\n" for number in range(1000)))
    return {
        "M001": Path("manifest"),
        "M002": Path("pipe.yaml"),
        "M003": Path("latin.yaml"),
        "M004": Path("export.yaml"),
        "M005": Path("empty"),
        "M006": Path("dump.yaml"),
        "M007": Path("link.yaml"),
    }


def broken_examples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, tuple[Mapping[str, str], str]]:
    """M code → (file name → text, the output of `validate`), which has that code and no other."""
    examples: dict[str, tuple[Mapping[str, str], str]] = {}
    for code, files in BROKEN.items():
        (folder / code).mkdir()
        monkeypatch.chdir(folder / code)
        contents = {name: text for name, text in files.items() if text}
        output = output_of(dict(files), folder / code, code=code)
        assert set(re.findall(r"^\w+(?:\[|: )(M\d+)", output, re.MULTILINE)) == {code}
        examples[code] = (contents, output)
    (folder / "files").mkdir()
    monkeypatch.chdir(folder / "files")
    for code, path in unreadable(folder / "files").items():
        with pytest.raises(ManifestsInvalid) as refused:
            load([path], now_ms=NOW_MS)
        output = write_diagnostics([diagnostic for diagnostic in refused.value.diagnostics if diagnostic.code == code])
        assert output.startswith(f"error[{code}]")
        examples[code] = ({f"$ reconciler validate {path}": ""}, output)
    return examples


def test_each_code_has_a_page_with_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/codes has one page for each code and no other, those of M codes with the output of a broken
    example, those of B codes with a line of a plan (UPDATE_DOCS=1 writes and removes pages). Messages name
    the path of a page.
    """
    blocked, broken = blocked_examples(), broken_examples(tmp_path, monkeypatch)
    assert (blocked.keys(), broken.keys()) == (BLOCK_CODES.keys(), CODES.keys()), "no code without an example"
    pages = generate_docs.code_pages(broken, blocked)
    folder = DOCS / "codes"
    if os.environ.get("UPDATE_DOCS"):
        folder.mkdir(exist_ok=True)
        for name in {page.name for page in folder.iterdir()} - set(pages):
            (folder / name).unlink()
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert {page.name: page.read_text(encoding="utf-8") for page in folder.iterdir()} == pages, (
        "docs/codes is stale: UPDATE_DOCS=1 pytest with this test, then tests/unit/docs/test_docs_site.py"
    )
    assert all((ROOT / page(code, None)).is_file() for code in ALL_CODES)


@pytest.mark.parametrize("page", ["errors.md", "block-codes.md"])
def test_the_tables_of_codes_are_up_to_date(page: str) -> None:
    """The tables name every code with its page (UPDATE_DOCS=1 rewrites them)."""
    assert_fresh(DOCS / page, TABLES)


@pytest.mark.parametrize("page", KIND_PAGES, ids=lambda page: page.stem)
def test_the_fields_of_a_kind_are_up_to_date(page: Path) -> None:
    """Each page of docs/kinds has the table of the fields of its kind (UPDATE_DOCS=1 rewrites it)."""
    kind = page.stem.title().replace("-", "")
    assert f"<!-- generated: fields {kind} -->" in page.read_text(encoding="utf-8")
    assert_fresh(page, TABLES)


def test_codes_without_an_example_have_their_explanation() -> None:
    """A page without an example holds the title, the explanation and a link to the other codes."""
    code, entry = next(iter(CODES.items()))
    page = generate_docs.code_pages({}, {})[f"{code}.md"]
    assert page.startswith(f"# {code}: {entry.title}\n\n{generate_docs.wrap(entry.explanation)}\n")
    assert page.endswith("[errors in manifests](../errors.md).\n")


def test_unknown_sections_are_errors() -> None:
    """A marker in the docs without generated text is an error, not an empty section."""
    with pytest.raises(KeyError):
        generate_docs.fill_sections("<!-- generated: nothing -->\n<!-- end -->", {})
