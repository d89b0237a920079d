"""Which engine reads: `--engine` and RECONCILER_ENGINE, the size of the work, and whether there is Java."""

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from reconciler.cli.app import run
from reconciler.errors import ScanFailed, UsageError
from reconciler.model.scan_request import ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.scan import engine_choice
from reconciler.scan.chunks import Chunk
from reconciler.scan.engine_choice import Engine, EngineName, check_packages, reads_inline
from tests.build import program

OFFSETS = ScanRequest(topics=(TopicRequest(topics=(Selector("*"),), offsets=True),))
LEADERS = ScanRequest(topics=(TopicRequest(topics=(Selector("*"),)),))
SMALL = (Chunk(groups=("a", "b")), Chunk(log=(0,), log_records=100_000))
LARGE = (*SMALL, Chunk(log=(1,), log_records=2_000_000))
REMOTE = "sc://127.0.0.1:15002"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only Java of the machine, which is on PATH."""
    path = program(tmp_path / "bin" / "java")
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return path


AUTO = Engine(name=EngineName.AUTO)
INLINE, SPARK = (Engine(name=name) for name in (EngineName.INLINE, EngineName.SPARK))


@pytest.mark.parametrize(
    ("engine", "chunks", "has_java", "inline"),
    [
        (AUTO, SMALL, True, True),
        (AUTO, LARGE, True, False),
        # The other two engines take themselves, whatever the work is.
        *((engine, chunks, True, engine is INLINE) for engine in (INLINE, SPARK) for chunks in (SMALL, LARGE)),
        # A machine without Java reads inline, also what is large; `spark` fails with an error of its own.
        (AUTO, LARGE, False, True),
        (SPARK, LARGE, False, False),
        # A Connect server has the JVM.
        (Engine(name=EngineName.AUTO, remote=REMOTE), LARGE, False, False),
    ],
)
def test_auto_takes_inline_for_little_work(
    engine: Engine, chunks: tuple[Chunk, ...], has_java: bool, inline: bool, java: Path
) -> None:
    if not has_java:
        java.unlink()
    assert reads_inline(OFFSETS, engine, chunks) is inline


def test_auto_finds_the_java_that_spark_would_take(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME comes before PATH. Once `auto` read inline where only JAVA_HOME led to Java."""
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    monkeypatch.setenv("PATH", "")
    assert not reads_inline(OFFSETS, AUTO, LARGE)
    monkeypatch.setenv("JAVA_HOME", str(java.parent))
    assert reads_inline(OFFSETS, AUTO, LARGE)


@pytest.mark.parametrize("name", EngineName)
def test_leaders_are_read_without_spark(name: EngineName) -> None:
    """The listings have all that is requested."""
    assert reads_inline(LEADERS, Engine(name=name), ())


@pytest.mark.parametrize("by_flag", [True, False], ids=["--engine", "RECONCILER_ENGINE"])
def test_an_unknown_engine_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by_flag: bool
) -> None:
    """The error names the engines that exist."""
    if not by_flag:
        monkeypatch.setenv("RECONCILER_ENGINE", "flink")
    assert run(["plan", "manifests/examples", *(["--engine", "flink"] if by_flag else [])]) == UsageError.exit_code
    error = capsys.readouterr().err
    assert "flink" in error
    assert all(name in error for name in EngineName)


def test_a_user_without_a_name_is_told_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number that /etc/passwd lacks. Hadoop's login then ends Spark's JVM.

    `auto` reads in this process then, and a Spark elsewhere has a user of its own.
    """
    check_packages(OFFSETS, Engine())
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    with pytest.raises(ScanFailed, match="user id 4000000000 has no entry in /etc/passwd"):
        check_packages(OFFSETS, Engine())
    for engine in (AUTO, INLINE, Engine(remote=REMOTE)):
        check_packages(OFFSETS, engine)
    assert reads_inline(OFFSETS, AUTO, LARGE)


@pytest.mark.parametrize(
    ("installed", "remote", "problem"),
    [
        (["core", "pyspark-4.3.0.dist-info"], False, ""),
        (["core", "pyspark-4.3.0.dist-info"], True, ""),
        (["pyspark_client-4.2.0.dist-info"], True, ""),
        (["pyspark_client-4.2.0.dist-info"], False, "add --spark-remote sc://HOST:PORT or --engine auto"),
        (["core", "pyspark-4.3.0.dist-info", "pyspark_client-4.2.0.dist-info"], True, "but not both"),
        (["core", "pyspark-4.3.0.dist-info", "pyspark_client-4.2.0.dist-info"], False, "but not both"),
        (["core"], False, ""),  # put there by hand or by a distribution of Linux
    ],
)
def test_pyspark_and_its_light_client_exclude_each_other(
    installed: Sequence[str], remote: bool, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both fill the folder `pyspark`, pip installs both without a word, and the last one wins, file by file.

    `auto` reads inline then.
    """
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    for name in installed:
        ((tmp_path / name) if name.endswith("info") else (tmp_path / "pyspark" / name)).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)  # Python finds a package that is imported where it was
    engine = Engine(name=EngineName.AUTO, remote=REMOTE if remote else None)
    with pytest.raises(ScanFailed, match=problem) if problem else nullcontext():
        engine_choice._check_spark(engine)
    assert reads_inline(OFFSETS, engine, LARGE) is bool(problem)
