"""A new kind of policy and a new operation need one file and one name each."""

import io
import sys
import tokenize
from pathlib import Path

import pytest

from reconciler.model.names import Address
from reconciler.operations import OPERATIONS
from reconciler.operations.base import Operation
from reconciler.policies import POLICIES, Policy
from tests.command import run_process

ROOT = Path(__file__).parents[2]


def test_a_registered_policy_and_operation_go_from_yaml_to_the_journal(tmp_path: Path) -> None:
    """Both classes are in tests/extension only, and registered in the two tuples."""
    answer = run_process(ROOT, sys.executable, "-m", "tests.extension.walk", tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "done\n"


@pytest.mark.parametrize("base", [Operation, Policy])
def test_a_class_that_lacks_a_method_cannot_be_instantiated(base: type) -> None:
    """The abstract methods replace a list of places that a new class must change."""
    incomplete = type("Incomplete", (base,), {})
    with pytest.raises(TypeError, match="abstract"):
        incomplete()


def test_registered_classes_lack_no_method() -> None:
    for registered in (*OPERATIONS, *POLICIES):
        assert not registered.__abstractmethods__, registered


def test_addresses_know_the_kinds_whose_subjects_are_groups() -> None:
    """A group may be called `orders[3]`. Its policy takes its subjects from the same rule as an address."""
    of_groups = [policy.__name__ for policy in POLICIES if policy.SUBJECTS == "groups"]
    assert of_groups == ["GroupRemoval"]
    for policy in POLICIES:
        assert Address.parse(f"{policy.__name__}/p/x[3]").is_of_group == (policy.SUBJECTS == "groups")


@pytest.mark.parametrize("path", sorted((ROOT / "reconciler" / "manifest").glob("*.py")), ids=lambda path: path.name)
def test_no_module_of_manifest_names_the_kind_of_a_policy(path: Path) -> None:
    """Such code would not know the next one; docstrings and messages may give examples."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    names = {token.string.strip("\"'") for token in tokens if token.type in (tokenize.NAME, tokenize.STRING)}
    assert names.isdisjoint(kind.__name__ for kind in POLICIES)
