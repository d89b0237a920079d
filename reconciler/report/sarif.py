"""Writes a report as a SARIF log: its errors and warnings at the manifests' lines.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

import json
from typing import Any
from urllib.parse import quote

from reconciler.manifest.error_codes import CODES
from reconciler.report.annotations import describe, problems
from reconciler.report.tree import Item, Report
from reconciler.text.escape import harmless_json

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def write_sarif(report: Report) -> str:
    """Write one run with all items of ERROR and WARNING, whose codes are those of manifests."""
    items = problems(report)
    codes = sorted({item.code for item in items})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].explanation},
        }
        for code in codes
    ]
    results = [
        {
            "ruleId": item.code,
            "ruleIndex": codes.index(item.code),
            "level": item.severity,
            "message": {"text": describe(item)},
            "locations": _locations(item),
            "relatedLocations": [
                location | {"message": {"text": describe(child)}}
                for child in item.children
                for location in _locations(child)
            ],
        }
        for item in items
    ]
    tool = {"driver": {"name": "reconciler", "rules": rules}}
    run = {"tool": tool, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return harmless_json(json.dumps(log, indent=2)) + "\n"


def _locations(item: Item) -> list[dict[str, Any]]:
    """Return the location in a list, which is empty without a file."""
    location, (end_line, end_column) = item.location, item.end
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path, errors="surrogateescape")}}
    if location.line:
        place["region"] = {"startLine": location.line, "startColumn": location.column}
        if item.end > (location.line, location.column):
            place["region"] |= {"endLine": end_line, "endColumn": end_column}
    return [{"physicalLocation": place}] if location.path else []
