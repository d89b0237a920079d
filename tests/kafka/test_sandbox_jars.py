"""Fetching jars, with the real Ivy and the real registry: small lists, empty caches."""

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import SandboxError
from reconciler.sandbox.jars import DEFAULT_VERSION, fetch, read_list

pytestmark = pytest.mark.brokers


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """A folder with a list of one small jar, taken from the committed one, as version 1."""
    (small,) = (jar for jar in read_list(DEFAULT_VERSION) if jar.name == "jspecify")
    line = f"{small.sha256}  {small.organisation}:{small.name}:{small.revision}\n"
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "jars-1.sha256").write_text(line)
    return folder


def test_an_empty_cache_is_filled_and_a_damaged_one_mended(lists: Path, tmp_path: Path) -> None:
    """A second call downloads nothing; a jar that was changed in the cache is fetched again, and said so."""
    said: list[str] = []
    folder = fetch("1", cache=tmp_path / "cache", lists=lists, progress=said.append)
    (jar,) = folder.glob("*.jar")
    assert said[-1].endswith("1 of 1 jars")
    said.clear()
    assert fetch("1", cache=tmp_path / "cache", lists=lists, progress=said.append) == folder
    assert said == []
    whole = jar.read_bytes()
    jar.write_bytes(b"tampered")
    assert fetch("1", cache=tmp_path / "cache", lists=lists, progress=said.append) == folder
    assert "is damaged" in said[0]
    assert jar.read_bytes() == whole


def test_a_download_that_is_not_the_listed_one_is_refused_by_name(lists: Path, tmp_path: Path) -> None:
    """What a registry or a proxy changed must not run: the jar is named and nothing is installed."""
    path = lists / "jars-1.sha256"
    path.write_text("0" * 64 + path.read_text()[64:])
    with pytest.raises(SandboxError, match=r"jspecify-.*\.jar does not have the sha256 000000000000"):
        fetch("1", cache=tmp_path / "cache", lists=lists)
    assert list((tmp_path / "cache").rglob("*.jar")) == []


def test_a_failed_download_is_one_sentence_with_its_log(lists: Path, tmp_path: Path) -> None:
    """A jar that is not there, or a network that is not: what is missing, and where Ivy's words are."""
    with (lists / "jars-1.sha256").open("a") as file:
        file.write("0" * 64 + "  org.apache.kafka:no-such-artifact:1\n")
    with pytest.raises(SandboxError) as caught:
        fetch("1", cache=tmp_path / "cache", lists=lists)
    message = str(caught.value)
    assert "could not fetch" in message
    assert "\n" not in message
    assert "no-such-artifact" in Path(message.rpartition("log in ")[2]).read_text()


def test_two_at_once_end_with_one_whole_cache(lists: Path, tmp_path: Path) -> None:
    """Two processes with an empty cache: both succeed, with the same folder, and no half-written one beside it."""
    code = (
        "import sys; from pathlib import Path; from reconciler.sandbox.jars import fetch;"
        "print(fetch('1', cache=Path(sys.argv[1]), lists=Path(sys.argv[2])))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "cache"), str(lists)]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as one,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as two,
    ):
        answers = {process.communicate(timeout=120)[0].strip() for process in (one, two)}
        codes = {one.returncode, two.returncode}
    assert codes == {0}
    assert len(answers) == 1
    assert sorted(path.name for path in (tmp_path / "cache" / "1").iterdir() if path.is_dir()) == [
        Path(answers.pop()).name
    ]
