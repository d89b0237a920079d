"""Rules that need the complete set: duplicate names, double claims, unknown clusters and policies.

Refused manifests count with their names, so that a typing mistake in one manifest does not make
others look wrong.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from reconciler.manifest.diagnostics import Diagnostic, Related
from reconciler.manifest.parse import ParsedManifest
from reconciler.manifest.validation_errors import context_text
from reconciler.model.action import Mode
from reconciler.policies import Policy
from reconciler.policies.base import ExactClaim
from reconciler.policies.cluster import Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import did_you_mean

_NAMES_SHOWN = 5


def cluster_of(item: ParsedManifest, clusters: Sequence[str]) -> str | None:
    """Return the name of the cluster that `item` belongs to; None: it is unknown."""
    if item.model is Cluster:
        return item.name
    return item.cluster or (clusters[0] if len(clusters) == 1 else None)


def cross_check(items: Sequence[ParsedManifest], *, complete: bool) -> Iterator[Diagnostic]:
    """Yield diagnostics in no particular order.

    `complete` False: a file could not be read to its end, so a missing manifest proves nothing.
    """
    manifests = _Manifests.of(items)
    yield from _duplicate_names(manifests)
    yield from _double_claims(manifests)
    yield from _duplicate_cluster_ids(manifests)
    yield from _journal_rules(manifests)
    if complete:
        yield from _cluster_references(manifests)
        yield from _waived_policies(manifests)
        yield from _clusters_without_policy(manifests)


@dataclass(frozen=True, slots=True)
class _Manifests:
    """The parsed manifests, and the names of their clusters in order."""

    items: Sequence[ParsedManifest]
    cluster_names: Sequence[str]

    @classmethod
    def of(cls, items: Sequence[ParsedManifest]) -> "_Manifests":
        return cls(items, sorted({item.name for item in items if item.model is Cluster}))

    def cluster_of(self, item: ParsedManifest) -> str | None:
        return cluster_of(item, self.cluster_names)

    @property
    def policies(self) -> list[ParsedManifest]:
        """Manifests of a policy's kind, refused ones included."""
        return [item for item in self.items if issubclass(item.model, Policy)]


def _duplicate_names(manifests: _Manifests) -> Iterator[Diagnostic]:
    first: dict[tuple[str, str | None], ParsedManifest] = {}
    for item in manifests.items:
        other = first.setdefault((item.address, manifests.cluster_of(item)), item)
        if other is not item:
            yield _diagnostic(
                item,
                "M301",
                f"`{item.address}` is declared twice",
                ("metadata", "name"),
                hint="rename one of the two",
                related=_related(other, ("metadata", "name"), "the first declaration"),
            )


_Claimant = tuple[ParsedManifest, ExactClaim]


def _double_claims(manifests: _Manifests) -> Iterator[Diagnostic]:
    """Yield claims by exact names that overlap.

    What patterns match is known only on the live cluster; the planner decides about it.
    """
    complete: dict[tuple[str | None, str, str], _Claimant] = {}
    by_partition: dict[tuple[str | None, str, str], dict[int, _Claimant]] = {}
    for item in manifests.policies:
        for claim in item.manifest.exact_claims() if isinstance(item.manifest, Policy) else ():
            key = (manifests.cluster_of(item), item.kind, claim.subject)
            claimant = (item, claim)
            partitions = by_partition.setdefault(key, {})
            if claim.partitions is None:
                other = complete.setdefault(key, claimant)
                if other is claimant and partitions:
                    other = next(iter(partitions.values()))
            else:
                earlier = [partitions.setdefault(number, claimant) for number in claim.partitions]
                earlier.append(complete.get(key, claimant))
                other = next((c for c in earlier if c[0] is not item), claimant)
            if other[0] is not item:
                yield _double_claim(claimant, other)


def _double_claim(claimant: _Claimant, other: _Claimant) -> Diagnostic:
    (item, claim), (other_item, other_claim) = claimant, other
    return _diagnostic(
        item,
        "M302",
        f"two policies claim `{claim.subject}`, so neither may act on it",
        claim.path,
        hint="remove it from one of the two",
        related=_related(other_item, other_claim.path, f"`{other_item.address}` claims it first"),
    )


def _duplicate_cluster_ids(manifests: _Manifests) -> Iterator[Diagnostic]:
    first: dict[str, ParsedManifest] = {}
    path = ("spec", "clusterId")
    for item in manifests.items:
        if isinstance(item.manifest, Cluster):
            other = first.setdefault(item.manifest.spec.cluster_id, item)
            if other.name != item.name:
                yield _diagnostic(
                    item,
                    "M307",
                    f"`{other.address}` has the same clusterId",
                    path,
                    hint="write one manifest per cluster",
                    related=_related(other, path, f"`{other.address}`"),
                )


