"""ARCHITECTURE.md: its paths exist, its tree is complete, and its sizes are those of the code."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, read

PACKAGE = ROOT / "reconciler"
PAGE = read("ARCHITECTURE.md")
TREE = next(
    block for block in re.findall(r"(?:^ {4}.*\n)+", PAGE, re.MULTILINE) if block.startswith("    reconciler/\n")
)
TOLERANCE = 0.03


def tree_names() -> set[str]:
    """Names below `reconciler/` in the tree: folders end in `/`."""
    lines = [line[6:] for line in TREE.splitlines() if line.startswith("      ")]
    return {name for line in lines for name in re.findall(r"^\S+|(?<=\s)\w+\.py", line)}


def count_lines(*files: Path) -> int:
    return sum(len(read(file).splitlines()) for file in files)


def measured_sizes() -> dict[str, int]:
    """First column of the size table → lines of Python now."""
    packages = sorted(path.parent for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "companions")
    core = {package.name: count_lines(*package.rglob("*.py")) for package in packages}
    core["top-level modules"] = count_lines(*PACKAGE.glob("*.py"))
    folders = sorted(path.parent for path in PACKAGE.glob("companions/*/__init__.py"))
    companions = {f"companions/{folder.name}": count_lines(*folder.rglob("*.py")) for folder in folders}
    modules = count_lines(*PACKAGE.glob("companions/*.py"))
    others = sum(companions.values()) + modules - companions["companions/sandbox"]
    return {**core, "core": sum(core.values()), **companions, "companions without `sandbox`": others}


def size_table() -> dict[str, int]:
    """First column of the size table → the figure under `now`."""
    rows = re.findall(r"^\| (.+?) \| [\d,]+ \| (.+?) \|$", PAGE.partition("## Size")[2], re.MULTILINE)
    return {re.sub(r"^`([\w/]+)`$", r"\1", name): int(now.replace(",", "")) for name, now in rows}


def test_every_path_that_the_page_names_exists() -> None:
    """In the repository or below `reconciler/`, also where it is a folder."""
    text = PAGE.replace(TREE, "")
    paths = set(re.findall(r"`([\w.-]+/[\w./-]*|[\w-]+\.(?:py|toml|md))`", text))
    assert len(paths) > 10
    assert [path for path in sorted(paths) if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def test_the_tree_holds_every_package_and_module_and_no_other() -> None:
    """The tree is the listing of `reconciler/`; the folders below it exist, too."""
    modules = {path.name for path in PACKAGE.glob("*.py")}
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert tree_names() == modules | packages
    other_folders = [word for line in TREE.splitlines()[1:] if line[4] != " " for word in re.findall(r"\S+/", line)]
    assert "tools/" in other_folders
    assert [name for name in other_folders if not (ROOT / name).is_dir()] == []


@pytest.mark.parametrize(("package", "name"), [("policies", "POLICIES"), ("operations", "OPERATIONS")])
def test_the_lists_are_where_the_page_says(package: str, name: str) -> None:
    module = f"reconciler/{package}/__init__.py"
    assert re.search(rf"`{name}`\s+in\s+`{module}`", PAGE)
    assert re.search(rf"^{name}\b", read(module), re.MULTILINE)


@pytest.mark.parametrize(
    ("concept", "modules"),
    [("policy", ["policies/base.py"]), ("operation", ["operations/base.py", "operations/sendable.py"])],
)
def test_the_base_classes_have_the_methods_that_the_page_names(concept: str, modules: list[str]) -> None:
    bullet = re.search(rf"^- An? \*\*{concept}\*\*(.*?)(?=^- |^$)", PAGE, re.MULTILINE | re.DOTALL)
    assert bullet
    methods = set(re.findall(r"`(\w+)`", bullet[1]))
    assert len(methods) >= 5
    bases = "".join((PACKAGE / module).read_text(encoding="utf-8") for module in modules)
    assert methods - set(re.findall(r"def (\w+)\(", bases)) == set()


def test_sizes_are_those_of_the_code() -> None:
    """Each package has a row, whose figure is within 3 % of the lines counted now."""
    page, counted = size_table(), measured_sizes()
    assert page.keys() == counted.keys()
    wrong = {name for name, lines in counted.items() if abs(page[name] - lines) > TOLERANCE * lines}
    assert {name: (page[name], counted[name]) for name in wrong} == {}


def test_no_two_public_classes_have_one_name() -> None:
    """A name in a traceback or a review leads to one class."""
    texts = (read(path) for path in PACKAGE.rglob("*.py"))
    names = Counter(name for text in texts for name in re.findall(r"^class ([A-Z]\w*)", text, re.MULTILINE))
    assert [name for name, number in names.items() if number > 1] == []
