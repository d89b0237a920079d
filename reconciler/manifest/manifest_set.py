"""A valid set of manifests, and the part of it that concerns one cluster. Everything about validity has been settled before."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.errors import UsageError
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.model.plan import ManifestFile
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One manifest: the name of its cluster, and the file it stands in."""

    cluster: str
    manifest: Cluster | Waiver | Policy
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManifests:
    """What one plan is made from. Policies and waivers sorted by address, files by path."""

    cluster: Cluster
    policies: tuple[Policy, ...]
    waivers: tuple[Waiver, ...]
    files: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """All manifests of a run. `files` in the order in which they were read; `warnings` in file order."""

    entries: tuple[ManifestEntry, ...]
    files: tuple[ManifestFile, ...]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Sorted by name."""
        found = (entry.manifest for entry in self.entries if isinstance(entry.manifest, Cluster))
        return tuple(sorted(found, key=lambda cluster: cluster.metadata.name))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Of all clusters, in the order in which they were read."""
        kinds = RetentionFloor | GroupRemoval | LeaderPolicy
        return tuple(entry.manifest for entry in self.entries if isinstance(entry.manifest, kinds))

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """Of all clusters, in the order in which they were read."""
        return tuple(entry.manifest for entry in self.entries if isinstance(entry.manifest, Waiver))

    def for_cluster(self, name: str | None = None) -> ClusterManifests:
        """The part that concerns one cluster; None: the only one. Raises UsageError where that is not one of the set's."""
        clusters = {cluster.metadata.name: cluster for cluster in self.clusters}
        if name is None and len(clusters) == 1:
            name = next(iter(clusters))
        if name is None:
            raise UsageError(f"the manifests hold {len(clusters)} clusters: say --cluster {' or '.join(clusters)}")
        if name not in clusters:
            near = did_you_mean(name, clusters)
            hint = f"did you mean {near}?" if near else f"known: {', '.join(clusters)}"
            raise UsageError(f"no Cluster called {name} in the manifests; {hint}")
        mine = [entry for entry in self.entries if entry.cluster == name]
        paths = {entry.path for entry in mine}
        policies = (e.manifest for e in mine if isinstance(e.manifest, RetentionFloor | GroupRemoval | LeaderPolicy))
        waivers = (e.manifest for e in mine if isinstance(e.manifest, Waiver))
        return ClusterManifests(
            cluster=clusters[name],
            policies=tuple(sorted(policies, key=lambda policy: policy.address)),
            waivers=tuple(sorted(waivers, key=lambda waiver: waiver.address)),
            files=tuple(sorted((f for f in self.files if f.path in paths), key=lambda file: file.path)),
        )

    def each(self) -> Iterator[ClusterManifests]:
        """One part for each cluster, sorted by name: one plan per cluster."""
        for cluster in self.clusters:
            yield self.for_cluster(cluster.metadata.name)
