"""docs/manifests.md: its generated parts are fresh, and its examples are what the language accepts."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.errors import ManifestsInvalid, SecretMissing
from reconciler.manifest.diagnostics import Rendering, render
from reconciler.manifest.error_codes import CODES
from reconciler.manifest.files import load
from reconciler.manifest.secrets import resolve
from tests.unit.manifest.broken import BROKEN, CLUSTER, NOW_MS
from tools import generate_docs

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "manifests.md"


def output_of(files: dict[str, str], folder: Path, *, code: str) -> str:
    """What the files yield, as text; only what concerns `code`, since most examples hold no policy or no reader."""
    for name, text in {"cluster.yaml": CLUSTER, **files}.items():
        if text:
            (folder / name).write_text(text, encoding="utf-8")
    try:
        loaded = load(sorted(Path().iterdir()), now_ms=NOW_MS)
        found = loaded.warnings
        if code == "M501":
            resolve(loaded.for_cluster().cluster, environment={})
    except ManifestsInvalid as invalid:
        found = invalid.diagnostics
    except SecretMissing as missing:
        return f"error: {missing}\n"
    return render([each for each in found if each.code != "M403" or code == "M403"], Rendering.TEXT)


def unreadable(folder: Path) -> Mapping[str, Path]:
    """What was typed → the path, for each code that is about files rather than their text."""
    os.mkfifo(folder / "pipe.yaml")
    (folder / "latin.yaml").write_bytes("owner: Zoë\n".encode("latin-1"))
    (folder / "export.yaml").write_bytes(b"#" * 2_000_000)
    (folder / "empty").mkdir()
    (folder / "dump.yaml").write_text("".join(f"field{number}:\n" for number in range(1000)))
    return {
        "M001": Path("manifest"),
        "M002": Path("pipe.yaml"),
        "M003": Path("latin.yaml"),
        "M004": Path("export.yaml"),
        "M005": Path("empty"),
        "M006": Path("dump.yaml"),
    }


def test_docs_show_each_code_with_its_real_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generated parts of docs/manifests.md are what the models and the loader say now (UPDATE_DOCS=1 rewrites them)."""
    shown: dict[str, tuple[Mapping[str, str], str]] = {}
    for code, files in BROKEN.items():
        folder = tmp_path / code
        folder.mkdir()
        monkeypatch.chdir(folder)
        written = {name: text for name, text in files.items() if text}
        shown[code] = (written, output_of(dict(files), folder, code=code))
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for code, path in unreadable(folder).items():
        with pytest.raises(ManifestsInvalid) as refused:
            load([path], now_ms=NOW_MS)
        output = render([each for each in refused.value.diagnostics if each.code == code], Rendering.TEXT)
        assert output.startswith(f"error[{code}]")
        shown[code] = ({f"$ reconciler validate {path}": ""}, output)
    sections = {**generate_docs.field_tables(), "errors": generate_docs.error_section(shown)}
    fresh = generate_docs.filled(DOCS.read_text(encoding="utf-8"), sections)
    if os.environ.get("UPDATE_DOCS"):
        DOCS.write_text(fresh, encoding="utf-8")
    assert DOCS.read_text(encoding="utf-8") == fresh, (
        "stale: UPDATE_DOCS=1 python -m pytest tests/unit/manifest/test_generate_docs.py"
    )


@pytest.mark.parametrize("code", sorted(BROKEN))
def test_each_broken_example_yields_its_code(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken example of each code is refused, or warned about, with that code and no other."""
    monkeypatch.chdir(tmp_path)
    codes = re.findall(r"^\w+(?:\[|: )(M\d+)", output_of(dict(BROKEN[code]), tmp_path, code=code), re.MULTILINE)
    assert codes
    assert set(codes) == {code}


def test_every_code_has_a_broken_example(tmp_path: Path) -> None:
    """No code without an example in the docs."""
    assert set(CODES) == set(BROKEN) | set(unreadable(tmp_path))


@pytest.mark.parametrize("name", ["docs/manifests.md"])
def test_examples_of_the_docs_are_valid(name: str, tmp_path: Path) -> None:
    """Every whole manifest that the docs show before the errors is accepted, each beside the Cluster that it needs."""
    text = (ROOT / name).read_text(encoding="utf-8").partition("## What is refused")[0]
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 7
    for index, block in enumerate(blocks):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "example.yaml").write_text(block, encoding="utf-8")
        if "kind: Cluster" not in block:
            (folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
        if "kind: Waiver" in block:
            floor = BROKEN["M114"]["orders.yaml"].replace("orders", "clicks").replace(": clicks\n", ": [clicks]\n")
            (folder / "floor.yaml").write_text(floor.replace(", last: '100'", ""), encoding="utf-8")
        load([folder], now_ms=NOW_MS)


def test_codes_without_an_example_are_told_in_words() -> None:
    """An entry without an example holds the title and the explanation."""
    code, entry = next(iter(CODES.items()))
    assert generate_docs.error_section({}).startswith(f"### {code} {entry.title}\n\n{entry.explanation}")


def test_unknown_sections_are_errors() -> None:
    """A marker in the docs that nothing fills is a mistake, not an empty section."""
    with pytest.raises(KeyError):
        generate_docs.filled("<!-- generated: nothing -->\n<!-- end -->", {})
