"""What somebody needs before the first plan: the first files of a repository, and a checkup of a connection and its rights.

Beside pipeline.py, which plans and applies. Nothing here changes a cluster, but for the journal's topic when it was asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

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
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.cluster import Cluster

SCHEMA = "schemas/manifest.json"
FOREVER_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What the manifests of one cluster want of it, and what was found."""

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
    """Path → text of a first repository, for the cluster that answers at these addresses.

    `client`: librdkafka properties as a manifest has them, references for secrets; `workflows`: from `workflow_files`, or nothing.
    Raises UsageError for what no manifest may hold, and ClusterUnreachable.
    """
    made = _connection(bootstrap_servers, name, client, run, journal_topic)
    run.progress(f"asking {', '.join(bootstrap_servers)} for the cluster id")
    cluster_id = connect.cluster_id(made)
    found = dict(
        starter_manifests(
            cluster_id, bootstrap_servers, name, client=client, journal_topic=journal_topic, schema=SCHEMA
        )
    )
    found[SCHEMA] = schema.schemas()["manifest.json"]
    return {**found, **workflows}


def workflow_files(action: str | None) -> Mapping[str, str]:
    """Path → text of the workflows. `action`: OWNER/NAME@COMMIT that they install this program from; default: where it came from.

    Raises UsageError where neither tells.
    """
    origin = install_source.parse_action_ref(action) if action else install_source.installed_source()
    if origin is None:
        raise UsageError(
            "the workflows install this program from a commit of its repository on GitHub, and this installation does not tell from "
            "which: say --action OWNER/NAME@COMMIT, or --no-workflows"
        )
    return {str(path): text for path, text in gitops.github(origin, version=__version__).items()}


def make_journal(
    bootstrap_servers: Sequence[str], name: str, run: RunOptions, *, client: Mapping[str, str], topic: str
) -> None:
    """Make the journal's topic, kept for ever; one that is there stays as it is. Raises JournalUnavailable."""
    run.progress(f"making the topic {topic}")
    journals.create_topic(_connection(bootstrap_servers, name, client, run), topic, retention_ms=FOREVER_MS)


def checkup(manifests: ClusterManifests, run: RunOptions, *, elections_only: bool = False) -> ClusterCheck:
    """Ask the cluster for everything that these manifests need, or only their LeaderPolicies.

    Raises ClusterUnreachable and WrongCluster.
    """
    policies = tuple(p for p in manifests.policies if isinstance(p, LeaderPolicy) or not elections_only)
    wanted = _wanted(manifests.cluster, policies, observed_at_ms=run.clock())
    made = pipeline.open_connection(manifests.cluster, run)
    run.progress("asking for versions, clocks and rights")
    return ClusterCheck(
        cluster=manifests.cluster.metadata.name,
        bootstrap_servers=made.bootstrap_servers,
        wanted=wanted,
        found=doctor.run_checks(made, wanted, cluster_id=manifests.cluster.spec.cluster_id),
    )


def _connection(
    bootstrap_servers: Sequence[str],
    name: str,
    client: Mapping[str, str],
    run: RunOptions,
    journal_topic: str | None = None,
) -> Connection:
    """The connection that a Cluster manifest of this content would give, checked as one."""
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
    except ValidationError as refused:
        told = (f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in refused.errors(include_input=False))
        raise UsageError("no manifest may hold this: " + "; ".join(told)) from None
    resolved = secrets.resolve(cluster)
    return Connection(bootstrap_servers=resolved.bootstrap, properties=resolved.properties, timeout_s=run.timeout_s)


def _wanted(cluster: Cluster, policies: Sequence[Policy], *, observed_at_ms: int) -> RequiredAccess:
    spec = cluster.spec
    journal = (Selector(spec.journal.topic),) if spec.journal.topic else ()
    purges = []
    removals = []
    elections = False
    for policy in policies:
        match policy:
            case RetentionFloor():
                excluding = (*(policy.spec.except_topics or ()), *(spec.protect.topics or ()), *journal)
                purges.append(
                    Selection(selectors=policy.spec.topics, excluding=excluding, patterns_skip_underscore=True)
                )
            case GroupRemoval():
                excluding = (*(policy.spec.except_groups or ()), *(spec.protect.groups or ()))
                removals.append(Selection(selectors=policy.spec.groups, excluding=excluding))
            case LeaderPolicy():
                elections = True
            case _:
                assert_never(policy)
    return RequiredAccess(
        needs=planner.scan_request(policies, observed_at_ms),
        purges=tuple(purges),
        removals=tuple(removals),
        elections=elections,
        journal_topic=spec.journal.topic,
    )
