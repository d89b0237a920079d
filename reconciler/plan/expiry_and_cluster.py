"""Refuses plans that have expired, and the brokers, facts, plans and results of another cluster."""

from collections.abc import Mapping

from reconciler.errors import PlanUnusable, WrongCluster
from reconciler.model.plan import SCAN_AHEAD_MAX_MS, Plan
from reconciler.policies.cluster import Cluster
from reconciler.text.formatting import approximate_duration, format_instant


def check_cluster_id(cluster: Cluster, cluster_id: str | None, whose: str) -> None:
    """Raise WrongCluster unless `cluster_id` is that of the manifest. `whose`: such as `the brokers are`."""
    if cluster_id != cluster.spec.cluster_id:
        raise WrongCluster(
            f"{cluster.address} names cluster id {cluster.spec.cluster_id}, {whose} {cluster_id}: nothing was done; "
            f"correct bootstrapServers or clusterId in {cluster.declared_at}, or choose the right manifests"
        )


def check_usable(plan: Plan, now_ms: int, cluster_ids: Mapping[str, str]) -> None:
    """Raise WrongCluster or PlanUnusable for a plan that may not be applied now.

    `cluster_ids`: cluster ids of now, by who says so, such as `the brokers are`. A plan is of one
    cluster, has not expired, and its scan lies at most a minute in the future.
    """
    for source, cluster_id in cluster_ids.items():
        if cluster_id != plan.cluster_id:
            raise WrongCluster(
                f"the plan is for cluster id {plan.cluster_id}, {source} {cluster_id}: nothing was done; choose the "
                "right manifests or plan again"
            )
    if plan.has_expired(now_ms):
        raise PlanUnusable(
            f"the plan expired at {format_instant(plan.expires_at_ms)}, and now it is {format_instant(now_ms)}: "
            "nothing was done; plan again"
        )
    if (ahead_ms := plan.observed_at_ms - now_ms) > SCAN_AHEAD_MAX_MS:
        raise PlanUnusable(
            f"the plan's scan is stamped {format_instant(plan.observed_at_ms)}, {approximate_duration(ahead_ms)} after "
            f"the clock of this machine ({format_instant(now_ms)}): nothing was done; set the clock that is wrong, "
            "then plan again"
        )
