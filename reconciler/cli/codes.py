"""All codes that messages show, with the texts of `explain CODE` and the page of each.

M codes are of manifests, B codes of blocked subjects. A limit has the name that manifests give it,
an exit code the name `exit-3`. A code keeps its meaning and the path of its page forever.
"""

from collections.abc import Mapping

from reconciler.manifest.error_codes import CODES
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.operations.base import Limit
from reconciler.policies.cluster import CONNECTION, LIMITS
from reconciler.text.catalogue import Entry, read_catalogue
from reconciler.text.formatting import format_duration


def _limit(limit: Limit) -> Entry:
    """Return the text of a limit, which follows from its definition."""
    unit = " %" if limit.is_percent else ""
    place = f"The Cluster sets it as `spec.limits.{limit.id}`."
    if limit.fixed:
        place = "No Cluster can raise it."
    days = format_duration(limit.waiver_max_ms)
    explanation = (
        f"{limit.words[0].upper()}{limit.words[1:]}: at most {limit.default}{unit} by default. {place} A limit never"
        f" removes an action: it refuses the plan as a whole, with exit code 3, and nothing happens. The message names"
        f" the policy that causes most of it. Next: {limit.remedy}, or let a reviewed Waiver of `{limit.id}` allow this"
        f" policy more until an instant at most {days} ahead."
    )
    return Entry(limit.id, limit.words, explanation)


LIMIT_CODES = {limit.id: _limit(limit) for limit in (*LIMITS, CONNECTION)}
EXIT_CODES = {
    f"exit-{number}": entry._replace(code=f"exit-{number}")
    for number, entry in read_catalogue("reconciler.cli", "exit_codes.md").items()
}
ALL_CODES: Mapping[str, Entry] = {**CODES, **BLOCK_CODES, **LIMIT_CODES, **EXIT_CODES}
"""Code → its text: M codes, B codes, limits and exit codes, in this order."""


def page(code: str, docs_url: str | None) -> str:
    """Return where to read more: an address where the docs are served, otherwise the file of the repository."""
    return f"{docs_url.rstrip('/')}/docs/codes/{code}/" if docs_url else f"docs/codes/{code}.md"


def pages(docs_url: str | None) -> Mapping[str, str]:
    """Return the address of the page of each code; without an address of the docs, of none."""
    return {code: page(code, docs_url) for code in ALL_CODES} if docs_url else {}


def find_code(word: str) -> Entry | None:
    """Return the code that a user typed in any case, or None. A number is an exit code."""
    name = f"exit-{word}" if word.isdecimal() else word
    return {code.casefold(): entry for code, entry in ALL_CODES.items()}.get(name.casefold())
