"""The archive of Spark's classes: when it is written and used, and that its failure is harmless."""

import os
from pathlib import Path

import pytest

from reconciler.scan.jvm_class_cache import ClassCache, select_archive, write_at_next_start


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


def test_the_first_run_only_leaves_a_mark(java: Path, jars: Path, tmp_path: Path) -> None:
    """A throw-away CI runner writes no archive; the second run writes one, and the third uses it."""
    cache, folder = tmp_path / "cache", tmp_path / "jvm"
    folder.mkdir()
    assert select_archive(java, jars, folder, cache=cache) == ClassCache()
    second = select_archive(java, jars, folder, cache=cache)
    assert second.option == f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}"
    (folder / "classes.jsa").write_bytes(b"classes")
    second.keep()
    third = select_archive(java, jars, folder, cache=cache)
    assert third.option == f"-Xshare:auto -XX:SharedArchiveFile={second.cached}"
    assert third.written is None
    assert second.cached is not None
    assert second.cached.read_bytes() == b"classes"
    assert sorted(path.suffix for path in cache.iterdir()) == [".jsa", ".runs"]


def test_setup_has_the_archive_written_at_once(java: Path, jars: Path, tmp_path: Path) -> None:
    """The next JVM writes the archive, even after three failed tries, unless there is one."""
    cache = tmp_path / "cache"
    for _ in range(6):
        select_archive(java, jars, tmp_path, cache=cache)
    assert write_at_next_start(java, jars, cache=cache)
    archive = select_archive(java, jars, tmp_path, cache=cache)
    assert archive.written is not None
    archive.written.write_bytes(b"classes")
    archive.keep()
    assert not write_at_next_start(java, jars, cache=cache)


def test_an_archive_that_is_never_written_is_given_up(java: Path, jars: Path, tmp_path: Path) -> None:
    """A Java that cannot write archives gets three tries."""
    cache = tmp_path / "cache"
    options = []
    for _ in range(6):
        archive = select_archive(java, jars, tmp_path, cache=cache)
        archive.keep()
        options.append(archive.option is not None)
    assert options == [False, True, True, True, False, False]


def test_another_java_or_other_jars_have_another_archive(java: Path, jars: Path, tmp_path: Path) -> None:
    """An upgrade gets a new archive, instead of an outdated one at every start."""
    cache = tmp_path / "cache"
    select_archive(java, jars, tmp_path, cache=cache)
    before = select_archive(java, jars, tmp_path, cache=cache).cached
    os.utime(java, (1, 1))
    assert select_archive(java, jars, tmp_path, cache=cache) == ClassCache()
    os.utime(jars, (1, 1))
    assert select_archive(java, jars, tmp_path, cache=cache) == ClassCache()
    assert select_archive(java, jars, tmp_path, cache=cache).cached != before


def test_only_the_most_recently_used_archives_stay(java: Path, jars: Path, tmp_path: Path) -> None:
    """Archives of 160 MB do not accumulate for each Java and each environment."""
    cache = tmp_path / "cache"
    cache.mkdir()
    used_at = {"first.jsa": 3, "second.jsa": 1, "third.jsa": 2, "other.txt": 1}
    for name, at in used_at.items():
        (cache / name).touch()
        os.utime(cache / name, (at, at))
    select_archive(java, jars, tmp_path, cache=cache)
    archive = select_archive(java, jars, tmp_path, cache=cache)
    (tmp_path / "classes.jsa").write_bytes(b"classes")
    archive.keep()
    assert archive.cached is not None
    remaining = {path.name for path in cache.iterdir() if path.suffix != ".runs"}
    assert remaining == {archive.cached.name, "first.jsa", "other.txt"}


def test_a_cache_that_cannot_be_written_does_not_fail_the_scan(java: Path, jars: Path, tmp_path: Path) -> None:
    """With a read-only home, or a file in place of the folder, the scan runs without an archive."""
    cache = tmp_path / "cache"
    cache.write_text("no folder")
    assert select_archive(java, jars, tmp_path, cache=cache) == ClassCache()
    archive_path = tmp_path / "classes.jsa"
    archive_path.write_bytes(b"classes")
    ClassCache("-XX:…", archive_path, cache / "kept.jsa").keep()
    assert cache.read_text() == "no folder"


def test_paths_with_blanks_stay_one_word(java: Path, jars: Path, tmp_path: Path) -> None:
    """Spark splits the options at blanks outside quotes."""
    folder, cache = tmp_path / "a folder", tmp_path / "cache"
    select_archive(java, jars, folder, cache=cache)
    assert (
        select_archive(java, jars, folder, cache=cache).option == f'-XX:ArchiveClassesAtExit="{folder / "classes.jsa"}"'
    )
