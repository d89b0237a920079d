"""The first connection to a cluster: starter manifests and workflows, and the journal's topic on request.

Creates nothing on a cluster except that topic.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing

from pydantic import ValidationError

from reconciler import __version__, gitops
from reconciler.errors import UsageError
from reconciler.gitops import install_source
from reconciler.gitops.starter_manifests import starter_manifests
from reconciler.kafka import connect, journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import schema, secrets
from reconciler.pipeline import RunOptions
from reconciler.policies.cluster import Cluster

SCHEMA = "schemas/manifest.json"


def first_files(
    bootstrap_servers: Sequence[str],
    name: str,
    run: RunOptions,
    *,
    client: Mapping[str, str],
    journal: str | None = None,
    workflows: Mapping[str, str],
) -> Mapping[str, str]:
    """Path → text of a first repository for the cluster at these addresses.

    `client`: librdkafka properties as in a manifest, with references for secrets. `journal`: name of the
    journal's topic. `workflows`: from `workflow_files`, or empty. Raises UsageError for values that no
    manifest may have, and ClusterUnreachable.
    """
    connection = _connection(bootstrap_servers, name, client, run, journal)
    run.progress(f"reading the cluster id from {', '.join(bootstrap_servers)}")
    cluster_id = connect.cluster_id(connection)
    manifests = starter_manifests(
        cluster_id, bootstrap_servers, name, client=client, journal_topic=journal, schema=SCHEMA
    )
    return {**manifests, SCHEMA: schema.schemas()["manifest.json"], **workflows}


def workflow_files(action: str | None) -> Mapping[str, str]:
    """Path → text of the workflows.

    `action`: OWNER/NAME@COMMIT, from which the workflows install this program; None: the source of this
    installation. Raises UsageError where neither is known.
    """
    source = install_source.parse_action_ref(action) if action else install_source.installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and the commit of this installation is "
            "unknown: add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    return {str(path): text for path, text in gitops.github(source, version=__version__).items()}


def create_journal_topic(
    bootstrap_servers: Sequence[str], name: str, run: RunOptions, *, client: Mapping[str, str], topic: str
) -> None:
    """Create the journal's topic with unlimited retention. An existing one is not changed. Raises JournalUnavailable."""
    run.progress(f"creating the topic {topic}")
    with closing(KafkaSession(_connection(bootstrap_servers, name, client, run))) as session:
        journal_topic.create_topic(session, topic)


def _connection(
    bootstrap_servers: Sequence[str],
    name: str,
    client: Mapping[str, str],
    run: RunOptions,
    journal: str | None = None,
) -> Connection:
    """The connection of a Cluster manifest with these values. Raises UsageError for an invalid manifest."""
    try:
        cluster = Cluster.model_validate(
            {
                "apiVersion": "reconciler/v1",
                "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {
                    "clusterId": "unknown",
                    "bootstrapServers": list(bootstrap_servers),
                    "client": dict(client),
                    "journal": {} if journal is None else {"topic": journal},
                },
            }
        )
    except ValidationError as error:
        problems = error.errors(include_input=False)
        text = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
        raise UsageError(f"no manifest may have these values: {text}") from None
    resolved = secrets.resolve(cluster)
    return Connection(bootstrap_servers=resolved.bootstrap, properties=resolved.properties, timeout_s=run.timeout_s)
