"""Plans, outcomes and journal entries of every type, for the tests of reports."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.action import Action, Mode
from reconciler.model.names import Address, SourceLocation
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import (
    Change,
    Decision,
    LimitVerdict,
    Plan,
    PolicyInfo,
    Rule,
    Setting,
    Skipped,
    Source,
    Unmatched,
    UsedWaiver,
)
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import AcceptedLag, DeleteRecords, LagPolicy, Preconditions
from tests.strategies.examples import NOW_MS, blocked, election, plan, purge, removal, satisfied, waiting
from tests.strategies.facts import HOUR

FLOOR = Address("RetentionFloor", "orders-gdpr")

NAMED = Preconditions(consumers=LagPolicy.BLOCK, named=("my-app",), every_ms=30_000, except_groups=("audit-*",))
PURGES = [purge(partition=number, log_start=1_000 + number % 3) for number in range(9)]
ACTIONS: list[Action] = [
    *PURGES,
    purge(partition=20, skips=[("billing", 52_000), ("audit", 500)], policy="ignoring"),
    purge("counts", 0, policy="streams", guard=NAMED, consumed_by_named=True, mode=Mode.CONTINUOUS),
    purge("clamped", 1, policy="clamping", guard=Preconditions(consumers=LagPolicy.CLAMP), drift=False),
    removal(),
    replace(removal("quiet"), idle_for_ms=0, seen=replace(removal().seen, last_activity_ms=None, newest_record=None)),
    *(election(partition=number) for number in range(3)),
    election("dead", 4, unclean=True, policy="rescue"),
]
OTHERS = [
    blocked("RetentionFloor/orders-gdpr/orders[15]"),
    blocked("RetentionFloor/orders-gdpr/orders[16]", code="B103", reason="its leader did not answer", unread=True),
    *(blocked(f"RetentionFloor/wide/clicks[{number}]") for number in range(25)),
    blocked("RetentionFloor/typo", code="B107", reason="selects 900 topics", next_step="narrow topics"),
    *(
        replace(waiting(f"RetentionFloor/streams/counts[{number}]"), until_ms=NOW_MS + number * 10_000)
        for number in (1, 3)
    ),
    replace(waiting("LeaderPolicy/all/payments[9]"), until_ms=None, reason="broker 3 is not in sync"),
    Skipped(address=Address("RetentionFloor", "all", "compacted"), code="B303", reason="cleanup.policy is compact"),
    *(
        Skipped(address=Address("GroupRemoval", "dead-etl", name), code="B303", reason="it is in use")
        for name in ("a", "b")
    ),
    *(satisfied(f"LeaderPolicy/all/x[{number}]") for number in range(12)),
]
WAIVER = UsedWaiver(
    name="once",
    policy=FLOOR,
    limit="recordsPercentPerTopic",
    value=95,
    expires_ms=NOW_MS + 50 * HOUR,
    declared_at=SourceLocation("manifests/waivers.yaml", 3, 1),
)
LIMITS = (
    LimitVerdict(id="topics", limit=10, observed=4, passed=True, message="topics: 4, the limit is 10", worst=FLOOR),
    LimitVerdict(
        id="recordsPercentPerTopic",
        limit=90,
        observed=92.5,
        passed=True,
        message="recordsPercentPerTopic: 92.5 %, the limit is 90 %",
        worst=FLOOR,
        waivers=(WAIVER,),
    ),
)
REFUSED = LimitVerdict(id="groups", limit=1, observed=2, passed=False, message="groups: 2, the limit is 1", worst=FLOOR)
SPARSE = LimitVerdict(id="recordsPercent", limit=5, observed=None, passed=False, message="recordsPercent: not known")
WHOLE = plan(
    *ACTIONS,
    *OTHERS,
    limits=(*LIMITS, REFUSED, SPARSE),
    incomplete=("The list of groups is incomplete: the right DESCRIBE on the cluster is missing.",),
    source=Source(commit="4f2c9aa0d1e2f3a4b5c6d7e8f901234567890abc", dirty=True),
    targets=("GroupRemoval/dead-etl", "RetentionFloor/orders-gdpr"),
    notes=(
        PolicyInfo(policy=FLOOR, owner="team-orders", reason="erase after 30 days"),
        PolicyInfo(policy=Address("GroupRemoval", "dead-etl"), owner=None, reason="they have no user"),
        PolicyInfo(policy=Address("LeaderPolicy", "all"), owner="platform", reason=None),
    ),
)
CALM = plan(*ACTIONS[:2], satisfied("LeaderPolicy/all/x[0]"), limits=LIMITS[:1], source=Source())
NOTHING = plan(satisfied("LeaderPolicy/all/x[0]"), notes=())


def outcome_of(number: int = 3, status: Status = Status.APPLIED, **changes: Any) -> Outcome:
    """Return the outcome of a deletion in orders[number]."""
    action = purge(partition=number)
    example = Outcome(action=action, status=status, detail="", sends=1, removed_max=action.records_max)
    return replace(example, **changes)


def failed(action: Action, detail: str, code: str | None = None, **changes: Any) -> Outcome:
    ended = {"status": Status.FAILED, "action": action, "detail": detail, "code": code, "removed_max": 0}
    return outcome_of(**ended | changes)


def mixed_outcomes() -> list[Outcome]:
    """Return one outcome of each status, and several equal ones."""
    said = {"detail": "records deleted, shown by the log start", "code": "NONE", "read_back": "log start 98213"}
    removed = [outcome_of(action=of, removed_max=of.records_max, possible=True, **said) for of in PURGES]
    statuses = [status for status in Status if status is not Status.APPLIED]
    codes = (None, "POLICY_VIOLATION") * len(statuses)
    ended = enumerate(zip(ACTIONS[9:], statuses, codes, strict=False))
    return removed + [
        failed(action, f"because of {number}", code, status=status, sends=number)
        for number, (action, status, code) in ended
    ]


def entry_of(address: Address, status: Status | None = None, **more: Any) -> JournalEntry:
    """Return the outcome of an action, or its intent, which has no status."""
    event, common = Event.OUTCOME if status else Event.INTENT, {"at_ms": NOW_MS, "run_id": "one", "plan_digest": "d"}
    fields = common | {"operation": "delete_records", "request": {}} | more
    return JournalEntry(event=event, address=address, status=status, **fields)


def journal_entries() -> list[JournalEntry]:
    author = {"who": "ada@ci", "commit": "4f2c9aa0d1e2f3a4b5c6d7e8f901234567890abc"}
    said: dict[Status, dict[str, str]] = {
        Status.APPLIED: {"read_back": "log start 7"},
        Status.FAILED: {"detail": "the broker said no", "code": "POLICY_VIOLATION"},
        Status.STALE: {},
        Status.SATISFIED: {},
    }
    rows = []
    for number, action in enumerate((PURGES[0], removal(), election())):
        request = {"group": "old-etl"} if number == 1 else {"topic": "orders", "partition": number}
        common = {"run_id": "a1b2c3d4e5f6", "plan_digest": "sha256:" + "0" * 64, "request": request}
        common["at_ms"] = NOW_MS + number * 1_000
        rows.append(entry_of(action.address, **common, **(author if number else {})))
        rows += [
            entry_of(action.address, status, **{"code": "NONE"} | common | author | words)
            for status, words in said.items()
        ]
    return rows


CHANGED = plan(
    *(replace(action, before_offset=action.before_offset + 5) for action in PURGES[:3]),
    *(replace(action, before_offset=action.before_offset - 5) for action in PURGES[3:5]),
    purge(partition=20, skips=[("billing", 51_000), ("late", 7)], policy="ignoring"),
    replace(removal(), seen=replace(removal().seen, fingerprint="cd" * 32)),
    removal("new"),
    *(election(partition=number) for number in range(12)),
)
CROWD = [(f"group-{number:02}", 2_000 * number) for number in range(12)]
MOVES = [replace(election().seen, leader=number % 6 + 2) for number in range(24)]
CROWDED = plan(
    *(purge(f"topic-{number:02}", 0, policy="many") for number in range(30)),
    *(purge(f"just-{number:02}", 0, policy="just-enough") for number in range(25)),
    *(purge("skipped", number, policy="skipping", skips=CROWD[: 10 + number % 3]) for number in range(24)),
    *(purge("ten", number, policy="skipping-ten", skips=CROWD[:10]) for number in range(24)),
    *(purge("empty", number, policy="odd", log_start=98_212, end=98_213) for number in range(2)),
    *(election("moved", number, seen=seen, policy="moves") for number, seen in enumerate(MOVES)),
    *(election("still", number, policy="moves") for number in range(21)),
    *(blocked(f"RetentionFloor/stuck/topic-{number:02}[0]", reason=f"reason {number}") for number in range(30)),
    *(blocked(f"RetentionFloor/ten/topic-{number:02}[0]", unread=True, code="B103") for number in range(10)),
    *(
        replace(waiting(f"LeaderPolicy/all/w-{number:02}[0]"), until_ms=None, reason=f"{number}")
        for number in range(30)
    ),
    *(
        Skipped(address=Address("GroupRemoval", "dead", f"s{number:02}"), code="B303", reason=f"{number}")
        for number in range(30)
    ),
    *(Skipped(address=Address("GroupRemoval", "pair", name), code="B303", reason="alike") for name in "ab"),
    *(blocked(f"RetentionFloor/five/five[{number}]") for number in range(5)),
    *(blocked(f"RetentionFloor/six/six[{number}]") for number in range(6)),
    *(blocked(f"RetentionFloor/fold/fold[{number}]") for number in range(20)),
    *(blocked(f"RetentionFloor/coded/fold[{number}]", code=("B204", "B203")[number % 2]) for number in range(42)),
)
EDGES = plan(
    *(purge("eleven", number, policy="skipping", skips=CROWD[:11]) for number in range(24)),
    *(blocked(f"RetentionFloor/stuck/topic-{number:02}[0]", reason=f"reason {number}") for number in range(7)),
    *(
        blocked(f"RetentionFloor/partly/{subject}", unread=True, code="B103", reason="silence")
        for subject in ("orders", "orders[0]", "orders[1]")
    ),
    limits=(REFUSED,),
    incomplete=("A sentence that is longer than forty letters, to be sure that it is folded.",),
)
ONE = plan(blocked())
MEETING = plan(
    purge("orders", 0),
    removal(),
    election("orders", 1),
    *(satisfied(f"LeaderPolicy/all/orders[{number}]") for number in (0, 2)),
    satisfied("RetentionFloor/orders-gdpr/orders[2]"),
    satisfied("GroupRemoval/dead-etl/gone"),
    blocked("RetentionFloor/typo/odrers", code="B101"),
)
"""Two policies of a partition: it is one partition, and in sync only if both are satisfied."""
SILENT = "the log start of {} could not be read: broker 2 did not answer within 10 s"
CAUSES = plan(
    *(blocked(f"RetentionFloor/a/orders[{n}]", reason=f'"etl" is at {n}', held_by=("etl",)) for n in range(21)),
    *(blocked(f"RetentionFloor/a/t[{n}]", code="B103", unread=True, reason=SILENT.format(f"t[{n}]")) for n in (1, 2)),
    blocked("RetentionFloor/a/u[0]", code="B103", unread=True, reason="broker 3 did not answer"),
    *(blocked(f"RetentionFloor/a/v[{n}]", code="B208", reason=f"fromOffset {n} is above the end") for n in range(6)),
)
UNKNOWN = plan(incomplete=tuple(f"fact {n}" for n in range(14)))
UNREADABLE = plan(blocked(unread=True, code="B103"), incomplete=("One thing.", "Another."))


def crowded_outcomes() -> list[Outcome]:
    """Return 21 and 20 equal outcomes of a topic, one other outcome, and thirty different failures."""
    rows = [
        outcome_of(action=purge(topic, number), detail="done", removed_max=7)
        for topic, count in (("folded", 21), ("listed", 20))
        for number in range(count)
    ]
    return rows + [failed(removal(f"g{number:02}"), f"failed {number}", "UNKNOWN", sends=2) for number in range(30)]


def elections_from(topic: str, count: int) -> list[Action]:
    """Return elections that are folded, from this number of other leaders."""
    return [election(topic, n, seen=replace(election().seen, leader=n % count + 2), policy=topic) for n in range(21)]


MOVED = plan(*elections_from("four", 4), *elections_from("five", 5), *elections_from("six", 6))


def folded_outcomes() -> list[Outcome]:
    """Return folded outcomes with and without code and detail, and two equal ones, not folded."""
    failures: list[tuple[str, int, str | None, str]] = [
        ("both", 21, "POLICY_VIOLATION", "the broker refused"),
        ("neither", 21, None, ""),
        ("none", 21, "NONE", "no effect"),
        ("pair", 2, "UNKNOWN", "unknown code"),
        ("alone", 1, None, ""),
        ("gone", 2, None, "the topic is gone"),
    ]
    own = "applied in its own words"
    return [
        *(failed(purge(topic, n), detail, code) for topic, count, code, detail in failures for n in range(count)),
        *(outcome_of(action=purge("own", n), detail=f"{own} {n}", code="NONE", removed_max=0) for n in range(21)),
    ]


AUDIT = replace(NAMED, named=(), except_groups=("audit", "console-*"))
EXCEPTED = plan(
    purge("one", 0, guard=AUDIT),
    purge("one", 1, guard=AUDIT, skips=[("audit", 5)]),
    *(purge("two", number, guard=AUDIT) for number in range(2)),
)
"""The records that these groups would skip may be unknown, and are not zero, wherever positions are known."""


IN_USE = Skipped(address=Address("GroupRemoval", "a", "live"), code="B303", reason="it is in use")
WITHIN = [waiting("RetentionFloor/s/t[0]"), purge("moving", 0, drift=False)]


PLANS = {
    "whole": WHOLE,
    "crowded": CROWDED,
    "edges": EDGES,
    "moved": MOVED,
    "two policies of a partition": MEETING,
    "calm": CALM,
    "changed": CHANGED,
    "one block": ONE,
    "unreadable": UNREADABLE,
    "nothing": NOTHING,
    "causes": CAUSES,
    "unknown": UNKNOWN,
    "groups that do not count": EXCEPTED,
    # A topic left a floor that erases when it got `retention.ms=-1`, and drift said in sync, 0 waiting.
    "in sync": plan(*map(satisfied, ("LeaderPolicy/all/x[0]", "RetentionFloor/s/t[1]")), *WITHIN, IN_USE),
    # A warning is no drift, and stays in sight.
    "in sync, with a warning": plan(
        satisfied("LeaderPolicy/all/x[0]"),
        unmatched=(
            Unmatched(
                policy=Address("LeaderPolicy", "typo"),
                declared_at=SourceLocation("m.yaml", 1, 1),
                reason="selects no topic",
                next_step="correct topics",
            ),
        ),
    ),
    "a code of a later version": plan(blocked(code="B999")),
}


def cautious(topic: str, number: int) -> Action:
    return purge(topic, number, caveat='no consumer is known: "consumers: block" guards nobody here')


FULL_DISK = "the journal j cannot be written: No space left on device. Next: free disk space"
OUTCOMES: dict[str, Callable[[], list[Outcome]]] = {
    "mixed": mixed_outcomes,
    "crowded": crowded_outcomes,
    "folded": folded_outcomes,
    "none": list,
    # As in the plan: 300 topics that no group guards once had 300 lines. What was not sent has no caveat.
    "one caveat": lambda: [
        *(outcome_of(action=cautious(*at)) for at in (("orders", 1), ("orders", 2), ("clicks", 3))),
        outcome_of(status=Status.STALE, action=cautious("orders", 3), sends=0, removed_max=0),
    ],
    # A sum over the results of both runs would count them twice.
    "records that another run counts": lambda: [
        outcome_of(3, removed_max=1_610),
        outcome_of(4, removed_max=810, also_counted_by=("b",)),
    ],
    # A full disk once stood in a warning and in each item, and the next step said to apply again.
    "stopped by a full disk": lambda: [
        *(outcome_of(number, Status.NOT_ATTEMPTED, detail=FULL_DISK, removed_max=0) for number in range(3)),
        outcome_of(7, Status.NOT_ATTEMPTED, detail="broker 3 is silent", removed_max=0),
    ],
    # All that went as planned is a line of counts, without the operation's usual words.
    "as planned": lambda: [
        *(outcome_of(number, detail=DeleteRecords.APPLIED) for number in range(2)),
        outcome_of(31, Status.SATISFIED, detail=DeleteRecords.SATISFIED, removed_max=0),
        outcome_of(action=removal(), detail=DeleteGroup.APPLIED, removed_max=0),
    ],
    # The details are left out only where they are the operation's usual words.
    "an unusual success": lambda: [
        outcome_of(action=removal(), detail="removed; created since", read_back="listed, EMPTY", removed_max=0),
        outcome_of(action=removal("other"), detail=DeleteGroup.APPLIED, read_back="absent", removed_max=0),
    ],
}
CLICKS = [purge("clicks", number) for number in range(64)]
EVENTS = [purge(topic, number, policy="events") for topic in "abcdefg" for number in range(12)]
MANY_GROUPS = [removal(f"old-{number}") for number in range(300)]
FIFTY = [purge(partition=number) for number in range(50)]
IGNORING = replace(FIFTY[0].guard, consumers=LagPolicy.IGNORE, accepted=(AcceptedLag("billing", 5),))
LOWER, HIGHER = (purge(log_start=start) for start in (0, 900))
COMPARISONS = {
    "whole": (WHOLE, CHANGED),
    "crowded": (CROWDED, CHANGED),
    "crowded, back": (CHANGED, CROWDED),
    "election": (plan(election()), plan(election(unclean=True))),
    "twenty and twenty-one": (
        NOTHING,
        plan(*(purge("twenty", number) for number in range(20)), *(purge("more", number) for number in range(21))),
    ),
    "equal": (NOTHING, NOTHING),
    "two clusters": (plan(), plan(cluster_id="another")),
    # One line with the records before and after.
    "a topic": (plan(*CLICKS), plan(*(replace(action, before_offset=98_214) for action in CLICKS))),
    # After an apply, 301 lines once said "gone" one by one, and a floor that had become blocked was one of them.
    "after an apply": (
        plan(*EVENTS, purge(partition=5), removal(), election()),
        plan(blocked(), removal("newcomer")),
    ),
    # Each of them may lose records.
    "unclean elections": (plan(), plan(*(election(partition=number, unclean=True) for number in range(7)))),
    # Two rows, each with the values of its first subject.
    "another topic id, and another guard": (
        plan(*FIFTY),
        plan(
            *(replace(action, seen=replace(action.seen, topic_id="another")) for action in FIFTY[:25]),
            *(replace(action, guard=IGNORING) for action in FIFTY[25:]),
        ),
    ),
    # As for `--within`: more records would go, although the target is the same. An offset is not a record.
    "a lower log start": (plan(HIGHER), plan(LOWER)),
    "a higher log start": (plan(LOWER), plan(HIGHER)),
    "a lower log start and target": (plan(HIGHER), plan(replace(LOWER, before_offset=98_000))),
    "a lower log start of offsets": (
        plan(replace(HIGHER, may_have_gaps=True)),
        plan(replace(LOWER, before_offset=98_000, may_have_gaps=True)),
    ),
    # Each group was once a line of its own, 301 of one policy. A few have a line each, with their numbers.
    "many groups": (plan(), plan(*MANY_GROUPS)),
    "many groups, back": (plan(*MANY_GROUPS), plan()),
    "few groups": (plan(), plan(*MANY_GROUPS[:5])),
    "few groups, back": (plan(*MANY_GROUPS[:5]), plan()),
}


def entries_of(policy: str, *statuses: Status | None, **more: Any) -> list[JournalEntry]:
    """Return the entries of one action for each status; None: its intent only."""
    entries = []
    for number, status in enumerate(statuses):
        address = Address("RetentionFloor", policy, "orders", number)
        entries.append(entry_of(address, **more))
        if status is not None:
            entries.append(entry_of(address, status, detail="why", code="NONE", removed_max=5, **more))
    return entries


def restored(*statuses: Status) -> list[JournalEntry]:
    """Return the entries of offsets of one restored group, with one status each."""
    group = {"address": Address("GroupRemoval", "dead", "old-etl"), "operation": "restore_group", "removed_max": None}
    request = {"group": "old-etl", "topic": "orders"}
    return [
        replace(entry, **group, request={**request, "partition": entry.address.partition})  # type: ignore[arg-type]
        for entry in entries_of("dead", *statuses)
    ]


TWO_RUNS = [
    entries_of("dead", None, run_id=run_id, plan_digest=f"sha256:{number * 64}")[0]
    for run_id, number in (("one", "1"), ("two", "2"))
]
STOPPED = replace(TWO_RUNS[0], event=Event.OUTCOME, status=Status.NOT_ATTEMPTED, detail="stopped", code="NONE")
JOURNALS: dict[str, list[JournalEntry]] = {
    # The command says on stderr that there is no entry.
    "none": [],
    # Runs that overlap once looked like one, and each line repeated the run.
    "two runs that overlap": [*TWO_RUNS, STOPPED],
    "a restored run": [replace(TWO_RUNS[0], run_id="three", plan_digest=f"restore of sha256:{'3' * 64}")],
    # 603 lines of one run once had the one that failed somewhere between those that went well.
    "one failed": [*entries_of("fine", *[Status.APPLIED] * 300), *entries_of("bad", Status.APPLIED, Status.FAILED)],
    # `1 applied` once stood for all offsets, and hid a failure before it: they share the address of their group.
    "a restored group": restored(Status.APPLIED, Status.APPLIED),
    "a group that is not restored": restored(Status.FAILED, Status.APPLIED),
    # An intent without an outcome is not done: a run that was killed, a retry of one action, two runs of one subject.
    "killed": entries_of("p", Status.APPLIED, None),
    "a retry, whose last entry counts": [
        *entries_of("p", None),
        *entries_of("p", Status.FAILED),
        *entries_of("p", Status.APPLIED),
    ],
    "two runs of one subject": [*entries_of("p", None), *entries_of("p", Status.APPLIED, run_id="two")],
}


LIMITS_USED = tuple(
    LimitVerdict(id=name, limit=limit, observed=observed, passed=True, message="")
    for name, limit, observed in (
        ("topics", 50, 10.0),
        ("recordsPercentPerTopic", 90, 39.04),
        ("recordsPercent", 50, 12.3),
        ("groups", 20, 1.0),
        ("groupsPercent", 50, 25.0),
        ("elections", 1000, 177.0),
    )
)
HELD = [
    blocked(f"RetentionFloor/week/{topic}[{number}]", held_by=groups)
    for topic, number, groups in (
        ("orders", 0, ("old-etl",)),
        ("orders", 1, ("old-etl",)),
        ("clicks", 0, ("old-etl",)),
        ("clicks", 1, ("billing",)),
        ("clicks", 2, ("billing", "old-etl")),
    )
]
EXPIRING = replace(WAIVER, limit="recordsPercent", value=100, expires_ms=NOW_MS + 9 * 86_400_000 + 14 * HOUR + 59_000)
TOO_MUCH = [
    LimitVerdict(id=name, limit=50, observed=96, passed=passed, message=f"{name}: too much", waivers=(EXPIRING,))
    for name, passed in (("recordsPercent", True), ("topics", False))
]
CLAIMED = "RetentionFloor/orders-gdpr (manifests/orders.yaml:3) and RetentionFloor/a both claim {}"
LEADERS = [3] * 14 + [4] * 5 + [2] * 5
BEYOND_LIMIT = LimitVerdict(id="groups", limit=0, observed=1, passed=False, message="groups: 1")


def restart_of_a_broker() -> Plan:
    """A plan of 530 partitions of 17 topics on three brokers, just after broker 1 came back.

    The leaders of some are elected, others wait for it, some have no leader for their floor, and some
    floors are held back by a group that the same plan removes.
    """
    decisions: list[Decision] = []
    for number in range(530):
        topic, partition = f"events-{number % 17:02}", number // 17
        seen = replace(election().seen, leader=2 + number % 2)
        address = f"LeaderPolicy/all/{topic}[{partition}]"
        leader = "is led by another broker; its preferred leader, broker 1, is not in sync"
        if number % 3 == 0:
            decisions.append(election(topic, partition, seen=seen))
        elif number % 3 == 1 and number < 200:
            reason = f"{topic}[{partition}] {leader}"
            decisions.append(waiting(address, until_ms=None, reason=reason))
        else:
            decisions.append(satisfied(address))
        floor = f"RetentionFloor/week/{topic}[{partition}]"
        if number % 50 == 0:
            reason = f"{topic}[{partition}] has no leader, and only a leader deletes records"
            decisions.append(blocked(floor, code="B203", reason=reason, next_step="start one of its replicas"))
        elif number % 50 < 6:
            reason = f'group "old-etl" is at {number} and would skip {number:,} records below 98213'
            decisions.append(blocked(floor, reason=reason, held_by=("old-etl",)))
        else:
            decisions.append(satisfied(floor))
    return plan(*decisions, removal(), limits=LIMITS_USED)


NEXT, HERE = {"with_next_step": True}, {"with_next_step": True, "paths": ["here"]}
FULL, SCREEN = {"full": True, "width": 80}, {"width": 80, "saved_to": "plan.json", **NEXT}
WEEK = [(f"topic-{number % 10:02}", number // 10) for number in range(500)]


def rule_of(number: int) -> Rule:
    """Return a continuous policy with so many settings."""
    settings = tuple(Setting(name=f"s{n}", values=("x",)) for n in range(number))
    address = Address("LeaderPolicy", f"with-{number}")
    return Rule(address=address, declared_at=SourceLocation("m.yaml", 1, 1), change=Change.NEW, settings=settings)


TEXTS: dict[str, tuple[Plan, dict[str, Any]]] = {
    # Records that unreadBy answers for do not count towards the limits, so their share is not known.
    "no share of records that named groups read": (
        plan(purge(), purge(partition=4, guard=NAMED, consumed_by_named=True), limits=LIMITS_USED),
        {},
    ),
    # On both sides. A removal that is not in the plan is never proposed, as it once was.
    "a removal and what it unblocks": (plan(removal(), *HELD), {}),
    "a removal that frees a continuous policy": (
        replace(
            plan(removal(), purge(held_by=("old-etl",)), *HELD),
            continuous=(
                replace(rule_of(0), address=Address("RetentionFloor", "week")),
                replace(rule_of(0), address=purge().address.policy_address),
            ),
        ),
        {},
    ),
    "a removal that unblocks nothing": (plan(removal(), blocked()), {}),
    # The last line is to apply, to save first, or why not.
    "next: apply": (plan(removal()), {"saved_to": "a plan.json", **NEXT}),
    "next: save": (plan(removal()), NEXT),
    "next: save, of a folder": (plan(removal()), HERE),
    "next: explain": (plan(blocked()), NEXT),
    "next: explain, of a folder": (plan(blocked()), HERE),
    "next: explain, of a saved plan": (plan(blocked()), {"saved_to": "a plan.json", **NEXT}),
    "next: nothing of a refused plan": (plan(removal(), limits=(BEYOND_LIMIT,)), NEXT),
    "next: nothing in sync": (plan(satisfied("LeaderPolicy/all/x[0]")), NEXT),
    # Moves that are as frequent as each other are in the order of their brokers.
    "the most frequent move first": (
        plan(*(election("orders", n, seen=replace(election().seen, leader=of)) for n, of in enumerate(LEADERS))),
        {},
    ),
    # Each of them may lose any number of records.
    "unclean elections": (plan(*(election("orders", number, unclean=True) for number in range(25))), {}),
    # Also a plan without changes may be applied.
    "saved without changes": (plan(), {"saved_to": "plan.json"}),
    "saved": (plan(removal()), {"saved_to": "plan.json"}),
    # The last of 15 settings is not worth a fold.
    "15 settings, and 16": (plan(continuous=tuple(map(rule_of, (15, 16)))), {}),
    # A reviewer needs the commit.
    "uncommitted changes": (plan(source=Source(commit="4f2c9aa" * 5, dirty=True)), {}),
    "no checkout": (plan(source=Source()), {}),
    # Each waiver is shown once, although several limits may use it, with its remaining time.
    "a refusal and a waiver": (plan(purge(), limits=tuple(TOO_MUCH)), {}),
    "skipped": (plan(IN_USE), {}),
    "skipped, in full": (plan(IN_USE), FULL),
    # The topic `orders` was once cut out of the policy `orders-gdpr`, and had a line of its own.
    "topics of one cause": (
        plan(*(blocked(f"RetentionFloor/a/{t}", code="B105", reason=CLAIMED.format(t)) for t in ("orders", "visits"))),
        {},
    ),
    # It took 217 lines once: elections are one line, and so is each cause of blocks and waits.
    "after the restart of a broker": (restart_of_a_broker(), SCREEN),
    # A line for each topic, whether one policy selects them or ten.
    **{
        f"500 partitions of ten topics, {count} policies": (
            plan(
                *(purge(*at, policy=f"week-{at[0][-2:]}" if count == 10 else "week") for at in WEEK), limits=LIMITS_USED
            ),
            SCREEN,
        )
        for count in (1, 10)
    },
    # One line per policy for the interval, one per reason for a missing replica.
    "waiting": (
        plan(
            *(
                waiting(f"RetentionFloor/s/t[{n}]", until_ms=NOW_MS + 1000 * (n + 1), reason=f"at {n}")
                for n in range(3)
            ),
            *(waiting(f"LeaderPolicy/all/{t}[0]", until_ms=None, reason="broker 1 is away") for t in "xy"),
        ),
        {},
    ),
    # Locations are right-aligned if there is room, otherwise on a line of their own.
    "locations, in full": (plan(removal()), FULL),
    "a long location, in full": (plan(replace(removal(), declared_at=SourceLocation("a" * 70, 4, 1))), FULL),
}
