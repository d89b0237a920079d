"""Jars are fetched with the real Ivy from the real registry: short lists, empty caches."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.companions.sandbox.jars import DEFAULT_VERSION, fetch, read_list
from reconciler.errors import SandboxError

pytestmark = pytest.mark.brokers


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A folder with a list of one small jar of the committed list, as version 1."""
    (small,) = (jar for jar in read_list(DEFAULT_VERSION) if jar.name == "jspecify")
    line = f"{small.sha256}  {small.organisation}:{small.name}:{small.revision}\n"
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "jars-1.sha256").write_text(line)
    return folder


def test_a_download_with_another_checksum_is_refused_by_name(lists: Path, tmp_path: Path) -> None:
    """A jar that a registry or a proxy changed must not run: the error names it, and nothing is
    installed.
    """
    path = lists / "jars-1.sha256"
    path.write_text("0" * 64 + path.read_text()[64:])
    with pytest.raises(SandboxError, match=r"jspecify-.*\.jar does not have the sha256 000000000000"):
        fetch("1", cache=tmp_path / "cache", lists=lists)
    assert list((tmp_path / "cache").rglob("*.jar")) == []


def test_a_failed_download_is_one_sentence_with_its_log(lists: Path, tmp_path: Path) -> None:
    """The message says what is missing and where Ivy's log is."""
    with (lists / "jars-1.sha256").open("a") as file:
        file.write("0" * 64 + "  org.apache.kafka:no-such-artifact:1\n")
    with pytest.raises(SandboxError) as error:
        fetch("1", cache=tmp_path / "cache", lists=lists)
    message = str(error.value)
    assert "could not fetch" in message
    assert "\n" not in message
    assert "no-such-artifact" in Path(message.rpartition("log in ")[2]).read_text()


def test_two_processes_fill_an_empty_cache_and_a_damaged_one_is_repaired(lists: Path, tmp_path: Path) -> None:
    """Both processes succeed with the same folder, and leave no partial one.

    A later call downloads nothing; a changed jar is fetched again, with a message.
    """
    code = (
        "import sys; from pathlib import Path; from reconciler.companions.sandbox.jars import fetch;"
        "print(fetch('1', cache=Path(sys.argv[1]), lists=Path(sys.argv[2])))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "cache"), str(lists)]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as second,
    ):
        answers = {process.communicate(timeout=120)[0].strip() for process in (first, second)}
        codes = {first.returncode, second.returncode}
    assert codes == {0}
    assert len(answers) == 1
    folder = Path(answers.pop())
    assert [path.name for path in (tmp_path / "cache" / "1").iterdir() if path.is_dir()] == [folder.name]

    messages: list[str] = []

    def fetched() -> Path:
        progress = lambda step, state="", *_count: messages.append(f"{step} {state}")  # noqa: E731
        return fetch("1", cache=tmp_path / "cache", lists=lists, progress=progress)

    (jar,) = folder.glob("*.jar")
    content = jar.read_bytes()
    assert fetched() == folder
    assert messages == []
    jar.write_bytes(b"tampered")
    assert fetched() == folder
    assert "is damaged" in messages[0]
    assert messages[-1].endswith("1 of 1 jars")
    assert jar.read_bytes() == content
