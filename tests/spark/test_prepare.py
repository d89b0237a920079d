"""The archive of Spark's classes is stored only if the JVM has written all of it."""

from pathlib import Path

import platformdirs
import pytest

from reconciler.scan import prepare
from tests.build import program

pytestmark = [pytest.mark.spark]

HALF = """\
for option; do
    case $option in -XX:ArchiveClassesAtExit=*) echo half > "${option#*=}" ;; esac
done
exec sleep 60
"""


def test_half_an_archive_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A JVM that took too long was killed while it wrote, and each scan began with what there was."""
    program(tmp_path / "bin" / "java", HALF)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda *_names, **_options: tmp_path / "cache")
    monkeypatch.setattr(prepare, "_LIMIT_S", 4.0)
    prepare.write_archive()
    assert "the JVM did not write one within 4 s" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
