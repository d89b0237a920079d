"""A valid set of manifests, and the part of it that concerns one cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.errors import UsageError
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.model.plan import ManifestFile
from reconciler.policies import Policy
from reconciler.policies.base import Envelope
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean

_Role = TypeVar("_Role", bound=Envelope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One manifest, the name of its cluster, and the path of its file."""

    cluster: str
    manifest: Envelope
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManifests:
    """The input of one plan. Policies and waivers are sorted by address, files by path."""

    cluster: Cluster
    policies: tuple[Policy, ...]
    waivers: tuple[Waiver, ...]
    files: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """All manifests of a run, in the order in which they were read."""

    entries: tuple[ManifestEntry, ...]
    files: tuple[ManifestFile, ...]
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The Cluster manifests, sorted by name."""
        return tuple(sorted(_of_role(Cluster, self.entries), key=lambda cluster: cluster.metadata.name))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of all clusters."""
        return _of_role(Policy, self.entries)  # type: ignore[type-abstract]

    @property
    def waivers(self) -> tuple[Waiver, ...]:
        """The waivers of all clusters."""
        return _of_role(Waiver, self.entries)

    def for_cluster(self, name: str | None = None) -> ClusterManifests:
        """Return the manifests of one cluster; None: the only cluster. Raises UsageError."""
        clusters = {cluster.metadata.name: cluster for cluster in self.clusters}
        if name is None and len(clusters) == 1:
            name = next(iter(clusters))
        if name is None:
            raise UsageError(f"the manifests hold {len(clusters)} clusters: add --cluster {' or '.join(clusters)}")
        if name not in clusters:
            closest = did_you_mean(name, clusters)
            hint = f"did you mean {closest}?" if closest else f"known clusters: {', '.join(clusters)}"
            raise UsageError(f"the manifests hold no Cluster named {name}; {hint}")
        entries = [entry for entry in self.entries if entry.cluster == name]
        paths = {entry.path for entry in entries}
        return ClusterManifests(
            cluster=clusters[name],
            policies=tuple(sorted(_of_role(Policy, entries), key=lambda policy: policy.address)),  # type: ignore[type-abstract]
            waivers=tuple(sorted(_of_role(Waiver, entries), key=lambda waiver: waiver.address)),
            files=tuple(sorted((f for f in self.files if f.path in paths), key=lambda file: file.path)),
        )

    def by_cluster(self) -> Iterator[ClusterManifests]:
        """Yield the manifests of each cluster, sorted by name: the inputs of one plan each."""
        for cluster in self.clusters:
            yield self.for_cluster(cluster.metadata.name)


def _of_role(role: type[_Role], entries: Sequence[ManifestEntry]) -> tuple[_Role, ...]:
    return tuple(entry.manifest for entry in entries if isinstance(entry.manifest, role))
