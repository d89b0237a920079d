"""Suggestions for any snapshot: they rest on known facts only, never give up a safety, and keep ids.

`suggest` calls the policies, so the invariants of plans hold for what a draft does.
"""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.companions.suggest import drafts, findings, rules
from reconciler.companions.suggest.command import LINES_MAX, fitting_lines
from reconciler.companions.suggest.findings import Finding, FindingKind, FindingSection, Suggestions
from reconciler.companions.suggest.report import suggest_report
from reconciler.manifest.files import source_of, validate_sources
from reconciler.model.action import Mode
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.policies import GroupRemoval, Policy, RetentionFloor
from reconciler.report.markdown import write_markdown
from reconciler.report.terminal import write_lines
from tests.strategies import facts, planner_inputs
from tests.strategies.facts import NOW_MS
from tests.strategies.planner_inputs import PlannerInput, seeded

INSTANTS = tuple(sorted({i for part in rules.scan_request(NOW_MS).topics for i in part.instants_ms}))


def _input(r: Random) -> PlannerInput:
    """Any snapshot, mostly of a cluster without policies."""
    policies = planner_inputs.policies(r) if planner_inputs.chance(r, 3) else ()
    return PlannerInput(planner_inputs.cluster(r), policies, (), planner_inputs.snapshot(r, INSTANTS))


inputs = seeded(_input)


def suggest(planner_input: PlannerInput, **changes: Any) -> Suggestions:
    arguments = {"cluster": planner_input.cluster, "policies": planner_input.policies} | changes
    return rules.suggest(arguments.pop("snapshot", planner_input.snapshot), **arguments)


@given(inputs)
def test_drafts_give_up_no_safety(planner_input: PlannerInput) -> None:
    """No `ignore`, `0s`, unclean election, continuous mode or pattern; an owner has to be named."""
    suggestions = suggest(planner_input)
    for draft, (_address, _findings, manifest) in zip(
        suggestions.drafts, drafts.policy_texts(suggestions), strict=True
    ):
        policy = draft.policy
        text = "\n".join(line for line in manifest.splitlines() if not line.startswith("#"))
        assert policy.mode is Mode.MERGE
        assert policy.metadata.owner == "TODO"
        assert policy.metadata.cluster == planner_input.cluster.metadata.name
        assert not any(selector.is_pattern for selector in policy.selectors)
        assert policy.excluding == ()
        assert not any(word in text for word in ("ignore", '"0s"', "unclean", "continuous", "except"))
        if isinstance(policy, RetentionFloor | GroupRemoval):
            assert policy.expect_at_most == len(policy.selectors)
        if isinstance(policy, RetentionFloor):
            assert policy.spec.consumers == "block"
        if isinstance(policy, GroupRemoval):
            assert policy.spec.idle_for > 0


def _depends_on(finding: Finding, snapshot: ClusterSnapshot) -> Iterable[object]:
    """Yield the facts that a finding of this kind rests on."""
    of_groups = (snapshot.groups_incomplete, snapshot.readers_incomplete)
    topic = finding.id.split("/")[-1]
    partitions = [facts for name, facts in snapshot.partitions.items() if name.topic == topic]
    match finding.kind:
        case FindingKind.IDLE_GROUP:
            group = snapshot.groups[finding.subject]
            yield from (group.type, group.state, group.last_activity_ms, group.newest_record, group.fingerprint)
            yield from (group.commits, group.commit_topics, *of_groups[:1])
        case FindingKind.LEADER:
            for partition in partitions:
                yield from (partition.leader, partition.replicas, partition.in_sync, partition.topic_id)
        case FindingKind.READ_RECORDS | FindingKind.LAGGING_GROUP | FindingKind.UNREAD_TOPIC:
            yield from of_groups
            yield from (snapshot.topics[topic].cleanup_policy, snapshot.topics[topic].records)
            assert snapshot.topics[topic].partitions == len(partitions)
            for partition in partitions:
                yield from (
                    partition.log_start,
                    partition.last_stable_offset,
                    partition.high_watermark,
                    partition.readers,
                )
            yield from (group.type for group in snapshot.groups.values())
            yield from (group.consumption_unread for group in snapshot.groups.values() if group.listed)


@given(inputs)
def test_no_finding_rests_on_an_unknown_fact(planner_input: PlannerInput) -> None:
    for finding in suggest(planner_input).findings:
        unknown = [fact for fact in _depends_on(finding, planner_input.snapshot) if isinstance(fact, Unknown)]
        assert unknown == [], finding


