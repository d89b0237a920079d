"""What is too much for one plan, what the message says, and how far a waiver goes."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.model.action import Action
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import LimitVerdict, UsedWaiver
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.plan import limits
from reconciler.policies.waiver import Waiver
from tests import rendering as report
from tests.strategies import examples
from tests.strategies.facts import LOST, cluster, group, snapshot, topic, waiver

A, B, C = (Address("RetentionFloor", name) for name in "abc")


def lost(records: int, *, policy: str = "a", of: str = "orders", partition: int = 0, **changes: Any) -> Action:
    """A purge of this many records."""
    return examples.purge(of, partition, policy=policy, log_start=0, before_offset=records, **changes)


def verdict(
    limit: str, *actions: Action, waivers: tuple[Waiver, ...] = (), facts: ClusterSnapshot | None = None, **bounds: Any
) -> LimitVerdict:
    """The verdict of one limit; every topic holds 1000 records, the cluster 10,000."""
    names = {action.address.name for action in actions}
    known = facts or snapshot(*(topic(name) for name in names), cluster_records=10_000)
    found = {v.id: v for v in limits.verdicts(actions, cluster(limits=bounds), waivers, known)}
    return found[limit]


# --- each limit


@pytest.mark.parametrize(
    ("limit", "most", "within", "beyond"),
    [
        ("topics", 1, [lost(1, partition=0), lost(1, partition=1)], [lost(1), lost(1, of="other")]),
        ("groups", 1, [examples.removal("x")], [examples.removal("x"), examples.removal("y")]),
        ("elections", 1, [examples.election("x")], [examples.election("x"), examples.election("y", unclean=True)]),
        ("uncleanElections", 0, [examples.election("x")], [examples.election("x", unclean=True)]),
        ("recordsPercentPerTopic", 90, [lost(900)], [lost(901)]),
        ("recordsPercent", 5, [lost(500)], [lost(250), lost(251, of="other")]),
    ],
)
def test_a_limit_allows_what_reaches_it_and_refuses_what_passes_it(
    limit: str, most: float, within: list[Action], beyond: list[Action]
) -> None:
    """The number, the limit and the policy are in the verdict."""
    passed = verdict(limit, *within, **{limit: most})
    assert passed.passed
    assert passed.limit == most
    assert passed.observed is not None
    assert passed.observed <= most
    refused = verdict(limit, *beyond, **{limit: most})
    assert not refused.passed
    assert refused.observed is not None
    assert refused.observed > most
    assert refused.worst is not None


def test_nothing_counts_where_nothing_is_done() -> None:
    """Every limit passes an empty plan, whatever could not be read."""
    facts = snapshot(cluster_records=LOST)
    for found in limits.verdicts((), cluster(), (), facts):
        assert (found.passed, found.observed, found.worst, found.waivers) == (True, 0.0, None, ())
        assert "nothing counts towards it" in found.message


def test_decisions_that_are_no_actions_do_not_count() -> None:
    decisions = [
        examples.blocked(),
        examples.waiting("RetentionFloor/a/x[0]"),
        examples.satisfied("RetentionFloor/a/x[1]"),
    ]
    assert all(v.observed == 0.0 for v in limits.verdicts(decisions, cluster(limits={"topics": 0}), (), snapshot()))


def test_groups_percent_is_of_all_listed_groups() -> None:
    """Ids that only the commit log knows are no part of the whole."""
    groups = [group(str(number)) for number in range(4)] + [group("old", listed=False)]
    two, three = ([examples.removal(str(number)) for number in range(count)] for count in (2, 3))
    assert verdict("groupsPercent", *two, facts=snapshot(*groups)).passed
    refused = verdict("groupsPercent", *three, facts=snapshot(*groups))
    assert not refused.passed
    assert refused.observed == 75.0
    assert refused.message.startswith("groupsPercent: groups removed, of those of the cluster: 75 %, the limit is 50 %")


def test_removals_where_no_group_is_listed_contradict() -> None:
    found = verdict("groupsPercent", examples.removal("x"), facts=snapshot(group("x", listed=False)))
    assert (found.passed, found.observed) == (False, None)
    assert "not known (the cluster's groups count 0, which cannot be when some are to be lost)" in found.message


def test_unclean_elections_add_up() -> None:
    unclean = [examples.election("x", unclean=True), examples.election("x", 1, unclean=True)]
    found = verdict("uncleanElections", *unclean, examples.election("y"), uncleanElections=1)
    assert (found.passed, found.observed) == (False, 2.0)


def test_the_last_record_of_a_topic_is_all_of_it() -> None:
    facts = snapshot(topic("orders", records=1), cluster_records=10)
    assert verdict("recordsPercentPerTopic", lost(1), facts=facts).observed == 100.0


def test_a_topic_that_two_policies_take_from_is_one_topic() -> None:
    """And its records count together."""
    actions = [lost(500, policy="a", partition=0), lost(450, policy="b", partition=1)]
    topics = verdict("topics", *actions, topics=1)
    assert (topics.passed, topics.observed) == (True, 1.0)
    records = verdict("recordsPercentPerTopic", *actions)
    assert (records.passed, records.observed, records.worst) == (False, 95.0, A)


def test_the_limit_per_topic_binds_each_topic_on_its_own() -> None:
    """The fullest one is the number of the verdict."""
    actions = [lost(10, of="small"), lost(950, of="full", policy="b"), lost(900, of="medium", policy="c")]
    refused = verdict("recordsPercentPerTopic", *actions)
    assert (refused.observed, refused.worst) == (95.0, B)
    assert "records lost, of those of one topic (full): 95 %, the limit is 90 %" in refused.message


def test_vouched_records_count_for_no_record_limit_and_their_topic_counts() -> None:
    """What every named group has read is not lost to anybody."""
    vouched = lost(1000, vouched=True, named=("billing",))
    assert verdict("recordsPercentPerTopic", vouched).observed == 0.0
    assert verdict("recordsPercent", vouched).observed == 0.0
    assert verdict("topics", vouched).observed == 1.0


def test_a_share_never_exceeds_the_whole() -> None:
    """The whole was counted at another moment than its parts."""
    assert verdict("recordsPercentPerTopic", lost(5000)).observed == 100.0


def test_a_share_just_above_the_limit_does_not_read_as_the_limit() -> None:
    """Rounded up, in the message and in the waiver that it asks for."""
    facts = snapshot(topic("orders", records=100_000), cluster_records=10**9)
    message = verdict("recordsPercentPerTopic", lost(90_001), facts=facts).message
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
            "recordsPercentPerTopic",
            snapshot(topic("orders", records=0)),
            "the records of orders count 0, which cannot be",
        ),
        (
            "recordsPercent",
            snapshot(topic("orders"), cluster_records=LOST),
            "the cluster's records could not be counted: broker 2 did not answer",
        ),
        (
            "recordsPercent",
            snapshot(topic("orders"), cluster_records=0),
            "the cluster's records count 0, which cannot be",
        ),
    ],
)
def test_an_unknown_whole_refuses_what_it_would_bound(limit: str, facts: ClusterSnapshot, words: str) -> None:
    """A share of nobody knows what is no share within a limit; not even a limit of 100 percent lets it pass."""
    found = verdict(limit, lost(1), lost(2, policy="b", partition=1), facts=facts, **{limit: 100})
    assert (found.passed, found.observed, found.worst) == (False, None, B)
    assert words in found.message
    assert "most of it would be lost by RetentionFloor/b (manifests/prod-eu/orders.yaml:9)" in found.message


def test_no_waiver_covers_what_could_not_be_counted() -> None:
    facts = snapshot(topic("orders"), cluster_records=LOST)
    allowed = waiver("RetentionFloor/a", "recordsPercent", 100)
    assert not verdict("recordsPercent", lost(1), facts=facts, waivers=(allowed,)).passed


def test_unread_wholes_do_not_refuse_other_sorts_of_actions() -> None:
    """A plan of removals and elections needs no records."""
    facts = snapshot(group("old-etl"), group("b"), cluster_records=LOST)
    assert all(v.passed for v in limits.verdicts([examples.removal(), examples.election()], cluster(), (), facts))


# --- messages


def test_a_refusal_names_number_limit_manifest_and_the_waiver_that_would_allow_it() -> None:
    actions = [lost(1, of=name, policy="b" if name in "xyz" else "a") for name in "uvxyz"]
    actions = [replace(action, declared_at=SourceLocation("floors.yaml", 9, 1)) for action in actions]
    assert verdict("topics", *actions, topics=2).message == (
        "topics: topics that lose records: 5, the limit is 2; most of it by RetentionFloor/b (floors.yaml:9): do less at once, or let "
        "it pass with a Waiver of spec {policy: RetentionFloor/b, limit: topics, value: 3, expires: …}"
    )


def test_a_refusal_asks_for_as_many_waivers_as_it_takes() -> None:
    """The worst policies first; three at most are written out."""
    actions = [lost(1, of=f"{policy}{number}", policy=policy) for policy in "abcde" for number in range(2)]
    message = verdict("topics", *actions, topics=4).message
    asked = " and ".join(f"{{policy: RetentionFloor/{p}, limit: topics, value: 2, expires: …}}" for p in "abc")
    assert message.endswith(f"with a Waiver of spec {asked}")
    four = verdict("topics", *actions, topics=3).message
    assert four.endswith(f"with a Waiver of spec {asked} (and 1 more)")


def test_a_count_is_asked_for_as_it_is() -> None:
    """Only shares are rounded up, and end at 100."""
    message = verdict("topics", *(lost(1, of=f"t{number}") for number in range(150)), topics=2).message
    assert "{policy: RetentionFloor/a, limit: topics, value: 150, expires: …}" in message


def test_large_counts_are_written_out() -> None:
    """`1.23457e+06` was less than what it stood for, and a waiver of it let nothing past."""
    actions = [examples.election(f"t{number}") for number in range(3)]
    message = verdict("elections", *actions, elections=1_234_567, waivers=()).message
    assert message == "elections: leaders elected: 3, the limit is 1234567"


def test_a_limit_reads_as_it_was_written() -> None:
    assert verdict("recordsPercentPerTopic", lost(500), recordsPercentPerTopic=33.33).message.startswith(
        "recordsPercentPerTopic: records lost, of those of one topic (orders): 50 %, the limit is 33.33 %"
    )


def test_a_share_of_less_than_one_percent_is_asked_for_as_it_is() -> None:
    message = verdict("recordsPercentPerTopic", lost(6), recordsPercentPerTopic=0.5).message
    assert "{policy: RetentionFloor/a, limit: recordsPercentPerTopic, value: 0.6, expires: …}" in message


def test_the_waivers_asked_for_would_let_it_pass() -> None:
    """Also where several topics are over the limit: the highest value of each policy is asked for."""
    actions = [lost(990, of=name, policy="a") for name in "y"] + [lost(950, of=name, policy="a") for name in "xz"]
    actions.append(lost(960, of="zz", policy="b"))
    refused = verdict("recordsPercentPerTopic", *actions)
    assert "{policy: RetentionFloor/a, limit: recordsPercentPerTopic, value: 99, expires: …}" in refused.message
    assert "{policy: RetentionFloor/b, limit: recordsPercentPerTopic, value: 96, expires: …}" in refused.message
    assert refused.worst == A
    given = (
        waiver("RetentionFloor/a", "recordsPercentPerTopic", 99, name="one"),
        waiver("RetentionFloor/b", "recordsPercentPerTopic", 96, name="two"),
    )
    assert verdict("recordsPercentPerTopic", *actions, waivers=given).passed
    assert not verdict("recordsPercentPerTopic", *actions, waivers=given[:1]).passed
    assert not verdict("recordsPercentPerTopic", *actions, waivers=given[1:]).passed


# --- waivers


def test_a_waiver_counts_for_its_policy_only_and_is_shown_with_its_remaining_life() -> None:
    allowed = waiver("RetentionFloor/a", "topics", 3)
    actions = [lost(1, of=name) for name in "xyz"]
    found = verdict("topics", *actions, waivers=(allowed,), topics=2)
    assert found.passed
    assert found.observed == 3.0
    assert (
        found.message
        == "topics: topics that lose records: 3, the limit is 2; Waiver/once allows RetentionFloor/a 3 for 9d more"
    )
    assert found.waivers == (
        UsedWaiver(
            name="once",
            policy=A,
            limit="topics",
            value=3.0,
            expires_ms=allowed.spec.expires,
            declared_at=SourceLocation("manifests/waivers.yaml", 1, 1),
        ),
    )
    others = [lost(1, of=name, policy="b") for name in "xyz"]
    assert not verdict("topics", *others, waivers=(allowed,), topics=2).passed


def test_the_rest_of_the_plan_keeps_the_limit() -> None:
    """Without the waived policy's actions, and no more for them."""
    allowed = waiver("RetentionFloor/a", "topics", 3)
    waived = [lost(1, of=name) for name in "xyz"]
    two, three = ([lost(1, of=name, policy="b") for name in names] for names in ("uv", "uvw"))
    assert verdict("topics", *waived, *two, waivers=(allowed,), topics=2).passed
    refused = verdict("topics", *waived, *three, waivers=(allowed,), topics=2)
    assert (refused.passed, refused.worst) == (False, B)
    assert "topics that lose records: 3, the limit is 2; most of it by RetentionFloor/b" in refused.message
    assert "Waiver/once allows RetentionFloor/a 3" in refused.message


