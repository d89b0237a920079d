"""The first manifests of a repository: a Cluster, and one example per policy.

The examples of `templates/` name topics and groups that no cluster has.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from reconciler.policies.cluster import LIMITS

SCHEMA = "schemas/manifest.json"
"""Path of the JSON Schema in the repository; the first line of each manifest names it."""
IGNORE_FILE = ".gitignore"
IGNORED = ("/plan.json", "/plan.html", "/results.json", "/drift.json", ".reconciler/")
"""Lines of .gitignore: files of single runs, by their names in the documents, and journal files."""
_MODELINE = f"# yaml-language-server: $schema=../../{SCHEMA}\n"
_TEMPLATES = Path(__file__).parent / "templates"
_CLIENT_EXAMPLE = """\
  # client:                               # librdkafka properties, passed through
  #   security.protocol: SASL_SSL
  #   sasl.mechanism: SCRAM-SHA-512
  #   sasl.username: reconciler
  #   sasl.password: ${env:KAFKA_PASSWORD}  # or ${file:…}; a literal secret is refused"""
_PROTECT_EXAMPLE = """\
  # protect:                              # lose no records; are never removed
  #   topics: ["payments.*"]
  #   groups: [billing]"""
_JOURNAL_EXAMPLE = """\
  # journal:
  #   topic: _reconciler.journal          # an audit trail that survives a CI runner; default: a file"""


def starter_manifests(
    cluster_id: str,
    servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
) -> Mapping[str, str]:
    """Return path → text, relative to the root of the repository. `client`: librdkafka properties.

    Without them or without a journal topic, a comment shows how to add them. All arguments are
    written as quoted YAML text; the caller validates them, because the name is also a folder.
    """
    cluster = cluster_manifest(cluster_id, servers, name, client=client, journal_topic=journal_topic)
    # Other dollar signs of a template stay, and a value is never taken for a template.
    examples = {
        path.name: Template(path.read_text(encoding="utf-8")).safe_substitute(name=quoted_scalar(name))
        for path in sorted(_TEMPLATES.glob("*.yaml"))
    }
    return {
        f"manifests/{name}/{file}": _MODELINE + text for file, text in {**examples, "cluster.yaml": cluster}.items()
    }


def cluster_manifest(
    cluster_id: str,
    servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
    protected_topics: Sequence[str] = (),
    limits: Mapping[str, int] | None = None,
) -> str:
    """Return the text of a Cluster manifest. `limits`: those that differ from the defaults, by id.

    Otherwise as `starter_manifests`.
    """
    properties = [f"    {quoted_scalar(key)}: {quoted_scalar(value)}" for key, value in (client or {}).items()]
    topics = [f"      - {quoted_scalar(topic)}" for topic in protected_topics]
    bounds = {limit.id: (limits or {}).get(limit.id, limit.default) for limit in LIMITS}
    origin = "only a Waiver allows more" if limits else "these are the defaults, and only a Waiver allows more"
    values = {
        "name": quoted_scalar(name),
        "cluster_id": quoted_scalar(cluster_id),
        "bootstrap_servers": "\n".join(f"    - {quoted_scalar(server)}" for server in servers),
        "client": "\n".join(
            ["  client: # librdkafka properties, passed through", *properties] if client else [_CLIENT_EXAMPLE]
        ),
        "protect": "\n".join(
            ["  protect: # lose no records", "    topics:", *topics] if topics else [_PROTECT_EXAMPLE]
        ),
        "limits": "\n".join(
            [f"  limits: # of one plan; {origin}", *(f"    {key}: {most}" for key, most in bounds.items())]
        ),
        "journal": _JOURNAL_EXAMPLE
        if journal_topic is None
        else f"  journal:\n    topic: {quoted_scalar(journal_topic)}",
    }
    return Template((_TEMPLATES / "cluster.yaml").read_text(encoding="utf-8")).safe_substitute(values)


def ignore_file() -> str:
    """Return the .gitignore of a new repository."""
    return "# Plans, results and journals of reconciler: they belong to one run or one machine.\n" + "".join(
        f"{line}\n" for line in IGNORED
    )


def missing_ignores(text: str) -> list[str]:
    """Return the lines of IGNORED that a .gitignore lacks; a slash at either end does not matter."""
    present = {line.strip().strip("/") for line in text.splitlines()}
    return [line for line in IGNORED if line.strip("/") not in present]


def quoted_scalar(text: str) -> str:
    """Return a double-quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
