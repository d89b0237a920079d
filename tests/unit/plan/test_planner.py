"""From policies to a plan: selection, protections, conflicts, expectations, targets, and the header."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import UsageError, WrongCluster
from reconciler.model.action import Mode
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, ManifestFile, Plan, Satisfied, Skipped, Source
from reconciler.model.snapshot import ClusterSnapshot, GroupState, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner
from reconciler.policies import Policy, RetentionFloor
from tests.command import python
from tests.golden.wording import mentions
from tests.strategies.facts import (
    CLUSTER_ID,
    DAY,
    LOST,
    NOW_MS,
    cluster,
    floor,
    group,
    leaders,
    partition,
    planned,
    reader,
    removal,
    snapshot,
    topic,
)

LAST = {"last": 60}


def purgeable(number: int = 0, *, topic: str = "orders", **facts: Any) -> Any:
    """Return a partition that `last: 60` purges up to 40."""
    return partition(number, topic=topic, **({"at": {DAY: 100}} | facts))


KINDS = {DeleteRecords: "delete", DeleteGroup: "remove", ElectLeader: "elect", Skipped: "skip", Satisfied: "fine"}


def brief(plan: Plan) -> str:
    """Return each decision: policy and subject, and the code of a block or the kind of decision."""
    return ", ".join(
        f"{str(d.address).partition('/')[2]} {d.code if isinstance(d, Blocked) else KINDS[type(d)]}"
        for d in plan.decisions
    )


def reason(decision: Decision) -> str:
    assert isinstance(decision, Blocked)
    assert decision.code == "B105"
    return decision.reason


# --- the plan itself


def test_a_plan_has_its_source_and_its_expiry() -> None:
    """Golden plans hold the rest: cluster, instant, notes and limits."""
    source = Source(commit="abc", manifests=(ManifestFile(path="a.yaml", sha256="00" * 32),))
    plan = planned(leaders(), snapshot(partition()), source=source, expires_after_ms=5)
    assert plan.source is source
    assert (plan.targets, plan.incomplete, plan.expires_at_ms) == ((), (), NOW_MS + 5)
    assert planned(leaders(), snapshot(partition())).source == Source()


def test_facts_of_another_cluster_are_refused() -> None:
    """The error names both ids and the manifest."""
    with pytest.raises(
        WrongCluster, match=f"Cluster/prod-eu names cluster id {CLUSTER_ID}, the facts are of other.*cluster.yaml:1"
    ):
        planned(leaders(), snapshot(cluster_id="other"))


def test_the_scan_request_is_the_union_of_all_kinds() -> None:
    needs = planner.scan_request([leaders(), removal(), floor(keep=LAST)], NOW_MS)
    assert (len(needs.topics), len(needs.groups), needs.topic_records, needs.cluster_records) == (2, 1, True, True)
    assert planner.scan_request([], NOW_MS) == planner.ScanRequest()
    assert not planner.scan_request([leaders(), removal()], NOW_MS).cluster_records


# --- what is decided about which subject

BOTH = "dead/old-etl remove, gdpr/orders[0] delete"
ORDERS = snapshot(purgeable())
THREE = snapshot(purgeable(0), purgeable(1), purgeable(2))
UNREAD = snapshot(topic("orders", LOST))
TWO_TOPICS = snapshot(purgeable(), purgeable(topic="other"))
NAMES = snapshot(*(purgeable(topic=name) for name in ("_schemas", "__remote_log_metadata", "orders")))
CLICKS = snapshot(*(purgeable(topic=name) for name in ("clicks-a", "clicks-b", "clicks-c", "orders")))
BUSY, OLD = snapshot(group(state=GroupState.STABLE)), snapshot(group())
APPS = snapshot(*(group(name) for name in ("app[blue]", "appb", "appx")))
JOURNAL = "_reconciler.journal"
AWAITED = [removal(), floor(keep={"unreadBy": ["old-etl"]})]
LEADERLESS = snapshot(partition(leader=None, in_sync=()))
UNCLEAN = leaders(partitions={"orders": [0]}, election="unclean")


def last(*topics: str, name: str = "gdpr", **spec: Any) -> RetentionFloor:
    return floor(*topics, keep=LAST, name=name, **spec)


def parts(**partitions: Sequence[int]) -> list[Policy]:
    """Return floors on partitions of `orders`, by their names; without numbers, on all of them."""
    return [last(name=name, **({"partitions": list(of)} if of else {})) for name, of in partitions.items()]


FOUR = snapshot(*(partition(number) for number in range(4)))
EVERY: Policy = leaders("*", name="every")
FAR = "far/orders[3] fine, far/other B101"
ALL_BUT_2 = "every/orders[0] B105, every/orders[1] B105, every/orders[2] fine, every/orders[3] B105"
UNCLEAN_ON: list[Policy] = [
    leaders(name=name, partitions=of, election="unclean")
    for name, of in {"one": {"orders": [0, 1]}, "two": {"orders": [1, 2]}, "far": {"orders": [3], "other": [0]}}.items()
]


SELECTION: list[tuple[Policy | list[Policy], ClusterSnapshot, str]] = [
    ([], ORDERS, ""),
    (last("zzz-*"), ORDERS, ""),
    (floor(keep={"last": 100}), ORDERS, "gdpr/orders[0] fine"),
    # The system topics of Kafka Connect and the schema registry look like ordinary topics.
    (last("*"), NAMES, "gdpr/orders[0] delete"),
    (last("_schemas"), NAMES, "gdpr/_schemas[0] delete"),
    # Excepted names have no decision, not even an exact name that the cluster does not list.
    (last("o*", "gone", exceptTopics=["other", "g*"]), TWO_TOPICS, "gdpr/orders[0] delete"),
    # The limit of expectAtMost counts matches, and exact names that are unknown are none.
    (last("clicks-a*", "gone", expectAtMost=1), CLICKS, "gdpr/clicks-a[0] delete, gdpr/gone B101"),
    # The policy has one block at its address and no other decision; other policies go on.
    (
        [last("clicks-*", name="clicks", expectAtMost=2), last()],
        CLICKS,
        "clicks B107, gdpr/orders[0] delete",
    ),
]
PROTECTIONS: list[tuple[Policy | list[Policy], ClusterSnapshot, dict[str, Any], str]] = [
    (removal(), OLD, {"groups": ["old-*"]}, "dead/old-etl B106"),
    (removal("o*"), OLD, {"groups": ["old-*"]}, "dead/old-etl skip"),
    # Group ids are any text: app[blue] may mean the group with that name.
    (removal("app[bx]*"), APPS, {"groups": ["app[blue]"]}, "dead/appb skip, dead/appx remove"),
    (removal("app[[]*"), APPS, {"groups": ["app[blue]"]}, "dead/app[blue] skip"),
    # A protected group name does not protect a topic, and the reverse.
    ([last(), removal()], snapshot(purgeable(), group()), {"groups": ["orders"], "topics": ["old-etl"]}, BOTH),
    # A move of a leader loses nothing; an unclean election loses records.
    (leaders(), snapshot(partition(leader=2)), {"topics": ["orders"]}, "all/orders[0] elect"),
    (UNCLEAN, LEADERLESS, {"topics": ["orders"]}, "all/orders B106"),
]
CLAIMS: list[tuple[Policy | list[Policy], ClusterSnapshot, str]] = [
    (parts(a=[0], b=[1]), THREE, "a/orders[0] delete, b/orders[1] delete"),
    # Some partitions conflict: the others have decisions of their own, and the narrower floor has none left.
    (
        parts(a=[0, 1], b=[1, 2]),
        THREE,
        "a/orders[0] delete, a/orders[1] B105, b/orders[1] B105, b/orders[2] delete",
    ),
    (
        [*parts(a=()), floor(keep={"fromOffset": {"1": 30}}, name="b")],
        THREE,
        "a/orders[0] delete, a/orders[1] B105, a/orders[2] delete, b/orders B105",
    ),
    # A floor without a partition of its own is blocked as a whole. One other policy, or several, claim them.
    (parts(a=[1], b=[1, 2]), THREE, "a/orders B105, b/orders[1] B105, b/orders[2] delete"),
    (
        parts(a=[0, 1], b=[0], c=[1, 2]),
        THREE,
        "a/orders B105, b/orders B105, c/orders[1] B105, c/orders[2] delete",
    ),
    # One block for the topic, not one per partition.
    ([last("ord*", name="b"), last("*", name="a")], TWO_TOPICS, "a/orders B105, a/other[0] delete, b/orders B105"),
    # Kinds do not conflict.
    (
        [last(), leaders()],
        snapshot(purgeable(leader=2)),
        "all/orders[0] elect, gdpr/orders[0] delete",
    ),
    # Leader policies conflict on their partitions, and with a policy for all topics.
    (UNCLEAN_ON, FOUR, f"{FAR}, one/orders[0] fine, one/orders[1] B105, two/orders[1] B105, two/orders[2] fine"),
    (UNCLEAN_ON[::2], FOUR, f"{FAR}, one/orders[0] fine, one/orders[1] fine"),
    ([EVERY, *UNCLEAN_ON[::2]], FOUR, f"{ALL_BUT_2}, far/orders B105, far/other B101, one/orders B105"),
    ([EVERY, leaders("ord*", name="too")], FOUR, "every/orders B105, too/orders B105"),
    # A live group that neither policy would remove is not a conflict and no drift.
    ([removal("old-*", name="a"), removal("*-etl", name="b")], BUSY, "a/old-etl skip, b/old-etl skip"),
    # The other policy requires more evidence; the program cannot decide which one is right.
    (
        [removal("old-*", name="a", idleFor="3d"), removal("*-etl", name="b", idleFor="30d")],
        OLD,
        "a/old-etl B105, b/old-etl skip",
    ),
    # With unknown partitions the topic has one block; it remains if some partitions conflict.
    ([last(name="a"), last("ord*", name="b")], UNREAD, "a/orders B105, b/orders B105"),
    (parts(a=[0, 1], b=[1, 2]), UNREAD, "a/orders B103, b/orders B103"),
    # A policy above its expectation still claims its subjects: a higher expectAtMost may make it valid.
    ([last("*", name="a", expectAtMost=1), last(name="b")], TWO_TOPICS, "a B107, b/orders B105"),
    # A group that a floor waits for is not removed. One that would stay anyway has its own reason.
    (AWAITED, snapshot(partition(), group(state=GroupState.STABLE)), "dead/old-etl B303, gdpr/orders[0] B205"),
    (AWAITED, snapshot(partition()), "dead/old-etl fine, gdpr/orders[0] B205"),
    ([removal(), last()], snapshot(purgeable(), group()), BOTH),
    # `since` in the future blocks the policy once, with and without conflicts.
    (
        [floor(keep={"since": "2030-01-01T00:00:00Z"}, name="a"), last(name="b")],
        ORDERS,
        "a B210, b/orders B105",
    ),
]


@pytest.mark.parametrize(
    ("policies", "facts", "protect", "expected"),
    [*PROTECTIONS, *((policies, facts, {}, expected) for policies, facts, expected in (*SELECTION, *CLAIMS))],
)
def test_what_is_decided_about_which_subject(
    policies: Policy | list[Policy], facts: ClusterSnapshot, protect: dict[str, Any], expected: str
) -> None:
    assert brief(planned(policies, facts, cluster=cluster(protect=protect))) == expected


def test_the_journal_topic_loses_nothing() -> None:
    """Its records are the history of all runs and the clock of `every`."""
    journal = cluster(journal={"topic": JOURNAL})
    (decision,) = planned(last(JOURNAL), snapshot(purgeable(topic=JOURNAL)), cluster=journal).decisions
    assert isinstance(decision, Blocked)
    assert (decision.code, decision.address.name) == ("B201", JOURNAL)
    assert mentions(decision.reason, JOURNAL, "journal")
    assert mentions(decision.next_step, "topics")


@pytest.mark.parametrize(
    ("policy", "facts", "count", "raised"),
    [
        (last("clicks-*", expectAtMost=2), CLICKS, "selects 3 topics, and expectAtMost is 2", 3),
        (removal("a*b*", expectAtMost=1), APPS, "selects 2 groups, and expectAtMost is 1", 2),
        (removal("appx*", expectAtMost=0), APPS, "selects 1 group, and expectAtMost is 0", 1),
    ],
)
def test_more_than_expected_block_the_whole_policy(
    policy: Policy, facts: ClusterSnapshot, count: str, raised: int
) -> None:
    (blocked,) = planned(policy, facts).decisions
    assert isinstance(blocked, Blocked)
    assert blocked.reason == f"{count}: nothing of this policy is done"
    assert f"expectAtMost to {raised}" in blocked.next_step
    assert blocked.declared_at == policy.declared_at
    spec = policy.spec.model_copy(update={"expect_at_most": raised})  # type: ignore[attr-defined]
    assert len(planned(policy.model_copy(update={"spec": spec}), facts).actions) == raised


def test_a_protected_topic_is_blocked_by_name_and_skipped_by_pattern() -> None:
    facts = snapshot(purgeable(topic="payments.in"))
    protected = cluster(protect={"topics": ["payments.*"]})
    (by_name,) = planned(last("payments.in"), facts, cluster=protected).decisions
    assert isinstance(by_name, Blocked)
    assert (by_name.address, by_name.code) == (Address("RetentionFloor", "gdpr", "payments.in"), "B106")
    assert by_name.reason == "topic payments.in is protected by Cluster/prod-eu (manifests/cluster.yaml:1): payments.*"
    assert mentions(by_name.next_step, "protect")
    assert brief(planned(last("pay*"), facts, cluster=protected)) == "gdpr/payments.in skip"
    (by_name,) = planned(removal(), OLD, cluster=cluster(protect={"groups": ["old-*"]})).decisions
    assert isinstance(by_name, Blocked)
    assert mentions(by_name.reason, '"old-etl"', "Cluster/prod-eu", "manifests/cluster.yaml:1", "old-*")


# --- two claims


def test_a_selection_distinguishes_existing_from_unknown_names() -> None:
    """Patterns select existing names only."""
    facts = snapshot(topic("a1"), topic("a2"), group("g"))
    floor_selection = floor("a*", "gone", keep={"last": 1}).select(facts)
    assert (dict(floor_selection.subjects), floor_selection.matched) == ({"a1": False, "a2": False, "gone": True}, 2)
    exact = floor("a1", "gone", keep={"last": 1}).select(facts)
    assert (dict(exact.subjects), exact.matched) == ({"a1": True, "gone": True}, 1)
    leader_selection = leaders("a*", exceptTopics=["a2"]).select(facts)
    assert (dict(leader_selection.subjects), leader_selection.matched) == ({"a1": False}, 1)
    groups = removal("g", "x").select(facts)
    assert (dict(groups.subjects), groups.matched) == ({"g": True, "x": True}, 1)


def test_a_conflict_names_the_policies_that_take_part() -> None:
    """Two policies are "both", three are "all"."""
    facts = snapshot(*(partition(number) for number in range(3)))

    def policy(name: str, *numbers: int) -> Policy:
        return leaders(name=name, line=ord(name), partitions={"orders": list(numbers)}, election="unclean")

    plan = planned([policy("a", 0), policy("b", 0, 1), policy("c", 1), policy("d", 2)], facts)
    by_address = {str(decision.address): decision for decision in plan.decisions}
    assert reason(by_address["LeaderPolicy/a/orders"]) == (
        "LeaderPolicy/a (manifests/leaders.yaml:97) and LeaderPolicy/b (manifests/leaders.yaml:98) both claim topic orders"
    )
    assert reason(by_address["LeaderPolicy/b/orders"]) == (
        "LeaderPolicy/b (manifests/leaders.yaml:98) and LeaderPolicy/a (manifests/leaders.yaml:97), "
        "LeaderPolicy/c (manifests/leaders.yaml:99) all claim topic orders"
    )
    assert not isinstance(by_address["LeaderPolicy/d/orders[2]"], Blocked)


@pytest.mark.parametrize("partitions", [{"a": [0, 1], "b": [1, 2]}, {"a": [0, 1], "b": [0], "c": [1, 2]}], ids=str)
def test_a_conflict_on_some_partitions_has_the_place_of_its_policy(partitions: dict[str, list[int]]) -> None:
    """And cites the policies that take part only."""
    policies = parts(**partitions)
    stopped = {d.address.policy: d for d in planned(policies, THREE).decisions if isinstance(d, Blocked)}
    assert [d.declared_at for d in stopped.values()] == [policy.declared_at for policy in policies]
    assert "RetentionFloor/c" not in stopped["b"].reason


def test_a_conflict_of_many_policies_names_three() -> None:
    """The message names the first three other policies, and says that there are more."""
    decisions = planned([removal("old-*", name=name) for name in "abcde"], OLD).decisions
    cited = ", ".join(f"GroupRemoval/{name} (manifests/groups.yaml:4)" for name in "abd")
    assert [reason(decision) for decision in decisions][2] == (
        f'GroupRemoval/c (manifests/groups.yaml:4) and {cited} and others all claim group "old-etl"'
    )
    first = planned([removal("old-*", name=name) for name in "abcd"], OLD).decisions[0]
    assert reason(first).endswith('GroupRemoval/d (manifests/groups.yaml:4) all claim group "old-etl"')
    assert isinstance(first, Blocked)
    assert first.next_step == "leave it to one of them: name it under exceptGroups of the others"


def test_a_group_that_a_floor_waits_for_is_not_removed() -> None:
    """The floor would be stale for ever: an absent group has not read everything."""
    facts = snapshot(partition(readers=(reader("old-etl", 40),)), group(), group("other"))
    waiting = [floor(f"orders-{number}", keep={"unreadBy": ["old-etl", "x"]}, name=f"f{number}") for number in range(4)]
    for policies in (waiting, waiting[::-1]):
        for selector, spec in (("old-etl", {}), ("*", {"expectAtMost": 9})):
            decisions = planned([removal(selector, **spec), *policies], facts).decisions
            decision_by_name = {d.address.name: d for d in decisions if d.address.kind == "GroupRemoval"}
            blocked = decision_by_name["old-etl"]
            assert isinstance(blocked, Blocked)
            assert (blocked.code, blocked.unread) == ("B306", False)
            assert blocked.reason == (
                'group "old-etl" is named in unreadBy of RetentionFloor/f0 (manifests/floors.yaml:9), RetentionFloor/f1 '
                "(manifests/floors.yaml:9), RetentionFloor/f2 (manifests/floors.yaml:9) and others: without it nothing would ever be purged "
                "there again"
            )
            assert blocked.next_step == "remove it from unreadBy first, or name it in exceptGroups of the removal"
            assert selector != "*" or isinstance(decision_by_name["other"], DeleteGroup)
    three = planned([removal(), *waiting[1:]], facts).decisions[0]
    assert isinstance(three, Blocked)
    assert "f3" in three.reason
    assert "and others" not in three.reason


def test_a_floor_outside_of_the_targets_counts_as_well() -> None:
    """A plan for targets or modes still knows every policy."""
    facts = snapshot(partition(readers=(reader("old-etl", 40),)), group())
    policies = [removal(), floor(keep={"unreadBy": ["old-etl"]}, envelope={"mode": "continuous"})]
    for changes in ({"targets": ["GroupRemoval/dead"]}, {"modes": {Mode.MERGE}}):
        (only,) = planned(policies, facts, **changes).decisions
        assert isinstance(only, Blocked)
        assert only.code == "B306"


# --- scope


def test_modes_narrow_the_plan_but_all_policies_claim() -> None:
    """A converge run must not act on a subject that a reviewed policy also claims."""
    policies: list[Policy] = [last("*", name="a", envelope={"mode": "continuous"}), last(name="b")]
    plan = planned(policies, TWO_TOPICS, modes={Mode.CONTINUOUS})
    assert brief(plan) == "a/orders B105, a/other[0] delete"


SOME = snapshot(purgeable(0), purgeable(1), purgeable(topic="other"), group())
GDPR, DEAD = "RetentionFloor/gdpr", "GroupRemoval/dead"


@pytest.mark.parametrize(
    ("targets", "subjects", "full"),
    [
        # A target is a policy, a topic, a partition or a group.
        ([GDPR], [f"{GDPR}/orders[0]", f"{GDPR}/orders[1]", f"{GDPR}/other[0]"], [GDPR]),
        ([f"{GDPR}/orders"], [f"{GDPR}/orders[0]", f"{GDPR}/orders[1]"], [f"{GDPR}/orders"]),
        ([f"{GDPR}/orders[1]"], [f"{GDPR}/orders[1]"], [f"{GDPR}/orders[1]"]),
        ([f"{DEAD}/old-etl"], [f"{DEAD}/old-etl"], [f"{DEAD}/old-etl"]),
        # Several add up, and are listed once, in order.
        ([f"{GDPR}/orders[1]", DEAD, DEAD], [f"{DEAD}/old-etl", f"{GDPR}/orders[1]"], [DEAD, f"{GDPR}/orders[1]"]),
        # A target may be what the plan prints; the plan holds the full address, whatever was typed.
        (
            ["orders[1]", '"old-etl"'],
            [f"{DEAD}/old-etl", f"{GDPR}/orders[1]"],
            [f"{DEAD}/old-etl", f"{GDPR}/orders[1]"],
        ),
    ],
)
def test_targets_narrow_the_plan(targets: list[str], subjects: list[str], full: list[str]) -> None:
    plan = planned([last("*"), removal()], SOME, targets=targets)
    assert [str(d.address) for d in plan.decisions] == subjects
    assert list(plan.targets) == full


@pytest.mark.parametrize(
    ("policy", "facts", "target", "expected"),
    [
        (last("*", expectAtMost=1), TWO_TOPICS, GDPR, "gdpr B107"),
        (last("*", expectAtMost=1), TWO_TOPICS, f"{GDPR}/orders", "gdpr B107"),
        (last("*", expectAtMost=1), TWO_TOPICS, f"{GDPR}/orders[0]", "gdpr B107"),
        (last(), UNREAD, f"{GDPR}/orders[0]", "gdpr/orders B103"),
    ],
)
def test_a_block_of_the_policy_or_topic_answers_for_a_target(
    policy: Policy, facts: ClusterSnapshot, target: str, expected: str
) -> None:
    assert brief(planned(policy, facts, targets=[target])) == expected


@pytest.mark.parametrize(
    ("policy", "targets", "words"),
    [
        # A mistyped target must not look like a subject in sync.
        (last(), ["RetentionFloor/gdrp"], "nothing is decided about it; did you mean RetentionFloor/gdpr"),
        (
            last(),
            ["LeaderPolicy/far"],
            "^--target LeaderPolicy/far: nothing is decided about it, no manifest has this policy$",
        ),
        (last(), ["RetentionFloor/gdrp/orders[0]"], "nothing is decided about it; did you mean RetentionFloor/gdpr"),
        (
            last(),
            [f"{GDPR}/orders[1]"],
            r"--target RetentionFloor/gdpr/orders\[1\]: .*; topic orders has 1 partition, ",
        ),
        (last("*"), ["nothing-like-it"], "nothing is decided about it; the cluster lists no topic of this name"),
        (last(), ["order"], "--target order: nothing is decided about it; did you mean orders"),
        # Before the scan, a policy of all topics may select any name.
        (last("*"), ["ordres"], r"--target RetentionFloor/gdpr/ordres: nothing .*; did you mean orders\?$"),
        # A block answers for one target only; the second target is still a mistake.
        (
            last("*", expectAtMost=0),
            [f"{GDPR}/orders[0]", "RetentionFloor/gdrp/orders[0]"],
            r"--target RetentionFloor/gdrp/orders\[0\]: nothing is decided about it",
        ),
    ],
)
def test_a_target_without_a_decision_is_wrong_usage(policy: Policy, targets: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(policy, ORDERS, targets=targets)


# --- what could not be read


def test_incomplete_facts_are_named_in_sentences() -> None:
    """Each incomplete list that the plan needs, and the number of unread decisions."""
    changes = {key: Unknown(f"{key} lost") for key in ("topics_incomplete", "groups_incomplete", "readers_incomplete")}
    facts = snapshot(
        purgeable(0, log_start=LOST), purgeable(1, last_stable_offset=LOST), group("old-etl", idle=LOST), **changes
    )
    assert planned([floor(keep=LAST), removal()], facts).incomplete == (
        "The list of topics is incomplete: topics_incomplete lost.",
        "The list of groups is incomplete: groups_incomplete lost.",
        "Not every group's position is known: readers_incomplete lost.",
        (
            '1 subject of GroupRemoval/dead could not be read, the first because when group "old-etl" was last active could not be '
            "read: broker 2 did not answer."
        ),
        (
            "2 subjects of RetentionFloor/gdpr could not be read, the first because the log start of orders[0] could not be read: "
            "broker 2 did not answer."
        ),
    )


def test_lists_that_a_plan_does_not_need_may_be_incomplete() -> None:
    """A plan of leaders needs no groups; a plan of groups needs no topics and no consumers."""
    changes = dict.fromkeys(("topics_incomplete", "groups_incomplete", "readers_incomplete"), LOST)
    assert planned(leaders(), snapshot(partition(), **changes)).incomplete == (
        "The list of topics is incomplete: broker 2 did not answer.",
    )
    assert planned(removal(), snapshot(group(), **changes)).incomplete == (
        "The list of groups is incomplete: broker 2 did not answer.",
    )


def test_one_reason_is_told_once() -> None:
    """The positions of groups are unknown because the list of groups is incomplete: it was told twice."""
    changes = dict.fromkeys(("groups_incomplete", "readers_incomplete"), Unknown("no right"))
    told = planned(floor(keep=LAST), snapshot(purgeable(0), **changes)).incomplete
    assert [sentence.count("no right") for sentence in told] == [1, 1]
    assert told[0] == "The list of groups is incomplete: no right."
    assert told[1].startswith("1 subject of RetentionFloor/gdpr could not be read")
    told = planned(
        floor(keep=LAST), snapshot(purgeable(0), topics_incomplete=Unknown("no right"), **changes)
    ).incomplete
    assert told[:2] == ("The list of topics is incomplete: no right.", "The list of groups is incomplete: no right.")


# --- purity


SCRIPT = """
from tests.strategies.facts import *
from reconciler.plan import plan_file
facts = snapshot(*(partition(n, topic=t, at={DAY: 100}, readers=(reader("b", 3), reader("a", 2)), leader=2) for n in range(3) for t in ("x", "y", "z")),
                 *(group(g) for g in ("a", "b", "c")))
policies = [floor("x", "y*", keep={"last": 60}, consumers="ignore"), floor("z*", "y*", keep={"last": 50}, name="second"), leaders(), removal("a", "b*")]
plan = planned(policies, facts)
print(plan_file.digest(plan), plan)
"""


def test_neither_hash_seed_nor_time_zone_changes_a_plan() -> None:
    """The hash seed changes the order of sets, but not the plan."""
    root = Path(__file__).parents[3]
    outputs = {
        python(SCRIPT, cwd=root, env={"PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(root)}).stdout
        for seed, zone in (("0", "UTC"), ("1", "Pacific/Apia"), ("42", "America/Lima"))
    }
    assert len(outputs) == 1
    assert "DeleteRecords" in outputs.pop()