def test_a_waiver_that_is_too_small_waives_nothing() -> None:
    allowed = waiver("RetentionFloor/a", "topics", 2)
    found = verdict("topics", *(lost(1, of=name) for name in "xyz"), waivers=(allowed,), topics=1)
    assert (found.passed, found.waivers) == (False, ())


def test_a_waiver_is_not_used_where_it_is_not_needed() -> None:
    """Within the limit nobody has to be let past; a waiver below the limit tightens nothing."""
    small = waiver("RetentionFloor/a", "topics", 0)
    found = verdict("topics", lost(1), waivers=(small,), topics=1)
    assert (found.passed, found.waivers) == (True, ())
    assert found.message == "topics: topics that lose records: 1, the limit is 1"
    large = waiver("RetentionFloor/a", "topics", 5)
    assert verdict("topics", lost(1), waivers=(large,), topics=1).waivers == ()
    assert verdict("topics", lost(1), waivers=(large,), topics=0).waivers != ()


def test_a_waiver_of_another_limit_does_not_count() -> None:
    other = waiver("RetentionFloor/a", "recordsPercent", 100, name="earlier")
    own = waiver("RetentionFloor/a", "topics", 1)
    assert not verdict("topics", lost(1), waivers=(other,), topics=0).passed
    assert [used.name for used in verdict("topics", lost(1), waivers=(other, own), topics=0).waivers] == ["once"]


