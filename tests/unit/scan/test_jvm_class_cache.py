"""The archive of Spark's classes: when it is written and used, and that its failure is harmless."""

import os
from pathlib import Path

import platformdirs
import pytest

from reconciler.scan.jvm import ClassCache, select_archive, write_at_next_start


@pytest.fixture
def java(tmp_path: Path) -> Path:
    path = tmp_path / "java"
    path.write_text("#!")
    return path


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    path = tmp_path / "jars"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache; the archives are in its folder `spark`."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_names, **_options: tmp_path / "cache")
    return tmp_path / "cache" / "spark"


def test_the_first_run_only_leaves_a_mark(java: Path, jars: Path, cache: Path, tmp_path: Path) -> None:
    """A throw-away CI runner writes no archive; the second run writes one, and the third uses it."""
    folder = tmp_path / "jvm"
    folder.mkdir()
    assert select_archive(java, jars, folder) == ClassCache()
    second = select_archive(java, jars, folder)
    assert second.option == f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}"
    (folder / "classes.jsa").write_bytes(b"classes")
    second.keep()
    third = select_archive(java, jars, folder)
    assert third.option == f"-Xshare:auto -XX:SharedArchiveFile={second.cached}"
    assert third.written is None
    assert second.cached is not None
    assert second.cached.read_bytes() == b"classes"
    assert sorted(path.suffix for path in cache.iterdir()) == [".jsa", ".runs"]


def test_setup_has_the_archive_written_at_once(java: Path, jars: Path, tmp_path: Path) -> None:
    """The next JVM writes the archive, even after three failed tries, unless there is one."""
    for _ in range(6):
        select_archive(java, jars, tmp_path)
    assert write_at_next_start(java, jars)
    archive = select_archive(java, jars, tmp_path)
    assert archive.written is not None
    archive.written.write_bytes(b"classes")
    archive.keep()
    assert not write_at_next_start(java, jars)


def test_an_archive_that_is_never_written_is_given_up(java: Path, jars: Path, tmp_path: Path) -> None:
    """A Java that cannot write archives gets three tries."""
    options = []
    for _ in range(6):
        archive = select_archive(java, jars, tmp_path)
        archive.keep()
        options.append(archive.option is not None)
    assert options == [False, True, True, True, False, False]


def test_another_java_or_other_jars_have_another_archive(java: Path, jars: Path, tmp_path: Path) -> None:
    """An upgrade gets a new archive, instead of an outdated one at every start."""
    select_archive(java, jars, tmp_path)
    before = select_archive(java, jars, tmp_path).cached
    os.utime(java, (1, 1))
    assert select_archive(java, jars, tmp_path) == ClassCache()
    os.utime(jars, (1, 1))
    assert select_archive(java, jars, tmp_path) == ClassCache()
    assert select_archive(java, jars, tmp_path).cached != before


def test_only_the_most_recently_used_archives_stay(java: Path, jars: Path, cache: Path, tmp_path: Path) -> None:
    """Archives of 160 MB do not accumulate for each Java and each environment."""
    cache.mkdir(parents=True)
    used_at = {"first.jsa": 3, "second.jsa": 1, "third.jsa": 2, "other.txt": 1}
    for name, at in used_at.items():
        (cache / name).touch()
        os.utime(cache / name, (at, at))
    select_archive(java, jars, tmp_path)
    archive = select_archive(java, jars, tmp_path)
    (tmp_path / "classes.jsa").write_bytes(b"classes")
    archive.keep()
    assert archive.cached is not None
    remaining = {path.name for path in cache.iterdir() if path.suffix != ".runs"}
    assert remaining == {archive.cached.name, "first.jsa", "other.txt"}


def test_a_cache_that_cannot_be_written_does_not_fail_the_scan(
    java: Path, jars: Path, cache: Path, tmp_path: Path
) -> None:
    """With a read-only home, or a file in place of the folder, the scan runs without an archive."""
    cache.parent.mkdir()
    cache.write_text("no folder")
    assert select_archive(java, jars, tmp_path) == ClassCache()
    archive_path = tmp_path / "classes.jsa"
    archive_path.write_bytes(b"classes")
    ClassCache("-XX:…", archive_path, cache / "kept.jsa").keep()
    assert cache.read_text() == "no folder"


def test_paths_with_blanks_stay_one_word(java: Path, jars: Path, tmp_path: Path) -> None:
    """Spark splits the options at blanks outside quotes."""
    folder = tmp_path / "a folder"
    select_archive(java, jars, folder)
    assert select_archive(java, jars, folder).option == f"-XX:ArchiveClassesAtExit='{folder / 'classes.jsa'}'"
