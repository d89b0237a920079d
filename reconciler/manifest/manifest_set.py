"""A valid set of manifests, and the part of it that concerns one cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.errors import UsageError
from reconciler.manifest.diagnostics import Diagnostic, suggestion
from reconciler.model.plan import ManifestFile
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManifests:
    """The input of one plan. Policies and waivers are sorted by address, files by path."""

    cluster: Cluster
    policies: tuple[Policy, ...]
    waivers: tuple[Waiver, ...]
    files: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """All manifests of a run. Clusters are sorted by name, files are in reading order."""

    by_cluster: Sequence[ClusterManifests]
    files: Sequence[ManifestFile]
    warnings: Sequence[Diagnostic]

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The Cluster manifests."""
        return tuple(part.cluster for part in self.by_cluster)

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of all clusters."""
        return tuple(policy for part in self.by_cluster for policy in part.policies)

    def for_cluster(self, name: str | None = None) -> ClusterManifests:
        """Return the manifests of one cluster; None: the only cluster. Raises UsageError."""
        parts = {part.cluster.metadata.name: part for part in self.by_cluster}
        if name is None and len(parts) == 1:
            return self.by_cluster[0]
        if name is None:
            raise UsageError(f"the manifests hold {len(parts)} clusters: add --cluster {' or '.join(parts)}")
        if name not in parts:
            hint = suggestion(name, parts, otherwise=f"known clusters: {', '.join(parts)}")
            raise UsageError(f"the manifests hold no Cluster named {name}; {hint}")
        return parts[name]
