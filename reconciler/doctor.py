"""Checks a cluster against its manifests: what they require, and what the cluster allows. Reads only."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import assert_never

from reconciler import pipeline
from reconciler.kafka import doctor
from reconciler.kafka.doctor import DoctorReport
from reconciler.kafka.permissions import RequiredAccess, Selection
from reconciler.manifest.manifest_set import ClusterManifests
from reconciler.model.selector import Selector
from reconciler.pipeline import RunOptions
from reconciler.plan import planner
from reconciler.policies import Cluster, GroupRemoval, LeaderPolicy, Policy, RetentionFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What the manifests of one cluster require, and the report of the checks."""

    cluster: str
    bootstrap_servers: tuple[str, ...]
    required: RequiredAccess
    report: DoctorReport


def check_cluster(manifests: ClusterManifests, run: RunOptions, *, elections_only: bool = False) -> ClusterCheck:
    """Check everything that these manifests require, or only their LeaderPolicies.

    Raises ClusterUnreachable and WrongCluster.
    """
    policies = tuple(p for p in manifests.policies if isinstance(p, LeaderPolicy) or not elections_only)
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
    """The facts that these policies need, and the subjects that apply may change for them."""
    journal_topic = cluster.spec.journal.topic
    journal = (Selector(journal_topic),) if journal_topic else ()
    purges = []
    removals = []
    elections = False
    for policy in policies:
        match policy:
            case RetentionFloor():
                excluding = (*(policy.spec.except_topics or ()), *(cluster.spec.protect.topics or ()), *journal)
                purges.append(
                    Selection(selectors=policy.spec.topics, excluding=excluding, patterns_skip_underscore=True)
                )
            case GroupRemoval():
                excluding = (*(policy.spec.except_groups or ()), *(cluster.spec.protect.groups or ()))
                removals.append(Selection(selectors=policy.spec.groups, excluding=excluding))
            case LeaderPolicy():
                elections = True
            case _:
                assert_never(policy)
    return RequiredAccess(
        needs=planner.needs(policies, observed_at_ms),
        purges=tuple(purges),
        removals=tuple(removals),
        elections=elections,
        journal_topic=journal_topic,
    )
