"""The report tree: what every document consists of, before any medium lays it out.

A builder per document makes a `Report`; a writer per medium renders any of them. Items are made on
demand, so that the report of a million actions never stands in memory.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from reconciler.model.description import Fact
from reconciler.model.names import NOWHERE, Address, SourceLocation, TopicPartition, format_address, format_subject
from reconciler.model.plan import Unmatched
from reconciler.text import formatting
from reconciler.text.escape import quoted
from reconciler.text.phrase import Phrase, escaped_name, sentence

CAUSES_MAX = 5
"""Causes of one sort, such as topics of one policy, that have an item each; more are one item."""

NO_PAGES: Mapping[str, str] = {}
"""Addresses of the pages of codes, where no docs are served."""

_WORD = re.compile(r"[\w./\[\]-]+")
"""Characters of topics, partitions, addresses and paths."""
T = TypeVar("T")


class Severity(StrEnum):
    """What an item means to its reader, the worst first. ERROR and WARNING also become annotations."""

    ERROR = "error"
    LOSS = "loss"
    WARNING = "warning"
    CHANGE = "change"
    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One statement of a report.

    `label`: the sort of statement, such as `Blocked`. `text`: what is said of the subject. `loss`: what
    cannot be undone. `code`: a stable id of the statement. `end`: line and column before which the text
    at `location` ends; 0: unknown. `facts`: labelled values, for explanations. `counts`: of a total, its
    subjects by their sort.
    """

    label: str = ""
    subject: Phrase = ()
    text: Phrase = ()
    loss: Phrase = ()
    severity: Severity = Severity.PLAIN
    code: str = ""
    location: SourceLocation = NOWHERE
    end: tuple[int, int] = (0, 0)
    facts: tuple[Fact, ...] = ()
    children: tuple["Item", ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Items:
    """Items that `make` yields at each reading: `count` of them; 0: none.

    `exact` False: at most so many.
    """

    count: int
    make: Callable[[], Iterable[Item]]
    exact: bool = True

    @classmethod
    def of(cls, sources: Sequence[T], make: Callable[[T], Item]) -> "Items":
        """Return one item for each source."""
        return cls(len(sources), lambda: map(make, sources))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Item]:
        return iter(self.make())


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Items that belong together.

    `heading`: a page shows it. A terminal shows it where `labelled` is False; otherwise the label
    of each item says the same, and a page leaves the labels out. `subject`, `location`, `note`: the
    policy of the items, where it was declared, its owner and reason; a terminal shows the last two
    only in full. `name`: the policy without its kind, for the line of a single item. `severity`: of
    the heading; annotations look only into sections of ERROR and WARNING. `open_items`: how many a
    page shows before the reader opens the rest, of items whose length is exact; None: all.
    `optional`: a terminal shows the section only in full. `limit_chars`: characters that a page
    spends on the items, so that later sections have a place, too; None: all that there are.
    `are_totals`: the items are the totals of the report, by their labels.
    """

    heading: Phrase = ()
    subject: Phrase = ()
    name: Phrase = ()
    location: SourceLocation = NOWHERE
    note: tuple[Fact, ...] = ()
    items: Items | tuple[Item, ...] = ()
    severity: Severity = Severity.PLAIN
    labelled: bool = True
    open_items: int | None = None
    optional: bool = False
    limit_chars: int | None = None
    are_totals: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One document.

    `title`: its name in an annotation, raw text; empty: it has none. `headline`: the answer in one line; a page begins
    with it. `opening`: what the document is about; a terminal begins with it, or with the headline
    where there is none. `summary`: the totals, where no section has them; a terminal ends with it,
    or with the headline. `next_steps`: what to do now, the last lines. `footer`: identity, then age
    of the document; a terminal leaves it out where `is_quiet`, when there is nothing to do.
    `page_note`: what only a page says below it. `marker`: kind and values of a hidden line that
    workflows read; a value of None says whether the writer cut the text. `remainder`: where to read
    what was cut, such as `in the plan file`. `is_full`: a terminal shows optional sections, too.
    """

    title: str = ""
    headline: Phrase = ()
    opening: Phrase = ()
    summary: Phrase = ()
    sections: tuple[Section, ...] = ()
    next_steps: tuple[Phrase, ...] = ()
    footer: tuple[Phrase, ...] = ()
    is_quiet: bool = False
    page_note: Phrase = ()
    marker: tuple[str, tuple[tuple[str, str | None], ...]] | None = None
    remainder: Phrase = ()
    is_full: bool = False


def group_equal(values: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[list[T]]:
    """Yield values with equal keys together, in the order in which their keys first appear."""
    groups: dict[Hashable, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    yield from groups.values()


def fold_causes(
    values: Iterable[T], key: Callable[[T], tuple[Hashable, Hashable]], *, at_most: int = CAUSES_MAX
) -> Iterator[list[T]]:
    """Yield the values of each item: those of one sort by cause, and more than `at_most` causes together.

    `key`: returns sort and cause.
    """
    for same in group_equal(((value, key(value)) for value in values), lambda pair: pair[1][0]):
        causes = list(group_equal(same, lambda pair: pair[1][1]))
        yield from ([value for value, _key in of] for of in (causes if len(causes) <= at_most else [same]))


def cause_of(reason: str, address: Address) -> str:
    """Return a reason without the name of its subject: the same for all subjects of one cause.

    Reasons have groups in quotes, and topics and partitions as whole words: `orders` is not in
    `orders-gdpr`, nor in the name of a policy or a file.
    """
    if not address.name:
        return reason
    if address.is_of_group:
        return reason.replace(str(address), f"{address.policy_address}/…").replace(quoted(address.name), "…")
    name = str(TopicPartition(address.name, address.partition)) if address.partition >= 0 else address.name
    if name not in reason:  # there may be a million reasons
        return reason
    stand_ins = {name: "…", f"{name}.": "….", str(address): f"{address.policy_address}/…"}
    return _WORD.sub(lambda word: stand_ins.get(word[0], word[0]), reason)


def format_subjects(addresses: Sequence[Address]) -> Phrase:
    """Return what items are about: `orders[5]`, `64 partitions of orders`, `a, b, c and 3 more`."""
    if len(addresses) == 1:
        return (escaped_name(format_subject(addresses[0])),)
    topics = dict.fromkeys(format_subject(Address(a.kind, a.policy, a.name)) for a in addresses)
    names = escaped_name(formatting.first_few(list(topics)))
    are_partitions = all(address.partition >= 0 for address in addresses)
    return (f"{formatting.count(len(addresses), 'partition')} of ", names) if are_partitions else (names,)


def caveat_items(caveats: Iterable[tuple[Address, str]]) -> Iterator[Item]:
    """Yield one item for each caveat, with all that it is about."""
    for same in group_equal(caveats, lambda pair: pair[1]):
        subject, text = format_subjects([address for address, _caveat in same]), (sentence(same[0][1]),)
        yield Item(label="Caveat", subject=subject, text=text, severity=Severity.WARNING)


def unmatched_item(warning: Unmatched) -> Item:
    """The item of a policy that probably means something else, in a plan and in a drift report."""
    subject, end = (escaped_name(format_address(warning.policy)),), "" if warning.reason.endswith("?") else "."
    text = (sentence(warning.reason), f"{end} Next: ", sentence(warning.next_step))
    severity, location = Severity.WARNING, warning.declared_at
    return Item(label="Unmatched", subject=subject, text=text, severity=severity, location=location)
