"""The README agrees with the program; tests/unit/docs also compares its sample and follows its links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_names_each_kind_of_policy_with_its_kafka_request() -> None:
    """The table of kinds has every policy, and each request of the three operations."""
    rows = re.findall(r"^\| \[(\w+)\]\(docs/kinds/[a-z-]+\.md\) \| .* \| (\w+) ", README, re.MULTILINE)
    assert dict(rows) == {
        "RetentionFloor": "DeleteRecords",
        "GroupRemoval": "DeleteGroups",
        "LeaderPolicy": "ElectLeaders",
    }


def test_its_commands_work_in_a_clone() -> None:
    """It once named a command that no step before had put on PATH."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make ([a-z-]+)", README, re.MULTILINE)
    assert targets[0] == "setup"
    (venv,) = re.findall(r"^VENV +:= (\S+)$", makefile, re.MULTILINE)
    assert README.index(f'export PATH="$PWD/{venv}/bin:$PATH"') < README.index("    reconciler init")
    (program,) = re.findall(
        r'^(\w+) = "reconciler\.__main__:main"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert program == "reconciler"
