"""The choice of a Java, and the message if there is none."""

import re
from pathlib import Path

import pytest

from reconciler.companions.sandbox.java import find_java
from reconciler.errors import SandboxError
from reconciler.scan.java import parse_version
from tests.golden.wording import mentions


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_versions_are_read_in_both_ways_of_counting(output: str, major: int | None) -> None:
    """Java 8 calls itself 1.8."""
    assert parse_version(output) == major


def test_no_java_is_one_sentence_that_says_how_to_get_it(tmp_path: Path) -> None:
    """A user without Java needs a command, not a traceback."""
    with pytest.raises(SandboxError) as error:
        find_java({"PATH": str(tmp_path)})
    assert mentions(str(error.value), "Java 17")
    assert "install" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    """An old Java would fail later, with an UnsupportedClassVersionError in a log."""
    java = fake_java(tmp_path / "bin", 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(SandboxError, match=rf"{re.escape(str(java))}\b.*\b11\b"):
        find_java({"PATH": str(java.parent)})


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """Users set JAVA_HOME to choose a Java."""
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    at_home = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.1"')
    assert find_java({"PATH": str(on_path.parent), "JAVA_HOME": str(tmp_path / "home")}) == at_home


def test_a_java_home_without_java_falls_back_to_path(tmp_path: Path) -> None:
    """JAVA_HOME often names a JDK that was removed."""
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    assert find_java({"PATH": str(on_path.parent), "JAVA_HOME": str(tmp_path / "gone")}) == on_path


def fake_java(folder: Path, output: str) -> Path:
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    return java
