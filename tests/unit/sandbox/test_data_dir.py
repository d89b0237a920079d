"""A sandbox removes its own folder, and no path that only looks as if it were one."""

import tempfile
from pathlib import Path

import pytest

from reconciler.errors import SandboxError
from reconciler.sandbox import data_dir


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test only; beside it a working tree with something in it."""
    made = tmp_path / "tmp"
    made.mkdir()
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "kafka-sandbox-x").mkdir()
    (tree / "kafka-sandbox-x" / "file").write_text("kept")
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    monkeypatch.chdir(tree)
    return made


def contents(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


def test_folder_of_a_sandbox_goes_with_all_in_it(temporary: Path) -> None:
    """Its own folder, also one level deeper (base_dir); a second time changes nothing."""
    for parent in (temporary, temporary / "deeper"):
        made = parent / "kafka-sandbox-tests-1"
        (made / "data-1").mkdir(parents=True)
        data_dir.remove(made)
        assert not made.exists()
        data_dir.remove(made)


WITHIN_THE_TEST = [
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
"""All of them are below the test's own folder, so that a broken guard costs the test and nothing else."""


@pytest.mark.parametrize("path", WITHIN_THE_TEST)
def test_folder_of_anything_else_is_refused_untouched(temporary: Path, path: str) -> None:
    """A working tree was once emptied by such a removal: relative, empty, outside, misnamed or linked paths remove nothing."""
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
    """Asked about only: no test may hand such a path to anything that removes."""
    with pytest.raises(SandboxError):
        data_dir.assert_sandbox_dir(Path(path))
