"""All codes that messages show, with the texts of `explain CODE` and the page of each.

M codes are of manifests, B codes of blocked subjects. A limit has the name that manifests give it,
an exit code the name `exit-3`. A code keeps its meaning and the path of its page forever.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import ExitCode
from reconciler.manifest.error_codes import CODES
from reconciler.model.block_reason import BLOCK_CODES
from reconciler.operations.base import Limit
from reconciler.policies.cluster import CONNECTION, LIMITS
from reconciler.text.formatting import format_duration


@dataclass(frozen=True, slots=True)
class CodeText:
    """One code, its title and its explanation, a paragraph of Markdown."""

    code: str
    title: str
    explanation: str

    def page(self, docs_url: str | None) -> str:
        """Return where to read more: an address where the docs are served, otherwise the file of the repository."""
        if docs_url:
            return f"{docs_url.rstrip('/')}/docs/codes/{self.code}/"
        return f"docs/codes/{self.code}.md"


_EXIT_CODES = """\
0 done
    `plan`, `show`: no limit refuses the plan, and with `--detailed-exitcode` the plan has no
    action. `apply`, `converge`: done. `drift`: in sync.
1 error
    Invalid manifests, an unreachable cluster, a bug. `apply`, `restore-group`: an action failed or
    was not attempted, and nothing was written. `drift`, `converge`: the program could not read
    enough to decide. `doctor`: a right is missing, or a broker does not answer. `doctor --github`:
    a protection is missing, or GitHub gives no answer.
2 actions or drift
    `plan`, `show` with `--detailed-exitcode`: the plan has actions. `drift`: there is drift.
3 refused
    A limit or a protection refused the plan; nothing was done. `plan --fail-on`: the plan has what
    the option names. `restore-group`: the group exists.
4 plan unusable
    The plan is stale, expired or for another cluster; nothing was done. `apply --release`: the
    manifests are not those of the plan. `converge`: the manifests changed during the scan, or git was
    changing them; with `--reviewed`, they are not those of the newest release.
    `restore-group`: the same for the results file, or no offset still means the same records.
5 partly applied
    Something was written and something was not.
64 wrong usage
    The words of the command line do not fit together, or an option has a wrong value. Nothing was
    read or written.
130 interrupted
    A signal ended the command before any write.
"""


def _exit_codes() -> Mapping[str, CodeText]:
    paragraphs = re.findall(r"^(\d+) (.+)\n((?: .+\n)+)", _EXIT_CODES, re.MULTILINE)
    texts = {int(number): (title, " ".join(paragraph.split())) for number, title, paragraph in paragraphs}
    codes = (CodeText(f"exit-{code.value}", *texts[code.value]) for code in ExitCode)
    return {entry.code: entry for entry in codes}


def _limit(limit: Limit) -> CodeText:
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
    return CodeText(limit.id, limit.words, explanation)


EXIT_CODES: Mapping[str, CodeText] = _exit_codes()
LIMIT_CODES: Mapping[str, CodeText] = {limit.id: _limit(limit) for limit in (*LIMITS, CONNECTION)}
ALL_CODES: Mapping[str, CodeText] = {
    **{code: CodeText(code, entry.title, entry.explanation) for code, entry in CODES.items()},
    **{code: CodeText(code, entry.title, entry.explanation) for code, entry in BLOCK_CODES.items()},
    **LIMIT_CODES,
    **EXIT_CODES,
}
"""Code → its text: M codes, B codes, limits and exit codes, in this order."""


def pages(docs_url: str | None) -> Mapping[str, str]:
    """Return the address of the page of each code; without an address of the docs, of none."""
    return {code: entry.page(docs_url) for code, entry in ALL_CODES.items()} if docs_url else {}


def find_code(word: str) -> CodeText | None:
    """Return the code that a user typed in any case, or None. A number is an exit code."""
    name = f"exit-{word}" if word.isdecimal() else word
    return {code.casefold(): entry for code, entry in ALL_CODES.items()}.get(name.casefold())
