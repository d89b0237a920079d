"""The part of a set that concerns one cluster: one plan per cluster."""

import pytest

from reconciler.errors import UsageError
from reconciler.manifest.files import ManifestSet
from tests.unit.manifest.broken import CLUSTER, GOOD, WAIVED, cluster, manifest
from tests.unit.manifest.checking import outcome


def two_clusters() -> ManifestSet:
    files = {"eu/c.yaml": CLUSTER, "us/c.yaml": cluster(name="prod-us", cluster_id="9QxT2nUdS7ujRk5w1yZ4LA")}
    for name in ("prod-eu", "prod-us"):
        metadata = f"cluster: {name}"
        files[f"{name}/policies.yaml"] = (
            manifest("RetentionFloor", "orders", GOOD, metadata=metadata)
            + "---\n"
            + manifest("GroupRemoval", "dead", "groups: [g]\nidleFor: 3d", metadata=metadata)
        )
    files["waiver.yaml"] = manifest("Waiver", "w", WAIVED, metadata="cluster: prod-us")
    files["comment.yaml"] = "# nothing\n"
    manifests, diagnostics = outcome(files)
    assert manifests is not None, diagnostics
    return manifests


def test_each_cluster_has_its_own() -> None:
    """One plan per cluster, from the manifests and files of that cluster only, sorted."""
    eu, us = two_clusters().by_cluster
    assert (eu.cluster.metadata.name, us.cluster.metadata.name) == ("prod-eu", "prod-us")
    assert [str(policy.address) for policy in us.policies] == ["GroupRemoval/dead", "RetentionFloor/orders"]
    assert ([w.metadata.name for w in eu.waivers], [w.metadata.name for w in us.waivers]) == ([], ["w"])
    assert [file.path for file in us.files] == ["prod-us/policies.yaml", "us/c.yaml", "waiver.yaml"]


def test_the_complete_set() -> None:
    """Clusters are sorted by name."""
    manifests = two_clusters()
    assert [entry.metadata.name for entry in manifests.clusters] == ["prod-eu", "prod-us"]
    assert len(manifests.policies) == 4
    assert sum(len(part.waivers) for part in manifests.by_cluster) == 1


def test_the_cluster_must_be_clear() -> None:
    """A single cluster is the default; one of several must be named."""
    manifests, _ = outcome({"c.yaml": CLUSTER})
    assert manifests is not None
    assert manifests.for_cluster().cluster.metadata.name == "prod-eu"
    several = two_clusters()
    with pytest.raises(UsageError, match=r"--cluster prod-eu or prod-us"):
        several.for_cluster()
    with pytest.raises(UsageError, match=r"prod-ap\b.*\bprod-(eu|us)\b(?!.*prod-)"):
        several.for_cluster("prod-ap")
    with pytest.raises(UsageError, match=r"staging\b.*\bprod-eu, prod-us\b"):
        several.for_cluster("staging")
