"""A sandbox removes its own data folder, and no other path that looks similar."""

import tempfile
from pathlib import Path

import pytest

from reconciler.companions.sandbox import data_dir
from reconciler.errors import SandboxError


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder for this test; beside it is a working tree with a file."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "kafka-sandbox-x").mkdir()
    (tree / "kafka-sandbox-x" / "file").write_text("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(tree)
    return folder


def contents(path: Path) -> list[str]:
    return sorted(str(entry.relative_to(path)) for entry in path.rglob("*"))


def test_folder_of_a_sandbox_goes_with_all_in_it(temporary: Path) -> None:
    """`remove` works for the folder, also one level deeper; a second call changes nothing."""
    for parent in (temporary, temporary / "deeper"):
        folder = parent / "kafka-sandbox-tests-1"
        (folder / "data-1").mkdir(parents=True)
        data_dir.remove(folder)
        assert not folder.exists()
        data_dir.remove(folder)


PATHS_IN_THE_TEST_FOLDER = [
    "",
    ".",
    "..",
    "kafka-sandbox-x",
    "{tree}",
    "{tree}/kafka-sandbox-x",
    "{tmp}",
    "{tmp}/other",
    "{tmp}/../tree",
    "{tmp}/kafka-sandbox-x/..",
    "{tmp}/kafka-sandbox-x/../../tree/kafka-sandbox-x",
    "{tmp}/kafka-sandbox-link",
    "{tmp}/link/kafka-sandbox-x",
]
"""All paths are inside the test's own folder, so that a broken check cannot damage other files."""


@pytest.mark.parametrize("path", PATHS_IN_THE_TEST_FOLDER)
def test_folder_of_anything_else_is_refused_untouched(temporary: Path, path: str) -> None:
    """Relative, empty, outside, misnamed or linked: one removal once emptied a working tree."""
    tree = temporary.parent / "tree"
    (temporary / "other").mkdir()
    (temporary / "kafka-sandbox-link").symlink_to(tree)
    (temporary / "link").symlink_to(tree)
    before = contents(temporary.parent)
    with pytest.raises(SandboxError):
        data_dir.remove(Path(path.format(tree=tree, tmp=temporary)))
    assert contents(temporary.parent) == before


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("path", ["/", "/kafka-sandbox-x", "/home", "/tmp/../kafka-sandbox-x"])
def test_folder_far_outside_is_no_sandboxs(path: str) -> None:
    """This test only checks the path: a test must not pass such a path to a removal."""
    with pytest.raises(SandboxError):
        data_dir.assert_sandbox_dir(Path(path))
