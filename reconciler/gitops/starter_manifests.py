"""Fills the templates of the manifests that `init` writes: a Cluster, and one example per policy.

The examples are harmless: they name topics and groups that no cluster has. A template is a file in
templates/, and becomes a file of the same name.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

SCHEMA = "schemas/manifest.json"
"""Path of the JSON Schema in the repository. The first line of each manifest names it for editors."""
_MODELINE = f"# yaml-language-server: $schema=../../{SCHEMA}\n"
_TEMPLATES = Path(__file__).parent / "templates"
_CLIENT_EXAMPLE = """\
  # client:                               # librdkafka properties, passed through
  #   security.protocol: SASL_SSL
  #   sasl.mechanism: SCRAM-SHA-512
  #   sasl.username: reconciler
  #   sasl.password: ${env:KAFKA_PASSWORD}  # or ${file:…}; a literal secret is refused"""
_JOURNAL_EXAMPLE = """\
  # journal:
  #   topic: _reconciler.journal          # an audit trail that survives a CI runner; default: a file"""


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
    written as quoted YAML text; the caller validates them, because the name is also a folder.
    """
    properties = [f"    {_quoted(key)}: {_quoted(value)}" for key, value in (client or {}).items()]
    values = {
        "name": _quoted(name),
        "cluster_id": _quoted(cluster_id),
        "bootstrap_servers": "\n".join(f"    - {_quoted(server)}" for server in bootstrap_servers),
        "client": "\n".join(["  client: # librdkafka properties, passed through", *properties]),
        "journal": f"  journal:\n    topic: {_quoted(journal_topic or '')}",
    }
    if not client:
        values["client"] = _CLIENT_EXAMPLE
    if not journal_topic:
        values["journal"] = _JOURNAL_EXAMPLE
    # Other dollar signs of a template stay, and a value is never taken for a template.
    return {
        f"manifests/{name}/{path.name}": _MODELINE + Template(path.read_text(encoding="utf-8")).safe_substitute(values)
        for path in sorted(_TEMPLATES.glob("*.yaml"))
    }


def _quoted(text: str) -> str:
    """Return a double-quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
