"""The first set of manifests that `init` writes: a Cluster, and one example of each kind that changes nothing until somebody edits it.

Harmless by construction: the examples name topics and groups that no cluster has, and a floor that keeps everything.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from reconciler.errors import UsageError
from reconciler.policies.fields import NAME_TEXT

_MODELINE = "# yaml-language-server: $schema="

_CLUSTER = """apiVersion: reconciler/v1
kind: Cluster
metadata:
  name: {name}
spec:
  clusterId: {cluster_id} # found by connecting; plan and apply refuse any other cluster
  bootstrapServers:
{servers}
{client}  # protect:                              # never lose records; never removed
  #   topics: ["payments.*"]
  #   groups: [billing]
  limits: # of one plan; these are the defaults, and only a Waiver gets past
    topics: 50
    recordsPercentPerTopic: 90
    recordsPercent: 50
    groups: 20
    groupsPercent: 50
    elections: 1000
    uncleanElections: 0
{journal}"""

_CLIENT = """  # client:                               # librdkafka properties, passed through
  #   security.protocol: SASL_SSL
  #   sasl.mechanism: SCRAM-SHA-512
  #   sasl.username: reconciler
  #   sasl.password: ${env:KAFKA_PASSWORD}  # or ${file:…}; a literal secret is refused
"""

_JOURNAL = """  # journal:
  #   topic: _reconciler.journal          # an audit trail that outlives a CI runner; default: a file
"""

_FLOOR = """apiVersion: reconciler/v1
kind: RetentionFloor
metadata:
  name: example-floor
  cluster: {name}
  owner: platform
  reason: an example; no cluster has a topic that this pattern matches
spec:
  topics: ["reconciler-example-*"] # exact names, globs, or regex:^test-[0-9]+$
  expectAtMost: 0 # topics that the pattern may match; more is refused
  keep: # what any rule keeps stays
    newerThan: 30d
    last: 1_000_000
    # unreadBy: [billing]           # whatever one of these groups has not committed past
  consumers: block # a group that is still behind the floor blocks it
"""

_REMOVAL = """apiVersion: reconciler/v1
kind: GroupRemoval
metadata:
  name: example-removal
  cluster: {name}
  owner: platform
  reason: an example; no cluster has a group that this pattern matches
spec:
  groups: ["reconciler-example-*"]
  expectAtMost: 0
  idleFor: 7d # evidence from the commit log: EMPTY alone is not unused
"""

_LEADERS = """apiVersion: reconciler/v1
kind: LeaderPolicy
metadata:
  name: example-leaders
  cluster: {name}
  owner: platform
  reason: an example; no cluster has a topic that this pattern matches
spec:
  topics: ["reconciler-example-*"] # ["*"] for all of the cluster
  election: preferred
  tolerance: 0
"""


def starter_manifests(
    cluster_id: str,
    bootstrap_servers: Sequence[str],
    name: str,
    *,
    client: Mapping[str, str] | None = None,
    journal_topic: str | None = None,
    schema: str = "schemas/manifest.json",
) -> Mapping[str, str]:
    """Path → text, relative to the repository's root. `schema`: the schema file's path from there.

    `client`: librdkafka properties, references such as ${env:KAFKA_PASSWORD} among them. None for it or the journal: a comment
    that shows how.

    What the caller passes is written as YAML text in quotes, whatever it holds; `load` refuses what cannot be right.
    Raises UsageError for a name that no manifest can have, since it becomes a folder, too.
    """
    if not re.fullmatch(NAME_TEXT, name):
        raise UsageError(f"a Cluster cannot be called {name!r}: lower-case letters, digits, `.` and `-`, at most 63")
    servers = "\n".join(f"    - {_quoted(server)}" for server in bootstrap_servers)
    cluster = _CLUSTER.format(
        name=_quoted(name),
        cluster_id=_quoted(cluster_id),
        servers=servers,
        client=_client(client) if client else _CLIENT,
        journal=f"  journal:\n    topic: {_quoted(journal_topic)}\n" if journal_topic else _JOURNAL,
    )
    texts = {
        f"manifests/{name}/cluster.yaml": cluster,
        f"manifests/{name}/retention.yaml": _FLOOR.format(name=_quoted(name)),
        f"manifests/{name}/groups.yaml": _REMOVAL.format(name=_quoted(name)),
        f"manifests/{name}/leaders.yaml": _LEADERS.format(name=_quoted(name)),
    }
    return {path: f"{_MODELINE}{_upwards(path)}{schema}\n{text}" for path, text in texts.items()}


def _client(properties: Mapping[str, str]) -> str:
    lines = (f"    {_quoted(name)}: {_quoted(value)}\n" for name, value in properties.items())
    return "  client: # librdkafka properties, passed through\n" + "".join(lines)


def _upwards(path: str) -> str:
    return "../" * (len(PurePosixPath(path).parts) - 1)


def _quoted(text: str) -> str:
    """A double-quoted YAML scalar."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'
