"""Archives of classes: a JVM uses one that is there, and its absence is harmless."""

import os
from pathlib import Path

import platformdirs
import pytest

from reconciler.class_archive import archive_path, store, use_flags


@pytest.fixture
def java(tmp_path: Path) -> Path:
    path = tmp_path / "java"
    path.write_text("#!")
    return path


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    path = tmp_path / "spark" / "jars"
    path.mkdir(parents=True)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache; the archives are in its folder `spark`."""
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_names, **_options: tmp_path / "cache")
    return tmp_path / "cache" / "spark"


def store_one(java: Path, jars: Path, folder: Path) -> Path:
    written = folder / "written.jsa"
    written.write_bytes(b"classes")
    path = archive_path("spark", java, jars)
    store(written, path)
    return path


def test_a_missing_archive_is_not_written(java: Path, jars: Path, cache: Path) -> None:
    """Only the two `prepare` modules write one, and its folder: it takes longer than a small scan."""
    assert use_flags("spark", java, jars) == ()
    assert not cache.exists()


def test_a_stored_archive_is_used(java: Path, jars: Path, tmp_path: Path) -> None:
    path = store_one(java, jars, tmp_path)
    assert use_flags("spark", java, jars) == ("-Xshare:auto", f"-XX:SharedArchiveFile={path}")
    assert path.read_bytes() == b"classes"


def test_another_java_or_other_jars_have_another_archive(java: Path, jars: Path, tmp_path: Path) -> None:
    """After an upgrade no outdated archive is tried at every start."""
    first = store_one(java, jars, tmp_path)
    os.utime(java, (1, 1))
    second = store_one(java, jars, tmp_path)
    assert use_flags("spark", java, jars)
    os.utime(jars, (1, 1))
    assert not use_flags("spark", java, jars)
    assert len({first, second, archive_path("spark", java, jars)}) == 3


def test_only_the_most_recently_used_archives_stay(java: Path, jars: Path, cache: Path, tmp_path: Path) -> None:
    """Archives of 70 MB do not accumulate for each Java and each environment."""
    cache.mkdir(parents=True)
    for name, at in {**{f"{number}.jsa": number for number in range(1, 8)}, "other.txt": 1}.items():
        (cache / name).touch()
        os.utime(cache / name, (at, at))
    path = store_one(java, jars, tmp_path)
    assert {entry.name for entry in cache.glob("*.jsa")} == {path.name, *(f"{number}.jsa" for number in range(3, 8))}
    assert (cache / "other.txt").exists()


def test_a_full_disk_leaves_no_part(java: Path, jars: Path, cache: Path, tmp_path: Path) -> None:
    """The parts of archives that did not fit once stayed, and nothing removed them."""
    with pytest.raises(OSError, match="written"):
        store(tmp_path / "written.jsa", archive_path("spark", java, jars))
    path = archive_path("spark", java, jars)
    path.mkdir()  # where the copy cannot be moved to
    with pytest.raises(OSError, match=path.name):
        store_one(java, jars, tmp_path)
    assert list(cache.iterdir()) == [path]


def test_an_archive_of_the_current_folder_is_not_used(
    java: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without HOME the cache is in the checkout, which could bring code for the JVM."""
    monkeypatch.chdir(tmp_path)
    path = store_one(java, jars, tmp_path)
    assert use_flags("spark", java, jars)
    relative = path.parents[1].relative_to(tmp_path)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_names, **_options: relative)
    assert use_flags("spark", java, jars) == ()
    with pytest.raises(OSError, match="set HOME or XDG_CACHE_HOME"):
        archive_path("spark", java, jars)


def test_a_cache_that_cannot_be_written_does_not_fail_the_scan(java: Path, jars: Path, cache: Path) -> None:
    """With a read-only home, or a file in place of the folder, the scan runs without an archive."""
    cache.parent.mkdir()
    cache.write_text("no folder")
    assert not use_flags("spark", java, jars)
