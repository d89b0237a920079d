"""The pages of the docs: lengths, words, and the glossary."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from reconciler.model.outcome import Status
from reconciler.policies import POLICIES
from tests.unit.docs.pages import ROOT, read

PAGE = read("docs/glossary.md")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*: ((?:.+\n)(?:  .+\n)*)", PAGE, re.MULTILINE)


def test_each_word_has_one_sentence_and_stands_once() -> None:
    words = [word for word, _ in ENTRIES]
    assert len(ENTRIES) == len(re.findall(r"^- ", PAGE, re.MULTILINE)) > 50
    assert len({word.casefold() for word in words}) == len(words)
    for word, text in ENTRIES:
        sentence = " ".join(text.split())
        assert sentence.endswith("."), word
        assert not re.search(r"[.!?] [A-Z]", sentence), f"{word}: more than one sentence"


def test_every_status_and_kind_is_explained() -> None:
    """A new status of results, or a new kind of policy, needs its words here."""
    words = {word.casefold() for word, _ in ENTRIES}
    assert {status.value.replace("_", " ") for status in Status} <= words
    assert {"action", "satisfied", "waiting", "skipped", "blocked"} <= words
    assert {"behind", "caveat", "incomplete", "not seen", "unmatched"} <= words, "labels of a plan"
    definition = dict(ENTRIES)["Policy"]
    assert all(policy.__name__ in definition for policy in POLICIES)


PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
CATALOGUES = {"commands.md"}
"""Generated pages that a person searches and does not read as a whole."""
MOST_LINES = {"ARCHITECTURE.md": 120}
"""300 for all others."""
LONGEST_LINE = 100


def prose(page: Path) -> str:
    """Return the text without generated parts, code blocks and tables."""
    text = re.sub(r"<!-- generated: .*?<!-- end -->", "", read(page), flags=re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ *\|.*$", "", text, flags=re.MULTILINE)


def wrong(find: Callable[[Path], Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return what `find` finds wrong, by the path of the page. One test reads all pages: thousands would take seconds."""
    return {str(page.relative_to(ROOT)): found for page in PAGES if (found := find(page))}


def test_no_page_is_too_long_to_read() -> None:
    def lines_over_the_limit(page: Path) -> Sequence[str]:
        lines = read(page).splitlines()
        return [] if page.name in CATALOGUES else lines[MOST_LINES.get(page.name, 300) :]

    assert wrong(lines_over_the_limit) == {}


def test_no_line_of_prose_is_too_long() -> None:
    """A line without a space, such as a URL, cannot be broken and may be longer."""

    def long_lines(page: Path) -> Sequence[str]:
        return [line for line in prose(page).splitlines() if " " in line.strip() and len(line) > LONGEST_LINE]

    assert wrong(long_lines) == {}


def test_no_sentence_has_a_vague_subject() -> None:
    """`nobody`, `somebody`, `whoever` and similar words hide who does what."""
    vague = re.compile(r"\b(?:nobody|somebody|anybody|whoever|whomever)\b", re.IGNORECASE)
    assert wrong(lambda page: vague.findall(prose(page))) == {}


def test_a_decision_has_10_to_40_lines() -> None:
    lines = {page.name: len(read(page).splitlines()) for page in (ROOT / "docs" / "adr").glob("*.md")}
    assert len(lines) > 30
    assert {name: number for name, number in lines.items() if not 10 <= number <= 40} == {}
