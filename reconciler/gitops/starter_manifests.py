"""Fills the templates of the manifests that `init` writes: a Cluster, and one example per policy.

The examples are harmless: they name topics and groups that no cluster has. A template is a file in
templates/, and becomes a file of the same name.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.errors import UsageError
from reconciler.policies.fields import NAME_TEXT

SCHEMA = "schemas/manifest.json"
"""The path of the JSON Schema in the repository, to which the first line of each manifest points editors."""
_MODELINE = f"# yaml-language-server: $schema=../../{SCHEMA}\n"
_TEMPLATES = Path(__file__).parent / "templates"


def starter_manifests(
    cluster_id: str,
    bootstrap_servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
) -> Mapping[str, str]:
    """Return path → text, relative to the root of the repository.

    `client`: librdkafka properties, with references such as ${env:KAFKA_PASSWORD}. Without them or
    without a journal topic, the file holds a comment that shows how to add them. All arguments are
    written as quoted YAML text; loading refuses invalid values.

    Raises UsageError for an invalid name, because the name is also a folder.
    """
    if not re.fullmatch(NAME_TEXT, name):
        raise UsageError(
            f"{name!r} is not a valid name of a Cluster: use lower-case letters, digits, `.` and `-`, at most 63 characters"
        )
    values = {
        "name": _quoted(name),
        "cluster_id": _quoted(cluster_id),
        "bootstrap_servers": "\n".join(f"    - {_quoted(server)}" for server in bootstrap_servers),
    }
    properties = "".join(f"    {_quoted(key)}: {_quoted(value)}\n" for key, value in (client or {}).items())
    sections = {
        "client": properties and f"  client: # librdkafka properties, passed through\n{properties}",
        "journal": f"  journal:\n    topic: {_quoted(journal_topic)}\n" if journal_topic else "",
    }
    return {
        f"manifests/{name}/{template.name}": _MODELINE + _fill(template.read_text(encoding="utf-8"), values, sections)
        for template in sorted(_TEMPLATES.glob("*.yaml"))
    }


def _fill(template: str, values: Mapping[str, str], sections: Mapping[str, str]) -> str:
    """Fill each `{{value}}`, and each `{{section:}} … {{:section}}` that has a text in `sections`.

    A section without a text keeps its default. One pass fills both, so that the text of a section is
    never taken for a template.
    """

    def replacement(match: re.Match[str]) -> str:
        return values[match["value"]] if match["value"] else sections[match["section"]] or match["default"]

    pattern = r"\{\{(?P<section>\w+):\}\}\n(?P<default>.*?)\{\{:(?P=section)\}\}\n|\{\{(?P<value>\w+)\}\}"
    return re.sub(pattern, replacement, template, flags=re.DOTALL)


def _quoted(text: str) -> str:
    """Return a double-quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
