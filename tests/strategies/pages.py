"""Plans for pages: an ordinary one of 23 actions, one with hostile names, and large ones."""

from dataclasses import replace

from reconciler.companions.suggest import rules
from reconciler.companions.suggest.findings import Suggestions
from reconciler.model.action import Mode
from reconciler.model.names import Address, SourceLocation, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Decision, LimitVerdict, Plan, PolicyInfo, Satisfied, Source
from reconciler.model.snapshot import GroupState, PartitionFacts
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import LagPolicy, Preconditions
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import drift
from reconciler.plan.drift import DriftReport
from tests.strategies import facts
from tests.strategies.examples import blocked, election, plan, purge, removal, waiting
from tests.strategies.facts import DAY, HOUR, NOW_MS

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover=alert(1) x='",
    "</style><style>body{display:none}",
    "--><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;#x41;",
    "javascript:alert(1)",
    "right\u202eto\u202cleft \u05d0\u05d1",
    "zero\u200bwidth\x1b[31m\x00\n\t",
    "nine " + "n" * 300,
    "\U0001f4a3" * 40,
)
"""Group ids, owners, reasons and paths may hold any of these."""
RETENTION = SourceLocation("manifests/prod-eu/retention.yaml", 1, 1)
LEADERS = SourceLocation("manifests/prod-eu/leaders.yaml", 6, 1)


def limits(**observed: float) -> tuple[LimitVerdict, ...]:
    """Return the verdicts of all limits, with what the plan uses of each."""
    bounds = facts.cluster().spec.limits.model_dump(by_alias=True)
    return tuple(
        LimitVerdict(
            id=limit,
            limit=bound,
            observed=observed.get(limit, 0),
            passed=observed.get(limit, 0) <= bound,
            message=f"{limit}: {observed.get(limit, 0):g}, the limit is {bound:g}",
        )
        for limit, bound in bounds.items()
    )


def ordinary() -> Plan:
    """23 actions on three brokers: ten elections of three topics, ten deletions, three groups."""
    erase = {"policy": "clicks-7d", "declared_at": RETENTION}
    clicks = [
        purge("clicks", number, log_start=number * 1_000, before_offset=48_213 + number * 700, end=60_000, **erase)
        for number in range(6)
    ]
    gdpr = {"policy": "orders-gdpr", "declared_at": replace(RETENTION, line=12), "log_start": 12_000}
    orders = [
        purge("orders", 0, before_offset=98_213, end=250_000, **gdpr),
        purge("orders", 1, before_offset=97_900, end=240_000, skips=[("billing", 71_500)], **gdpr),
        purge("orders", 2, before_offset=99_400, end=180_000, skips=[("billing", 90_100), ("fraud", 30_000)], **gdpr),
    ]
    stuck = [
        blocked(
            f"RetentionFloor/orders-gdpr/orders[{number}]",
            reason='group "old-etl" is at 12004 and would skip 86,213 records',
            next_step="let it catch up, remove it, or say consumers: clamp",
        )
        for number in (3, 4, 5)
    ]
    named = Preconditions(consumers=LagPolicy.BLOCK, named=("word-count",), every_ms=30_000)
    counts = purge("counts-repartition", 0, policy="streams", guard=named, consumed_by_named=True, mode=Mode.CONTINUOUS)
    groups = [
        _removal(group, days) for group, days in (("old-etl", 9), ("console-consumer-7731", 31), ("load-test", 120))
    ]
    moves = [("payments", 4, 2, 1), ("orders", 3, 2, 3), ("clicks", 3, 3, 1)]
    elections = [
        _election(topic, number, before=before, after=after)
        for topic, partitions, before, after in moves
        for number in range(partitions)
    ]
    in_sync = [
        Satisfied(Address("LeaderPolicy", "preferred", f"topic-{topic:02}", number))
        for topic in range(17)
        for number in range(30)
    ]
    decisions: list[Decision] = [*clicks, *orders, *stuck, counts, *groups, *elections, *in_sync]
    decisions.append(waiting("RetentionFloor/streams/counts-repartition[1]"))
    return plan(
        *decisions,
        limits=limits(
            topics=3, recordsPercentPerTopic=81.4, recordsPercent=31.2, groups=3, groupsPercent=42.9, elections=10
        ),
        notes=(
            PolicyInfo(
                policy=Address("RetentionFloor", "clicks-7d"), owner="team-web", reason="clicks are kept for a week"
            ),
            PolicyInfo(policy=Address("RetentionFloor", "orders-gdpr"), owner="team-orders", reason="erase after 30 d"),
            PolicyInfo(policy=Address("GroupRemoval", "dead-etl"), owner="platform", reason="they have no user"),
        ),
    )


def _removal(group: str, days: int, **changes: object) -> DeleteGroup:
    reason = f"EMPTY, no activity for {days} days"
    return removal(group, reason=reason, last_activity_ms=NOW_MS - days * DAY, idle_for_ms=7 * DAY, **changes)


def _election(topic: str, number: int, *, before: int, after: int) -> ElectLeader:
    replicas = (after, before, 6 - before - after)
    return election(
        topic,
        number,
        policy="preferred",
        declared_at=LEADERS,
        leader=before,
        replicas=replicas,
        in_sync=replicas,
        leader_wanted=after,
    )


