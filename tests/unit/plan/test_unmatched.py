"""Warnings of policies that select nothing, and of removals whose names look misspelt."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli import common
from reconciler.cli import show as command
from reconciler.cli.settings import Settings, parse_names
from reconciler.errors import ExitCode, UsageError
from reconciler.manifest import files
from reconciler.model.plan import Plan
from reconciler.model.snapshot import Unknown
from reconciler.plan import drift, plan_file
from reconciler.policies import Policy
from reconciler.report.document import View
from reconciler.report.drift import drift_document, drift_report
from reconciler.report.metrics import drift_metrics
from reconciler.report.plan import explain_report
from reconciler.report.terminal import write_lines
from tests.build import cluster_manifest, policy
from tests.rendering import samples
from tests.strategies.examples import plan_text
from tests.strategies.facts import NOW_MS, cluster, floor, group, leaders, planned, removal, snapshot, topic
from tests.unit.cli.loops import loop

TOPICS = [topic(name) for name in ("orders-eu", "orders-us", "payments", "billing.v1")]
GROUPS = [group(name) for name in ("old-etl", "console-consumer-18", "billing")]
INCOMPLETE = Unknown("broker 2 did not answer")


def reasons(*policies: Policy, **changes: Any) -> list[str]:
    """Return the reason of each warning about these policies."""
    return [warning.reason for warning in plan_of(*policies, **changes).unmatched]


def plan_of(*policies: Policy, **changes: Any) -> Plan:
    return planned(list(policies), snapshot(*TOPICS, *GROUPS, **changes))


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("odrers-*", '"orders-*"'),
        ("order-e*", '"orders-e*"'),
        ("*-paymnts", '"*payments"'),
        ("*ayemnts", '"*ayments"'),
        ("paymenst", '"payments"'),
        ("regex:^odrers-.*", '"regex:^orders-.*"'),
        (r"regex:biling\.v[0-9]", r'"regex:billing\\.v[0-9]"'),
        ("x*", None),
        ("nothing-like-it-*", None),
    ],
)
def test_a_floor_that_selects_nothing_is_a_warning(selector: str, meant: str | None) -> None:
    """It names the selector, the number of topics, and a similar selector that selects some."""
    (reason,) = reasons(floor(selector, keep={"last": 60}))
    assert reason.startswith("it selects nothing: of 4 topics, none matches ")
    assert (f"did you mean {meant}?" in reason) if meant else ("did you mean" not in reason)


NEAR = 'the cluster has no group "{}" (did you mean "{}"?)'
LEFT_OUT = 'it selects nothing: exceptTopics leaves out all that "orders-*" would select'


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        # One of two selectors is enough; the other one may be for later.
        ([floor("orders-*", "nothing-*", keep={"last": 60}), leaders(), removal()], []),
        # `expectAtMost: 0` says that nothing is meant, in each kind.
        ([floor("nothing-*", keep={"last": 60}, expectAtMost=0)], []),
        ([leaders("nothing-*", expectAtMost=0), removal("old-elt", expectAtMost=0)], []),
        # The selector is right where its names are excepted, and no other one is suggested.
        ([leaders("orders-*", exceptTopics=["orders-*"])], [LEFT_OUT]),
        # An absent group is in sync, so a misspelt one once was, for ever.
        *(([removal(name)], [NEAR.format(name, "old-etl")]) for name in ("old-elt", "old_etl", "Old-Etl", "old-etll")),
        # A pattern that selects no group, and nearly selects some.
        ([removal("consloe-consumer-*")], [NEAR.format("consloe-consumer-*", "console-consumer-*")]),
        # A schedule must stay quiet while all is well: groups are gone, have another number, or are named, too.
        *(
            ([removal(*names)], [])
            for names in (["nightly"], ["console-consumer-17"], ["old-elt", "old-etl"], ["tmp-*"])
        ),
    ],
)
def test_which_policies_have_a_warning(policies: list[Policy], expected: list[str]) -> None:
    assert reasons(*policies) == expected


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (floor("orders-*", keep={"last": 1}, exceptTopics=["order-eu"]), ("exceptTopics", '"orders-eu"', "2 topics")),
        # A topic that exists, and that the policy would not select anyway: the one that was meant loses records.
        (floor("orders-*", keep={"last": 1}, exceptTopics=["payments"]), ("exceptTopics", "2 topics", '"payments"')),
        (floor("*v1", keep={"last": 1}, exceptTopics=["orders-*"]), ("exceptTopics", "1 topic that it would select")),
        (floor("orders-*", keep={"last": 1}, exceptGroups=["biling"]), ("exceptGroups", '"billing"', "3 groups")),
        (leaders("*", exceptTopics=["paymnets*"]), ("exceptTopics", '"payments*"')),
        (removal("console-*", exceptGroups=["cons0le-*"]), ("exceptGroups", '"cons0le-*"')),
        (removal("old-*", exceptGroups=["billing"]), ("exceptGroups", '"billing"')),
        (removal("gone", exceptGroups=["cons0le-*"]), ("exceptGroups", "3 groups")),
        (floor("orders-*", keep={"last": 1}, exceptGroups=["e\u0301tl"]), ("exceptGroups",)),
    ],
)
def test_an_exception_that_excepts_nothing_is_a_warning(policy: Policy, words: tuple[str, ...]) -> None:
    """A misspelt exception keeps nothing away. The nearest name is the hint."""
    (reason,) = reasons(policy)
    assert all(word in reason for word in (*words, "guards nothing")), reason
    assert "part of" not in reason
    expecting = {"expect_none": tuple(selector.text for _of, found in policy.guards.values() for selector in found)}
    silent = policy.model_copy(update={"metadata": policy.metadata.model_copy(update=expecting)})
    assert reasons(silent) == []


def test_a_protection_that_protects_nothing_is_a_warning() -> None:
    """A misspelt protection of the Cluster was silent, and the plan removed what it meant to protect."""
    protect = {"topics": ["paymnets", "orders-*"], "groups": ["billing", "biling-*"]}
    plan = planned([floor("*", keep={"last": 1})], snapshot(*TOPICS, *GROUPS), cluster=cluster(protect=protect))
    assert [str(warning.policy) for warning in plan.unmatched] == ["Cluster/prod-eu"] * 2
    topics, groups = (warning.reason for warning in plan.unmatched)
    assert topics.startswith("a part of protect.topics guards nothing"), "the other one protects"
    assert '"paymnets" (did you mean "payments"?)' in topics
    assert "orders" not in topics
    assert "protect.groups" in groups
    assert '"biling-*"' in groups
    lists = {"topics_incomplete": INCOMPLETE, "groups_incomplete": INCOMPLETE}
    assert planned([], snapshot(*TOPICS, *GROUPS, **lists), cluster=cluster(protect=protect)).unmatched == ()


def test_the_hint_finds_another_form_of_the_same_letters() -> None:
    """A group id may have a composed letter where the manifest has two characters for it."""
    plan = planned([removal("*", exceptGroups=["e\u0301tl"])], snapshot(group("\u00e9tl"), group("old")))
    assert "did you mean" in plan.unmatched[0].reason


def test_an_incomplete_list_gives_no_warning() -> None:
    """What was not listed may be there; the plan says that the list is incomplete."""
    plan = plan_of(floor("nothing-*", keep={"last": 60}), topics_incomplete=INCOMPLETE)
    assert plan.unmatched == ()
    assert any("list of topics is incomplete" in sentence for sentence in plan.incomplete)
    assert reasons(removal("old-elt"), groups_incomplete=INCOMPLETE) == []


def test_a_warning_survives_the_plan_file_and_changes_no_digest(tmp_path: Path) -> None:
    """An approval binds actions, and a warning is none."""
    plan = plan_of(leaders("nothing-*"), removal("old-elt"))
    assert [str(warning.policy).partition("/")[0] for warning in plan.unmatched] == ["GroupRemoval", "LeaderPolicy"]
    path = tmp_path / "plan.json"
    path.write_text(plan_text(plan))
    assert plan_file.read(path) == plan
    assert plan_file.digest(replace(plan, unmatched=())) == plan_file.digest(plan)


def test_a_decision_about_a_topic_explains_its_partitions() -> None:
    """`explain RetentionFloor/gdpr/orders[1]` said that the plan decides nothing there."""
    plan = planned([floor("orders*", keep={"last": 1})], snapshot(topic(cleanup_policy=frozenset({"compact"}))))
    (decision,) = plan.decisions
    (line, *_facts) = write_lines(explain_report(plan, replace(decision.address, partition=1)))
    assert str(decision.address) in line.plain


def test_an_explanation_shows_the_warning() -> None:
    """With the next step, as each report of a plan does."""
    plan = plan_of(leaders("paymnets*"))
    (warning,) = plan.unmatched
    explanation = "\n".join(line.plain for line in write_lines(explain_report(plan, warning.policy)))
    assert all(part in explanation for part in ("LeaderPolicy/", "paymnets", "payments", "expectAtMost: 0"))


def test_drift_shows_the_warning_and_stays_in_sync(tmp_path: Path) -> None:
    """It is not drift, but something to report, so that -q shows it. The metric is 0 for other policies."""
    result = drift.report(plan_of(leaders("nothing-*", name="lost"), removal("nightly", name="found")))
    assert (result.in_sync, drift.exit_code([result])) == (True, 0)
    shown = [drift_document([of], quiet=True).trees(View(at_terminal=True)) for of in (result, drift.report(plan_of()))]
    assert list(map(len, shown)) == [1, 0]
    assert drift.parse(drift.dumps([result])) == (result,)
    text = "\n".join(line.plain for line in write_lines(drift_report(result)))
    assert "is in sync" in text
    assert "LeaderPolicy/lost" in text
    unmatched = samples(drift_metrics([result]), tmp_path / "metrics")["reconciler_unmatched"]
    assert {labels[-1]: value for labels, value in unmatched.items()} == {"lost": 1, "found": 0}


@pytest.mark.parametrize(
    ("findings", "code", "words"),
    [
        ("blocked", ExitCode.REFUSED, "--fail-on blocked: 1 topic blocked, the first: absent"),
        ("unmatched", ExitCode.REFUSED, "--fail-on unmatched: LeaderPolicy/lost, RetentionFloor/gdpr"),
        ("unknown", ExitCode.DONE, ""),
        ("unknown, blocked", ExitCode.REFUSED, "--fail-on blocked"),
    ],
)
def test_a_plan_fails_on_what_the_caller_names(
    findings: str, code: ExitCode, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, as for a limit, and a line for each finding."""
    plan = plan_of(leaders("nothing-*", name="lost"), floor("absent", keep={"last": 60}))
    assert command.exit_code(plan, detailed=True, fail_on=parse_names("--fail-on", findings, command.FINDINGS)) is code
    assert words in capsys.readouterr().err


