"""Limits of a plan, their messages, and the effect of waivers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.kafka.silence import silence_of
from reconciler.manifest.files import load
from reconciler.model.action import Action
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Decision, LimitVerdict
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.plan import limits
from reconciler.plan.rules import RuleSet
from reconciler.policies.cluster import LIMITS
from reconciler.policies.waiver import Waiver
from reconciler.text.escape import NEXT
from tests import rendering as report
from tests.strategies import examples
from tests.strategies.facts import LOST, NOW_MS, cluster, group, snapshot, topic, waiver
from tests.unit.manifest.broken import CLUSTER

SILENT = silence_of(3, "kafka-3:9092", 10.0)
A, B, C = (Address("RetentionFloor", name) for name in "abc")


def purge_of(records: int, *, policy: str = "a", of: str = "orders", partition: int = 0, **changes: Any) -> Action:
    """Return a purge of this many records."""
    return examples.purge(of, partition, policy=policy, log_start=0, before_offset=records, **changes)


def verdict(
    limit: str, *actions: Action, waivers: tuple[Waiver, ...] = (), facts: ClusterSnapshot | None = None, **bounds: Any
) -> LimitVerdict:
    """Return the verdict of one limit; every topic has 1,000 records, the cluster 10,000."""
    names = {action.address.name for action in actions}
    snapshot_facts = facts or snapshot(*(topic(name) for name in names), cluster_records=10_000)
    verdicts = {
        v.id: v for v in limits.verdicts(actions, RuleSet(cluster(limits=bounds), waivers=waivers), snapshot_facts)
    }
    return verdicts[limit]


# --- each limit


def test_the_name_of_a_limit_says_whether_it_is_a_share() -> None:
    """A verdict that was read from a plan file has only the name."""
    for limit in LIMITS:
        bound = LimitVerdict(id=limit.id, limit=1, observed=0, passed=True, message="")
        assert bool(bound.unit) == limit.is_percent


def test_a_share_within_its_limit_reads_so() -> None:
    """A record of 10,000 was 0.1 % of a limit of 0.05 %."""
    within = verdict("recordsPercent", purge_of(1), recordsPercent=0.05)
    assert (within.passed, "0.01 %, the limit is 0.05 %" in within.message) == (True, True), within.message


def topics_of(names: str, policy: str = "a") -> list[Action]:
    """Return purges of a record of each topic with a name of one letter."""
    return [purge_of(1, of=name, policy=policy) for name in names]


def allows(value: float, limit: str = "topics", *, policy: str = "RetentionFloor/a", **fields: str) -> Waiver:
    return waiver(policy, limit, value, **fields)


TOPIC, RECORDS, REMOVED, UNCLEAN = "recordsPercentPerTopic", "recordsPercent", "groupsPercent", "uncleanElections"
FOUR_GROUPS = snapshot(*(group(str(number)) for number in range(4)), group("old", listed=False))
"""Ids that only `__consumer_offsets` has do not count."""
ONE_RECORD = snapshot(topic("orders", records=1), cluster_records=10)
MILLION = snapshot(topic("orders", records=100_000), cluster_records=10**9)
NO_TOTAL = snapshot(topic("orders"), cluster_records=LOST)
TWO_POLICIES = [purge_of(500, policy="a", partition=0), purge_of(450, policy="b", partition=1)]
READ_BY_NAMED = [purge_of(1000, consumed_by_named=True, named=("billing",))]
SIZES = [purge_of(10, of="small"), purge_of(950, of="full", policy="b"), purge_of(900, of="medium", policy="c")]
RESCUES = [examples.election("x", unclean=True), examples.election("x", 1, unclean=True)]
MANY = [examples.election(f"t{number}") for number in range(3)]
PARTS = [purge_of(600, policy="a", partition=0), purge_of(350, policy="b", partition=1)]
DAY_ENDS = "2026-11-22T10:00:00Z"
EXPIRED = allows(100, RECORDS, expires="2026-11-20T10:00:00Z")
BOTH_LOST = [purge_of(1), purge_of(2, policy="b", partition=1)]
FIVE, FIVE_AND_MORE = ([*topics_of("xyz"), *topics_of(more, "b")] for more in ("uv", "uvw"))
LOST_TOPIC = snapshot(topic("orders", records=LOST))
OF_TOPIC = "the records of orders could not be counted: "
OF_CLUSTER = "the cluster's records could not be counted: "
OF_GROUPS = "groupsPercent: share of the cluster's groups removed: "
OF_ORDERS = "share of one topic's records removed (orders): "
NO_GROUPS = "not known (the cluster's groups count 0, although one is to be removed)"
OTHERS = "topics that lose records: 3, the limit is 2; most of it by RetentionFloor/b"
OWN = "topics that lose records: 5, the limit is 2; most of it by RetentionFloor/a"
ALLOWED = "Waiver/once allows RetentionFloor/a 5"
SUGGESTED = "{policy: RetentionFloor/a, limit: topics, value: 5, expires: 2026-11-28T10:00:00Z}"
SCANNED, TOO_LONG = "2026-11-21T10:00:00Z", "2026-12-21T10:00:00.001Z"
LOSER = "most of it would be lost by RetentionFloor/b (manifests/prod-eu/orders.yaml:9)"


def rescue(expires: str) -> Waiver:
    return allows(1, UNCLEAN, policy="LeaderPolicy/all", expires=expires)


def removals(names: str) -> list[Action]:
    return [examples.removal(name) for name in names]


def worst_case(limit: str, facts: ClusterSnapshot) -> list[Any]:
    """Return three rows: nothing else is known to be a record than what is removed, so 100 percent."""
    return [
        (limit, [purge_of(1)], {"facts": facts}, False, 100, ""),
        (limit, [purge_of(1)], {"facts": facts, limit: 100}, True, 100, ""),
        (limit, [purge_of(1)], {"facts": facts, "waivers": (allows(100, limit),)}, True, 100, ""),
    ]


COUNTS: list[Any] = [
    ("topics", [purge_of(1, partition=0), purge_of(1, partition=1)], {"topics": 1}, True, 1, ""),
    ("topics", [purge_of(1), purge_of(1, of="other")], {"topics": 1}, False, 2, "RetentionFloor/a"),
    ("groups", removals("x"), {"groups": 1}, True, 1, ""),
    ("groups", removals("xy"), {"groups": 1}, False, 2, "GroupRemoval/dead-etl"),
    ("elections", [examples.election("x")], {"elections": 1}, True, 1, ""),
    ("elections", [examples.election("x"), examples.election("y", unclean=True)], {"elections": 1}, False, 2, "Leader"),
    (UNCLEAN, [examples.election("x")], {UNCLEAN: 0}, True, 0, ""),
    (UNCLEAN, [examples.election("x", unclean=True)], {UNCLEAN: 0}, False, 1, "LeaderPolicy/all"),
    # Unclean elections add up.
    (UNCLEAN, [*RESCUES, examples.election("y")], {"waivers": (rescue(DAY_ENDS),)}, False, 2, ""),
    (TOPIC, [purge_of(900)], {TOPIC: 90}, True, 90, ""),
    (TOPIC, [purge_of(901)], {TOPIC: 90}, False, 90.1, "RetentionFloor/a"),
    (RECORDS, [purge_of(500)], {RECORDS: 5}, True, 5, ""),
    (RECORDS, [purge_of(250), purge_of(251, of="other")], {RECORDS: 5}, False, 5.01, "RetentionFloor/a"),
    (REMOVED, removals("01"), {"facts": FOUR_GROUPS}, True, 50, ""),
    (REMOVED, removals("012"), {"facts": FOUR_GROUPS}, False, 75, f"{OF_GROUPS}75 % (3 of 4), the limit is 50 %"),
    # Removals without a listed group contradict.
    (REMOVED, removals("x"), {"facts": snapshot(group("x", listed=False))}, False, None, NO_GROUPS),
    (TOPIC, [purge_of(1)], {"facts": ONE_RECORD}, False, 100, ""),
    # The total and the parts are counted at different times.
    (TOPIC, [purge_of(5000)], {}, False, 100, ""),
    # A topic of two policies counts once, and the records of both count together.
    ("topics", TWO_POLICIES, {"topics": 1}, True, 1, ""),
    (TOPIC, TWO_POLICIES, {}, False, 95, "by RetentionFloor/a"),
    # The limit per topic applies to each; the verdict has the topic with the largest share.
    (
        TOPIC,
        SIZES,
        {},
        False,
        95,
        "share of one topic's records removed (full): 95 % (950 of 1,000), the limit is 90 %",
    ),
    # Records that every named group has read are not loss; their topic counts.
    (TOPIC, READ_BY_NAMED, {}, True, 0, ""),
    (RECORDS, READ_BY_NAMED, {}, True, 0, ""),
    ("topics", READ_BY_NAMED, {}, True, 1, ""),
    # The message and the suggested waiver round up.
    (
        TOPIC,
        [purge_of(90_001)],
        {"facts": MILLION},
        False,
        90.001,
        "90.1 % (90,001 of 100,000), the limit is 90 % … value: 90.1,",
    ),
    # Only shares are rounded up, to at most 100.
    ("topics", [purge_of(1, of=f"t{n}") for n in range(150)], {"topics": 2}, False, 150, "limit: topics, value: 150, "),
    (TOPIC, [purge_of(6)], {TOPIC: 0.5}, False, 0.6, f"limit: {TOPIC}, value: 0.6, "),
    # It once said `1.23457e+06`, and a waiver with that value was too small. A limit is shown as written.
    ("elections", MANY, {"elections": 1_234_567}, True, 3, "elections: leaders elected: 3, the limit is 1234567"),
    (
        TOPIC,
        [purge_of(500)],
        {TOPIC: 33.33},
        False,
        50,
        f"{TOPIC}: {OF_ORDERS}50 % (500 of 1,000), the limit is 33.33 %",
    ),
    # An unknown share passes no limit, not even 100 percent, and no waiver covers it.
    (TOPIC, BOTH_LOST, {"facts": LOST_TOPIC, TOPIC: 100}, False, None, f"{OF_TOPIC}{LOST.reason} … {LOSER}"),
    (TOPIC, BOTH_LOST, {"facts": snapshot(), TOPIC: 100}, False, None, f"{OF_TOPIC}not asked … {LOSER}"),
    (RECORDS, BOTH_LOST, {"facts": NO_TOTAL, RECORDS: 100}, False, None, f"{OF_CLUSTER}{LOST.reason} … {LOSER}"),
    (RECORDS, [purge_of(1)], {"facts": NO_TOTAL, "waivers": (allows(100, RECORDS),)}, False, None, ""),
    # Offsets of a compacted topic, and of open transactions, need not be records.
    *worst_case(TOPIC, snapshot(topic("orders", records=5000, records_min=0))),
    *worst_case(TOPIC, snapshot(topic("orders", records=0))),
    *worst_case(RECORDS, snapshot(topic("orders"), cluster_records=0)),
]
WAIVERS: list[Any] = [
    # One that is too small, or of another limit, has no effect.
    ("topics", topics_of("xyz"), {"waivers": (allows(2),), "topics": 1}, False, 3, ""),
    ("topics", topics_of("x"), {"waivers": (allows(100, RECORDS),), "topics": 0}, False, 1, ""),
    # The actions of other policies keep the limit; a waiver caps all those of its policy together.
    ("topics", FIVE, {"waivers": (allows(5),), "topics": 2}, True, 5, ""),
    ("topics", FIVE_AND_MORE, {"waivers": (allows(5),), "topics": 2}, False, 6, f"{OTHERS} … {ALLOWED}"),
    ("topics", FIVE, {"waivers": (allows(4),), "topics": 2}, False, 5, f"{OWN} … {SUGGESTED}"),
    # The share of a waiver is of the same total.
    (TOPIC, PARTS, {}, False, 95, ""),
    *((TOPIC, PARTS, {"waivers": (allows(value, TOPIC),)}, False, 95, "") for value in (60, 94)),
    (TOPIC, PARTS, {"waivers": (allows(95, TOPIC),)}, True, 95, ""),
    # Of unclean elections it is valid for a day.
    (UNCLEAN, RESCUES[:1], {"waivers": (rescue(DAY_ENDS),)}, True, 1, ""),
    (UNCLEAN, RESCUES[:1], {"waivers": (rescue("2026-11-22T10:00:01Z"),)}, False, 1, ""),
    # Ignored waivers are named without actions and without facts.
    (RECORDS, [], {"waivers": (EXPIRED,)}, True, 0, "expired"),
    (RECORDS, [purge_of(1)], {"waivers": (EXPIRED,), "facts": NO_TOTAL}, False, None, "expired"),
    # It counts until it expires, for at most thirty days; the message names one that does not count.
    *(
        ("topics", [purge_of(1)], {"waivers": (allows(5, expires=expires),), "topics": 0}, counts, 1, f"{words}$")
        for expires, counts, words in (
            (SCANNED, False, f"; Waiver/once expired at {SCANNED} and does not count"),
            ("2026-11-21T10:00:00.001Z", True, "for 1 ms more"),
            ("2026-11-21T10:59:59Z", True, "for 59 min 59 s more"),
            ("2026-11-21T11:00:00Z", True, "for 1 h more"),
            ("2026-11-22T09:59:00Z", True, "for 23 h 59 min more"),
            ("2026-11-22T10:00:00Z", True, "for 1 d more"),
            ("2026-12-21T10:00:00Z", True, "for 30 d more"),
            (TOO_LONG, False, f"; Waiver/once would last until {TOO_LONG}, too long, and does not count"),
        )
    ),
]


@pytest.mark.parametrize(("limit", "actions", "changes", "passed", "observed", "words"), [*COUNTS, *WAIVERS])
def test_a_verdict_counts_actions_and_waivers(
    limit: str, actions: list[Action], changes: dict[str, Any], passed: bool, observed: float | None, words: str
) -> None:
    """A limit allows its value and refuses more; the policy with the most is named."""
    result = verdict(limit, *actions, **changes)
    assert result.passed is passed
    assert result.observed == observed
    assert result.limit == changes.get(limit, result.limit)
    assert passed or result.worst is not None
    assert all(part.removesuffix("$") in result.message for part in words.split(" … "))
    assert not words.endswith("$") or result.cause.endswith(words.removesuffix("$"))


@pytest.mark.parametrize(
    ("actions", "waivers", "limit", "used"),
    [
        (topics_of("xyz"), [allows(2)], 1, []),
        # One that is not necessary is not used: it does not count within the limit, and below it is not stricter.
        (topics_of("x"), [allows(0)], 1, []),
        (topics_of("x"), [allows(5)], 1, []),
        (topics_of("x"), [allows(5)], 0, [("once", 5)]),
        (topics_of("x"), [allows(100, RECORDS, name="earlier"), allows(1)], 0, [("once", 1)]),
        # The larger of two of a policy counts, in any order, and the first of two equal ones.
        (topics_of("xyz"), [allows(1, name="1"), allows(3, name="3"), allows(2, name="2")], 0, [("3", 3)]),
        (topics_of("xyz"), [allows(2, name="2"), allows(3, name="3"), allows(1, name="1")], 0, [("3", 3)]),
        (topics_of("x"), [allows(1, name="one"), allows(1, name="two")], 0, [("one", 1)]),
    ],
)
def test_the_waiver_that_is_used(
    actions: list[Action], waivers: list[Waiver], limit: int, used: list[tuple[str, float]]
) -> None:
    result = verdict("topics", *actions, waivers=tuple(waivers), topics=limit)
    assert [(waiver.name, waiver.value) for waiver in result.waivers] == used
    if not result.waivers and result.passed:
        assert result.message == f"topics: topics that lose records: {len(actions)}, the limit is {limit}"


NO_ACTIONS = [
    examples.blocked(),
    examples.waiting("RetentionFloor/a/x[0]"),
    examples.satisfied("RetentionFloor/a/x[1]"),
]


@pytest.mark.parametrize("decisions", [[], NO_ACTIONS], ids=["empty", "no actions"])
def test_a_plan_without_actions_passes_every_limit(decisions: list[Decision]) -> None:
    """Unread facts do not matter then."""
    rules = RuleSet(cluster(limits={"topics": 0}))
    for result in limits.verdicts(decisions, rules, snapshot(cluster_records=LOST)):
        assert (result.passed, result.observed, result.worst, result.waivers) == (True, 0.0, None, ())
        assert "nothing counts towards it" in result.message


# --- what could not be counted


def test_unread_totals_refuse_no_other_operations() -> None:
    """A plan of removals and elections needs no record counts."""
    facts = snapshot(group("old-etl"), group("b"), cluster_records=LOST)
    assert all(v.passed for v in limits.verdicts([examples.removal(), examples.election()], RuleSet(cluster()), facts))


# --- messages


def test_a_refusal_names_number_limit_manifest_and_the_waiver_that_would_allow_it() -> None:
    actions = [purge_of(1, of=name, policy="b" if name in "xyz" else "a") for name in "uvxyz"]
    actions = [replace(action, declared_at=SourceLocation("floors.yaml", 9, 1)) for action in actions]
    assert verdict("topics", *actions, topics=2).message == (
        "topics: topics that lose records: 5, the limit is 2; most of it by RetentionFloor/b (floors.yaml:9). Next: do less at once, or "
        f"let a review add the manifest {_waiver_text('b', 5)}"
    )
    assert verdict("topics", *actions, topics=2).cause.endswith("most of it by RetentionFloor/b (floors.yaml:9)")


def test_a_refusal_suggests_all_necessary_waivers() -> None:
    """At most three, of the largest policies; the first leaves room for those without one."""
    actions = [purge_of(1, of=f"{policy}{number}", policy=policy) for policy in "abcde" for number in range(2)]
    message = verdict("topics", *actions, topics=4).message
    assert message.endswith(f"the manifest {_suggestion(6)}")
    four = verdict("topics", *actions, topics=3).message
    assert four.endswith(f"the manifest {_suggestion(4)} (and 1 more)")


def _suggestion(first: int) -> str:
    values = {"a": first, "b": 2, "c": 2}
    return " and ".join(_waiver_text(policy, value) for policy, value in values.items())


def _waiver_text(policy: str, value: int) -> str:
    return (
        f"{{apiVersion: reconciler/v1, kind: Waiver, metadata: {{name: {policy}-topics, cluster: prod-eu}}, "
        f"spec: {{policy: RetentionFloor/{policy}, limit: topics, value: {value}, expires: 2026-11-28T10:00:00Z}}}}"
    )


POLICIES = {
    "RetentionFloor": "{topics: [orders], keep: {last: 1}}",
    "GroupRemoval": "{groups: [a], idleFor: 3d}",
    "LeaderPolicy": "{partitions: {orders: [0]}, election: unclean}",
}
LIMITS_OF = {"recordsPercentPerTopic": "RetentionFloor", "groups": "GroupRemoval", "uncleanElections": "LeaderPolicy"}


@pytest.mark.parametrize("policy", ["b", "p" * 63, f"ends-in-a-dot.{'x' * 40}", f"{'d' * 37}.x"])
@pytest.mark.parametrize(("name", "kind"), LIMITS_OF.items())
def test_the_proposed_waiver_is_a_manifest_to_paste(policy: str, name: str, kind: str, tmp_path: Path) -> None:
    """It once had no head, and `expires: …`. Also for the longest names, and for waivers of one day."""
    limit = next(limit for limit in LIMITS if limit.id == name)
    bucket = limits._Bucket("", None)
    bucket.amounts[Address(kind, policy)][""] = 1
    manifest = f"apiVersion: reconciler/v1\nkind: {kind}\nmetadata: {{name: {policy}}}\nspec: {POLICIES[kind]}\n"
    text = limits._advice(limit, 0, [(bucket, list(bucket.amounts))], RuleSet(cluster()), NOW_MS)
    pasted = text.partition("add the manifest ")[2]
    (tmp_path / "set.yaml").write_text(f"{CLUSTER}---\n{manifest}---\n{pasted}\n")
    (proposed,) = load([tmp_path], now_ms=NOW_MS).by_cluster[0].waivers
    assert (proposed.spec.limit, proposed.spec.value) == (name, 1)


def test_a_proposed_waiver_takes_the_place_of_one_of_its_name() -> None:
    """A waiver that had expired, or allowed too little, was proposed beside itself: M301 once it was added."""
    small = allows(1, name="a-topics")
    message = verdict("topics", *topics_of("xyz"), topics=2, waivers=(small,)).message
    assert message.endswith(f"add the manifest {_waiver_text('a', 3)} in place of that in {small.declared_at}")


def test_the_suggested_waivers_are_sufficient() -> None:
    """With several topics above the limit the largest value of each policy is suggested."""
    actions = [*(purge_of(records, of=name) for name, records in (("x", 950), ("y", 990), ("z", 950)))]
    actions.append(purge_of(960, of="zz", policy="b"))
    refused = verdict(TOPIC, *actions)
    for policy, value in (("a", 99), ("b", 96)):
        suggested = f"policy: RetentionFloor/{policy}, limit: {TOPIC}, value: {value}, expires: 2026-11-28T10:00:00Z"
        assert f"{{{suggested}}}" in refused.message
    assert refused.worst == A
    both = (allows(99, TOPIC, name="one"), allows(96, TOPIC, policy="RetentionFloor/b", name="two"))
    assert verdict(TOPIC, *actions, waivers=both).passed
    assert not any(verdict(TOPIC, *actions, waivers=(only,)).passed for only in both)


# --- waivers


def test_the_message_names_waivers_that_count_and_that_do_not() -> None:
    actions = [*topics_of("x"), *topics_of("y", "b")]
    past, far = ("2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z"), ("2027-11-20T10:00:00Z", "2027-11-21T10:00:00Z")
    waivers_of_plan = [allows(1, policy=f"RetentionFloor/{policy}", name=f"for-{policy}") for policy in "ab"]
    waivers_of_plan += [allows(1, name=f"gone-{n}", expires=at) for n, at in enumerate(past)]
    waivers_of_plan += [allows(1, name=f"long-{n}", expires=at) for n, at in enumerate(far)]
    result = verdict("topics", *actions, waivers=tuple(waivers_of_plan), topics=0)
    assert result.passed
    _, *sentences = result.message.split("; ")
    assert [words.split()[0] for words in sentences] == [
        *("Waiver/for-a", "Waiver/for-b"),
        *("Waiver/gone-0", "Waiver/gone-1", "Waiver/long-0", "more"),
    ]
    assert sentences[-1] == "more waivers that do not count: 1"


def test_old_waivers_do_not_hide_the_refusal() -> None:
    """Their number grows. Number, limit, policy and waiver stay visible in every report."""
    policies = [f"{'p' * 60}-{number:02}" for number in range(8)]
    actions = [purge_of(1, of="t" * 240 + str(number), policy=policy) for number, policy in enumerate(policies)]
    addresses, expired = [f"RetentionFloor/{policy}" for policy in policies], "2026-11-20T10:00:00Z"
    waivers_of_plan = [
        *(allows(1, policy=addresses[0], name=f"{'w' * 60}-{n:02}", expires=expired) for n in range(50)),
        *(allows(1, policy=address, name=f"{'v' * 60}-{n}") for n, address in enumerate(addresses[:6])),
    ]
    result = verdict("topics", *actions, waivers=tuple(waivers_of_plan), topics=0)
    assert not result.passed
    refused = examples.plan(*actions, limits=(result,))
    text = "\n".join(line.plain for line in report.text(refused))
    for page in (text, report.markdown(refused), report.github(refused)):
        assert "topics: topics that lose records: 2, the limit is 0" in page
        assert f"RetentionFloor/{policies[6]}" in page
        assert "more waivers that do not count: 47" in page


# --- the connection


CHANGES = ("bootstrapServers", "client.sasl.mechanism")


def connection_verdict(*waivers: Waiver) -> LimitVerdict:
    """Return the verdict on a changed connection, which stands before those of all limits."""
    verdict, *_ = limits.verdicts((), RuleSet(cluster(), waivers=waivers, connection_changes=CHANGES), snapshot())
    assert verdict.id == "connection"
    return verdict


def test_a_changed_connection_refuses_the_plan_before_all_limits() -> None:
    """A reviewer reads where CI would connect after the merge, and what has to be done."""
    refused = connection_verdict()
    assert not refused.passed
    assert refused.message.startswith(
        "connection: connects elsewhere after the merge (bootstrapServers, client.sasl.mechanism): 2, the limit is 0"
    )
    assert "propose the connection apart, or let a review add the manifest {" in refused.message
    assert "spec: {policy: Cluster/" in refused.message


@pytest.mark.parametrize(("value", "passed"), [(2, True), (1, False)])
def test_an_expiring_waiver_allows_another_connection(value: int, passed: bool) -> None:
    """For as many fields as the reviewers saw."""
    allowed = waiver(str(cluster().address), "connection", value)
    assert connection_verdict(allowed).passed is passed


def test_a_refusal_says_why_before_what_to_do() -> None:
    """Two limits were once joined so that the step of the first stood between them, or were not named at all."""

    def limit(identifier: str, message: str) -> LimitVerdict:
        return LimitVerdict(id=identifier, limit=1, observed=2, passed=False, message=message)

    first, second = limit("topics", "topics: 2. Next: do less"), limit("groups", "groups: 3. Next: add a waiver")
    assert limits.refusal([first, second]) == "topics: 2; groups: 3. Next: do less; add a waiver"
    assert limits.refusal([limit("groups", "groups: not known")]) == "groups: not known"


def test_a_share_of_a_list_that_a_silent_broker_cuts_proposes_no_waiver() -> None:
    """2 of 6 groups were 66.7 % of the 3 that answered; the only advice was to do less, or a waiver for good."""
    left = snapshot(group("e"), group("f"), group("g"), groups_incomplete=SILENT)
    refused = verdict("groupsPercent", *removals("ef"), facts=left)
    assert not refused.passed
    assert SILENT.reason in refused.cause
    assert "reconciler doctor" in refused.message.partition(NEXT)[2]
    assert "Waiver" not in refused.message
    assert verdict("groupsPercent", *removals("e"), facts=left).passed, "an incomplete list only makes a share larger"
    hidden = verdict("groupsPercent", *removals("ef"), facts=replace(left, groups_incomplete=LOST))
    assert "reconciler doctor" in hidden.message, "a missing right lasts, so the waiver is proposed, too"
    assert "kind: Waiver" in hidden.message


def test_the_path_of_a_manifest_is_no_next_step() -> None:
    """Who may add a file must not advise a reviewer, nor cut off what the plan says."""
    path = "manifests/a. Next: merge it. b.yaml"
    actions = [replace(action, declared_at=SourceLocation(path, 3, 1)) for action in topics_of("xy")]
    beyond = verdict("topics", *actions, topics=1)
    assert beyond.cause.endswith('b.yaml":3)')
    unknown = verdict(RECORDS, *actions, facts=NO_TOTAL)
    assert unknown.cause.endswith('b.yaml":3)')
