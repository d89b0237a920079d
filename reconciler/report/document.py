"""Documents: what a command shows, before a format of `-o` lays it out.

A kind says which formats its documents have; each is laid out from the same report trees, except for
those that the document writes in its own way, such as its JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from reconciler.report.tree import NO_PAGES, Report

if TYPE_CHECKING:
    from rich.text import Text

Rendered: TypeAlias = "str | Iterable[str | Text]"
"""A document in one format. A large one comes in parts. Rich text is a line without its end."""

Outputs: TypeAlias = Mapping[str, str | int]
"""Outputs of a step on GitHub, by name: what chats and tickets need of a document.

Numbers and digests only: no name from a cluster or a manifest gets into another step. Names are an
interface: add, never rename. docs/github.md describes them.
"""


class Format(StrEnum):
    """Formats of `-o`; no kind of document has all of them."""

    TEXT = "text"
    MD = "md"
    HTML = "html"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"
    CLOUDEVENTS = "cloudevents"


class Kind(NamedTuple):
    """The documents of a command, and their formats in the order of messages; many have the same formats."""

    name: str
    formats: tuple[Format, ...]


_DATA = (Format.TEXT, Format.JSON)
_PAGES = (Format.TEXT, Format.MD, Format.HTML)
PLAN = Kind("a plan", (*_PAGES, Format.JSON, Format.GITHUB))
RESULTS = Kind("a result", PLAN.formats)
DRIFT = Kind("a drift report", PLAN.formats)
DIFF = Kind("a comparison", (*_PAGES, Format.JSON))
SUGGESTIONS = Kind("suggest", DIFF.formats)
RESTORE = Kind("restore-group", _PAGES)
EXPLANATION = Kind("an explanation", (Format.TEXT, Format.MD))
DIAGNOSTICS = Kind("a validation", (*_DATA, Format.GITHUB, Format.SARIF))
JOURNAL = Kind("the journal", (*_DATA, Format.CLOUDEVENTS))
DOCTOR = Kind("doctor", _DATA)
CLUSTERS = Kind("the list of clusters", _DATA)
SANDBOX = Kind("a sandbox", _DATA)


class View(NamedTuple):
    """Where a document is read: at a terminal, where a person types, or in a page that links codes.

    `pages`: the address of the page of each code. `stands_alone`: the page is read without the command
    and its output, so it names the next command.
    """

    at_terminal: bool = False
    pages: Mapping[str, str] = NO_PAGES
    stands_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a command shows.

    `trees`: builds its reports for a view. `values`: what the reports are of, for pictures.
    `writers`: format → what writes it in another way than from the trees. `outputs`: for the step of a workflow.
    """

    kind: Kind
    trees: Callable[[View], Sequence[Report]] = lambda _view: ()
    values: Sequence[Any] = ()
    writers: Mapping[str, Callable[[], Rendered]] = field(default_factory=dict)
    outputs: Callable[[], Outputs] = dict


class StepOutputs(dict[str, str | int]):
    """The outputs of all documents of a command: numbers add up, and a text that is not the same is empty."""

    def take(self, outputs: Outputs) -> None:
        """Add those of one more document."""
        for name, value in outputs.items():
            before = self.get(name)
            if isinstance(before, int) and isinstance(value, int):
                value += before
            elif before is not None and before != value:
                value = ""
            self[name] = value
