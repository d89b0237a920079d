"""The plan file: one JSON document, header first, then one decision per line in address order, so that it streams both ways.

Here: how a Plan becomes a file and a file a Plan again, and its digest. Not here: whether a plan may be applied (expiry, cluster,
limits), which apply asks. docs/plan.md explains the format to users.
"""

from reconciler.plan.document.digest import digest
from reconciler.plan.document.header import FORMAT_VERSION, Header
from reconciler.plan.document.reader import PlanFile, actions, header, open_plan, read
from reconciler.plan.document.schema import schema
from reconciler.plan.document.writer import dumps, lines, write

__all__ = [
    "FORMAT_VERSION",
    "Header",
    "PlanFile",
    "actions",
    "lines",
    "digest",
    "dumps",
    "header",
    "read",
    "open_plan",
    "schema",
    "write",
]
