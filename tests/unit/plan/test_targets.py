"""Targets: which texts mean a subject, and how they make the scan smaller without changing a decision."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from reconciler.errors import UsageError
from reconciler.model.names import Address, format_address, format_subject
from reconciler.model.scan_request import ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot
from reconciler.plan import planner
from reconciler.plan.targets import find_candidates, find_subjects, find_targets, matches
from reconciler.policies import Policy
from reconciler.scan import select
from reconciler.text.escape import escape_name, quoted, unescape_name
from tests.strategies.facts import NOW_MS, floor, group, leaders, partition, planned, removal, snapshot, topic
from tests.strategies.planner_inputs import PlannerInput, planner_inputs

LAST = {"last": 60}
NASTY = (
    "a b",
    'say "hi"',
    "tab\there",
    "\u202eslipped",
    "back\\slash",
    "RetentionFloor/gdpr",
    "orders[0]",
    "a/b",
    "a. Next: b",
)


def answered(facts: ClusterSnapshot, request: ScanRequest) -> ClusterSnapshot:
    """The facts that a scan for this request would have read, of these."""
    topics = select.select_topics(request, facts.topics)
    groups = select.select_groups(request.groups, facts.groups)
    unread = {"fingerprint": NOT_ASKED, "last_activity_ms": NOT_ASKED, "commits": NOT_ASKED}
    return replace(
        facts,
        topics={
            name: topic
            if any(part.offsets for part in topics.get(name, ()))
            else replace(topic, cleanup_policy=NOT_ASKED)
            for name, topic in facts.topics.items()
        },
        groups={name: group if name in groups else replace(group, **unread) for name, group in facts.groups.items()},
        partitions={
            at: partition
            for at, partition in facts.partitions.items()
            if any(part.partitions is None or at.partition in part.partitions for part in topics.get(at.topic, ()))
        },
    )


def request_of(policies: Sequence[Policy], targets: Sequence[str]) -> ScanRequest:
    """What a plan of these targets reads."""
    addresses = set().union(*find_targets(targets, policies).values())
    return planner.scan_request(policies, NOW_MS, candidates=addresses)


@settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(planner_inputs)
def test_a_smaller_scan_changes_no_decision(given_input: PlannerInput) -> None:
    """Whatever a target leaves out of the scan, the plan of the target stays the same."""
    facts, policies = given_input.snapshot, list(given_input.policies)
    fixed = {"cluster": given_input.cluster, "waivers": given_input.waivers}
    for decision in planned(policies, facts, **fixed).decisions[:2]:
        targets = [str(decision.address)]
        expected = planned(policies, facts, **fixed, targets=targets)
        found = planned(policies, answered(facts, request_of(policies, targets)), **fixed, targets=targets)
        assert found.decisions == expected.decisions
        assert found.limits == expected.limits


def test_a_target_makes_the_scan_smaller() -> None:
    """One partition of a policy with a pattern: the other policies and topics are not read."""
    policies = [floor("clicks-*", keep=LAST, expectAtMost=9), removal("old-*", expectAtMost=9), leaders("payments")]
    request = request_of(policies, ["clicks-1[3]"])
    (topics,) = request.topics
    assert [selector.text for selector in topics.topics] == ["clicks-*"], "only where it is listed"
    assert topics.only == {"clicks-1": {3}}
    assert not request.groups
    request = request_of(policies, ["old-etl"])
    assert not request.topics
    assert request.groups[0].groups == (Selector("old-*"),)
    assert request.groups[0].only == {"old-etl"}
    assert not request.cluster_records


def test_targets_of_one_topic_add_up() -> None:
    request = request_of([floor(keep=LAST)], ["orders[3]", "orders[1]"])
    assert [topics.only for topics in request.topics] == [{"orders": {1, 3}}]
    whole = request_of([floor(keep=LAST)], ["orders[3]", "orders"])
    assert [topics.only for topics in whole.topics] == [{"orders": None}]


def test_no_candidate_means_none() -> None:
    """An apply of an empty plan would otherwise scan the cluster and decide everything."""
    facts = snapshot(partition(0), topic(), group("old-etl"))
    policies = [floor(keep=LAST), removal("old-*", expectAtMost=9), leaders("*", expectAtMost=9)]
    assert planner.scan_request(policies, NOW_MS, candidates=()) == ScanRequest()
    assert planned(policies, facts, candidates=()).decisions == ()
    assert planned(policies, facts, candidates=None).decisions == planned(policies, facts).decisions != ()


def test_metadata_is_read_as_a_whole() -> None:
    """The tolerance of a LeaderPolicy compares all leaders that it selects."""
    policies = [leaders("orders", "payments")]
    assert request_of(policies, ["orders[0]"]) == planner.scan_request(policies, NOW_MS)


def test_a_target_of_several_policies_is_planned_for_each() -> None:
    """`--target 'orders[0]'` once asked which policy is meant; those without decision are none."""
    policies = [floor(keep=LAST), leaders("orders"), removal("*", expectAtMost=9)]
    facts = snapshot(partition(0), partition(1), topic(partitions=2), group("old-etl"))
    narrow = answered(facts, request_of(policies, ["orders[0]"]))
    plan = planned(policies, narrow, targets=["orders[0]"])
    addresses = ["LeaderPolicy/all/orders[0]", "RetentionFloor/gdpr/orders[0]"]
    assert [str(decision.address) for decision in plan.decisions] == addresses
    assert list(plan.targets) == addresses
    with pytest.raises(UsageError, match=r"--target orders\[7\]: nothing is decided about it"):
        planned(policies, facts, targets=["orders[7]"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders[0", "no policy selects a topic or group of this name"),
        ("ordres[0]", "did you mean orders?"),
        ("RetentionFloor/gdrp", "did you mean RetentionFloor/gdpr?"),
        ("RetentionFloor/gdpr/payments", "RetentionFloor/gdpr does not select it"),
        ("", "no policy selects"),
    ],
)
def test_a_wrong_target_fails_before_the_scan(text: str, reason: str) -> None:
    """The scan of a large cluster once ran for minutes before the typing error was reported."""
    with pytest.raises(UsageError) as error:
        request_of([floor(keep=LAST)], [text])
    assert reason in str(error.value)


def test_explaining_a_subject_reads_what_it_may_mean_and_no_more() -> None:
    """`explain` once read the whole cluster. The group could be a topic of the pattern, too, and is none."""
    facts = snapshot(partition(0), partition(1), topic(partitions=2), group("old-etl"))
    policies = [floor(keep=LAST), removal("old-*", expectAtMost=9), leaders("*", expectAtMost=9)]
    for text, subject in (
        ("old-etl", "GroupRemoval/dead/old-etl"),
        ("RetentionFloor/gdpr/orders[1]", "RetentionFloor/gdpr/orders[1]"),
    ):
        candidates = find_candidates(text, policies)
        request = planner.scan_request(policies, NOW_MS, candidates=candidates)
        assert all(part.only == {"orders": {1}} for part in request.topics if part.offsets)
        plan = planned(policies, answered(facts, request), candidates=candidates)
        assert [str(a) for a in find_subjects(text, [decision.address for decision in plan.decisions])] == [subject]
        decisions = [decision for decision in plan.decisions if str(decision.address) == subject]
        assert decisions == [d for d in planned(policies, facts).decisions if str(d.address) == subject]
    assert not planner.scan_request(policies, NOW_MS, candidates=find_candidates("old-etl", policies)).cluster_records


def test_what_explain_cannot_mean_fails_before_the_scan() -> None:
    """Only the beginning of a long name, as reports print it, needs the scan of everything."""
    policies = [floor(keep=LAST), removal("*", expectAtMost=9)]
    with pytest.raises(UsageError, match=r"^payments: nothing is decided about it, no policy selects"):
        find_candidates("payments", [floor(keep=LAST)])
    group = Address("GroupRemoval", "dead", "long" * 100)
    assert find_candidates(format_subject(group), policies) is None
    assert find_subjects(format_subject(group), [group]) == [group]


def test_partitions_that_a_policy_does_not_claim_are_no_targets() -> None:
    with pytest.raises(UsageError, match="no policy selects"):
        find_targets(["orders[1]"], [floor(keep=LAST, partitions=[0])])


@pytest.mark.parametrize("name", NASTY)
def test_each_group_has_a_text_that_means_only_it(name: str) -> None:
    """Its full address, as typed and as a report prints it; mostly also its name."""
    policies = [floor(keep=LAST), removal("*", expectAtMost=9)]
    group = Address("GroupRemoval", "dead", name)
    others = [Address("RetentionFloor", "gdpr", "orders", 0), Address("GroupRemoval", "dead", "other")]
    for text in (str(group), format_address(group)):
        assert find_targets([text], policies) == {text: {group}}
        assert find_subjects(text, [group, *others]) == [group]
        assert matches(text, group)
        assert not any(matches(text, other) for other in others)


def test_subjects_of_a_plan_are_found_by_their_printed_text() -> None:
    group, one = Address("GroupRemoval", "dead", "old-etl"), Address("RetentionFloor", "gdpr", "orders", 1)
    decided = [group, one, Address("RetentionFloor", "gdpr", "orders", 2)]
    for address in decided:
        assert find_subjects(format_subject(address), decided) == [address]
    assert find_subjects("old-etl", decided) == [group]
    assert find_subjects("orders", decided) == [Address("RetentionFloor", "gdpr", "orders")]
    with pytest.raises(UsageError, match="decides nothing at order; did you mean orders"):
        find_subjects("order", decided)


def test_a_decision_about_a_topic_is_one_about_its_partitions() -> None:
    """Of a topic that a pattern skips, `explain` said that the plan decides nothing at its partitions."""
    skipped = Address("RetentionFloor", "gdpr", "orders")
    assert find_subjects("orders[1]", [skipped, Address("GroupRemoval", "dead", "orders")]) == [skipped]


def test_a_subject_of_several_policies_is_explained_for_each() -> None:
    """A plan prints `orders[1]`, and `explain 'orders[1]'` once asked which policy is meant."""
    decided = [Address("LeaderPolicy", f"leaders-{n}", "orders", 1) for n in range(11)]
    assert find_subjects("orders[1]", decided[:2]) == decided[:2]
    with pytest.raises(UsageError, match=r"ambiguous; write one of these: LeaderPolicy/leaders-0/orders\[1\], Lead"):
        find_subjects("orders[1]", decided)


def test_a_name_in_quotes_means_the_group_and_not_the_topic_of_this_name() -> None:
    """A plan prints `"orders"` for the group, and `--target '"orders"'` once purged the topic, too."""
    group, one = Address("GroupRemoval", "dead", "orders"), Address("RetentionFloor", "gdpr", "orders", 0)
    policies = [floor(keep=LAST), removal("orders")]
    assert find_targets([format_subject(group)], policies) == {format_subject(group): {group}}
    assert find_subjects(format_subject(group), [group, one]) == [group]
    topic_address = Address("RetentionFloor", "gdpr", "orders")
    assert find_targets(["orders"], policies) == {"orders": {group, topic_address}}
    assert find_subjects("orders", [group, one]) == [group, topic_address]


def test_a_filter_of_the_journal_takes_subjects_and_prefixes() -> None:
    one = Address("RetentionFloor", "gdpr", "orders", 1)
    for text in (
        "orders[1]",
        "orders",
        "RetentionFloor",
        "RetentionFloor/gdpr",
        "RetentionFloor/gdpr/orders",
        str(one),
    ):
        assert matches(text, one), text
    for text in ("orders[10]", "order", "RetentionFloor/gd", "gdpr", ""):
        assert not matches(text, one), text


@pytest.mark.parametrize("name", NASTY)
def test_reading_the_escapes_gives_a_name_back(name: str) -> None:
    assert unescape_name(escape_name(name)) == name or name.startswith('"')
    assert unescape_name(quoted(name)) == name