def hostile() -> Plan:
    """Each text that a cluster, a manifest or a path can bring is hostile."""
    decisions: list[Decision] = []
    notes = []
    for number, text in enumerate(HOSTILE):
        place = SourceLocation(f"manifests/{text}.yaml", number + 1, 1)
        policy = f"policy-{number}"
        skips = [(other, 2_000 + 100 * number) for number, other in enumerate(HOSTILE)]
        topic = f"{'t' * 240}.{number:02}" if number < 2 else f"topic.{number}"
        decisions += [
            purge(topic, number, policy=policy, declared_at=place, reason=text, skips=skips),
            _removal(text, number + 8, policy=text, declared_at=place),
            replace(
                blocked(f"RetentionFloor/{policy}/topic-{number}", code="B999" if number % 2 else "B204"),
                reason=text,
                next_step=text,
                declared_at=place,
            ),
        ]
        notes.append(PolicyInfo(policy=Address("RetentionFloor", policy), owner=text, reason=text))
    refused = LimitVerdict(id="groups", limit=1, observed=12, passed=False, message=f"groups: 12, {HOSTILE[0]}")
    source = Source(commit="<b>" * 10, dirty=True)
    return plan(
        *decisions, cluster=HOSTILE[1], cluster_id=HOSTILE[0], limits=(refused,), notes=tuple(notes), source=source
    )


def large(topics: int = 100, partitions: int = 50) -> Plan:
    """Deletions in all partitions of many topics, of different sizes; and some blocked ones."""
    sizes = [
        [
            purge(
                partition=number,
                policy="everything-7d",
                log_start=number % 1_000,
                before_offset=2_000 + 7_000 * size + 97 * (number * 7 % 50),
                end=70_000 + 13 * number,
                skips=[("billing", 1_000)] if number % 17 == 3 and size == 6 else [],
            )
            for number in range(partitions)
        ]
        for size in range(7)
    ]
    decisions: list[Decision] = []
    for number in range(topics):
        topic = f"events-{number:05}"
        for template in sizes[number % 7]:
            address = replace(template.address, name=topic)
            partition = TopicPartition(topic, address.partition)
            decisions.append(replace(template, address=address, partition=partition))
    decisions += [blocked(f"RetentionFloor/everything-7d/stuck-{number:03}[0]") for number in range(40)]
    used = {"topics": float(topics), "recordsPercent": 44.0, "recordsPercentPerTopic": 61.5}
    return plan(*decisions, limits=limits(**used))


def outcomes(planned: Plan) -> list[Outcome]:
    """Return what became of a plan: most is applied, and a few actions have each other status."""
    others = [Status.FAILED, Status.NOT_ATTEMPTED, Status.STALE]
    results = []
    for number, action in enumerate(planned.actions):
        status = others[number // 7 % len(others)] if number % 7 == 3 else Status.APPLIED
        applied = status is Status.APPLIED
        results.append(
            Outcome(
                action=action,
                status=status,
                detail="sent and read back" if applied else f"because of {action.address.name}",
                code=None if applied else "POLICY_VIOLATION",
                read_back="as planned" if applied else None,
                sends=1,
                removed_max=action.records_removed_max(None) if applied else 0,
            )
        )
    return results


def drifting() -> DriftReport:
    """Return the drift of the ordinary plan, of which most was reported before, up to six days ago."""
    days = {"orders": 6, "clicks": 3, "load-test": 2}
    report = drift.report(ordinary())
    subjects = (replace(s, since_ms=s.since_ms - days.get(s.address.name, 0) * DAY) for s in report.subjects)
    return replace(report, subjects=tuple(subjects))


def suggested() -> Suggestions:
    """Return what `suggest` finds on a small cluster of which one plan may touch two topics."""

    def partition(topic: str, number: int, end: int, read: int, **more: object) -> PartitionFacts:
        readers = (facts.reader("billing", read), facts.reader("old-etl", read // 8))
        return facts.partition(number, topic=topic, at={DAY: end // 2}, end=end, readers=readers, **more)

    sizes = {"orders": (210_000, 203_000), "clicks": (115_000, 6_100), "payments": (83_000, 32_000)}
    snapshot = facts.snapshot(
        *(partition(topic, number, *size) for topic, size in sizes.items() for number in range(3)),
        partition("shipments", 0, 9_000, 4_000, leader=2),
        facts.partition(0, topic="clicks-raw", at={DAY: 100_000}, end=400_000),
        *(facts.topic(topic, 3, records=3 * end) for topic, (end, _read) in sizes.items()),
        facts.partition(0, topic="_schemas", at={DAY: 0}, end=340),
        facts.topic("shipments", records=9_000),
        facts.topic("clicks-raw", records=400_000, consumers=frozenset()),
        facts.topic("_schemas", records=340, cleanup_policy=frozenset({"compact"})),
        facts.group("billing", idle=HOUR, state=GroupState.STABLE),
        facts.group("old-etl", idle=6 * DAY),
        facts.group("load-test", idle=120 * DAY),
    )
    return rules.suggest(snapshot, cluster=facts.cluster(limits={"topics": 2}))