def test_two_warnings_about_one_manifest_are_one_series_of_value_1(tmp_path: Path) -> None:
    """It was 2 for a Cluster whose topics and groups to protect are both misspelt: no alert on 1 fired."""
    protect = {"topics": ["paymets"], "groups": ["biling"]}
    plan = planned([], snapshot(*TOPICS, *GROUPS), cluster=cluster(protect=protect))
    assert len(plan.unmatched) == 2
    found = samples(drift_metrics([drift.report(plan)]), tmp_path / "metrics")
    assert list(found["reconciler_unmatched"].values()) == [1]


def test_a_policy_with_two_findings_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Each guard that guards nothing is a finding, and the line names policies."""
    plan = plan_of(floor("orders", keep={"last": 60}, exceptTopics=["lost"], exceptGroups=["lost"]))
    assert len(plan.unmatched) > 1
    command.exit_code(plan, detailed=True, fail_on=["unmatched"])
    assert capsys.readouterr().err.endswith("--fail-on unmatched: RetentionFloor/gdpr\n")


def test_a_plan_fails_on_what_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """An incomplete list is enough."""
    plan = plan_of(floor("nothing-*", keep={"last": 60}), topics_incomplete=INCOMPLETE)
    assert command.exit_code(plan, detailed=False, fail_on=["unknown"]) is ExitCode.REFUSED
    assert "--fail-on unknown: The list of topics is incomplete" in capsys.readouterr().err


def test_a_plan_without_any_fact_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no subject could be read, exit code 0 would say that nothing is to do."""
    unread, read = floor("absent", keep={"last": 60}), removal("old-etl")
    lost = plan_of(unread, topics_incomplete=INCOMPLETE)
    assert command.exit_code(lost, detailed=True) is ExitCode.ERROR
    assert "none of 1 topic could be read, the first: absent: " in capsys.readouterr().err
    assert command.exit_code(plan_of(unread, read, topics_incomplete=INCOMPLETE), detailed=False) is ExitCode.DONE
    assert command.exit_code(plan_of(floor("nothing-*", keep={"last": 60})), detailed=False) is ExitCode.DONE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unmached", "--fail-on: unmached is unknown; did you mean unmatched?"),
        ("blocked,", "--fail-on: an empty name is unknown; known: blocked, unknown, unmatched"),
        ("x\x1b", '--fail-on: "x\\u001b" is unknown'),
    ],
)
def test_another_word_is_wrong_usage(text: str, words: str) -> None:
    """The message names the word and what may be written."""
    with pytest.raises(UsageError) as error:
        parse_names("--fail-on", text, command.FINDINGS)
    assert str(error.value).startswith(words)