def test_of_two_waivers_for_one_policy_the_larger_counts() -> None:
    given = [waiver("RetentionFloor/a", "topics", value, name=f"w{10 - value}") for value in (1, 3, 2)]
    for order in (given, given[::-1]):
        found = verdict("topics", *(lost(1, of=name) for name in "xyz"), waivers=tuple(order), topics=0)
        assert [(used.name, used.value) for used in found.waivers] == [("w7", 3.0)]


def test_of_two_waivers_alike_the_first_counts() -> None:
    given = tuple(waiver("RetentionFloor/a", "topics", 1, name=name) for name in ("one", "two"))
    assert [used.name for used in verdict("topics", lost(1), waivers=given, topics=0).waivers] == ["one"]


def test_every_waiver_that_counts_and_every_one_that_does_not_is_said() -> None:
    actions = [lost(1, of="x", policy="a"), lost(1, of="y", policy="b")]
    expired = "2026-11-20T10:00:00Z", "2026-11-19T10:00:00Z"
    long = "2027-11-20T10:00:00Z", "2027-11-21T10:00:00Z"
    given = [waiver(f"RetentionFloor/{policy}", "topics", 1, name=f"for-{policy}") for policy in "ab"]
    given += [waiver("RetentionFloor/a", "topics", 1, name=f"gone-{n}", expires=at) for n, at in enumerate(expired)]
    given += [waiver("RetentionFloor/a", "topics", 1, name=f"long-{n}", expires=at) for n, at in enumerate(long)]
    found = verdict("topics", *actions, waivers=tuple(given), topics=0)
    assert found.passed
    _, *said = found.message.split("; ")
    assert [words.split()[0] for words in said] == [
        *("Waiver/for-a", "Waiver/for-b"),
        *("Waiver/gone-0", "Waiver/gone-1", "Waiver/long-0", "more"),
    ]
    assert said[-1] == "more waivers that do not count: 1"


