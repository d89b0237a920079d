"""What only the whole set shows: names used twice, subjects claimed twice, clusters and policies that are not there.

Refused manifests count as far as their names go: a typing mistake in one must not make others look wrong.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from reconciler.manifest.diagnostics import Diagnostic, Related, Severity
from reconciler.manifest.parse import ParsedManifest
from reconciler.policies import Cluster, GroupRemoval, LeaderPolicy, RetentionFloor, Waiver
from reconciler.text.formatting import format_instant
from reconciler.text.suggest import did_you_mean

_POLICIES = ("RetentionFloor", "GroupRemoval", "LeaderPolicy")


def cluster_of(item: ParsedManifest, clusters: Sequence[str]) -> str | None:
    """The name of the cluster that `item` belongs to; None: not known."""
    if item.kind == "Cluster":
        return item.name
    return item.cluster or (clusters[0] if len(clusters) == 1 else None)


def cross_check(items: Sequence[ParsedManifest], *, complete: bool, now_ms: int) -> Iterator[Diagnostic]:
    """Diagnostics in no particular order. `complete` False: some file could not be read to its end, so absence proves nothing."""
    clusters = sorted({item.name for item in items if item.kind == "Cluster"})
    yield from _same_name(items, clusters)
    yield from _claims(items, clusters)
    yield from _same_cluster_id(items)
    yield from _journal_topics(items, clusters)
    if complete:
        yield from _which_cluster(items, clusters)
        yield from _waived(items, clusters)
        yield from _nothing_desired(items, clusters)
    yield from _warnings(items, clusters, now_ms=now_ms)


def _same_name(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    first: dict[tuple[str, str, str | None], ParsedManifest] = {}
    for item in items:
        other = first.setdefault((item.kind, item.name, cluster_of(item, clusters)), item)
        if other is not item:
            yield _between("M301", f"`{item.address}` is declared twice", item, other, "declared first here")


def _between(
    code: str, message: str, item: ParsedManifest, other: ParsedManifest, said: str, hint: str = ""
) -> Diagnostic:
    span = item.name_span()
    related = (Related(other.source.place(other.name_span()), said),)
    where = f"in {item.address}, metadata"
    return item.source.diagnostic(
        code, message, span=span, hint=hint or "rename one of the two", where=where, related=related
    )


def _claims(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    """Claims by exact names. What patterns meet is known only on the live cluster, and decided by the planner."""
    whole: dict[tuple[str | None, str, str], Claim] = {}
    parts: dict[tuple[str | None, str, str], dict[int, Claim]] = {}
    for item in items:
        for subject, partitions, path in _claimed(item):
            key = (cluster_of(item, clusters), item.kind, subject)
            claim = (item, path)
            taken = parts.setdefault(key, {})
            if partitions is None:
                other = whole.setdefault(key, claim)
                if other is claim and taken:
                    other = next(iter(taken.values()))
            else:
                found = (taken.setdefault(partition, claim) for partition in partitions)
                other = next((c for c in [*found, whole.get(key, claim)] if c[0] is not item), claim)
            if other[0] is not item:
                yield _claimed_twice(claim, other, subject)


Claim = tuple[ParsedManifest, tuple[str | int, ...]]


def _claimed(item: ParsedManifest) -> Iterator[tuple[str, Sequence[int] | None, tuple[str | int, ...]]]:
    """(topic or group, partitions or None for all of it, path in the manifest) for each subject named exactly."""
    match item.manifest:
        case RetentionFloor(spec=floor):
            partitions = tuple(floor.keep.from_offset) if floor.keep.from_offset else floor.partitions
            for index, selector in enumerate(floor.topics):
                if not selector.is_pattern and not any(e.matches(selector.text) for e in floor.except_topics or ()):
                    yield selector.text, partitions, ("spec", "topics", index)
        case GroupRemoval(spec=removal):
            for index, selector in enumerate(removal.groups):
                if not selector.is_pattern and not any(e.matches(selector.text) for e in removal.except_groups or ()):
                    yield selector.text, None, ("spec", "groups", index)
        case LeaderPolicy(spec=leaders):
            for index, selector in enumerate(leaders.topics or ()):
                if not selector.is_pattern and not any(e.matches(selector.text) for e in leaders.except_topics or ()):
                    yield selector.text, None, ("spec", "topics", index)
            for topic, numbers in (leaders.partitions or {}).items():
                yield topic, numbers, ("spec", "partitions", topic)
        case _:
            pass


def _claimed_twice(claim: Claim, other: Claim, subject: str) -> Diagnostic:
    item, path = claim
    first, first_path = other
    related = (Related(first.source.place(first.span(*first_path)), f"claimed first by `{first.address}`"),)
    where = f"in {item.address}, {'.'.join(str(part) for part in path[:2])}"
    message = f"`{subject}` is claimed by two policies, so neither may act on it"
    hint = "take it out of one of the two"
    return item.source.diagnostic("M302", message, span=item.span(*path), hint=hint, where=where, related=related)


def _same_cluster_id(items: Sequence[ParsedManifest]) -> Iterator[Diagnostic]:
    first: dict[str, ParsedManifest] = {}
    for item in items:
        if isinstance(item.manifest, Cluster):
            other = first.setdefault(item.manifest.spec.cluster_id, item)
            if other.name != item.name:
                span = item.span("spec", "clusterId")
                related = (Related(other.source.place(other.span("spec", "clusterId")), f"`{other.address}`"),)
                message = f"`{other.address}` already has this clusterId"
                hint = "one manifest for one cluster"
                where = f"in {item.address}, spec"
                yield item.source.diagnostic("M307", message, span=span, hint=hint, where=where, related=related)


def _journal_topics(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    journals = {
        item.name: item for item in items if isinstance(item.manifest, Cluster) and item.manifest.spec.journal.topic
    }
    for item in items:
        cluster = journals.get(cluster_of(item, clusters) or "")
        if not isinstance(item.manifest, RetentionFloor) or cluster is None:
            continue
        assert isinstance(cluster.manifest, Cluster)
        for index, selector in enumerate(item.manifest.spec.topics):
            if selector.text == cluster.manifest.spec.journal.topic:
                place = cluster.source.place(cluster.span("spec", "journal", "topic"))
                message = f"`{selector.text}` is the journal of `{cluster.address}` and may never lose records"
                yield item.source.diagnostic(
                    "M207",
                    message,
                    span=item.span("spec", "topics", index),
                    hint="leave it out",
                    where=f"in {item.address}, spec.topics",
                    related=(Related(place, "named here"),),
                )


def _which_cluster(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    others = [item for item in items if item.kind != "Cluster"]
    if not clusters:
        for item in others[:1]:
            hint = "give the folder that holds the Cluster manifest, too"
            message = "no Cluster in the set, so nothing says which cluster is meant"
            yield item.source.diagnostic("M306", message, span=item.name_span(), hint=hint, where=f"in {item.address}")
        return
    for item in others:
        where = f"in {item.address}, metadata"
        if item.cluster is None and len(clusters) > 1:
            message = f"the set holds {len(clusters)} clusters, and this does not say which one it belongs to"
            hint = f"add cluster: {' or '.join(clusters[:5])}"
            yield item.source.diagnostic("M304", message, span=item.name_span(), hint=hint, where=where)
        elif item.cluster is not None and item.cluster not in clusters:
            near = did_you_mean(item.cluster, clusters)
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(clusters[:5])}"
            message = f"no Cluster called `{item.cluster}`"
            span = item.span("metadata", "cluster")
            yield item.source.diagnostic("M303", message, span=span, hint=hint, where=where)


def _waived(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    known: dict[str | None, set[str]] = {}
    for item in items:
        if item.kind in _POLICIES:
            known.setdefault(cluster_of(item, clusters), set()).add(item.address)
    for item in items:
        if isinstance(item.manifest, Waiver):
            wanted = item.manifest.spec.policy
            there = known.get(cluster_of(item, clusters), set())
            if wanted not in there:
                near = _near_policy(wanted, there)
                hint = f"did you mean `{near}`?" if near else "KIND/NAME of a policy of the same cluster"
                message = f"no policy `{wanted}` for this waiver"
                span = item.span("spec", "policy")
                yield item.source.diagnostic("M305", message, span=span, hint=hint, where=f"in {item.address}, spec")


def _near_policy(wanted: str, there: Collection[str]) -> str | None:
    """By name within the kind first: the kinds' long names would make everything look alike."""
    kind, _, name = wanted.partition("/")
    near = did_you_mean(name, (other.partition("/")[2] for other in there if other.startswith(f"{kind}/")))
    if near is not None:
        return f"{kind}/{near}"
    return next((other for other in sorted(there) if other.partition("/")[2] == name), None)


