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
    """One plan per cluster, from the manifests and files of that cluster only; clusters are sorted by name."""
    manifests = two_clusters()
    eu, us = manifests.by_cluster
    assert [entry.metadata.name for entry in manifests.clusters] == ["prod-eu", "prod-us"]
    assert (eu.cluster, us.cluster) == manifests.clusters
    assert len(manifests.policies) == 4
    assert [str(policy.address) for policy in us.policies] == ["GroupRemoval/dead", "RetentionFloor/orders"]
    assert ([w.metadata.name for w in eu.waivers], [w.metadata.name for w in us.waivers]) == ([], ["w"])
    assert [file.path for file in us.files] == ["prod-us/policies.yaml", "us/c.yaml", "waiver.yaml"]


def test_the_cluster_must_be_clear() -> None:
    """A single cluster is the default; one of several must be named."""
    manifests, _ = outcome({"c.yaml": CLUSTER})
    assert manifests is not None
    assert manifests.for_cluster().cluster.metadata.name == "prod-eu"
    several = two_clusters()
    for name, words in (
        (None, r"--cluster prod-eu or prod-us"),
        ("prod-ap", r"prod-ap\b.*\bprod-(eu|us)\b(?!.*prod-)"),
        ("staging", r"staging\b.*\bprod-eu, prod-us\b"),
    ):
        with pytest.raises(UsageError, match=words):
            several.for_cluster(name)