@given(inputs)
def test_only_questions_and_what_comes_later_have_no_manifest(planner_input: PlannerInput) -> None:
    suggestions = suggest(planner_input)
    questions = {FindingKind.UNREAD_TOPIC, FindingKind.LAGGING_GROUP}
    for finding in suggestions.findings:
        is_later = any("not in a manifest now" in text for text in finding.counter_evidence)
        assert (finding.manifest is None) == (finding.kind in questions or is_later)
        assert finding.evidence
    drafted = [finding for draft in suggestions.drafts for finding in draft.findings]
    assert len(drafted) == len(set(drafted))
    for draft in suggestions.drafts:
        assert {finding.manifest for finding in draft.findings} == {draft.policy.address}
        assert {finding.subject for finding in draft.findings} == {s.name for s in draft.policy.selectors}


@given(inputs, st.integers(0, 2**48))
def test_no_order_changes_what_is_found(planner_input: PlannerInput, seed: int) -> None:
    """Ids, manifests and their order are those of the facts."""
    snapshot = planner_inputs.reordered(Random(seed), planner_input.snapshot)
    assert suggest(planner_input, snapshot=snapshot) == suggest(planner_input)


@given(inputs)
def test_an_ignored_finding_goes_and_no_other_id_changes(planner_input: PlannerInput) -> None:
    """The ids of a run leave exactly these findings out of the next one."""
    first = suggest(planner_input)
    ids = {finding.id for finding in first.findings}
    assert len(ids) == len(first.findings)
    second = suggest(planner_input, ignored=ids)
    assert ids.isdisjoint(finding.id for finding in second.findings)
    for finding in first.findings:
        assert findings.parse_ignored(f"{finding.id} # a comment\n") == (finding.id,)


@given(inputs)
def test_a_plan_does_what_the_findings_say_and_nothing_larger(planner_input: PlannerInput) -> None:
    """The drafts validate, and a plan of them acts on subjects of the findings only."""
    suggestions = suggest(planner_input)
    cluster = facts.cluster()
    texts = [drafts.cluster_text(suggestions, cluster=cluster.address, servers=["b:1"], client={})]
    texts += drafts.policy_texts(suggestions)
    source = source_of("first.yaml", drafts.file_text(suggestions, texts).encode())
    loaded = validate_sources([source], now_ms=NOW_MS).by_cluster[0]
    assert _comparable(loaded.policies) == _comparable([draft.policy for draft in suggestions.drafts])
    plan = replace(planner_input, policies=(*planner_input.policies, *loaded.policies)).plan()
    subjects = {(f.manifest, f.subject) for draft in suggestions.drafts for f in draft.findings}
    of_drafts = {policy.address for policy in loaded.policies}
    acted = {(a.address.policy_address, a.address.name) for a in plan.actions if a.address.policy_address in of_drafts}
    assert acted <= subjects
    at_once = {pair for pair in subjects if pair[0] is not None and pair[0].kind != "RetentionFloor"}
    assert at_once <= acted, "only a floor may have to wait, for the removal of a group"
    alone = replace(planner_input, policies=loaded.policies, cluster=planner_input.cluster).plan()
    assert alone.refused == (), "the manifests hold what the limits allow at once"


def _comparable(policies: Iterable[Policy]) -> dict[str, Any]:
    return {str(policy.address): policy.model_dump(mode="json", exclude_unset=True) for policy in policies}


@given(inputs, st.integers(20, 200))
def test_a_report_never_has_more_than_200_lines(planner_input: PlannerInput, width: int) -> None:
    """Also with hundreds of findings; what is left out is counted."""
    suggestions = suggest(planner_input)
    many = replace(suggestions, sections=tuple(map(_repeat, suggestions.sections)))
    for document in (suggestions, many):
        assert len(fitting_lines(document, (), width=width)) <= LINES_MAX == 200
        assert len(write_markdown(suggest_report(document))) <= 60_000
    assert all(line.plain.isprintable() for line in write_lines(suggest_report(suggestions)))


def _repeat(section: FindingSection) -> FindingSection:
    findings = (replace(f, id=f"{f.id}-{n}", subject=f"{f.subject}-{n}") for f in section.findings for n in range(100))
    return replace(section, findings=tuple(findings), unknown=section.unknown * 300)
