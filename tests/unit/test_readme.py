"""The README cannot rot: what it shows is what the program makes, and what it links to exists."""

import re
from pathlib import Path

from reconciler.cli import commands as verbs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CASE = ROOT / "tests" / "golden" / "01-a-whole-house"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert found, language
    return found[1]


def test_its_manifest_and_its_plan_are_those_of_a_golden_case() -> None:
    """The manifest shown is the case's, and the plan shown is what it makes of it."""
    policy = (CASE / "manifests" / "policy.yaml").read_text(encoding="utf-8")
    assert block("yaml") == policy, "comments too: the plan names lines"
    assert block("text") == (CASE / "plan.txt").read_text(encoding="utf-8")


def test_every_command_it_names_exists_and_none_is_left_out() -> None:
    """The table of commands is the program's."""
    named = set(
        re.findall(r"`([a-z]+)(?: [^`]*)?`", README[README.index("| command |") : README.index("| exit code |")])
    )
    commands = {name for name, entry in verbs.COMMANDS.items() if not entry.hidden}
    assert commands <= named
    assert named <= commands | {"mode"}


def test_every_page_it_links_to_exists() -> None:
    """A link that leads nowhere is worse than none."""
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
