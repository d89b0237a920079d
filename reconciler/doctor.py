"""Checks what a cluster allows against what its manifests require. Reads only."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from reconciler.clock import wall_clock_ms
from reconciler.kafka import doctor, permissions
from reconciler.kafka.doctor import BrokerVersion, DoctorReport
from reconciler.kafka.journal_topic import create_command
from reconciler.kafka.permissions import EVERY, NameSelection, Permission, RequiredAccess, RequiredRequest, Role
from reconciler.model.selector import Selector
from reconciler.model.snapshot import Unknown
from reconciler.operations import OPERATIONS, Operation
from reconciler.plan import planner
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.report.tree import Item, Report, Section, Severity
from reconciler.run import Run
from reconciler.text.escape import display_name, escape_sentence, quoted
from reconciler.text.formatting import approximate_duration, count, first_few

_NAMES_SHOWN = 5
_AHEAD_MS = 5_000
"""A broker's timestamp further in our future is not a network delay."""
_STALE_MS = 60_000
"""Without a timestamp younger than this, our clock may be ahead."""
_COMMENTS = {
    Role.PLAN: "reads: plan, drift, and pull requests",
    Role.APPLY: "also changes these topics and groups, without elections",
    Role.ELECTIONS: "also elects leaders; ALTER on the cluster can grant everything, so keep this principal apart",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCheck:
    """What the manifests of one cluster require, and the report of the checks."""

    cluster: str
    bootstrap_servers: tuple[str, ...]
    required: RequiredAccess
    report: DoctorReport

    def passes(self, purpose: Role) -> bool:
        """Whether a principal of this purpose has everything that it needs."""
        items = (item for section in doctor_report(self, purpose).sections for item in section.items)
        return all(item.severity is Severity.PLAIN for item in items)

    def acl_commands(self, principal: str) -> Iterator[str]:
        """Yield shell commands for the principals `principal`-plan, -apply and -elections."""
        required, report = self.required, self.report
        purposes = {Role.PLAN, *(change.purpose for change in required.changes)}
        yield f"# Cluster {display_name(self.cluster)} ({display_name(report.cluster_id)})"
        for purpose in filter(purposes.__contains__, Role):
            yield f"# {principal}-{purpose}: {_COMMENTS[purpose]}"
            granted = permissions.grants(required, purpose, topics=report.topics, groups=report.groups)
            yield from permissions.commands(f"{principal}-{purpose}", granted, bootstrap_servers=self.bootstrap_servers)


def check_cluster(run: Run, *, elections_only: bool = False) -> ClusterCheck:
    """Check what policies, or only elections, require. Raises ClusterUnreachable, WrongCluster."""
    cluster = run.manifests.cluster
    policies = [p for p in run.manifests.policies if not elections_only or p.OPERATION.RIGHT.resource == "cluster"]
    required = required_access(cluster, policies, observed_at_ms=wall_clock_ms())
    readers = () if elections_only else run.manifests.reader_requests
    required = replace(required, needs=replace(required.needs, external=readers))
    session = run.session
    run.progress("reading versions, clocks and permissions")
    return ClusterCheck(
        cluster=cluster.metadata.name,
        bootstrap_servers=cluster.spec.bootstrap_servers,
        required=required,
        report=doctor.run_checks(session, required),
    )


def required_access(cluster: Cluster, policies: Sequence[Policy], *, observed_at_ms: int) -> RequiredAccess:
    """Return what planning reads and what applying writes; protected subjects are never written."""
    spec = cluster.spec
    journal = (Selector(spec.journal.topic),) if spec.journal.topic else ()
    protected = {"topic": (*(spec.protect.topics or ()), *journal), "group": spec.protect.groups or (), "cluster": ()}
    selections = defaultdict[type[Operation], list[NameSelection]](list)
    for policy in policies:
        excluding = (*policy.excluding, *protected[policy.OPERATION.RIGHT.resource])
        skip = policy.PATTERNS_SKIP_UNDERSCORE
        selection = NameSelection(selectors=policy.selectors, excluding=excluding, patterns_skip_underscore=skip)
        selections[policy.OPERATION].append(selection)
    needs = planner.scan_request(policies, observed_at_ms)
    needs = replace(needs, without_consumer_offsets=cluster.hides_consumer_offsets)
    return RequiredAccess(
        needs=needs,
        changes=tuple(
            write_permission(known, *selections[known]) for known in reversed(OPERATIONS) if known in selections
        ),
        journal_topic=spec.journal.topic,
        requests=(*permissions.planning_requests(needs), *map(apply_request, filter(selections.get, OPERATIONS))),
        rights=tuple((operation.RIGHT.operation, operation.RIGHT.resource) for operation in OPERATIONS),
    )


def apply_request(operation: type[Operation]) -> RequiredRequest:
    """Return the request that carries out an operation."""
    permission = write_permission(operation)
    return RequiredRequest(permission.purpose, *operation.API, permission.breaks)


def write_permission(operation: type[Operation], *selections: NameSelection) -> Permission:
    """Return what the requests of an operation need on what these policies select."""
    right = operation.RIGHT
    is_of_cluster = right.resource == "cluster"
    return Permission(
        Role.ELECTIONS if is_of_cluster else Role.APPLY,
        right.operation,
        right.resource,
        [EVERY] if is_of_cluster else selections,
        f"apply cannot carry out any {operation.TITLE}",
    )


def doctor_report(check: ClusterCheck, purpose: Role) -> Report:
    """Build the report for one purpose: what it lacks is ERROR, what was not read is WARNING."""
    results = check.report
    heading = (
        f"Cluster {display_name(check.cluster)} ({display_name(results.cluster_id)}): "
        f"{count(len(results.brokers), 'broker')} ({', '.join(map(str, results.brokers))}), "
        f"{count(len(results.topics), 'topic')}, {count(len(results.groups), 'group')}"
    )
    facts = [
        _item("client", results.client),
        *_versions(results.versions, check.required.requests),
        _clock(results.clock_age_ms),
        *(_item("SILENT", escape_sentence(f"{text}; what only it knows is not checked")) for text in results.silent),
        *(_item("MISSING", escape_sentence(sentence)) for sentence in results.unseen),
    ]
    if results.journal_missing and check.required.journal_topic is not None:
        command = create_command(display_name(check.required.journal_topic), brokers=len(results.brokers))
        facts.append(_item("MISSING", f"the journal's topic does not exist; to create it: {command}"))
    if isinstance(risks := results.journal_risks, Unknown):
        facts.append(_item("unknown", f"how safe the journal's topic is: {escape_sentence(risks.reason)}"))
    else:
        facts += [_item("risk", escape_sentence(sentence), Severity.WARNING) for sentence in risks]
    sections = {heading: facts}
    for role in Role:
        items = [item for right in results.rights if right.purpose is role for item in _right(right, purpose)]
        sections[f"Rights to {'elect' if role is Role.ELECTIONS else role}"] = items
    sections["More than planning needs"] = [_item("note", sentence) for sentence in results.beyond]
    shown = (Section(heading=(title,), items=tuple(items), labelled=False) for title, items in sections.items())
    return Report(sections=tuple(shown), footer=(("Least-privilege grants: reconciler doctor --acls",),))


def _item(label: str, sentence: str, severity: Severity = Severity.PLAIN) -> Item:
    severity = Severity.ERROR if label in ("MISSING", "SILENT") else severity
    return Item(subject=(f"{label:<8} {sentence}",), severity=severity)


def _versions(versions: Sequence[BrokerVersion], requests: Sequence[RequiredRequest]) -> Iterator[Item]:
    """Yield an item for each version of brokers, and for each broker that is too old."""
    if not versions:
        yield _item("unknown", "no broker reported its protocol versions")
    brokers: dict[tuple[bool, tuple[tuple[Role, str], ...]], list[str]] = {}
    for version in versions:
        if version.unread is not None:
            yield _item("unknown", escape_sentence(version.unread.reason), Severity.WARNING)
            continue
        texts = {name: f"{name} {first}..{last}" for name, (first, last) in sorted(version.operations.items())}
        of_purpose = {purpose: {request.name for request in requests if request.purpose is purpose} for purpose in Role}
        ranges = ((purpose, ", ".join(texts[n] for n in texts if n in names)) for purpose, names in of_purpose.items())
        key = version.kafka_4, tuple(filter(itemgetter(1), ranges))
        brokers.setdefault(key, []).append(display_name(version.broker))
        for request in version.lacking:
            support = f"does not support {request.name} in version {request.first} or later"
            yield _item("MISSING", f"{display_name(version.broker)} {support}: {request.breaks}")
    for (is_kafka_4, spoken), addresses in brokers.items():
        kafka = f"probably Kafka {'4.0 or later' if is_kafka_4 else 'before 4.0'}, by the versions of these requests"
        yield _item("brokers", f"{first_few(addresses)}: {kafka}")
        for purpose, requests_of in spoken:
            yield _item("  elect" if purpose is Role.ELECTIONS else f"  {purpose}", requests_of)


def _clock(age_ms: int | Unknown) -> Item:
    if isinstance(age_ms, Unknown):
        return _item("clock", f"not compared: {escape_sentence(age_ms.reason)}")
    if age_ms < -_AHEAD_MS:
        behind = approximate_duration(-age_ms)
        return _item(
            "MISSING", f"this machine's clock is at least {behind} behind a broker's: set the one that is wrong"
        )
    effect = "which makes groups look idle and records old"
    stale = f"no group has committed since, or this machine's clock is ahead, {effect}: compare it"
    verdict = "its clock agrees with this machine's, others are not compared" if age_ms <= _STALE_MS else stale
    return _item("clock", f"a broker's newest timestamp is {approximate_duration(max(0, age_ms))} old: {verdict}")


def _right(right: Permission, purpose: Role) -> Iterator[Item]:
    needed = right.purpose in (Role.PLAN, purpose)
    if not right.missing and not right.unread:
        # Several purposes need READ on one topic each: three lines with the same number would not say which.
        exact = right.exact_names
        named = right.resource == "cluster" or (right.total == 1 and len(exact) == 1)
        resources = _resources(right, exact) if named else count(right.total, right.resource)
        yield _item("ok", f"{right.operation} on {resources}")
    if right.missing:
        label = "MISSING" if needed else "absent"
        yield _item(label, f"{right.operation} on {_resources(right, right.missing)}: {right.breaks}")
    if right.unread:
        names = [name for name, _reason in right.unread]
        reason = escape_sentence(right.unread[0][1])
        severity = Severity.WARNING if needed else Severity.PLAIN
        yield _item("unknown", f"{right.operation} on {_resources(right, names)}: {reason}", severity)


def _resources(right: Permission, names: Sequence[str]) -> str:
    if right.resource == "cluster":
        return "the cluster"
    escape = quoted if right.resource == "group" else display_name
    return f"{right.resource} {first_few([escape(name) for name in names], limit=_NAMES_SHOWN)}"
