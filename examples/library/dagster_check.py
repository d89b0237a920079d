"""An asset check of Dagster: it fails while the cluster differs from its manifests."""

from dagster import AssetCheckResult, asset_check

from reconciler import api


@asset_check(asset="kafka_topics")
def in_sync() -> AssetCheckResult:
    """Compare the cluster with the manifests. It changes nothing."""
    report = api.load("manifests", cluster="prod-eu").drift(engine="inline")
    found = {"drifting": len(report.subjects), "unread": len(report.unread)}
    return AssetCheckResult(passed=report.in_sync, metadata=found)
