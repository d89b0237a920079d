"""The lists of jars, and the check of a cache. Downloads are in tests/kafka."""

import hashlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from reconciler.companions.sandbox import prepare
from reconciler.companions.sandbox.jars import (
    DEFAULT_VERSION,
    LISTS,
    Jar,
    find_mismatch,
    parse_list,
    read_list,
    render_module,
    render_settings,
    versions,
)
from reconciler.errors import SandboxError
from tests.golden.wording import mentions
from tools.lock_kafka_jars import MIRROR_LISTS, QUERY_LISTS, STREAMS_LISTS


def test_the_default_version_has_a_list_with_broker_tools_and_a_log() -> None:
    """Without a log4j2 implementation brokers run and write no log."""
    names = {jar.name for jar in read_list(DEFAULT_VERSION)}
    assert {"kafka_2.13", "kafka-tools", "log4j-core", "log4j-slf4j2-impl"} <= names


def test_the_test_of_streams_runs_on_all_versions() -> None:
    """Those of MirrorMaker 2 and of Spark's connector run on one."""
    assert versions(STREAMS_LISTS) == versions()
    assert versions(MIRROR_LISTS) == (DEFAULT_VERSION,)


@pytest.mark.parametrize(
    "path",
    [path for folder in (LISTS, STREAMS_LISTS, MIRROR_LISTS, QUERY_LISTS) for path in folder.glob("jars-*")],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_lists_hold_coordinates_and_hashes_and_no_address(path: Path) -> None:
    """The user and Ivy decide from where jars come."""
    text = path.read_text()
    assert "://" not in text
    jars = parse_list(text)
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert len({jar.file_name for jar in jars}) == len(jars)


def test_an_unknown_version_is_refused_with_those_that_there_are() -> None:
    """A version without a list would run unchecked jars."""
    with pytest.raises(SandboxError, match=rf"\b0\.7\b.*{re.escape(DEFAULT_VERSION)}"):
        read_list("0.7")


def test_a_whole_cache_is_accepted_and_every_kind_of_damage_is_named(tmp_path: Path) -> None:
    """The message names a changed, missing or unlisted jar."""
    jars = [Jar("org.a", "one", "1", digest(b"1")), Jar("org.a", "two", "2", digest(b"2"))]
    (tmp_path / "one-1.jar").write_bytes(b"1")
    missing = find_mismatch(tmp_path, jars)
    assert missing is not None
    assert mentions(missing, "two-2.jar")
    (tmp_path / "two-2.jar").write_bytes(b"2")
    assert find_mismatch(tmp_path, jars) is None
    (tmp_path / "two-2.jar").write_bytes(b"tampered")
    assert mentions(str(find_mismatch(tmp_path, jars)), "two-2.jar", "sha256")
    (tmp_path / "two-2.jar").write_bytes(b"2")
    (tmp_path / "extra-1.jar").write_bytes(b"")
    assert mentions(str(find_mismatch(tmp_path, jars)), "extra-1.jar")


def test_ivy_gets_exactly_the_list() -> None:
    """Ivy resolves nothing transitively: a new dependency of a jar must not be downloaded."""
    dependencies = ET.fromstring(render_module(read_list(DEFAULT_VERSION))).findall("dependencies/dependency")
    assert {(d.get("org"), d.get("name"), d.get("rev")) for d in dependencies} == {
        (jar.organisation, jar.name, jar.revision) for jar in read_list(DEFAULT_VERSION)
    }
    assert {d.get("transitive") for d in dependencies} == {"false"}


def test_ivy_settings_survive_odd_folders_and_name_no_address() -> None:
    """A home folder may contain a quote or an ampersand."""
    folder = Path('/home/o\'b & "c"')
    settings = render_settings(folder)
    assert "://" not in settings
    caches = ET.fromstring(settings).find("caches")
    assert caches is not None
    assert caches.get("defaultCacheDir") == str(folder)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_download_during_setup_says_how_far_it_is_and_not_at_every_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The same line came 42 times, without a number."""
    prepare.show("fetching", "41 jars, once")
    for done in range(1, 42):
        prepare.show("fetching", f"{done} of 41 jars", done, 41)
    printed = capsys.readouterr().err.splitlines()
    assert [mentions(printed[0], "41 jars, once"), mentions(printed[-1], "41 of 41")] == [True, True]
    assert len(printed) == 6