def test_old_waivers_do_not_drown_the_refusal() -> None:
    """They are only warned of in the manifests, so they pile up; number, limit, policy and waiver stay to be read in every rendering."""
    policies = [f"{'p' * 60}-{number:02}" for number in range(8)]
    actions = [lost(1, of="t" * 240 + str(number), policy=policy) for number, policy in enumerate(policies)]
    given = [
        waiver(f"RetentionFloor/{policies[0]}", "topics", 1, name=f"{'w' * 60}-{n:02}", expires=at)
        for n, at in enumerate(["2026-11-20T10:00:00Z"] * 50)
    ]
    given += [
        waiver(f"RetentionFloor/{policy}", "topics", 1, name=f"{'v' * 60}-{n}") for n, policy in enumerate(policies[:6])
    ]
    found = verdict("topics", *actions, waivers=tuple(given), topics=0)
    assert not found.passed
    refused = examples.plan(*actions, limits=(found,))
    for shown in (
        "\n".join(line.plain for line in report.text(refused)),
        report.markdown(refused),
        report.github(refused),
    ):
        assert "topics: topics that lose records: 2, the limit is 0" in shown
        assert f"RetentionFloor/{policies[6]}" in shown
        assert "more waivers that do not count: 47" in shown


@pytest.mark.parametrize(
    ("expires", "counts", "words"),
    [
        ("2026-11-21T10:00:00Z", False, "; Waiver/once expired at 2026-11-21T10:00:00Z and does not count"),
        ("2026-11-21T10:00:00.001Z", True, "for 1m more"),
        ("2026-11-21T10:59:59Z", True, "for 59m more"),
        ("2026-11-21T11:00:00Z", True, "for 1h more"),
        ("2026-11-22T09:59:00Z", True, "for 23h more"),
        ("2026-11-22T10:00:00Z", True, "for 1d more"),
        ("2026-12-21T10:00:00Z", True, "for 30d more"),
        (
            "2026-12-21T10:00:00.001Z",
            False,
            "; Waiver/once would last until 2026-12-21T10:00:00.001Z, too long, and does not count",
        ),
    ],
)
def test_a_waiver_lives_from_now_until_it_expires_thirty_days_at_most(expires: str, counts: bool, words: str) -> None:
    """What does not count is said."""
    allowed = waiver("RetentionFloor/a", "topics", 5, expires=expires)
    found = verdict("topics", lost(1), waivers=(allowed,), topics=0)
    assert found.passed is counts
    assert found.message.endswith(words)


