"""The code of every diagnostic, with the texts of `explain CODE` and of the documents.

M0xx files, M1xx text and shape, M2xx rules within one manifest, M3xx rules across manifests,
M4xx warnings, M5xx secrets. A code is never used again for another meaning.
"""

from reconciler.text.catalogue import read_catalogue

CODES = read_catalogue("reconciler.manifest", "error_codes.md")
"""Each text gives the reason for the rule, and what to do."""
