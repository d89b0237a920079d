"""Checks a cluster against its manifests: what they require, and what the cluster allows. Reads only."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from reconciler import pipeline
from reconciler.kafka import doctor
from reconciler.kafka.doctor import DoctorReport
from reconciler.kafka.permissions import RequiredAccess, Selection
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.selector import Selector
from reconciler.operations import OPERATIONS
from reconciler.pipeline import RunOptions
from reconciler.plan import planner
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What the manifests of one cluster require, and the report of the checks."""

    cluster: str
    bootstrap_servers: tuple[str, ...]
    required: RequiredAccess
    report: DoctorReport


def check_cluster(manifests: ClusterManifests, run: RunOptions, *, elections_only: bool = False) -> ClusterCheck:
    """Check everything that these manifests require, or only what their elections require.

    Raises ClusterUnreachable and WrongCluster.
    """
    policies = [p for p in manifests.policies if not elections_only or p.OPERATION.RIGHT.resource == "cluster"]
    required = required_access(manifests.cluster, policies, observed_at_ms=run.clock())
    with closing(pipeline.open_session(manifests.cluster, run)) as session:
        run.progress("reading versions, clocks and permissions")
        return ClusterCheck(
            cluster=manifests.cluster.metadata.name,
            bootstrap_servers=session.connection.bootstrap_servers,
            required=required,
            report=doctor.run_checks(session, required),
        )


def required_access(cluster: Cluster, policies: Sequence[Policy], *, observed_at_ms: int) -> RequiredAccess:
    """Return what planning reads and what applying writes; protected subjects are never written."""
    spec = cluster.spec
    journal = (Selector(spec.journal.topic),) if spec.journal.topic else ()
    protected = {"topic": (*(spec.protect.topics or ()), *journal), "group": spec.protect.groups or (), "cluster": ()}

    def selections(resource: str) -> tuple[Selection, ...]:
        return tuple(
            Selection(
                selectors=policy.selectors,
                excluding=(*policy.excluding, *protected[resource]),
                patterns_skip_underscore=policy.PATTERNS_SKIP_UNDERSCORE,
            )
            for policy in policies
            if resource == policy.OPERATION.RIGHT.resource
        )

    return RequiredAccess(
        needs=planner.scan_request(policies, observed_at_ms),
        purges=selections("topic"),
        removals=selections("group"),
        elections=bool(selections("cluster")),
        journal_topic=spec.journal.topic,
        requests=tuple(sorted(operation.API for operation in OPERATIONS)),
    )
