"""Progress: a bar that leaves nothing behind on a terminal, lines without long silence elsewhere."""

import re
import threading
from pathlib import Path

import pytest

from reconciler.cli.progress import REPEAT_S, StepLines, shown
from reconciler.report.terminal import write_lines
from reconciler.report.tree import Report
from tests.terminal import run_on_terminal, screen
from tests.unit.cli.loops import CLUSTER, LEADERS

ROOT = Path(__file__).parents[3]
CASE = ROOT / "tests" / "golden" / "01-one-of-each-kind" / "plan.json"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def steps() -> tuple[StepLines, Clock, list[str]]:
    clock, lines = Clock(), list[str]()
    return StepLines(lines.append, clock), clock, lines


def test_a_step_that_continues_is_printed_again_within_three_seconds() -> None:
    """A scan of ten minutes once looked dead for ten seconds at a time."""
    progress, clock, lines = steps()
    assert REPEAT_S < 3
    progress("reading 9 partitions", "0 of 3 chunks, 0 s")
    progress("reading 9 partitions", "1 of 3 chunks, 1 s")
    progress.repeat()
    assert len(lines) == 1, "the same step, and no time has passed"
    clock.now_s = REPEAT_S
    progress.repeat()
    progress.close(ending="done")
    assert lines == [
        "[   0.0 s] reading 9 partitions (0 of 3 chunks, 0 s)",
        "[   2.0 s] reading 9 partitions (1 of 3 chunks, 1 s)",
        "[   2.0 s] done",
    ]


def test_a_step_is_what_its_caller_says_it_is() -> None:
    """Steps that differ in a number, or have a bracket in a name, once counted as one step."""
    progress, _clock, lines = steps()
    progress("looking up records of topic (1)")
    progress("looking up records of topic (2)")
    progress.close(ending="")
    assert [line.rpartition("] ")[2] for line in lines] == [
        "looking up records of topic (1)",
        "looking up records of topic (2)",
    ]


def test_a_signal_while_its_thread_starts_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end waited for a thread that had not started, and the command called that a bug."""

    def interrupt(_thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    with pytest.raises(KeyboardInterrupt), shown(lambda: steps()[0]) as progress:
        progress("reading 9 partitions")


def test_a_status_is_printed_once_and_ends_the_step() -> None:
    """`watch` that waits for its next round does not fill a log."""
    progress, clock, lines = steps()
    progress("planning")
    progress.idle("next round in 30 s")
    clock.now_s = 30
    progress.idle("next round in 1 s")
    progress.repeat()
    progress.restart()
    progress("planning")
    progress.close(ending="")
    assert lines == ["[   0.0 s] planning", "next round in 30 s", "[   0.0 s] planning"]


IMPORTS = """
import os, time
from reconciler.cli import console
from reconciler.cli.settings import Settings
"""
INTERRUPTED = f"""{IMPORTS}
with console.progress(Settings(), lambda: True) as progress:
    progress("record deletions", "1 of 2")
"""


@pytest.mark.parametrize(("was_interrupted", "ending"), [(False, "done"), (True, "interrupted")])
def test_what_a_signal_ended_is_not_done(was_interrupted: bool, ending: str) -> None:
    """After Ctrl-C, an apply that had sent one of two requests once said `done in 0 s`."""
    progress, clock, lines = steps()
    with shown(lambda: progress, is_interrupted=lambda: was_interrupted) as current:
        current("record deletions", "1 of 2")
        clock.now_s = 1.5
    assert lines[1:] == [f"[   1.5 s] {ending}"]


def test_a_bar_says_that_a_signal_ended_it() -> None:
    assert re.match("interrupted after [0-9]+ s", screen(run_on_terminal("-c", INTERRUPTED))[0])


SHOWING = f"""{IMPORTS}
with console.progress(Settings()) as progress:
    progress("listing topics")
    time.sleep(0.3)
    console.write("the plan\\n")
    with console.progress(Settings()) as inner:
        inner("reading 9 partitions", "1 of 3 chunks", 1, 3)
        time.sleep(0.3)
    console.print_error("one error")
    progress.idle("next round in 2 s")
    time.sleep(0.3)
print("the end")
"""


def test_a_bar_never_stays_on_a_line() -> None:
    """The spinner once stood before the first line of the plan in `converge` and `watch`."""
    written = run_on_terminal("-c", SHOWING)
    assert "listing topics" in written
    assert "1 of 3" in written
    assert "━" in written, "the bar"
    assert "next round in 2 s" in written
    shown = [line for line in screen(written) if line]
    assert shown == ["the plan", "error: one error", "the end"]
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is back"


LONG_STATUS = (
    IMPORTS
    + """
with console.progress(Settings()) as progress:
    progress.idle("prod: " + ", ".join(f"part {number}" for number in range(30)) + ", the end")
    time.sleep(0.4)
    console.print_error("one error")
"""
)


def test_a_status_is_never_cut_off() -> None:
    """Behind column 100 stood what was refused. It takes several lines, and leaves none of them behind."""
    written = run_on_terminal("-c", LONG_STATUS, columns=100)
    assert "the end" in written
    assert "…" not in written
    assert [line for line in screen(written) if line] == ["error: one error"]


def test_a_terminal_without_bars_gets_lines() -> None:
    written = run_on_terminal("-c", SHOWING.replace("import os, time", "import os, time; os.environ['TERM'] = 'dumb'"))
    assert "\x1b" not in written
    assert "s] listing topics\r\nthe plan\r\n" in written


@pytest.mark.parametrize(("columns", "variables"), [(0, {}), (80, {"COLUMNS": "0"}), (80, {"COLUMNS": "1"})])
def test_an_unknown_width_is_no_narrow_terminal(columns: int, variables: dict[str, str]) -> None:
    """A terminal that reports 0 columns, as in some containers, once got one word on each line."""
    written = run_on_terminal("-m", "reconciler", "show", str(CASE), columns=columns, **variables)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in written.splitlines()]
    report = [len(line) for line in lines if not line.startswith("warning: ") and str(CASE) not in line]
    assert 40 <= max(report) <= 80
    assert written.count("\n") < 90


def test_no_width_breaks_no_line() -> None:
    text = "a sentence of many words " * 10
    (line,) = write_lines(Report(headline=(text,)), width=0)
    assert line.plain == text


@pytest.mark.parametrize(("words", "until"), [("converge", ""), ("watch --every 900s", "next round in")])
def test_no_spinner_stays_where_no_broker_answers(words: str, until: str, tmp_path: Path) -> None:
    """The error of a round stands on a line of its own; it once followed a spinner."""
    (tmp_path / "set.yaml").write_text((CLUSTER % "billing") + "---\n" + LEADERS % "all")
    name, *options = words.split()
    arguments = (name, str(tmp_path), *options, "--timeout", "1", "--engine", "inline")
    written = run_on_terminal("-m", "reconciler", *arguments, columns=200, expected=None, until=until)
    assert "connecting to prod" in written
    assert until in written
    error, *others = [line for line in screen(written) if line]
    assert error.startswith("error: prod: ")
    assert [line.partition(":")[0] for line in others] == (["stopping"] if until else [])
