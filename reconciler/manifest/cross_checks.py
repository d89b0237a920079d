"""Rules that need the complete set: duplicate names, double claims, unknown clusters and policies.

Refused manifests count with their names, so that a mistake in one causes no errors in another.
"""

from collections.abc import Collection, Iterator, Sequence

from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.parse import ParsedManifest
from reconciler.model.action import Mode
from reconciler.policies import Policy
from reconciler.policies.base import ExactClaim
from reconciler.policies.cluster import Cluster
from reconciler.policies.validation import FieldPath
from reconciler.policies.waiver import Waiver
from reconciler.text.suggest import backticks, did_you_mean, question, suggestion

_NAMES_SHOWN = 5
_NAME: FieldPath = ("metadata", "name")


def cross_check(items: Sequence[ParsedManifest], *, complete: bool) -> Iterator[Diagnostic]:
    """Yield diagnostics. `complete` False: after unread text, a missing manifest proves nothing."""
    yield from _duplicates(items)
    yield from _double_claims(items)
    yield from _journal_rules(items)
    if complete:
        yield from _cluster_references(items)
        yield from _waived_policies(items)


def _duplicates(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    # The name of a Cluster is the name of its cluster, so two of one name have one key as well.
    first: dict[object, ParsedManifest] = {}
    path = ("spec", "clusterId")
    for item in items:
        other = first.setdefault((item.address, item.cluster), item)
        if other is not item:
            message, related = f"`{item.address}` is declared twice", (other, _NAME, "the first declaration")
            yield item.diagnostic("M301", message, _NAME, "rename one of the two", related)
        if isinstance(item.manifest, Cluster):
            other = first.setdefault(item.manifest.spec.cluster_id, item)
            if other.name != item.name:
                message, hint = f"`{other.address}` has the same clusterId", "write one manifest per cluster"
                yield item.diagnostic("M307", message, path, hint, (other, path, f"`{other.address}`"))


def _double_claims(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    """Yield claims by exact names that overlap. The planner knows what patterns match."""
    first: dict[tuple[str | None, type, str, object], tuple[ParsedManifest, ExactClaim]] = {}
    for item in items:
        for claim in item.manifest.exact_claims() if isinstance(item.manifest, Policy) else ():
            subject = (item.cluster, item.model, claim.subject)
            # "all" stands for a claim without partitions, "any" for every claim.
            rivals = ("any",) if claim.partitions is None else (*claim.partitions, "all")
            earlier = (first.get((*subject, part), (item, claim)) for part in rivals)
            other, other_claim = next((pair for pair in earlier if pair[0] is not item), (item, claim))
            if other is not item:
                message = f"two policies claim `{claim.subject}`, so neither may act on it"
                related = (other, other_claim.path, f"`{other.address}` claims it first")
                yield item.diagnostic("M302", message, claim.path, "remove it from one of the two", related)
            for part in ("all", "any") if claim.partitions is None else (*claim.partitions, "any"):
                first.setdefault((*subject, part), (item, claim))


def _journal_rules(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    clusters = {item.name: (item, item.manifest) for item in items if isinstance(item.manifest, Cluster)}
    for item in items:
        policy = item.manifest
        if not isinstance(policy, Policy) or item.cluster not in clusters:
            continue
        cluster, manifest = clusters[item.cluster]
        topic = manifest.spec.journal.topic
        for claim in policy.exact_claims() if policy.OPERATION.RIGHT.resource == "topic" else ():
            if claim.subject == topic:
                message = f"`{topic}` is the journal of `{cluster.address}` and may never lose records"
                related = (cluster, ("spec", "journal", "topic"), "the journal of the cluster")
                yield item.diagnostic("M207", message, claim.path, "remove it from the list", related)
        if topic is None and policy.mode is Mode.CONTINUOUS and policy.every_ms is not None:
            message = "a continuous policy with `every` needs a journal topic: a CI runner loses the journal file"
            yield item.diagnostic("M401", message, ("mode",), f"add spec.journal.topic to {cluster.address}")


def _cluster_references(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    names = sorted({item.name for item in items if item.model is Cluster})
    if items and not names:
        message = "the manifests hold no Cluster, so the cluster is unknown"
        yield items[0].diagnostic("M306", message, _NAME, "add the folder of the Cluster manifest to the command")
        return
    used = {item.cluster for item in items if issubclass(item.model, Policy)}
    for item in items:
        if item.cluster is None:
            message = f"the manifests hold {len(names)} clusters, and this one does not name its cluster"
            yield item.diagnostic("M304", message, _NAME, f"add cluster: {' or '.join(names[:_NAMES_SHOWN])}")
        elif item.cluster not in names:
            known = f"known clusters: {', '.join(names[:_NAMES_SHOWN])}"
            hint = suggestion(item.cluster, names, otherwise=known, quote=backticks)
            yield item.diagnostic("M303", f"no Cluster named `{item.cluster}`", ("metadata", "cluster"), hint)
        # An unknown name may be the misspelt one of a Cluster that seems to have no policy.
        elif item.model is Cluster and item.name not in used and used.issubset(names):
            message = f"no policy for `{item.address}`: its plan is empty"
            yield item.diagnostic("M403", message, _NAME, "add the folder of the policies to the command")


def _waived_policies(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    addresses: dict[str | None, set[str]] = {}
    for item in items:
        if issubclass(item.model, Policy | Cluster):
            cluster = item.name if item.model is Cluster else item.cluster
            addresses.setdefault(cluster, set()).add(item.address)
    for item in items:
        known = addresses.get(item.cluster, set())
        if isinstance(item.manifest, Waiver) and item.manifest.spec.policy not in known:
            policy = item.manifest.spec.policy
            otherwise = "write KIND/NAME of a policy of the same cluster"
            hint = question(_closest_policy(policy, known), otherwise=otherwise, quote=backticks)
            yield item.diagnostic("M305", f"no policy `{policy}` for this waiver", ("spec", "policy"), hint)


def _closest_policy(address: str, known: Collection[str]) -> str | None:
    """Compare names within the kind first: long names of kinds make all addresses look alike."""
    kind, _, name = address.partition("/")
    closest = did_you_mean(name, (other.partition("/")[2] for other in known if other.startswith(f"{kind}/")))
    same_name = (other for other in sorted(known) if other.partition("/")[2] == name)
    return f"{kind}/{closest}" if closest else next(same_name, None)
