"""The steps before the first plan: the first files of a repository, and a check of the connection and permissions.

Only `create_journal` changes a cluster: it creates the journal topic, if the user asked for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from reconciler import __version__, gitops, pipeline
from reconciler.errors import UsageError
from reconciler.gitops import install_source
from reconciler.gitops.starter_manifests import starter_manifests
from reconciler.kafka import connect, doctor
from reconciler.kafka import journal as journals
from reconciler.kafka.connect import Connection
from reconciler.kafka.doctor import DoctorReport
from reconciler.kafka.permissions import RequiredAccess, Selection
from reconciler.manifest import schema, secrets
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.selector import Selector
from reconciler.pipeline import RunOptions
from reconciler.plan import planner
from reconciler.policies import Cluster, Policy

SCHEMA = "schemas/manifest.json"
FOREVER_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """The access that the manifests of one cluster need, and the report of the checks."""

    cluster: str
    bootstrap_servers: tuple[str, ...]
    wanted: RequiredAccess
    found: DoctorReport


def first_files(
    bootstrap_servers: Sequence[str],
    name: str,
    run: RunOptions,
    *,
    client: Mapping[str, str],
    journal_topic: str | None = None,
    workflows: Mapping[str, str],
) -> Mapping[str, str]:
    """Return path → text of a first repository for the cluster at these addresses.

    `client`: librdkafka properties as a manifest has them, with references for secrets. `workflows`:
    from `workflow_files`, or empty. Raises UsageError for invalid manifests, and ClusterUnreachable.
    """
    connection = _connection(bootstrap_servers, name, client, run, journal_topic)
    run.progress(f"reading the cluster id from {', '.join(bootstrap_servers)}")
    cluster_id = connect.cluster_id(connection)
    manifests = starter_manifests(
        cluster_id, bootstrap_servers, name, client=client, journal_topic=journal_topic, schema=SCHEMA
    )
    return {**manifests, SCHEMA: schema.schemas()["manifest.json"], **workflows}


def workflow_files(action: str | None) -> Mapping[str, str]:
    """Return path → text of the workflows.

    `action`: OWNER/NAME@COMMIT from which they install this program; None: the source of this
    installation. Raises UsageError if neither is known.
    """
    source = install_source.parse_action_ref(action) if action else install_source.installed_source()
    if source is None:
        raise UsageError(
            "the workflows install this program from a commit on GitHub, and the commit of this installation is unknown: "
            "add --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    return {str(path): text for path, text in gitops.github(source, version=__version__).items()}


def create_journal(
    bootstrap_servers: Sequence[str], name: str, run: RunOptions, *, client: Mapping[str, str], topic: str
) -> None:
    """Create the journal topic with unlimited retention, unless it exists. Raises JournalUnavailable."""
    run.progress(f"creating the topic {topic}")
    journals.create_topic(_connection(bootstrap_servers, name, client, run), topic, retention_ms=FOREVER_MS)


def checkup(manifests: ClusterManifests, run: RunOptions, *, elections_only: bool = False) -> ClusterCheck:
    """Check a cluster for everything that these manifests need, or only for their elections.

    Raises ClusterUnreachable and WrongCluster.
    """
    policies = [p for p in manifests.policies if not elections_only or p.write_access().resource == "cluster"]
    required = required_access(manifests.cluster, policies, observed_at_ms=run.clock())
    connection = pipeline.open_connection(manifests.cluster, run)
    run.progress("reading versions, clocks and permissions")
    return ClusterCheck(
        cluster=manifests.cluster.metadata.name,
        bootstrap_servers=connection.bootstrap_servers,
        wanted=required,
        found=doctor.run_checks(connection, required, cluster_id=manifests.cluster.spec.cluster_id),
    )


def required_access(cluster: Cluster, policies: Sequence[Policy], *, observed_at_ms: int) -> RequiredAccess:
    """Return what planning reads and what applying writes; protected subjects are never written."""
    spec = cluster.spec
    journal = (Selector(spec.journal.topic),) if spec.journal.topic else ()
    protected = {"topic": (*(spec.protect.topics or ()), *journal), "group": spec.protect.groups or (), "cluster": ()}
    accesses = [policy.write_access() for policy in policies]

    def selections(resource: str) -> tuple[Selection, ...]:
        return tuple(
            Selection(
                selectors=tuple(access.selectors),
                excluding=(*access.excluding, *protected[resource]),
                patterns_skip_underscore=access.patterns_skip_underscore,
            )
            for access in accesses
            if access.resource == resource
        )

    return RequiredAccess(
        needs=planner.needs(policies, observed_at_ms),
        purges=selections("topic"),
        removals=selections("group"),
        elections=bool(selections("cluster")),
        journal_topic=spec.journal.topic,
    )


def _connection(
    bootstrap_servers: Sequence[str],
    name: str,
    client: Mapping[str, str],
    run: RunOptions,
    journal_topic: str | None = None,
) -> Connection:
    """Return the connection of a Cluster manifest with this content, validated as a manifest."""
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
                    "journal": {} if journal_topic is None else {"topic": journal_topic},
                },
            }
        )
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise UsageError("the Cluster manifest would be invalid: " + "; ".join(problems)) from None
    resolved = secrets.resolve(cluster)
    return Connection(bootstrap_servers=resolved.bootstrap, properties=resolved.properties, timeout_s=run.timeout_s)