def test_many_absent_groups_are_compared_in_bounded_time() -> None:
    """1,000 groups that are gone and 2,000 others are two million pairs, of which few are compared."""
    absent = [f"gone-{number:05}-a" for number in range(1_000)]
    plan = planned(removal(*absent), snapshot(*(group(f"here-{number:05}") for number in range(2_000))))
    assert (len(plan.decisions), plan.unmatched) == (1_000, ())


def test_hostile_names_are_quoted() -> None:
    """A name may hold what a terminal obeys."""
    plan = planned(removal("old\x1betl"), snapshot(group("old\x1belt")))
    (warning,) = plan.unmatched
    assert "\x1b" not in warning.reason
    assert warning.reason.count("\\u001b") == 2


def test_a_cluster_without_policies_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless the caller wants quiet. Its plan said "no changes" only."""
    (tmp_path / "all.yaml").write_text(cluster_manifest("b:1", name="prod-eu"))
    manifests = files.load([tmp_path], now_ms=NOW_MS).for_cluster()
    for settings in (Settings(), Settings(quiet=True)):
        common.note_missing_policies(manifests, settings)
    note = f"prod-eu: no policies in {tmp_path}, so nothing is compared; write one there\n"
    assert capsys.readouterr().err == note


@pytest.mark.parametrize(("mode", "notes"), [("merge", 1), ("continuous", 0)])
def test_a_converge_without_continuous_policies_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, notes: int
) -> None:
    """Unless the caller wants quiet. It printed "Changes: none" although the policies in mode merge had drift."""
    leaders_of_all = policy("LeaderPolicy", "all", 'topics: ["*"]', mode=mode)
    (tmp_path / "all.yaml").write_text(f"{cluster_manifest('127.0.0.1:1', name='prod-eu')}---\n{leaders_of_all}")
    said = [loop(["converge", str(tmp_path), *words], monkeypatch)[0].stderr for words in ([], ["-q"])]
    note = "prod-eu: no policy has `mode: continuous`, so nothing is done; `reconciler plan` plans the others\n"
    assert [text.count(note) for text in said] == [notes, 0]
