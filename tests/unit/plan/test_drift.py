"""What counts as drift, since when, and the file of the report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.model.action import Mode
from reconciler.model.names import NOWHERE, Address
from reconciler.model.plan import Blocked, Decision, LimitVerdict, PolicyInfo, Satisfied, Skipped, Waiting
from reconciler.operations.elect_leader import ElectLeader
from reconciler.plan import drift
from reconciler.plan.drift import BLOCKED, UNREAD, DriftReport
from reconciler.report.metrics import drift_metrics
from tests.strategies import examples
from tests.strategies.examples import purge, removal
from tests.strategies.facts import HOUR, NOW_MS


def report(
    *decisions: Decision, hours_ago: int = 0, previous: Sequence[DriftReport] = (), **changes: Any
) -> DriftReport:
    """Return what drifts in a plan of these decisions."""
    return drift.report(examples.plan(*decisions, observed_at_ms=NOW_MS - hours_ago * HOUR, **changes), previous)


def election() -> ElectLeader:
    return examples.election(mode=Mode.CONTINUOUS)


def blocked(group: str = "billing-x", *, unread: bool = False) -> Blocked:
    address = Address("GroupRemoval", "dead-etl", group)
    return examples.blocked(address, code="B103" if unread else "B204", next_step="let it catch up", unread=unread)


def test_each_operation_and_a_block_are_drift_and_exit_two() -> None:
    """Each with its type, its next step and the present time."""
    found = report(purge(partition=0), removal(), election(), blocked())
    assert [(str(s.address), s.sort, s.code, s.since_ms) for s in found.subjects] == [
        ("GroupRemoval/dead-etl/billing-x", BLOCKED, "B204", NOW_MS),
        ("GroupRemoval/dead-etl/old-etl", "group", None, NOW_MS),
        ("LeaderPolicy/all/payments[0]", "leader", None, NOW_MS),
        ("RetentionFloor/orders-gdpr/orders[0]", "records", None, NOW_MS),
    ]
    assert [s.next_step for s in found.subjects] == [
        "let it catch up",
        "apply a reviewed plan",
        "converge should have done this: see its last run",
        "apply a reviewed plan",
    ]
    assert drift.exit_code([found]) == 2
    assert not found.in_sync


def test_a_moving_floor_within_its_allowance_waiting_and_skipped_are_not_drift() -> None:
    """They are counted per policy, and the report is in sync, with exit code 0."""
    found = report(
        purge(partition=0, drift=False),
        Satisfied(Address("RetentionFloor", "orders-gdpr", "orders", 1)),
        Waiting(address=Address("RetentionFloor", "orders-gdpr", "orders", 2), declared_at=NOWHERE, reason="clock"),
        Skipped(address=Address("GroupRemoval", "dead-etl", "live"), code="B303", reason="not EMPTY"),
    )
    assert found.in_sync
    assert found.subjects == found.unread == ()
    assert [(str(t.policy), t.pending, t.satisfied, t.waiting, t.skipped, t.drift) for t in found.tallies] == [
        ("GroupRemoval/dead-etl", 0, 0, 0, 1, 0),
        ("RetentionFloor/orders-gdpr", 1, 1, 1, 0, 0),
    ]
    assert drift.exit_code([found]) == 0


def test_unread_subjects_and_incomplete_plans_are_neither_drift_nor_in_sync() -> None:
    """Unread facts are exit code 1; with real drift beside them the exit code is 2."""
    unread, incomplete = report(blocked(unread=True)), report(incomplete=("the list of groups may be short",))
    assert (unread.subjects, [s.sort for s in unread.unread]) == ((), [UNREAD])
    assert not incomplete.in_sync
    for reports, code in (([unread], 1), ([incomplete], 1), ([unread, report(removal())], 2), ([], 0)):
        assert drift.exit_code(reports) == code


def test_since_is_carried_over_from_the_previous_report_of_the_same_cluster() -> None:
    """Also if a block becomes an action; a new subject, or another cluster, starts now."""
    first = report(blocked("old-etl"), hours_ago=1)
    assert [s.since_ms for s in report(removal(), election(), previous=[first]).subjects] == [NOW_MS - HOUR, NOW_MS]
    later = replace(first, subjects=(replace(first.subjects[0], since_ms=NOW_MS + 5),))
    for previous in (replace(first, cluster_id="another"), later):
        assert report(removal(), previous=[previous]).subjects[0].since_ms == NOW_MS


def test_an_unread_run_does_not_reset_the_start_of_a_drift() -> None:
    """Unread without drift starts anew, and drift that was corrected is forgotten."""
    unread = blocked("old-etl", unread=True)
    first = report(removal(), hours_ago=3)
    second = report(unread, hours_ago=2, previous=[first])
    assert second.unread[0].drift_since_ms == NOW_MS - 3 * HOUR
    still = report(unread, hours_ago=1, previous=[second])
    assert still.unread[0].since_ms == NOW_MS - 2 * HOUR
    fresh = report(unread, hours_ago=1)
    assert fresh.unread[0].drift_since_ms is None
    mended = report(Satisfied(removal().address), hours_ago=1, previous=[first])
    for previous, hours in ((still, 3), (fresh, 0), (mended, 0)):
        assert report(removal(), previous=[previous]).subjects[0].since_ms == NOW_MS - hours * HOUR


@pytest.mark.parametrize("parent", ["RetentionFloor/orders-gdpr/orders", "RetentionFloor/orders-gdpr"])
def test_subjects_below_an_unread_topic_or_policy_keep_their_drift(parent: str) -> None:
    """Without decisions on partitions, the drift once started anew afterwards."""
    partitions = [purge(partition=0), purge(partition=1)]
    first = report(*partitions, removal(), hours_ago=3)
    hidden = replace(blocked("u", unread=True), address=Address.parse(parent))
    second = report(hidden, hours_ago=2, previous=[first])
    third = report(hidden, hours_ago=1, previous=[second])
    times = [(str(s.address), s.since_ms, s.drift_since_ms) for s in third.unread]
    assert times == [
        (parent, NOW_MS - 2 * HOUR, None),
        *((f"RetentionFloor/orders-gdpr/orders[{number}]", NOW_MS - 2 * HOUR, NOW_MS - 3 * HOUR) for number in (0, 1)),
    ]
    assert {s.since_ms for s in report(*partitions, previous=[third]).subjects} == {NOW_MS - 3 * HOUR}


def test_an_unreachable_cluster_is_unread_and_keeps_its_drift() -> None:
    """Exit code 1 with the reason; drift before and after keeps the first instant."""
    first = report(removal(), blocked("u", unread=True), hours_ago=2)
    unreachable = drift.unreachable_report(
        "prod-eu", first.cluster_id, "no broker answered", observed_at_ms=NOW_MS - HOUR, previous=[first]
    )
    assert [(str(s.address), s.since_ms, s.drift_since_ms) for s in unreachable.unread] == [
        ("GroupRemoval/dead-etl/old-etl", NOW_MS - HOUR, NOW_MS - 2 * HOUR),
        ("GroupRemoval/dead-etl/u", NOW_MS - 2 * HOUR, None),
    ]
    assert (unreachable.cluster, unreachable.observed_at_ms) == ("prod-eu", NOW_MS - HOUR)
    unseen = unreachable.unread[0]
    assert (unseen.sort, unseen.code) == (UNREAD, "B103")
    assert (unseen.detail, unseen.next_step) == ("no broker answered", "see why the cluster could not be read")
    assert unreachable.incomplete == ("no broker answered",)
    assert drift.exit_code([unreachable]) == 1
    assert report(removal(), previous=[unreachable]).subjects[0].since_ms == NOW_MS - 2 * HOUR
    unknown = drift.unreachable_report("prod-eu", "id", "no broker answered", observed_at_ms=NOW_MS)
    assert unknown.unread == unknown.subjects == ()
    assert not unknown.in_sync


def test_how_much_is_overdue_is_known_of_deletions_that_are_planned_now() -> None:
    """Elections and groups have no such number, and what a broker hides has none any more: it is not zero."""
    found = report(purge(partition=0), removal(), election(), blocked())
    assert [s.removed_max for s in found.subjects] == [None, None, None, {"record": 97_213}]
    assert drift.parse(drift.dumps([found])) == (found,)
    hidden = drift.unreachable_report(
        "prod-eu", found.cluster_id, "no broker answered", observed_at_ms=NOW_MS, previous=[found]
    )
    assert {s.removed_max for s in hidden.unread} == {None}


def full_report() -> DriftReport:
    verdict = LimitVerdict(id="groups", limit=1, observed=2, passed=False, message="2 groups, 1 is the limit")
    return report(
        blocked("a/b\u202e`\x7f", unread=True),
        blocked("unseen", unread=True),
        removal("old"),
        purge(partition=0, drift=False),
        limits=(verdict,),
        incomplete=("two brokers did not answer",),
        previous=[report(removal("a/b\u202e`\x7f"), hours_ago=1)],
    )


def test_a_drift_report_survives_its_file_as_harmless_text(tmp_path: Path) -> None:
    """Every field survives the file, with hostile names, and the file is printable ASCII."""
    reports = (full_report(), report())
    path = tmp_path / "drift.json"
    path.write_text(drift.dumps(reports), encoding="utf-8")
    assert drift.parse(path.read_text()) == reports
    assert all(c == "\n" or " " <= c <= "~" for c in path.read_text(encoding="utf-8"))
    assert reports[0].refused == ("groups",)


def test_an_unchanged_cluster_gives_the_same_report_except_its_time() -> None:
    """Two runs with the same drift differ in `observed_at` only."""
    first = report(removal(), purge(partition=0), hours_ago=1)
    second = report(removal(), purge(partition=0), previous=[first])
    assert replace(second, observed_at_ms=first.observed_at_ms) == first


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("1.3", "2.0"), "format_version"),
        (('"in_sync": false', '"in_sync": true'), "in_sync"),
        (('"kind": "DriftReport"', '"kind": "Plan"'), "kind"),
        (('"sort":"group"', '"sort":"grupp"'), "sort"),
        (('"refused"', '"refuzed"'), "lacks refused"),
        (('"code":null', '"code":""'), "code"),
        (('"satisfied":0', '"satisfied":-1'), "satisfied"),
        (('"address":"GroupRemoval', '"address":"/GroupRemoval'), "not an address"),
    ],
)
def test_a_damaged_drift_report_is_refused(change: tuple[str, str], complaint: str) -> None:
    """An edited report, or one of another format, is refused with the reason."""
    text = drift.dumps([full_report()])
    assert change[0] in text
    with pytest.raises(ValueError, match=complaint):
        drift.parse(text.replace(*change))


def test_a_newer_minor_version_is_read_and_other_json_is_refused() -> None:
    """Unknown fields of 1.4 are ignored; a JSON list is not a report."""
    text = drift.dumps([report(removal())])
    newer_text = text.replace('"1.3"', '"1.4"').replace('"kind"', '"shade": 1, "kind"')
    assert drift.parse(newer_text) == drift.parse(text)
    with pytest.raises(ValueError, match="expected an object"):
        drift.parse("[]")


def test_metrics_show_zero_for_policies_in_sync(tmp_path: Path) -> None:
    """The oldest instant exists only during drift, and there is no metric of the process."""
    path = tmp_path / "reconciler.prom"
    floor = purge(partition=0).address
    owned = PolicyInfo(policy=floor.policy_address, owner="team-orders", reason=None)
    in_sync = replace(report(Satisfied(floor), notes=(owned,)), cluster="quiet")
    assert drift.parse(drift.dumps([in_sync])) == (in_sync,)
    drift_metrics([full_report(), in_sync]).write(path)
    samples = {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8"))
        for s in family.samples
    }
    assert all(name.startswith("reconciler_") for name, _ in samples)
    labels = (("cluster", "quiet"),)
    noisy = (("cluster", "prod-eu"),)
    assert samples["reconciler_in_sync", labels] == 1
    assert samples["reconciler_complete", noisy] == 0
    assert samples["reconciler_limits_refusing", noisy] == 1
    assert samples["reconciler_observed_timestamp_seconds", noisy] == NOW_MS / 1000
    assert samples["reconciler_drift_since_timestamp_seconds", noisy] == NOW_MS / 1000
    assert ("reconciler_drift_since_timestamp_seconds", labels) not in samples
    undated = {family.name for family in drift_metrics([full_report()], dated=False).collect()}
    assert "reconciler_drift_since_timestamp_seconds" not in undated, "each run would say that the drift is new"
    policy = (("cluster", "quiet"), ("kind", "RetentionFloor"), ("owner", "team-orders"), ("policy", "orders-gdpr"))
    assert samples["reconciler_drift_subjects", policy] == 0
    assert samples["reconciler_subjects", (policy[0], ("decision", "satisfied"), *policy[1:])] == 1
    unowned = (("cluster", "prod-eu"), ("kind", "GroupRemoval"), ("owner", ""), ("policy", "dead-etl"))
    assert unowned in {labels for name, labels in samples if name == "reconciler_drift_subjects"}
    assert [p.name for p in tmp_path.iterdir()] == ["reconciler.prom"]
