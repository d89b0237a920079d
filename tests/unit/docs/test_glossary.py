"""docs/glossary.md: one sentence for each word, and every word of plans and results."""

import re
from pathlib import Path

from reconciler.model.outcome import Status
from reconciler.policies import POLICIES

PAGE = (Path(__file__).parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
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
    definition = dict(ENTRIES)["Policy"]
    assert all(policy.__name__ in definition for policy in POLICIES)