def _journal_rules(manifests: _Manifests) -> Iterator[Diagnostic]:
    """Yield policies that truncate the journal topic, or that need one and have none."""
    clusters = {item.name: item for item in manifests.items if isinstance(item.manifest, Cluster)}
    for item in manifests.policies:
        cluster = clusters.get(manifests.cluster_of(item) or "")
        if cluster is None or not isinstance(item.manifest, Policy):
            continue
        assert isinstance(cluster.manifest, Cluster)
        policy, topic = item.manifest, cluster.manifest.spec.journal.topic
        if topic is not None and policy.OPERATION.RIGHT.resource == "topic":
            for claim in policy.exact_claims():
                if claim.subject == topic:
                    yield _diagnostic(
                        item,
                        "M207",
                        f"`{topic}` is the journal of `{cluster.address}` and may never lose records",
                        claim.path,
                        hint="remove it from the list",
                        related=_related(cluster, ("spec", "journal", "topic"), "the journal of the cluster"),
                    )
        if topic is None and policy.mode is Mode.CONTINUOUS and policy.every_ms is not None:
            message = "a continuous policy with `every` needs a journal topic: a CI runner loses the journal file"
            hint = f"add spec.journal.topic to {cluster.address}"
            yield _diagnostic(item, "M401", message, ("mode",), hint=hint)


def _cluster_references(manifests: _Manifests) -> Iterator[Diagnostic]:
    names = manifests.cluster_names
    others = [item for item in manifests.items if item.model is not Cluster]
    if not names:
        for item in others[:1]:
            message = "the manifests hold no Cluster, so the cluster is unknown"
            hint = "add the folder of the Cluster manifest to the command"
            yield _diagnostic(item, "M306", message, ("metadata", "name"), hint=hint)
        return
    for item in others:
        if item.cluster is None and len(names) > 1:
            message = f"the manifests hold {len(names)} clusters, and this one does not name its cluster"
            hint = f"add cluster: {' or '.join(names[:_NAMES_SHOWN])}"
            yield _diagnostic(item, "M304", message, ("metadata", "name"), hint=hint)
        elif item.cluster is not None and item.cluster not in names:
            closest = did_you_mean(item.cluster, names)
            hint = f"did you mean `{closest}`?" if closest else f"known clusters: {', '.join(names[:_NAMES_SHOWN])}"
            yield _diagnostic(item, "M303", f"no Cluster named `{item.cluster}`", ("metadata", "cluster"), hint=hint)


def _waived_policies(manifests: _Manifests) -> Iterator[Diagnostic]:
    addresses: dict[str | None, set[str]] = {}
    for item in manifests.policies:
        addresses.setdefault(manifests.cluster_of(item), set()).add(item.address)
    for item in manifests.items:
        if isinstance(item.manifest, Waiver):
            policy = item.manifest.spec.policy
            known = addresses.get(manifests.cluster_of(item), set())
            if policy not in known:
                closest = _closest_policy(policy, known)
                hint = f"did you mean `{closest}`?" if closest else "write KIND/NAME of a policy of the same cluster"
                yield _diagnostic(item, "M305", f"no policy `{policy}` for this waiver", ("spec", "policy"), hint=hint)


def _closest_policy(address: str, known: Collection[str]) -> str | None:
    """Compare names within the kind first: long names of kinds make all addresses look alike."""
    kind, _, name = address.partition("/")
    closest = did_you_mean(name, (other.partition("/")[2] for other in known if other.startswith(f"{kind}/")))
    if closest is not None:
        return f"{kind}/{closest}"
    return next((other for other in sorted(known) if other.partition("/")[2] == name), None)


def _clusters_without_policy(manifests: _Manifests) -> Iterator[Diagnostic]:
    used = {manifests.cluster_of(item) for item in manifests.policies}
    if not used <= set(manifests.cluster_names):  # another error reports the policy without a cluster
        return
    for item in manifests.items:
        if item.model is Cluster and item.name not in used:
            message = f"no policy for `{item.address}`: its plan is empty"
            hint = "add the folder of the policies to the command"
            yield _diagnostic(item, "M403", message, ("metadata", "name"), hint=hint)


def _related(item: ParsedManifest, path: Sequence[str | int], message: str) -> tuple[Related]:
    return (Related(item.source.location(item.span(*path)), message),)


def _diagnostic(
    item: ParsedManifest,
    code: str,
    message: str,
    path: Sequence[str | int],
    *,
    hint: str,
    related: Sequence[Related] = (),
) -> Diagnostic:
    """Return a diagnostic about the value at `path`, with the field around it as context."""
    context = context_text(item.address, path[:-1])
    return item.source.diagnostic(code, message, span=item.span(*path), hint=hint, context=context, related=related)