def test_a_waiver_of_unclean_elections_lives_a_day() -> None:
    actions = [examples.election(unclean=True)]
    allowed = waiver("LeaderPolicy/all", "uncleanElections", 1, expires="2026-11-22T10:00:00Z")
    assert verdict("uncleanElections", *actions, waivers=(allowed,)).passed
    longer = waiver("LeaderPolicy/all", "uncleanElections", 1, expires="2026-11-22T10:00:01Z")
    assert not verdict("uncleanElections", *actions, waivers=(longer,)).passed


def test_ignored_waivers_are_said_where_nothing_counts_and_where_nothing_is_known() -> None:
    gone = waiver("RetentionFloor/a", "recordsPercent", 100, expires="2026-11-20T10:00:00Z")
    assert "expired" in verdict("recordsPercent", waivers=(gone,)).message
    unknown = verdict("recordsPercent", lost(1), waivers=(gone,), facts=snapshot(topic("orders"), cluster_records=LOST))
    assert "expired" in unknown.message


def test_a_percentage_waiver_takes_its_policys_share() -> None:
    """Of the same whole."""
    actions = [lost(600, policy="a", partition=0), lost(350, policy="b", partition=1)]
    assert not verdict("recordsPercentPerTopic", *actions).passed
    fifty_nine = waiver("RetentionFloor/a", "recordsPercentPerTopic", 59)
    sixty = waiver("RetentionFloor/a", "recordsPercentPerTopic", 60)
    assert not verdict("recordsPercentPerTopic", *actions, waivers=(fifty_nine,)).passed
    assert verdict("recordsPercentPerTopic", *actions, waivers=(sixty,)).passed


# --- judging again


def test_judged_replaces_the_verdicts_and_nothing_else() -> None:
    """After an intersection less is done than the limits had counted."""
    plan = examples.plan(lost(1))
    again = limits.with_limits(plan, cluster(limits={"topics": 0}), (), snapshot(topic("orders")))
    assert [v.id for v in again.refused] == ["topics"]
    assert replace(again, limits=()) == plan
