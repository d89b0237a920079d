"""Limits of a plan, their messages, and the effect of waivers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.manifest.files import load
from reconciler.model.action import Action
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import LimitVerdict, UsedWaiver
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.plan import limits
from reconciler.policies.cluster import LIMITS
from reconciler.policies.waiver import Waiver
from tests import rendering as report
from tests.strategies import examples
from tests.strategies.facts import LOST, NOW_MS, cluster, group, snapshot, topic, waiver
from tests.unit.manifest.broken import CLUSTER

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
    verdicts = {v.id: v for v in limits.verdicts(actions, cluster(limits=bounds), waivers, snapshot_facts)}
    return verdicts[limit]


# --- each limit


def test_the_name_of_a_limit_says_whether_it_is_a_share() -> None:
    """A verdict that was read from a plan file has only the name."""
    for limit in LIMITS:
        bound = LimitVerdict(id=limit.id, limit=1, observed=0, passed=True, message="")
        assert bool(bound.unit) == limit.is_percent


@pytest.mark.parametrize(
    ("limit", "limit_value", "within", "beyond"),
    [
        ("topics", 1, [purge_of(1, partition=0), purge_of(1, partition=1)], [purge_of(1), purge_of(1, of="other")]),
        ("groups", 1, [examples.removal("x")], [examples.removal("x"), examples.removal("y")]),
        ("elections", 1, [examples.election("x")], [examples.election("x"), examples.election("y", unclean=True)]),
        ("uncleanElections", 0, [examples.election("x")], [examples.election("x", unclean=True)]),
        ("recordsPercentPerTopic", 90, [purge_of(900)], [purge_of(901)]),
        ("recordsPercent", 5, [purge_of(500)], [purge_of(250), purge_of(251, of="other")]),
    ],
)
def test_a_limit_allows_its_value_and_refuses_more(
    limit: str, limit_value: float, within: list[Action], beyond: list[Action]
) -> None:
    """The verdict has the number, the limit and the policy."""
    passed = verdict(limit, *within, **{limit: limit_value})
    assert passed.passed
    assert passed.limit == limit_value
    assert passed.observed is not None
    assert passed.observed <= limit_value
    refused = verdict(limit, *beyond, **{limit: limit_value})
    assert not refused.passed
    assert refused.observed is not None
    assert refused.observed > limit_value
    assert refused.worst is not None


def test_an_empty_plan_passes_every_limit() -> None:
    """Unread facts do not matter then."""
    facts = snapshot(cluster_records=LOST)
    for result in limits.verdicts((), cluster(), (), facts):
        assert (result.passed, result.observed, result.worst, result.waivers) == (True, 0.0, None, ())
        assert "nothing counts towards it" in result.message


def test_decisions_that_are_no_actions_do_not_count() -> None:
    decisions = [
        examples.blocked(),
        examples.waiting("RetentionFloor/a/x[0]"),
        examples.satisfied("RetentionFloor/a/x[1]"),
    ]
    assert all(v.observed == 0.0 for v in limits.verdicts(decisions, cluster(limits={"topics": 0}), (), snapshot()))


def test_groups_percent_counts_all_listed_groups() -> None:
    """Ids that only `__consumer_offsets` has do not count."""
    groups = [group(str(number)) for number in range(4)] + [group("old", listed=False)]
    two, three = ([examples.removal(str(number)) for number in range(count)] for count in (2, 3))
    assert verdict("groupsPercent", *two, facts=snapshot(*groups)).passed
    refused = verdict("groupsPercent", *three, facts=snapshot(*groups))
    assert not refused.passed
    assert refused.observed == 75.0
    assert refused.message.startswith("groupsPercent: share of the cluster's groups removed: 75 %, the limit is 50 %")


def test_removals_without_a_listed_group_contradict() -> None:
    result = verdict("groupsPercent", examples.removal("x"), facts=snapshot(group("x", listed=False)))
    assert (result.passed, result.observed) == (False, None)
    assert "not known (the cluster's groups count 0, although one is to be removed)" in result.message


def test_unclean_elections_add_up() -> None:
    unclean = [examples.election("x", unclean=True), examples.election("x", 1, unclean=True)]
    allowed = waiver("LeaderPolicy/all", "uncleanElections", 1, expires="2026-11-22T10:00:00Z")
    result = verdict("uncleanElections", *unclean, examples.election("y"), waivers=(allowed,))
    assert (result.passed, result.observed) == (False, 2.0)


def test_the_last_record_of_a_topic_is_100_percent() -> None:
    facts = snapshot(topic("orders", records=1), cluster_records=10)
    assert verdict("recordsPercentPerTopic", purge_of(1), facts=facts).observed == 100.0


def test_a_topic_of_two_policies_counts_once() -> None:
    """The records of both policies count together."""
    actions = [purge_of(500, policy="a", partition=0), purge_of(450, policy="b", partition=1)]
    topics = verdict("topics", *actions, topics=1)
    assert (topics.passed, topics.observed) == (True, 1.0)
    records = verdict("recordsPercentPerTopic", *actions)
    assert (records.passed, records.observed, records.worst) == (False, 95.0, A)


def test_the_limit_per_topic_applies_to_each_topic() -> None:
    """The verdict has the number of the topic with the largest share."""
    actions = [purge_of(10, of="small"), purge_of(950, of="full", policy="b"), purge_of(900, of="medium", policy="c")]
    refused = verdict("recordsPercentPerTopic", *actions)
    assert (refused.observed, refused.worst) == (95.0, B)
    assert "share of one topic's records removed (full): 95 %, the limit is 90 %" in refused.message


def test_vouched_records_do_not_count_but_their_topic_does() -> None:
    """Records that every named group has read are not loss."""
    consumed_by_named = purge_of(1000, consumed_by_named=True, named=("billing",))
    assert verdict("recordsPercentPerTopic", consumed_by_named).observed == 0.0
    assert verdict("recordsPercent", consumed_by_named).observed == 0.0
    assert verdict("topics", consumed_by_named).observed == 1.0


def test_a_share_never_exceeds_100_percent() -> None:
    """The total and the parts are counted at different times."""
    assert verdict("recordsPercentPerTopic", purge_of(5000)).observed == 100.0


def test_a_share_just_above_the_limit_is_rounded_up() -> None:
    """The message and the suggested waiver round up."""
    facts = snapshot(topic("orders", records=100_000), cluster_records=10**9)
    message = verdict("recordsPercentPerTopic", purge_of(90_001), facts=facts).message
    assert "90.1 %, the limit is 90 %" in message
    assert "value: 90.1," in message


# --- what could not be counted


@pytest.mark.parametrize(
    ("limit", "facts", "words"),
    [
        (
            "recordsPercentPerTopic",
            snapshot(topic("orders", records=LOST)),
            "the records of orders could not be counted: broker 2 did not answer",
        ),
        ("recordsPercentPerTopic", snapshot(), "the records of orders could not be counted: not asked"),
        (
            "recordsPercent",
            snapshot(topic("orders"), cluster_records=LOST),
            "the cluster's records could not be counted: broker 2 did not answer",
        ),
    ],
)
def test_an_unknown_total_refuses_the_plan(limit: str, facts: ClusterSnapshot, words: str) -> None:
    """An unknown share passes no limit, not even 100 percent."""
    result = verdict(limit, purge_of(1), purge_of(2, policy="b", partition=1), facts=facts, **{limit: 100})
    assert (result.passed, result.observed, result.worst) == (False, None, B)
    assert words in result.message
    assert "most of it would be lost by RetentionFloor/b (manifests/prod-eu/orders.yaml:9)" in result.message


@pytest.mark.parametrize(
    ("limit", "facts"),
    [
        ("recordsPercentPerTopic", snapshot(topic("orders", records=5000, records_min=0))),
        ("recordsPercentPerTopic", snapshot(topic("orders", records=0))),
        ("recordsPercent", snapshot(topic("orders"), cluster_records=0)),
    ],
)
def test_offsets_that_need_not_be_records_make_the_worst_case(limit: str, facts: ClusterSnapshot) -> None:
    """Of a compacted topic, and of open transactions, nothing else is known to be a record: 100 percent."""
    result = verdict(limit, purge_of(1), facts=facts)
    assert (result.passed, result.observed) == (False, 100.0)
    assert verdict(limit, purge_of(1), facts=facts, **{limit: 100}).passed
    assert verdict(limit, purge_of(1), facts=facts, waivers=(waiver("RetentionFloor/a", limit, 100),)).passed


def test_no_waiver_covers_an_unknown_total() -> None:
    facts = snapshot(topic("orders"), cluster_records=LOST)
    allowed = waiver("RetentionFloor/a", "recordsPercent", 100)
    assert not verdict("recordsPercent", purge_of(1), facts=facts, waivers=(allowed,)).passed


def test_unread_totals_refuse_no_other_operations() -> None:
    """A plan of removals and elections needs no record counts."""
    facts = snapshot(group("old-etl"), group("b"), cluster_records=LOST)
    assert all(v.passed for v in limits.verdicts([examples.removal(), examples.election()], cluster(), (), facts))


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
    """It has at most three waivers, those of the policies with the largest numbers.

    The first one leaves room for the policies without a waiver.
    """
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
    text = limits._advice(limit, 0, [(bucket, list(bucket.amounts))], "prod-eu", NOW_MS)
    pasted = text.partition("add the manifest ")[2]
    (tmp_path / "set.yaml").write_text(f"{CLUSTER}---\n{manifest}---\n{pasted}\n")
    (proposed,) = load([tmp_path], now_ms=NOW_MS).by_cluster[0].waivers
    assert (proposed.spec.limit, proposed.spec.value) == (name, 1)


def test_a_suggested_count_is_exact() -> None:
    """Only shares are rounded up, to at most 100."""
    message = verdict("topics", *(purge_of(1, of=f"t{number}") for number in range(150)), topics=2).message
    assert "{policy: RetentionFloor/a, limit: topics, value: 150, expires: 2026-11-28T10:00:00Z}" in message


def test_large_counts_are_written_out() -> None:
    """The message once said `1.23457e+06`, and a waiver with that value was too small."""
    actions = [examples.election(f"t{number}") for number in range(3)]
    message = verdict("elections", *actions, elections=1_234_567, waivers=()).message
    assert message == "elections: leaders elected: 3, the limit is 1234567"


def test_a_limit_is_shown_as_it_was_written() -> None:
    assert verdict("recordsPercentPerTopic", purge_of(500), recordsPercentPerTopic=33.33).message.startswith(
        "recordsPercentPerTopic: share of one topic's records removed (orders): 50 %, the limit is 33.33 %"
    )


def test_a_suggested_share_below_one_percent_is_exact() -> None:
    message = verdict("recordsPercentPerTopic", purge_of(6), recordsPercentPerTopic=0.5).message
    assert (
        "{policy: RetentionFloor/a, limit: recordsPercentPerTopic, value: 0.6, expires: 2026-11-28T10:00:00Z}"
        in message
    )


def test_the_suggested_waivers_are_sufficient() -> None:
    """With several topics above the limit the largest value of each policy is suggested."""
    actions = [purge_of(990, of=name, policy="a") for name in "y"] + [
        purge_of(950, of=name, policy="a") for name in "xz"
    ]
    actions.append(purge_of(960, of="zz", policy="b"))
    refused = verdict("recordsPercentPerTopic", *actions)
    assert (
        "{policy: RetentionFloor/a, limit: recordsPercentPerTopic, value: 99, expires: 2026-11-28T10:00:00Z}"
        in refused.message
    )
    assert (
        "{policy: RetentionFloor/b, limit: recordsPercentPerTopic, value: 96, expires: 2026-11-28T10:00:00Z}"
        in refused.message
    )
    assert refused.worst == A
    waivers_of_plan = (
        waiver("RetentionFloor/a", "recordsPercentPerTopic", 99, name="one"),
        waiver("RetentionFloor/b", "recordsPercentPerTopic", 96, name="two"),
    )
    assert verdict("recordsPercentPerTopic", *actions, waivers=waivers_of_plan).passed
    assert not verdict("recordsPercentPerTopic", *actions, waivers=waivers_of_plan[:1]).passed
    assert not verdict("recordsPercentPerTopic", *actions, waivers=waivers_of_plan[1:]).passed


# --- waivers


def test_a_waiver_counts_for_its_policy_and_shows_its_remaining_time() -> None:
    allowed = waiver("RetentionFloor/a", "topics", 3)
    actions = [purge_of(1, of=name) for name in "xyz"]
    result = verdict("topics", *actions, waivers=(allowed,), topics=2)
    assert result.passed
    assert result.observed == 3.0
    assert (
        result.message
        == "topics: topics that lose records: 3, the limit is 2; Waiver/once allows RetentionFloor/a 3 for 9 d 14 h more"
    )
    assert result.waivers == (
        UsedWaiver(
            name="once",
            policy=A,
            limit="topics",
            value=3.0,
            expires_ms=allowed.spec.expires,
            declared_at=SourceLocation("manifests/waivers.yaml", 1, 1),
        ),
    )
    other_actions = [purge_of(1, of=name, policy="b") for name in "xyz"]
    assert not verdict("topics", *other_actions, waivers=(allowed,), topics=2).passed


def test_all_other_actions_keep_the_limit() -> None:
    """They count without the actions of the waived policy, whose waiver caps all of them together."""
    allowed = waiver("RetentionFloor/a", "topics", 5)
    waived = [purge_of(1, of=name) for name in "xyz"]
    two, three = ([purge_of(1, of=name, policy="b") for name in names] for names in ("uv", "uvw"))
    assert verdict("topics", *waived, *two, waivers=(allowed,), topics=2).passed
    refused = verdict("topics", *waived, *three, waivers=(allowed,), topics=2)
    assert (refused.passed, refused.worst) == (False, B)
    assert "topics that lose records: 3, the limit is 2; most of it by RetentionFloor/b" in refused.message
    assert "Waiver/once allows RetentionFloor/a 5" in refused.message
    smaller = waiver("RetentionFloor/a", "topics", 4)
    refused = verdict("topics", *waived, *two, waivers=(smaller,), topics=2)
    assert (refused.passed, refused.observed) == (False, 5.0)
    assert "topics that lose records: 5, the limit is 2; most of it by RetentionFloor/a" in refused.message
    assert "{policy: RetentionFloor/a, limit: topics, value: 5, expires: 2026-11-28T10:00:00Z}" in refused.message


def test_a_waiver_that_is_too_small_has_no_effect() -> None:
    allowed = waiver("RetentionFloor/a", "topics", 2)
    result = verdict("topics", *(purge_of(1, of=name) for name in "xyz"), waivers=(allowed,), topics=1)
    assert (result.passed, result.waivers) == (False, ())


def test_an_unnecessary_waiver_is_not_used() -> None:
    """A waiver does not count within the limit; a waiver below the limit is not stricter."""
    small = waiver("RetentionFloor/a", "topics", 0)
    result = verdict("topics", purge_of(1), waivers=(small,), topics=1)
    assert (result.passed, result.waivers) == (True, ())
    assert result.message == "topics: topics that lose records: 1, the limit is 1"
    large = waiver("RetentionFloor/a", "topics", 5)
    assert verdict("topics", purge_of(1), waivers=(large,), topics=1).waivers == ()
    assert verdict("topics", purge_of(1), waivers=(large,), topics=0).waivers != ()


def test_a_waiver_of_another_limit_does_not_count() -> None:
    other = waiver("RetentionFloor/a", "recordsPercent", 100, name="earlier")
    own = waiver("RetentionFloor/a", "topics", 1)
    assert not verdict("topics", purge_of(1), waivers=(other,), topics=0).passed
    assert [used.name for used in verdict("topics", purge_of(1), waivers=(other, own), topics=0).waivers] == ["once"]


def test_the_larger_of_two_waivers_of_a_policy_counts() -> None:
    waivers_of_plan = [waiver("RetentionFloor/a", "topics", value, name=f"w{10 - value}") for value in (1, 3, 2)]
    for order in (waivers_of_plan, waivers_of_plan[::-1]):
        result = verdict("topics", *(purge_of(1, of=name) for name in "xyz"), waivers=tuple(order), topics=0)
        assert [(used.name, used.value) for used in result.waivers] == [("w7", 3.0)]


def test_the_first_of_two_equal_waivers_counts() -> None:
    waivers_of_plan = tuple(waiver("RetentionFloor/a", "topics", 1, name=name) for name in ("one", "two"))
    assert [used.name for used in verdict("topics", purge_of(1), waivers=waivers_of_plan, topics=0).waivers] == ["one"]


def test_the_message_names_waivers_that_count_and_that_do_not() -> None:
    actions = [purge_of(1, of="x", policy="a"), purge_of(1, of="y", policy="b")]
    expired = "2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z"
    long = "2027-11-20T10:00:00Z", "2027-11-21T10:00:00Z"
    waivers_of_plan = [waiver(f"RetentionFloor/{policy}", "topics", 1, name=f"for-{policy}") for policy in "ab"]
    waivers_of_plan += [
        waiver("RetentionFloor/a", "topics", 1, name=f"gone-{n}", expires=at) for n, at in enumerate(expired)
    ]
    waivers_of_plan += [
        waiver("RetentionFloor/a", "topics", 1, name=f"long-{n}", expires=at) for n, at in enumerate(long)
    ]
    result = verdict("topics", *actions, waivers=tuple(waivers_of_plan), topics=0)
    assert result.passed
    _, *sentences = result.message.split("; ")
    assert [words.split()[0] for words in sentences] == [
        *("Waiver/for-a", "Waiver/for-b"),
        *("Waiver/gone-0", "Waiver/gone-1", "Waiver/long-0", "more"),
    ]
    assert sentences[-1] == "more waivers that do not count: 1"


def test_old_waivers_do_not_hide_the_refusal() -> None:
    """Old waivers only cause warnings, so their number grows.

    Number, limit, policy and waiver stay visible in every report.
    """
    policies = [f"{'p' * 60}-{number:02}" for number in range(8)]
    actions = [purge_of(1, of="t" * 240 + str(number), policy=policy) for number, policy in enumerate(policies)]
    waivers_of_plan = [
        waiver(f"RetentionFloor/{policies[0]}", "topics", 1, name=f"{'w' * 60}-{n:02}", expires=at)
        for n, at in enumerate(["2026-11-20T10:00:00Z"] * 50)
    ]
    waivers_of_plan += [
        waiver(f"RetentionFloor/{policy}", "topics", 1, name=f"{'v' * 60}-{n}") for n, policy in enumerate(policies[:6])
    ]
    result = verdict("topics", *actions, waivers=tuple(waivers_of_plan), topics=0)
    assert not result.passed
    refused = examples.plan(*actions, limits=(result,))
    for page in (
        "\n".join(line.plain for line in report.text(refused)),
        report.markdown(refused),
        report.github(refused),
    ):
        assert "topics: topics that lose records: 2, the limit is 0" in page
        assert f"RetentionFloor/{policies[6]}" in page
        assert "more waivers that do not count: 47" in page


@pytest.mark.parametrize(
    ("expires", "counts", "words"),
    [
        ("2026-11-21T10:00:00Z", False, "; Waiver/once expired at 2026-11-21T10:00:00Z and does not count"),
        ("2026-11-21T10:00:00.001Z", True, "for 1 ms more"),
        ("2026-11-21T10:59:59Z", True, "for 59 min 59 s more"),
        ("2026-11-21T11:00:00Z", True, "for 1 h more"),
        ("2026-11-22T09:59:00Z", True, "for 23 h 59 min more"),
        ("2026-11-22T10:00:00Z", True, "for 1 d more"),
        ("2026-12-21T10:00:00Z", True, "for 30 d more"),
        (
            "2026-12-21T10:00:00.001Z",
            False,
            "; Waiver/once would last until 2026-12-21T10:00:00.001Z, too long, and does not count",
        ),
    ],
)
def test_a_waiver_is_valid_until_it_expires_at_most_thirty_days(expires: str, counts: bool, words: str) -> None:
    """The message names a waiver that does not count."""
    allowed = waiver("RetentionFloor/a", "topics", 5, expires=expires)
    result = verdict("topics", purge_of(1), waivers=(allowed,), topics=0)
    assert result.passed is counts
    assert result.cause.endswith(words)


def test_a_waiver_of_unclean_elections_is_valid_for_a_day() -> None:
    actions = [examples.election(unclean=True)]
    allowed = waiver("LeaderPolicy/all", "uncleanElections", 1, expires="2026-11-22T10:00:00Z")
    assert verdict("uncleanElections", *actions, waivers=(allowed,)).passed
    longer = waiver("LeaderPolicy/all", "uncleanElections", 1, expires="2026-11-22T10:00:01Z")
    assert not verdict("uncleanElections", *actions, waivers=(longer,)).passed


def test_ignored_waivers_are_named_without_actions_and_without_facts() -> None:
    expired = waiver("RetentionFloor/a", "recordsPercent", 100, expires="2026-11-20T10:00:00Z")
    assert "expired" in verdict("recordsPercent", waivers=(expired,)).message
    unknown = verdict(
        "recordsPercent", purge_of(1), waivers=(expired,), facts=snapshot(topic("orders"), cluster_records=LOST)
    )
    assert "expired" in unknown.message


def test_a_percentage_waiver_covers_the_share_of_its_policy() -> None:
    """The share is of the same total."""
    actions = [purge_of(600, policy="a", partition=0), purge_of(350, policy="b", partition=1)]
    assert not verdict("recordsPercentPerTopic", *actions).passed
    for value, passed in ((60, False), (94, False), (95, True)):
        allowed = waiver("RetentionFloor/a", "recordsPercentPerTopic", value)
        assert verdict("recordsPercentPerTopic", *actions, waivers=(allowed,)).passed is passed


# --- judging again


def test_the_decisions_of_a_plan_are_judged_again() -> None:
    """After a restriction the plan does less than the limits counted."""
    plan = examples.plan(purge_of(1))
    verdicts = limits.verdicts(plan.decisions, cluster(limits={"topics": 0}), (), snapshot(topic("orders")))
    assert [v.id for v in verdicts if not v.passed] == ["topics"]


# --- the connection


def connection_verdict(
    *waivers: Waiver, changes: tuple[str, ...] = ("bootstrapServers", "client.sasl.mechanism")
) -> Any:
    verdicts = limits.verdicts((), cluster(), waivers, snapshot(), connection_changes=changes)
    return next((v for v in verdicts if v.id == "connection"), None)


def test_a_changed_connection_refuses_the_plan_before_all_limits() -> None:
    """A reviewer reads where CI would connect after the merge, and what has to be done."""
    refused = connection_verdict()
    assert not refused.passed
    assert refused.message.startswith(
        "connection: connects elsewhere after the merge (bootstrapServers, client.sasl.mechanism): 2, the limit is 0"
    )
    assert "propose the connection apart, or let a review add the manifest {" in refused.message
    assert "spec: {policy: Cluster/" in refused.message
    first, *_ = limits.verdicts((), cluster(), (), snapshot(), connection_changes=("journal",))
    assert first.id == "connection"


def test_a_plan_without_a_changed_connection_has_no_such_limit() -> None:
    assert connection_verdict(changes=()) is None


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
