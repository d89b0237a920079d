"""Runs the command line without a terminal and without the user's own settings.

`reconciler` runs it in this process, for tests of output, files and exit codes. Tests of the process itself (signals, streams, interpreters, start time) use
`reconciler_process`.
"""

import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from reconciler.cli.app import run

TIMEOUT_S = 300
WARM_SPARK = {"RECONCILER_ENGINE": "spark", "RECONCILER_SPARK_MASTER": "local[2]"}
"""Variables of commands that share one Spark in this process, for tests whose readings go through it."""


def command(*arguments: str) -> list[str]:
    """Build the argv of the command line."""
    return [sys.executable, "-m", "reconciler", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """The environment of this process, without variables that change the command line, plus
    `variables`.

    PYTHONUNBUFFERED would hide a buffer that cannot be flushed at exit. pytest-xdist sets COLUMNS
    in its workers. SPARK_REMOTE of a developer would read elsewhere. Small clusters are read without
    Spark, whose start would take most of the time of these tests; tests/spark shows that all engines
    read the same.
    """
    removed = ("RECONCILER_", "KAFKA_", "SPARK_REMOTE", "PYTHONUNBUFFERED", "COLUMNS", "LINES")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    return {**inherited, "RECONCILER_ENGINE": "auto", **variables}


def reconciler(folder: Path, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, in `folder`, with more environment variables."""
    return _decode(output(folder, *arguments, stdin=stdin.encode(), **variables))


def reconciler_process(
    folder: Path, *arguments: str, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a new process, in `folder`, with more environment variables."""
    words, variables = command(*arguments), environment(**variables)
    return run_process(folder, *words, env=variables, stdin=None, input=stdin.encode())


def run_process(
    folder: Path, *words: str | Path, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program in `folder` to its end, and return its output.

    `env`: all its variables, by default `environment()`. `options`: as `subprocess.run` has them, in place
    of an empty input, of outputs that are returned, and of a timeout.
    """
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": TIMEOUT_S}
    variables = environment() if env is None else env
    return _decode(subprocess.run(words, cwd=folder, env=variables, check=False, **defaults | options))


def python(program: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own. `options`: of `subprocess.run`, in the place of the usual ones."""
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 60, "env": environment()}
    return subprocess.run([sys.executable, "-c", program, *words], text=True, check=False, **usual | options)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Path]:
    """Run a command that goes on, as a new process, during the block; then Ctrl-C must end it with exit code 0.

    The block has the file of its stderr.
    """
    errors = folder / "errors.txt"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process,
    ):
        try:
            yield errors
            assert process.poll() is None, errors.read_text()
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0, errors.read_text()
        finally:
            process.kill()


def output(folder: Path, *arguments: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in this process and return its output as bytes."""
    with (
        _change_directory(folder),
        _replace_environment(environment(**variables)),
        _restore_logging(),
        _redirect_streams(stdin) as streams,
    ):
        code = run(arguments)
    return subprocess.CompletedProcess(list(arguments), code, *streams)


def _decode(result: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    stdout, stderr = ((stream or b"").decode() for stream in (result.stdout, result.stderr))
    return subprocess.CompletedProcess(result.args, result.returncode, stdout, stderr)


@contextmanager
def _redirect_streams(stdin: bytes) -> Iterator[list[bytes]]:
    """Redirect the standard streams of this process to files, none of which is a terminal.

    The redirection is by file descriptor, so that it includes the output of the Kafka client's C
    library. The list has the contents of stdout and stderr after the block.
    """
    before = (sys.stdin, sys.stdout, sys.stderr)
    outputs: list[bytes] = []
    with ExitStack() as files:
        streams = [files.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(stdin)
        streams[0].seek(0)
        for stream in before[1:]:
            stream.flush()
        saved = [os.dup(descriptor) for descriptor in range(3)]
        for descriptor, stream in enumerate(streams):
            os.dup2(stream.fileno(), descriptor)
        sys.stdin, sys.stdout, sys.stderr = (
            open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            for descriptor, mode in enumerate("rww")
        )
        try:
            yield outputs
        finally:
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.close()
            sys.stdin, sys.stdout, sys.stderr = before
            for descriptor, copy in enumerate(saved):
                os.dup2(copy, descriptor)
                os.close(copy)
            for stream in streams[1:]:
                stream.seek(0)
                outputs.append(stream.read())


@contextmanager
def _change_directory(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _replace_environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _restore_logging() -> Iterator[None]:
    """Restore the loggers of this process, which the command line changes."""
    root, own = logging.getLogger(), logging.getLogger("reconciler")
    before = [(logger, logger.handlers[:], logger.propagate, logger.level) for logger in (root, own)]
    try:
        yield
    finally:
        for logger, handlers, propagate, level in before:
            logger.handlers[:] = handlers
            logger.propagate = propagate
            logger.setLevel(level)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let this process write no file that is larger, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
