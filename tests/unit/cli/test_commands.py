"""The list of commands agrees with the commands, and typing one command imports only that one."""

import subprocess
import sys

import pytest

from reconciler.cli.app import COMMANDS, load_command, run
from reconciler.errors import ExitCode


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_sentence_of_the_command(name: str) -> None:
    """`--help` of the program and of the command begin alike, and a hidden command is hidden in
    both.
    """
    command = load_command(name)
    assert command.help.startswith(COMMANDS[name][1])
    assert command.name == name or name == "sandbox"
    assert command.hidden == (name == "plan diff")


def test_the_help_of_plan_diff_says_how_to_type_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Its usage line once said `plan-diff`. The help of `plan` mentions it."""
    assert run(["plan", "diff", "--help"]) == 0
    assert "Usage: reconciler plan diff " in capsys.readouterr().out
    assert run(["plan", "--help"]) == 0
    assert "plan diff OLD NEW" in capsys.readouterr().out


@pytest.mark.parametrize("words", ["--version", "--help"])
def test_version_and_help_import_no_client_and_no_arrow(words: str) -> None:
    """Each costs more to import than the rest of the start: `--version` once took 1.5 s."""
    program = (
        "import sys\n"
        "from reconciler.cli.app import run\n"
        f"assert run({words.split()!r}) == 0\n"
        "heavy = {'confluent_kafka', 'pyarrow', 'pyspark', 'deepdiff', 'pydantic'} & sys.modules.keys()\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("words", [[], ["sandbox"]], ids=["alone", "a group"])
def test_without_a_command_the_help_lists_all_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the program prints a page, not an error with escapes, and truncates no
    line.
    """
    assert run(words) == ExitCode.USAGE
    page = capsys.readouterr().err
    assert page.startswith("Usage: reconciler")
    assert "error:" not in page
    assert "\\" not in page
    assert "..." not in page.split("Commands:")[1]
