"""The table of commands: what it says is what the commands say, and typing one imports that one only."""

import subprocess
import sys

import pytest

from reconciler.cli import commands
from reconciler.cli.app import EXIT_USAGE, run


@pytest.mark.parametrize("verb", commands.TOLD)
def test_the_line_of_the_table_is_the_first_sentence_of_the_command(verb: commands.Verb) -> None:
    """`--help` of the program and of the command begin alike, and a command hidden in one is hidden in the other."""
    found = commands.command(verb)
    assert found.help.startswith(commands.TOLD[verb])
    assert found.name == verb or verb == "sandbox"
    assert found.hidden == (verb in commands.HIDDEN)


@pytest.mark.parametrize("words", ["--version", "--help"])
def test_what_needs_no_cluster_imports_no_client_and_no_arrow(words: str) -> None:
    """Each costs more to import than the rest of the start: `--version` once took 1.5 s."""
    program = (
        "import sys\n"
        "from reconciler.cli.app import run\n"
        f"assert run({words.split()!r}) == 0\n"
        "heavy = {'confluent_kafka', 'pyarrow', 'pyspark', 'deepdiff', 'pydantic'} & sys.modules.keys()\n"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [[], ["sandbox"]], ids=["alone", "a group"])
def test_no_verb_shows_them_all_as_they_are(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing that somebody types: a page, not an error with escapes, and no line of it cut short."""
    assert run(words) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.startswith("Usage: reconciler")
    assert "error:" not in said
    assert "\\" not in said
    assert "..." not in said.split("Commands:")[1]
