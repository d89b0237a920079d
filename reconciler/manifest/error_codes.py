"""The code of every diagnostic, with the texts of `explain CODE` and of the documents.

M0xx files, M1xx text and shape, M2xx rules within one manifest, M3xx rules across manifests,
M4xx warnings, M5xx secrets. A code is never used again for another meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.text.catalogue import read_catalogue


@dataclass(frozen=True, slots=True)
class Code:
    """A short title, and a paragraph: the reason for the rule, and what to do."""

    title: str
    explanation: str


CODES: Mapping[str, Code] = {
    code: Code(title, explanation)
    for code, _word, title, explanation in read_catalogue("reconciler.manifest", "error_codes.md")
}