def _warnings(items: Sequence[ParsedManifest], clusters: Sequence[str], *, now_ms: int) -> Iterator[Diagnostic]:
    specs: Mapping[str, Cluster] = {item.name: item.manifest for item in items if isinstance(item.manifest, Cluster)}
    for item in items:
        match item.manifest:
            case RetentionFloor(mode="continuous", spec=floor) if floor.every_ms is not None:
                cluster = specs.get(cluster_of(item, clusters) or "")
                if cluster is not None and cluster.spec.journal.topic is None:
                    message = "a continuous policy with `every`, and the journal is a file: a CI runner forgets it"
                    hint = f"name a topic: spec.journal.topic of Cluster/{cluster.metadata.name}"
                    yield _warning(item, "M401", message, hint=hint, where=f"in {item.address}", path=("mode",))
            case Waiver(spec=waiver) if waiver.expires <= now_ms:
                message = f"this waiver expired at {format_instant(waiver.expires)} and has no effect"
                where = f"in {item.address}, spec"
                yield _warning(item, "M402", message, hint="remove it", where=where, path=("spec", "expires"))
            case _:
                pass


def _nothing_desired(items: Sequence[ParsedManifest], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    desired = {cluster_of(item, clusters) for item in items if item.kind in _POLICIES}
    if not desired <= set(clusters):  # some policy does not say whose it is, and another error does
        return
    for item in items:
        if item.kind == "Cluster" and item.name not in desired:
            message = f"no policy for `{item.address}`: its plan is empty"
            hint = "give the folder that holds the policies, too"
            yield _warning(item, "M403", message, hint=hint, where=f"in {item.address}", path=("metadata", "name"))


def _warning(
    item: ParsedManifest, code: str, message: str, *, hint: str, where: str, path: tuple[str, ...]
) -> Diagnostic:
    return item.source.diagnostic(
        code, message, span=item.span(*path), hint=hint, where=where, severity=Severity.WARNING
    )
