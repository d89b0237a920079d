"""Who claims what, and whom a quarrel cites."""

from reconciler.kinds import Policy
from reconciler.model.plan import Blocked, Decision
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.plan.claims import Claims, selection
from tests.strategies.facts import floor, group, leaders, partition, planned, removal, snapshot, topic


def contests(facts: ClusterSnapshot, *policies: Policy) -> list[dict[str, frozenset[int] | None]]:
    """For each policy its contested names, with the partition numbers (None: all it claims)."""
    selections = [selection(policy, facts) for policy in policies]
    claims = Claims(selections)
    return [{name: contest.partitions for name, contest in claims.contests(one).items()} for one in selections]


def reason(decision: Decision) -> str:
    assert isinstance(decision, Blocked)
    assert decision.code == "B105"
    return decision.reason


def test_a_selection_tells_live_names_from_unknown_ones() -> None:
    """Only live ones are matched."""
    facts = snapshot(topic("a1"), topic("a2"), group("g"))
    one = selection(floor("a*", "gone", keep={"last": 1}), facts)
    assert (dict(one.subjects), one.unknown, one.matched) == (
        {"a1": False, "a2": False, "gone": True},
        frozenset({"gone"}),
        2,
    )
    exact = selection(floor("a1", "gone", keep={"last": 1}), facts)
    assert (dict(exact.subjects), exact.unknown, exact.matched) == ({"a1": True, "gone": True}, frozenset({"gone"}), 1)
    groups = selection(removal("g", "x"), facts)
    assert (dict(groups.subjects), groups.matched) == ({"g": True, "x": True}, 1)


def test_leader_policies_meet_on_their_partitions() -> None:
    """Unclean elections of exact partitions, against each other and against a policy for everything."""
    facts = snapshot(*(partition(number) for number in range(4)))
    one = leaders(name="one", partitions={"orders": [0, 1]}, election="unclean")
    two = leaders(name="two", partitions={"orders": [1, 2]}, election="unclean")
    far = leaders(name="far", partitions={"orders": [3], "other": [0]}, election="unclean")
    every = leaders("*", name="every")
    assert contests(facts, one, two, far) == [{"orders": frozenset({1})}, {"orders": frozenset({1})}, {}]
    assert contests(facts, every, one, far) == [{"orders": frozenset({0, 1, 3})}, {"orders": None}, {"orders": None}]
    assert contests(facts, one, far) == [{}, {}]
    assert contests(facts, every) == [{}]
    assert contests(facts, every, leaders("ord*", name="too")) == [{"orders": None}, {"orders": None}]


def test_different_topics_and_kinds_do_not_meet() -> None:
    facts = snapshot(topic("a"), topic("b"), group("a"))
    policies = (floor("a", keep={"last": 1}), floor("b", keep={"last": 1}), removal("a"), leaders("a"))
    assert contests(facts, *policies) == [{}, {}, {}, {}]


def test_a_quarrel_cites_those_who_are_in_it_and_no_others() -> None:
    """Two are both, three are all."""
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


def test_many_who_quarrel_are_not_all_cited() -> None:
    """The first three others, then that there are more."""
    facts = snapshot(group("g"))
    four, five = ([removal("g*", name=name) for name in names] for names in ("abcd", "abcde"))
    first = planned(four, facts).decisions[0]
    assert reason(first).endswith('GroupRemoval/d (manifests/groups.yaml:4) all claim group "g"')
    assert isinstance(first, Blocked)
    assert first.next_step == "leave it to one of them: name it under exceptGroups of the others"
    more = reason(planned(five, facts).decisions[0])
    assert more.endswith('GroupRemoval/d (manifests/groups.yaml:4) and others all claim group "g"')
    assert "GroupRemoval/e" not in more
