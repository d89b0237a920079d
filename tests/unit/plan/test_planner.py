"""From policies to a plan: selection, protections, conflicts, expectations, and the header."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import UsageError, WrongCluster
from reconciler.model.action import Mode
from reconciler.model.names import Address
from reconciler.model.plan import Blocked, Decision, ManifestFile, PolicyInfo, Satisfied, Skipped, Source
from reconciler.model.snapshot import GroupState, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import planner
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
    removal,
    snapshot,
    topic,
)

LAST = {"last": 60}


def purgeable(number: int = 0, *, topic: str = "orders", **facts: Any) -> Any:
    """Return a partition that `last: 60` purges up to 40."""
    return partition(number, topic=topic, **({"at": {DAY: 100}} | facts))


def brief(decisions: tuple[Decision, ...]) -> list[tuple[str, str]]:
    """Return address and type of each decision, with the code of a blocked one."""
    return [(str(d.address), d.code if isinstance(d, Blocked) else type(d).__name__) for d in decisions]


# --- the plan itself


def test_a_plan_has_its_source_and_its_expiry() -> None:
    """Cluster, id, instant, expiry a day later, source, and the notes of its policies."""
    source = Source(commit="abc", manifests=(ManifestFile(path="a.yaml", sha256="00" * 32),))
    noted = floor(keep=LAST, name="noted")
    owned = floor("other", keep=LAST, name="owned")
    owned = owned.model_copy(update={"metadata": owned.metadata.model_copy(update={"owner": "team"})})
    reasoned = leaders(name="reasoned")
    reasoned = reasoned.model_copy(update={"metadata": reasoned.metadata.model_copy(update={"reason": "even load"})})
    plan = planned([reasoned, owned, noted], snapshot(purgeable(), purgeable(topic="other")), source=source)
    assert (plan.cluster, plan.cluster_id, plan.observed_at_ms) == ("prod-eu", CLUSTER_ID, NOW_MS)
    assert plan.expires_at_ms == NOW_MS + DAY
    assert plan.source is source
    assert plan.targets == ()
    assert plan.incomplete == ()
    assert plan.notes == (
        PolicyInfo(policy=Address("LeaderPolicy", "reasoned"), owner=None, reason="even load"),
        PolicyInfo(policy=Address("RetentionFloor", "owned"), owner="team", reason=None),
    )
    assert [verdict.id for verdict in plan.limits] == [
        "topics",
        "recordsPercentPerTopic",
        "recordsPercent",
        "groups",
        "groupsPercent",
        "elections",
        "uncleanElections",
    ]
    assert planned(noted, snapshot(purgeable()), expires_after_ms=5).expires_at_ms == NOW_MS + 5
    assert planned(noted, snapshot(purgeable())).source == Source()


def test_facts_of_another_cluster_are_refused() -> None:
    """The error names both ids and the manifest."""
    with pytest.raises(
        WrongCluster, match=f"Cluster/prod-eu names cluster id {CLUSTER_ID}, the facts are of other.*cluster.yaml:1"
    ):
        planned(leaders(), snapshot(cluster_id="other"))


def test_decisions_are_in_address_order_with_partitions_by_number() -> None:
    facts = snapshot(*(purgeable(number) for number in range(11)), group("old-etl"))
    addresses = [str(d.address) for d in planned([leaders(), removal(), floor(keep=LAST)], facts).decisions]
    assert addresses[:1] == ["GroupRemoval/dead/old-etl"]
    assert addresses[1:12] == [f"LeaderPolicy/all/orders[{number}]" for number in range(11)]
    assert addresses[12:] == [f"RetentionFloor/gdpr/orders[{number}]" for number in range(11)]


def test_no_policies_make_an_empty_plan() -> None:
    assert planned([], snapshot(purgeable())).decisions == ()


def test_the_scan_request_is_the_union_of_all_kinds() -> None:
    needs = planner.scan_request([leaders(), removal(), floor(keep=LAST)], NOW_MS)
    assert (len(needs.topics), len(needs.groups), needs.topic_records, needs.cluster_records) == (2, 1, True, True)
    assert planner.scan_request([], NOW_MS) == planner.ScanRequest()
    assert not planner.scan_request([leaders(), removal()], NOW_MS).cluster_records


# --- selection


def test_patterns_of_a_floor_never_select_a_leading_underscore() -> None:
    """The system topics of Kafka Connect and the schema registry look like ordinary topics."""
    names = ("_schemas", "__remote_log_metadata", "orders")
    facts = snapshot(*(purgeable(topic=name) for name in names))
    assert brief(planned(floor("*", keep=LAST), facts).decisions) == [
        ("RetentionFloor/gdpr/orders[0]", "DeleteRecords")
    ]
    assert brief(planned(floor("_schemas", keep=LAST), facts).decisions) == [
        ("RetentionFloor/gdpr/_schemas[0]", "DeleteRecords")
    ]


def test_excepted_names_have_no_decision() -> None:
    """Not even an exact name that the cluster does not list."""
    facts = snapshot(purgeable(), purgeable(topic="audit"))
    policy = floor("*", "gone", keep=LAST, exceptTopics=["audit", "g*"])
    assert brief(planned(policy, facts).decisions) == [("RetentionFloor/gdpr/orders[0]", "DeleteRecords")]


def test_a_pattern_without_a_match_has_no_decision() -> None:
    assert planned(floor("zzz-*", keep=LAST), snapshot(purgeable())).decisions == ()


# --- expectAtMost


def test_more_topics_than_expected_block_the_whole_policy() -> None:
    """The policy has one block at its address and no other decision; other policies go on."""
    facts = snapshot(*(purgeable(topic=name) for name in ("clicks-a", "clicks-b", "clicks-c", "orders")))
    policies = [floor("clicks-*", keep=LAST, name="clicks", expectAtMost=2), floor(keep=LAST)]
    plan = planned(policies, facts)
    assert brief(plan.decisions) == [
        ("RetentionFloor/clicks", "B107"),
        ("RetentionFloor/gdpr/orders[0]", "DeleteRecords"),
    ]
    (blocked, _) = plan.decisions
    assert isinstance(blocked, Blocked)
    assert blocked.reason == "selects 3 topics, and expectAtMost is 2: nothing of this policy is done"
    assert "expectAtMost to 3" in blocked.next_step
    assert blocked.declared_at.path == "manifests/floors.yaml"
    assert len(planned(floor("clicks-*", keep=LAST, expectAtMost=3), facts).actions) == 3


def test_unknown_exact_names_do_not_count_towards_expect_at_most() -> None:
    """The limit counts matches."""
    facts = snapshot(purgeable(topic="clicks-a"))
    policy = floor("clicks-*", "gone", keep=LAST, expectAtMost=1)
    assert brief(planned(policy, facts).decisions) == [
        ("RetentionFloor/gdpr/clicks-a[0]", "DeleteRecords"),
        ("RetentionFloor/gdpr/gone", "B101"),
    ]


def test_more_groups_than_expected_block_the_whole_policy() -> None:
    facts = snapshot(group("old-1"), group("old-2"))
    (decision,) = planned(removal("old-*", expectAtMost=1), facts).decisions
    assert isinstance(decision, Blocked)
    assert decision.reason == "selects 2 groups, and expectAtMost is 1: nothing of this policy is done"
    assert len(planned(removal("old-*", expectAtMost=2), facts).actions) == 2
    (decision,) = planned(removal("old-1*", expectAtMost=0), facts).decisions
    assert isinstance(decision, Blocked)
    assert decision.reason == "selects 1 group, and expectAtMost is 0: nothing of this policy is done"


# --- protections


def test_a_protected_topic_is_blocked_by_name_and_skipped_by_pattern() -> None:
    facts = snapshot(purgeable(topic="payments.in"))
    protected = cluster(protect={"topics": ["payments.*"]})
    (by_name,) = planned(floor("payments.in", keep=LAST), facts, cluster=protected).decisions
    assert isinstance(by_name, Blocked)
    assert (by_name.address, by_name.code) == (Address("RetentionFloor", "gdpr", "payments.in"), "B106")
    assert by_name.reason == "topic payments.in is protected by Cluster/prod-eu (manifests/cluster.yaml:1): payments.*"
    (by_pattern,) = planned(floor("pay*", keep=LAST), facts, cluster=protected).decisions
    assert isinstance(by_pattern, Skipped)


def test_a_name_that_looks_like_a_glob_protects_itself_too() -> None:
    """Group ids are any text: app[blue] may mean the group with that name."""
    facts = snapshot(*(group(name) for name in ("app[blue]", "appb", "appx")))
    result = planned(removal("app*"), facts, cluster=cluster(protect={"groups": ["app[blue]"]}))
    assert [action.address.name for action in result.actions] == ["appx"]


def test_a_protected_group_is_blocked_by_name_and_skipped_by_pattern() -> None:
    facts = snapshot(group("billing"))
    protected = cluster(protect={"groups": ["bill*"]})
    assert brief(planned(removal("billing"), facts, cluster=protected).decisions) == [
        ("GroupRemoval/dead/billing", "B106")
    ]
    assert brief(planned(removal("b*"), facts, cluster=protected).decisions) == [
        ("GroupRemoval/dead/billing", "Skipped")
    ]


def test_protections_apply_to_their_own_type() -> None:
    """A protected group name does not protect a topic, and the reverse."""
    facts = snapshot(purgeable(), group("old-etl"))
    protected = cluster(protect={"groups": ["orders"], "topics": ["old-etl"]})
    assert len(planned([floor(keep=LAST), removal()], facts, cluster=protected).actions) == 2


def test_the_journal_topic_loses_nothing() -> None:
    """Its records are the history of all runs and the clock of `every`."""
    facts = snapshot(purgeable(topic="_reconciler.journal"))
    journal = cluster(journal={"topic": "_reconciler.journal"})
    assert brief(planned(floor("_reconciler.journal", keep=LAST), facts, cluster=journal).decisions) == [
        ("RetentionFloor/gdpr/_reconciler.journal", "B201")
    ]


def test_a_protected_topic_may_get_its_preferred_leader_but_no_unclean_one() -> None:
    """A move of a leader loses nothing; an unclean election loses records."""
    protected = cluster(protect={"topics": ["orders"]})
    assert isinstance(planned(leaders(), snapshot(partition(leader=2)), cluster=protected).decisions[0], ElectLeader)
    unclean = leaders(partitions={"orders": [0]}, election="unclean")
    facts = snapshot(partition(leader=None, in_sync=()))
    assert brief(planned(unclean, facts, cluster=protected).decisions) == [("LeaderPolicy/all/orders", "B106")]


# --- two claims


def test_two_floors_on_one_topic_block_each_other_and_cite_both_locations() -> None:
    """One block for the topic, not one per partition."""
    facts = snapshot(purgeable(0), purgeable(1), purgeable(0, topic="other"))
    plan = planned([floor("ord*", keep=LAST, name="b", line=7), floor("*", keep=LAST, name="a", line=3)], facts)
    assert brief(plan.decisions) == [
        ("RetentionFloor/a/orders", "B105"),
        ("RetentionFloor/a/other[0]", "DeleteRecords"),
        ("RetentionFloor/b/orders", "B105"),
    ]
    blocked = plan.decisions[0]
    assert isinstance(blocked, Blocked)
    assert blocked.reason == (
        "RetentionFloor/a (manifests/floors.yaml:3) and RetentionFloor/b (manifests/floors.yaml:7) both claim topic orders"
    )
    assert blocked.next_step == "leave it to one of them: name it under exceptTopics of the others"
    assert blocked.declared_at.line == 3


def test_floors_on_different_partitions_do_not_conflict() -> None:
    facts = snapshot(purgeable(0), purgeable(1))
    policies = [floor(keep=LAST, name="a", partitions=[0]), floor(keep=LAST, name="b", partitions=[1])]
    assert [str(action.address) for action in planned(policies, facts).actions] == [
        "RetentionFloor/a/orders[0]",
        "RetentionFloor/b/orders[1]",
    ]


def test_floors_that_share_some_partitions_are_blocked_on_those() -> None:
    """The other partitions have decisions of their own; the narrower floor has none left."""
    facts = snapshot(purgeable(0), purgeable(1), purgeable(2))
    policies = [floor(keep=LAST, name="a", partitions=[0, 1]), floor(keep=LAST, name="b", partitions=[1, 2])]
    stopped = [d for d in planned(policies, facts).decisions if isinstance(d, Blocked)]
    assert [d.declared_at for d in stopped] == [policy.declared_at for policy in policies]
    assert brief(planned(policies, facts).decisions) == [
        ("RetentionFloor/a/orders[0]", "DeleteRecords"),
        ("RetentionFloor/a/orders[1]", "B105"),
        ("RetentionFloor/b/orders[1]", "B105"),
        ("RetentionFloor/b/orders[2]", "DeleteRecords"),
    ]
    wider = [floor(keep=LAST, name="a"), floor(keep={"fromOffset": {"1": 30}}, name="b")]
    assert brief(planned(wider, facts).decisions) == [
        ("RetentionFloor/a/orders[0]", "DeleteRecords"),
        ("RetentionFloor/a/orders[1]", "B105"),
        ("RetentionFloor/a/orders[2]", "DeleteRecords"),
        ("RetentionFloor/b/orders", "B105"),
    ]


def test_a_floor_without_a_partition_of_its_own_is_blocked_as_a_whole() -> None:
    """One other policy, or several together, claim all its partitions."""
    facts = snapshot(purgeable(0), purgeable(1), purgeable(2))
    narrow = [floor(keep=LAST, name="a", partitions=[1]), floor(keep=LAST, name="b", partitions=[1, 2])]
    assert brief(planned(narrow, facts).decisions) == [
        ("RetentionFloor/a/orders", "B105"),
        ("RetentionFloor/b/orders[1]", "B105"),
        ("RetentionFloor/b/orders[2]", "DeleteRecords"),
    ]
    several = [
        floor(keep=LAST, name=name, partitions=numbers) for name, numbers in (("a", [0, 1]), ("b", [0]), ("c", [1, 2]))
    ]
    assert brief(planned(several, facts).decisions) == [
        ("RetentionFloor/a/orders", "B105"),
        ("RetentionFloor/b/orders", "B105"),
        ("RetentionFloor/c/orders[1]", "B105"),
        ("RetentionFloor/c/orders[2]", "DeleteRecords"),
    ]
    cited = planned(several, facts).decisions[1]
    assert isinstance(cited, Blocked)
    assert "RetentionFloor/c" not in cited.reason


def test_three_claims_are_all_blocked_and_many_are_counted() -> None:
    facts = snapshot(group("old-etl"))
    policies = [removal("old-*", name=name) for name in "abcde"]
    plan = planned(policies, facts)
    assert [code for _, code in brief(plan.decisions)] == ["B105"] * 5
    blocked = plan.decisions[2]
    assert isinstance(blocked, Blocked)
    cited = ", ".join(f"GroupRemoval/{name} (manifests/groups.yaml:4)" for name in "abd")
    assert (
        blocked.reason == f'GroupRemoval/c (manifests/groups.yaml:4) and {cited} and others all claim group "old-etl"'
    )
    assert "exceptGroups" in blocked.next_step
    four = planned(policies[:4], facts).decisions[0]
    assert isinstance(four, Blocked)
    assert "others all" not in four.reason


def test_policies_of_different_kinds_do_not_conflict() -> None:
    facts = snapshot(purgeable(leader=2))
    assert len(planned([floor(keep=LAST), leaders()], facts).actions) == 2


def test_skipped_subjects_of_two_patterns_stay_skipped() -> None:
    """A live group that neither policy would remove is not a conflict and no drift."""
    facts = snapshot(group("old-etl", state=GroupState.STABLE))
    policies = [removal("old-*", name="a"), removal("*-etl", name="b")]
    assert [code for _, code in brief(planned(policies, facts).decisions)] == ["Skipped", "Skipped"]


def test_a_subject_of_two_policies_is_blocked_if_one_would_act() -> None:
    """The other policy requires more evidence; the program cannot decide which one is right."""
    facts = snapshot(group("old-etl", idle=6 * DAY))
    policies = [removal("old-*", name="a", idleFor="3d"), removal("*-etl", name="b", idleFor="30d")]
    assert [code for _, code in brief(planned(policies, facts).decisions)] == ["B105", "Skipped"]


def test_a_conflicting_topic_with_unread_facts_is_blocked_once() -> None:
    """With unknown partitions, or an unknown topic, the topic has one block."""
    facts = snapshot(topic("orders", LOST))
    policies = [floor(keep=LAST, name="a"), floor("ord*", keep=LAST, name="b")]
    assert brief(planned(policies, facts).decisions) == [
        ("RetentionFloor/a/orders", "B105"),
        ("RetentionFloor/b/orders", "B105"),
    ]


def test_a_block_of_a_topic_remains_if_some_partitions_conflict() -> None:
    facts = snapshot(topic("orders", LOST))
    policies = [floor(keep=LAST, name="a", partitions=[0, 1]), floor(keep=LAST, name="b", partitions=[1, 2])]
    assert brief(planned(policies, facts).decisions) == [
        ("RetentionFloor/a/orders", "B103"),
        ("RetentionFloor/b/orders", "B103"),
    ]


def test_a_policy_above_its_expectation_still_claims_its_subjects() -> None:
    """A higher expectAtMost may make it valid."""
    facts = snapshot(purgeable(), purgeable(topic="other"))
    policies = [floor("*", keep=LAST, name="a", expectAtMost=1), floor(keep=LAST, name="b")]
    assert brief(planned(policies, facts).decisions) == [
        ("RetentionFloor/a", "B107"),
        ("RetentionFloor/b/orders", "B105"),
    ]


def test_a_block_of_a_policy_is_no_conflict() -> None:
    """`since` in the future blocks the policy once, with and without conflicts."""
    policies = [floor(keep={"since": "2030-01-01T00:00:00Z"}, name="a"), floor(keep=LAST, name="b")]
    assert brief(planned(policies, snapshot(purgeable())).decisions) == [
        ("RetentionFloor/a", "B210"),
        ("RetentionFloor/b/orders", "B105"),
    ]


# --- scope


def test_modes_narrow_the_plan_but_all_policies_claim() -> None:
    """A converge run must not act on a subject that a reviewed policy also claims."""
    facts = snapshot(purgeable(), purgeable(topic="other"))
    policies = [floor("*", keep=LAST, name="a", envelope={"mode": "continuous"}), floor(keep=LAST, name="b")]
    plan = planned(policies, facts, modes={Mode.CONTINUOUS})
    assert brief(plan.decisions) == [
        ("RetentionFloor/a/orders", "B105"),
        ("RetentionFloor/a/other[0]", "DeleteRecords"),
    ]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "RetentionFloor/gdpr",
            ["RetentionFloor/gdpr/orders[0]", "RetentionFloor/gdpr/orders[1]", "RetentionFloor/gdpr/other[0]"],
        ),
        ("RetentionFloor/gdpr/orders", ["RetentionFloor/gdpr/orders[0]", "RetentionFloor/gdpr/orders[1]"]),
        ("RetentionFloor/gdpr/orders[1]", ["RetentionFloor/gdpr/orders[1]"]),
        ("GroupRemoval/dead/old-etl", ["GroupRemoval/dead/old-etl"]),
    ],
)
def test_targets_narrow_the_plan(target: str, expected: list[str]) -> None:
    """A target is a policy, a topic, a partition or a group."""
    facts = snapshot(purgeable(0), purgeable(1), purgeable(topic="other"), group("old-etl"))
    plan = planned([floor("*", keep=LAST), removal()], facts, targets=[target])
    assert [str(d.address) for d in plan.decisions] == expected
    assert plan.targets == (target,)


def test_several_targets_add_up_and_are_listed_once_in_order() -> None:
    facts = snapshot(purgeable(0), purgeable(1), group("old-etl"))
    targets = ["RetentionFloor/gdpr/orders[1]", "GroupRemoval/dead", "GroupRemoval/dead"]
    plan = planned([floor(keep=LAST), removal()], facts, targets=targets)
    assert [type(d) for d in plan.decisions] == [DeleteGroup, DeleteRecords]
    assert plan.targets == ("GroupRemoval/dead", "RetentionFloor/gdpr/orders[1]")


def test_a_block_of_the_policy_of_a_target_is_in_the_plan() -> None:
    facts = snapshot(purgeable(), purgeable(topic="other"))
    policy = floor("*", keep=LAST, expectAtMost=1)
    for target in ("RetentionFloor/gdpr", "RetentionFloor/gdpr/orders", "RetentionFloor/gdpr/orders[0]"):
        assert brief(planned(policy, facts, targets=[target]).decisions) == [("RetentionFloor/gdpr", "B107")], target


def test_a_blocked_topic_answers_for_a_target_in_it() -> None:
    facts = snapshot(topic("orders", LOST))
    plan = planned(floor(keep=LAST), facts, targets=["RetentionFloor/gdpr/orders[0]"])
    assert brief(plan.decisions) == [("RetentionFloor/gdpr/orders", "B103")]


def test_a_block_answers_for_one_target_only() -> None:
    """The second target is still a mistake."""
    facts = snapshot(purgeable(), purgeable(topic="other"))
    policy = floor("*", keep=LAST, expectAtMost=1)
    with pytest.raises(UsageError, match=r"--target RetentionFloor/gdrp/orders\[0\]: nothing is decided about it"):
        planned(policy, facts, targets=["RetentionFloor/gdpr/orders[0]", "RetentionFloor/gdrp/orders[0]"])


@pytest.mark.parametrize("target", ["RetentionFloor/gdrp", "RetentionFloor/gdrp/orders[0]"])
def test_a_target_without_a_decision_is_wrong_usage(target: str) -> None:
    """A mistyped target must not look like a subject in sync."""
    with pytest.raises(UsageError, match="nothing is decided about it; did you mean RetentionFloor/gdpr"):
        planned(floor(keep=LAST), snapshot(purgeable()), targets=[target])


def test_a_target_without_a_similar_name_has_no_hint() -> None:
    with pytest.raises(UsageError, match=r"--target RetentionFloor/gdpr/orders\[1\]: nothing is decided about it$"):
        planned(floor(keep=LAST), snapshot(purgeable()), targets=["RetentionFloor/gdpr/orders[1]"])


def test_a_misspelt_target_of_a_pattern_gets_the_name_of_the_cluster() -> None:
    """Before the scan, a policy of all topics may select any name."""
    with pytest.raises(UsageError, match=r"--target RetentionFloor/gdpr/ordres: nothing .*; did you mean orders\?$"):
        planned(floor("*", keep=LAST, expectAtMost=1), snapshot(purgeable()), targets=["ordres"])


def test_a_target_that_no_policy_selects_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="--target order: nothing is decided about it; did you mean orders"):
        planned(floor(keep=LAST), snapshot(purgeable()), targets=["order"])


def test_a_target_may_be_what_the_plan_prints() -> None:
    """The plan holds the full address, whatever was typed."""
    facts = snapshot(purgeable(0), purgeable(1), group("old-etl"))
    plan = planned([floor(keep=LAST), removal()], facts, targets=["orders[1]", '"old-etl"'])
    assert plan.targets == ("GroupRemoval/dead/old-etl", "RetentionFloor/gdpr/orders[1]")
    assert [str(decision.address) for decision in plan.decisions] == list(plan.targets)


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
    assert planned(removal(), snapshot(group("old-etl"), **changes)).incomplete == (
        "The list of groups is incomplete: broker 2 did not answer.",
    )


def test_other_blocks_do_not_make_a_plan_incomplete() -> None:
    plan = planned(floor(keep=LAST), snapshot(purgeable(leader=None)))
    assert brief(plan.decisions) == [("RetentionFloor/gdpr/orders[0]", "B203")]
    assert plan.incomplete == ()


def test_satisfied_subjects_are_decisions() -> None:
    assert [type(d) for d in planned(floor(keep={"last": 100}), snapshot(purgeable())).decisions] == [Satisfied]


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
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, zone in (("0", "UTC"), ("1", "Pacific/Apia"), ("42", "America/Lima"))
    }
    assert len(outputs) == 1
    assert "DeleteRecords" in outputs.pop()
