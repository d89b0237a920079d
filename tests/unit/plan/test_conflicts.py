"""Conflicts between policies, and the policies that their messages name."""

from reconciler.model.action import Mode
from reconciler.model.plan import Blocked, Decision, Satisfied
from reconciler.model.snapshot import ClusterSnapshot, GroupState
from reconciler.operations.delete_group import DeleteGroup
from reconciler.plan.conflicts import ConflictIndex
from reconciler.policies import Policy
from tests.strategies.facts import floor, group, leaders, partition, planned, reader, removal, snapshot, topic


def conflicts_of(facts: ClusterSnapshot, *policies: Policy) -> list[dict[str, frozenset[int] | None]]:
    """Map the conflicting names of each policy to partition numbers; None means all."""
    selections = [policy.select(facts) for policy in policies]
    claims = ConflictIndex(selections)
    return [
        {name: contest.partitions for name, contest in claims.conflicts(selection).items()} for selection in selections
    ]


def reason(decision: Decision) -> str:
    assert isinstance(decision, Blocked)
    assert decision.code == "B105"
    return decision.reason


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


def test_leader_policies_conflict_on_their_partitions() -> None:
    """Unclean elections of exact partitions conflict with each other and with a policy for all
    topics.
    """
    facts = snapshot(*(partition(number) for number in range(4)))
    first = leaders(name="one", partitions={"orders": [0, 1]}, election="unclean")
    second = leaders(name="two", partitions={"orders": [1, 2]}, election="unclean")
    far = leaders(name="far", partitions={"orders": [3], "other": [0]}, election="unclean")
    every = leaders("*", name="every")
    assert conflicts_of(facts, first, second, far) == [{"orders": frozenset({1})}, {"orders": frozenset({1})}, {}]
    assert conflicts_of(facts, every, first, far) == [
        {"orders": frozenset({0, 1, 3})},
        {"orders": None},
        {"orders": None},
    ]
    assert conflicts_of(facts, first, far) == [{}, {}]
    assert conflicts_of(facts, every) == [{}]
    assert conflicts_of(facts, every, leaders("ord*", name="too")) == [{"orders": None}, {"orders": None}]


def test_different_topics_and_kinds_do_not_conflict() -> None:
    facts = snapshot(topic("a"), topic("b"), group("a"))
    policies = (floor("a", keep={"last": 1}), floor("b", keep={"last": 1}), removal("a"), leaders("a"))
    assert conflicts_of(facts, *policies) == [{}, {}, {}, {}]


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


def test_a_conflict_of_many_policies_names_three() -> None:
    """The message names the first three other policies, and says that there are more."""
    facts = snapshot(group("g"))
    four, five = ([removal("g*", name=name) for name in names] for names in ("abcd", "abcde"))
    first = planned(four, facts).decisions[0]
    assert reason(first).endswith('GroupRemoval/d (manifests/groups.yaml:4) all claim group "g"')
    assert isinstance(first, Blocked)
    assert first.next_step == "leave it to one of them: name it under exceptGroups of the others"
    other_reason = reason(planned(five, facts).decisions[0])
    assert other_reason.endswith('GroupRemoval/d (manifests/groups.yaml:4) and others all claim group "g"')
    assert "GroupRemoval/e" not in other_reason


def test_a_group_that_a_floor_waits_for_is_not_removed() -> None:
    """After its removal the purges of the floor would be stale for ever: an absent group has not
    read everything.
    """
    facts = snapshot(partition(readers=(reader("old-etl", 40),)), group("old-etl"), group("other"))
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
    three = planned([removal("old-etl"), *waiting[1:]], facts).decisions[0]
    assert isinstance(three, Blocked)
    assert "f3" in three.reason
    assert "and others" not in three.reason


def test_a_floor_outside_of_the_targets_counts_as_well() -> None:
    """A plan for targets or modes still knows every policy."""
    facts = snapshot(partition(readers=(reader("old-etl", 40),)), group("old-etl"))
    policies = [removal("old-etl"), floor(keep={"unreadBy": ["old-etl"]}, envelope={"mode": "continuous"})]
    for changes in ({"targets": ["GroupRemoval/dead"]}, {"modes": {Mode.MERGE}}):
        (only,) = planned(policies, facts, **changes).decisions
        assert isinstance(only, Blocked)
        assert only.code == "B306"


def test_only_a_removal_is_blocked_by_a_floor() -> None:
    """A group that would stay anyway has its own reason, and other groups are not affected."""
    waiting = floor(keep={"unreadBy": ["old-etl"]})
    busy = snapshot(partition(), group("old-etl", state=GroupState.STABLE))
    assert [d.code for d in planned([removal("old-etl"), waiting], busy).decisions[:1] if isinstance(d, Blocked)] == [
        "B303"
    ]
    without_group = snapshot(partition())
    assert isinstance(planned([removal("old-etl"), waiting], without_group).decisions[0], Satisfied)
    read = floor(keep={"last": 1})
    assert isinstance(
        planned([removal("old-etl"), read], snapshot(partition(), group("old-etl"))).decisions[0], DeleteGroup
    )
