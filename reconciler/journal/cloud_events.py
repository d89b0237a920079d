"""Entries of the journal as CloudEvents 1.0, for collectors of audit logs: one event a line, as JSON.

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
"""

import hashlib
import json
from urllib.parse import quote

from reconciler.journal.entry import JournalEntry, dump
from reconciler.journal.release import Approval, Release
from reconciler.text.escape import harmless_json
from reconciler.text.formatting import format_exact_instant


def dump_event(entry: JournalEntry | Approval, cluster_id: str) -> str:
    """Return an entry as an event, without its newline. `data` is the line of `journal -o json`.

    `id` is a hash of that line: the same entry has the same id in every export, whatever the journal
    has lost or got since, so a collector can drop what it has.
    """
    line = dump(entry)
    if isinstance(entry, JournalEntry):
        kind, subject = f"action.{entry.event}", str(entry.address)
    else:
        kind, subject = "manifests.released" if isinstance(entry, Release) else "manifests.reviewed", "manifests"
    event = {
        "specversion": "1.0",
        "id": hashlib.sha256(line.encode("ascii")).hexdigest()[:32],
        "source": f"urn:kafka-reconciler:cluster:{quote(cluster_id, safe='')}",
        "type": f"kafka-reconciler.{kind}",
        "subject": subject,
        "time": format_exact_instant(entry.at_ms),
        "datacontenttype": "application/json",
        "data": json.loads(line),
    }
    return harmless_json(json.dumps(event, separators=(",", ":")))
