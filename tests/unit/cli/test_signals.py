"""Signals during apply are received whatever the main thread does.

The tests start processes, because the second signal ends one.
"""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from reconciler.cli import app, loading
from reconciler.errors import ExitCode
from tests.command import command, environment, python, run_process
from tests.golden.wording import mentions

IMPORTS = """
import contextlib, os, signal, sys, threading, time
from reconciler.cli.log_lines import json_lines
from reconciler.cli.signals import handle_signals, restored_handlers
"""
ELSEWHERE = f"""{IMPORTS}
def press():
    for _ in range(2):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        time.sleep(0.4)

lines = json_lines("apply") if sys.argv[1] == "json" else contextlib.nullcontext()
with lines, handle_signals() as interrupts:
    if sys.argv[1] == "sent":
        interrupts.sending()
    threading.Thread(target=press, daemon=True).start()
    threading.Event().wait()
"""


@pytest.mark.parametrize(("state", "code"), [("nothing", ExitCode.INTERRUPTED), ("sent", ExitCode.PARTLY)])
def test_signals_that_another_thread_receives(state: str, code: int) -> None:
    """The main thread stays asleep; the first signal still prints, the second ends the process.

    It once ended without a word, also where requests were sent that no results name. It said that it waits
    for requests in flight where none was.
    """
    result = python(ELSEWHERE, state)
    assert result.returncode == code
    first, last = result.stderr.splitlines()
    assert first.startswith("stopping: ")
    assert ("requests in flight" in first) == (state == "sent")
    words = (
        ("no request was sent",) if state == "nothing" else ("not known", "same command again", "reconciler journal")
    )
    assert last.startswith("error: ended at once")
    assert mentions(last, *words)


def test_the_last_line_of_json_is_an_error() -> None:
    """Only the first signal is a warning."""
    lines = python(ELSEWHERE, "json").stderr.splitlines()
    assert [json.loads(line)["level"] for line in lines] == ["WARNING", "ERROR"]


HANG_UP = f"""{IMPORTS}
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
with handle_signals() as interrupts:
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.2)
    print(interrupts())
"""


@pytest.mark.parametrize(("before", "stops"), [("SIG_DFL", True), ("SIG_IGN", False)], ids=["terminal", "nohup"])
def test_a_terminal_that_closes_stops_a_run_once(before: str, stops: bool) -> None:
    """A connection that broke left requests without an outcome. A shell sends the signal twice."""
    result = python(HANG_UP, before)
    assert (result.returncode, result.stdout) == (0, f"{stops}\n"), result.stderr


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_during_the_imports_prints_no_traceback(tmp_path: Path, number: str) -> None:
    """The imports take a fifth of a second, in which Ctrl-C once printed 30 lines of them.

    SIGTERM and SIGHUP once ended every command but `apply` and the loops without a word, and left drafts of files.
    """
    module = f"import signal, time\nsignal.raise_signal(signal.{number})\ntime.sleep(30)\n"
    (tmp_path / "typer.py").write_text(module, encoding="utf-8")
    result = run_process(
        tmp_path,
        *command("validate"),
        env=environment(PYTHONPATH=os.pathsep.join((str(tmp_path), *sys.path))),
        preexec_fn=partial(signal.signal, getattr(signal, number), signal.SIG_DFL),  # of tests that nohup runs
    )
    assert (result.returncode, result.stderr) == (130, "error: interrupted: no record, group or leader was changed\n")


SENT_TWICE = f"""{IMPORTS}
with handle_signals() as interrupts:
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.02)
    time.sleep(0.4)
    print(interrupts())
"""


def test_a_signal_that_comes_twice_at_once_is_one() -> None:
    """`timeout` sends it to the command and to its group: one run in six left requests without results."""
    result = python(SENT_TWICE)
    assert (result.returncode, result.stdout) == (0, "True\n"), result.stderr


AFTERWARDS = f"""{IMPORTS}
with restored_handlers():
    with handle_signals():
        pass
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.raise_signal(number)
print("results")
"""


def test_a_signal_after_the_results_changes_nothing() -> None:
    """In the last millisecond of a run that had deleted records, Ctrl-C said that nothing was written, with 130."""
    result = python(AFTERWARDS)
    assert (result.returncode, result.stdout, result.stderr) == (0, "results\n", "")


STALLED = f"""{IMPORTS}
with handle_signals() as interrupts:
    for _ in range(int(sys.argv[1])):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        while not interrupts():
            time.sleep(0.01)
    if sys.argv[1] == "2":
        time.sleep(60)
os._exit(7)
"""


@pytest.mark.parametrize("signals", [1, 2])
def test_a_stalled_reader_of_stderr_delays_nothing(signals: int) -> None:
    """Stderr is a full pipe: work ends normally after one signal, and the second one ends it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    try:
        result = python(STALLED, str(signals), stderr=writing)
    finally:
        os.close(reading)
        os.close(writing)
    assert result.returncode == {1: 7, 2: ExitCode.INTERRUPTED}[signals]


RESTORED = f"""{IMPORTS}
def left():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

before = left()
with restored_handlers(), handle_signals() as interrupts:
    assert not interrupts()
    os.kill(os.getpid(), signal.SIGTERM)
    deadline = time.monotonic() + 10
    while not interrupts() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert interrupts()
while threading.active_count() > before[1] and time.monotonic() < deadline:
    time.sleep(0.01)
assert left() == before, (left(), before)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


def test_the_previous_handlers_are_restored() -> None:
    """KeyboardInterrupt again, no thread or descriptor stays. In a process of its own."""
    result = python(RESTORED)
    assert (result.returncode, result.stdout) == (0, "KeyboardInterrupt\n"), result.stderr
    assert result.stderr.count("stopping") == 1


def test_a_command_that_ctrl_c_ends_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """typer once made an exit code of it without a word, and a request in the Kafka client a bug of this program."""

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    def interrupt_in_c(*_arguments: object, **_options: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("<built-in method list_offsets> returned a result with an exception set") from error

    def interrupt_and_fail(*_arguments: object, **_options: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            threading.Thread().join()

    for owner, name, change in (
        (loading, "load", interrupt),
        (app.LazyGroup, "parse_args", interrupt),
        (loading, "load", interrupt_in_c),
        (loading, "load", interrupt_and_fail),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, change)
            assert app.run(["clusters"]) == ExitCode.INTERRUPTED
        assert capsys.readouterr().err == "error: interrupted: no record, group or leader was changed\n"
