"""Takes one new policy kind and one new operation from YAML to the journal.

Usage: `python -m tests.extension.walk FOLDER`. It registers both in POLICIES and OPERATIONS before
the rest of the program is imported, and changes no other file.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from reconciler import operations
from tests.extension.alter_cleanup import AlterCleanup, ClusterWithConfigs

operations.OPERATIONS = (*operations.OPERATIONS, AlterCleanup)

from reconciler import policies  # noqa: E402 - after the operation, as an import of the program would find it
from tests.extension.topic_cleanup import TopicCleanup  # noqa: E402

policies.POLICIES = (*policies.POLICIES, TopicCleanup)

from reconciler.apply.restore import find_removal  # noqa: E402
from reconciler.apply.results import lines  # noqa: E402
from reconciler.doctor import required_access  # noqa: E402
from reconciler.errors import PlanUnusable  # noqa: E402
from reconciler.journal.entry import Event  # noqa: E402
from reconciler.kafka.doctor import broker_version  # noqa: E402
from reconciler.kafka.permissions import Role, grants  # noqa: E402
from reconciler.manifest import files, schema  # noqa: E402
from reconciler.manifest.files import ClusterManifests  # noqa: E402
from reconciler.model.names import Address  # noqa: E402
from reconciler.model.outcome import Outcome, Status  # noqa: E402
from reconciler.model.plan import Blocked, Plan, Satisfied  # noqa: E402
from reconciler.model.snapshot import ClusterSnapshot, CommittedOffset, TopicFacts  # noqa: E402
from reconciler.plan import drift, plan_file, planner, recheck  # noqa: E402
from reconciler.plan.diff import DecisionChange, compare  # noqa: E402
from reconciler.plan.review import restrict_to  # noqa: E402
from reconciler.report.annotations import write_annotations  # noqa: E402
from reconciler.report.diff import diff_report  # noqa: E402
from reconciler.report.drift import drift_report  # noqa: E402
from reconciler.report.markdown import write_markdown  # noqa: E402
from reconciler.report.plan import explain_report, plan_report  # noqa: E402
from reconciler.report.results import journal_report, results_report  # noqa: E402
from reconciler.report.terminal import write_lines  # noqa: E402
from tests.build import cluster_manifest, policy  # noqa: E402
from tests.fakes.runs import HEADER, FakeClock, new_journal, run  # noqa: E402
from tests.strategies import examples  # noqa: E402
from tests.strategies.examples import digest_by_hand  # noqa: E402
from tests.unit.manifest.checking import outcome  # noqa: E402

NOW_MS = 1_800_000_000_000
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
CLUSTER = cluster_manifest("127.0.0.1:9092", limits="alteredTopics: %d", cluster_id=CLUSTER_ID, name="prod")
POLICY = "---\n" + policy("TopicCleanup", "erasable", "topics: [clicks, orders, 'pay*'], cleanup: delete")
ONCE = "policy: TopicCleanup/erasable, limit: alteredTopics, value: 2, expires: '2027-01-16T00:00:00Z'"
WAIVER = "---\n" + policy("Waiver", "once", ONCE)


def load(folder: Path, text: str) -> ClusterManifests:
    (folder / "all.yaml").write_text(text)
    return files.load([folder], now_ms=NOW_MS).for_cluster()


def scan(cluster: ClusterWithConfigs) -> ClusterSnapshot:
    topics: dict[str, TopicFacts] = dict(cluster.read_cleanup(cluster.topics))
    return ClusterSnapshot(
        cluster_id=CLUSTER_ID, observed_at_ms=NOW_MS, brokers=(1, 2, 3), topics=topics, groups={}, partitions={}
    )


def plan(manifests: ClusterManifests, cluster: ClusterWithConfigs) -> Plan:
    return planner.plan(manifests, scan(cluster))


def main(folder: Path) -> None:
    cluster = ClusterWithConfigs()
    cluster.create_topic("clicks", cleanup=["compact"])
    cluster.create_topic("orders", cleanup=["compact"])
    cluster.create_topic("payments", cleanup=["delete"])
    (folder / "manifests").mkdir()

    # From YAML: the kind is known, validated with positions, cross-checked, and in the schemas.
    first, second = CLUSTER % 5, POLICY.replace("[clicks, orders, 'pay*']", "[orders]")
    for text, *expected in (
        (first + POLICY.replace("cleanup: delete", "cleanup: dleete"), "M118", 12, "did you mean `delete`?"),
        (first + POLICY.replace("Cleanup", "Claenup"), "M120", 10, "did you mean `TopicCleanup`?"),
        (first + POLICY.replace("topics:", "topcis:"), "M112", 12, "did you mean `topics`?"),
        (first + POLICY.replace("cleanup: delete", "cleanup: delete, untilMs: 5"), "M206", 12, "a later time"),
        (first + POLICY + POLICY.replace("clicks, orders, 'pay*'", "other"), "M301", 16, "rename one of the two"),
        (first + POLICY + second.replace("erasable", "other"), "M302", 17, "remove it from one of the two"),
        (
            first + POLICY.replace("spec:", "mode: continuous\nspec:"),
            "M401",
            12,
            "add spec.journal.topic to Cluster/prod",
        ),
        (first + "  journal: {topic: orders}\n" + POLICY, "M207", 13, "remove it from the list"),
    ):
        _manifests, (only,) = outcome({"all.yaml": text}, now_ms=NOW_MS)
        assert [only.code, only.location.line, only.hint] == expected
    schemas = schema.schemas()
    assert json.loads(schemas["topic-cleanup.json"])["title"] == "TopicCleanup"
    assert "TopicCleanup" in json.loads(schemas["manifest.json"])["properties"]["kind"]["enum"]
    manifests = load(folder / "manifests", CLUSTER % 5 + POLICY)

    # To `doctor`: the version and the right of the request, and the grants, without a deletion.
    required = required_access(manifests.cluster, manifests.policies, observed_at_ms=NOW_MS)
    assert broker_version("b:1", {44: (0, 1)}, required.requests).operations == {"IncrementalAlterConfigs": (0, 1)}
    assert ("ALTER_CONFIGS", "topic") in required.rights
    granted = grants(required, Role.APPLY, topics=sorted(cluster.topics), groups=())
    assert all("Delete" not in names for names in granted.values()), granted
    assert any("AlterConfigs" in names for resource, names in granted.items() if resource.name == "clicks"), granted

    # To a plan, with a decision for each topic and the limit of the operation.
    first_plan = plan(manifests, cluster)
    assert [(type(d), d.address.name) for d in first_plan.decisions] == [
        (AlterCleanup, "clicks"), (AlterCleanup, "orders"), (Satisfied, "payments"),
    ]  # fmt: skip
    (verdict,) = [limit for limit in first_plan.limits if limit.id == "alteredTopics"]
    assert (verdict.limit, verdict.observed, verdict.passed) == (5, 2, True)
    refused = plan(load(folder / "manifests", CLUSTER % 1 + POLICY), cluster)
    assert [limit.id for limit in refused.refused] == ["alteredTopics"]
    waived = plan(load(folder / "manifests", CLUSTER % 1 + POLICY + WAIVER), cluster)
    assert not waived.refused

    # A topic of two policies is blocked, and so is a protected topic.
    second = POLICY.replace("erasable", "second").replace("[clicks, orders, 'pay*']", "['cl*']")
    conflicting = plan(load(folder / "manifests", CLUSTER % 5 + POLICY + second), cluster)
    assert {d.address.name: d.code for d in conflicting.decisions if isinstance(d, Blocked)} == {"clicks": "B105"}
    protected = CLUSTER % 5 + "  protect: {topics: [orders]}\n" + POLICY
    (blocked,) = [d for d in plan(load(folder / "manifests", protected), cluster).decisions if isinstance(d, Blocked)]
    assert (blocked.address.name, blocked.code) == ("orders", "B106")
    manifests = load(folder / "manifests", CLUSTER % 5 + POLICY)

    # To a file and back; the digest covers the approved fields.
    path = folder / "plan.json"
    plan_file.write(first_plan, path)
    assert plan_file.read(path) == first_plan
    document = json.loads(path.read_text())
    assert (document["summary"]["alter_cleanup"], document["summary"]["records_removed_max"]) == (2, 0)
    assert document["plan_digest"] == digest_by_hand(document) == plan_file.digest(first_plan)
    jsonschema.Draft202012Validator(plan_file.schema()).validate(document)

    # A version without the operation refuses the plan, and its own plans stay usable: they have no number of it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "OPERATIONS", operations.OPERATIONS[:-1])
        with pytest.raises(PlanUnusable, match="operation is 'alter_cleanup', which is none of"):
            plan_file.read(path)
        plan_file.write(examples.plan(examples.removal()), path)
    assert plan_file.read(path) == examples.plan(examples.removal())
    other = replace(first_plan, decisions=tuple(
        replace(d, cleanup="compact") if isinstance(d, AlterCleanup) else d for d in first_plan.decisions
    ))  # fmt: skip
    assert plan_file.digest(other) != plan_file.digest(first_plan)

    # Review: an intersection with a plan that has one of the two; a comparison of both.
    reviewed = replace(first_plan, decisions=first_plan.decisions[:1])
    restricted = restrict_to(first_plan, reviewed)
    assert [action.address.name for action in restricted.actions] == ["clicks"]
    assert [d.code for d in restricted.decisions if isinstance(d, Blocked)] == ["B108"]
    comparison = compare(reviewed, first_plan)
    assert [(entry.change, entry.address.name) for entry in comparison.entries()] == [(DecisionChange.NEW, "orders")]

    # Recheck: another client altered one topic meanwhile, and the action of the other remains.
    cluster.alter_cleanup({"orders": "delete"})
    checked = recheck.recheck(first_plan, manifests, scan(cluster))
    assert [action.address.name for action in checked.remaining] == ["clicks"]
    assert [(o.action.address.name, o.status) for o in checked.outcomes] == [("orders", Status.SATISFIED)]
    assert recheck.scan_request(first_plan, manifests.policies, NOW_MS).topics
    orphans = recheck.scan_request(first_plan, (), NOW_MS)  # a topic without a partition is not a group
    assert ([part.partitions for part in orphans.topics], orphans.groups) == ([None, None], ())

    # Apply, twice: the second run finds it done.
    journal, digest = new_journal(folder), plan_file.digest(first_plan)

    def run_again(run_id: str) -> list[Outcome]:
        clock = FakeClock(NOW_MS + 2)
        return run(cluster, checked.remaining, journal=journal, run_id=run_id, plan_digest=digest, clock=clock).outcomes

    outcomes = run_again("first")
    assert [outcome.status for outcome in outcomes] == [Status.APPLIED]
    assert cluster.topics["clicks"].cleanup == frozenset({"delete"})
    assert [outcome.status for outcome in run_again("second")] == [Status.SATISFIED]
    assert not plan(manifests, cluster).actions

    # An address of a kind of groups is never one of a partition, also of a kind that is not known.
    texts = ("TopicCleanup/erasable/x[3]", "GroupOffsets/old/x[3]")
    assert [Address.parse(text).partition for text in texts] == [3, -1]

    # It starts no clock of `every`, and restore-group finds offsets by what is recorded of them.
    assert journal.last_purges(every_ms=NOW_MS, now_ms=NOW_MS + 3) == {}
    header = replace(HEADER, run_id="first", plan_digest=digest, cluster="prod", cluster_id=CLUSTER_ID)
    commit = CommittedOffset(topic="clicks", topic_id="id", partition=0, offset=5)
    with pytest.raises(PlanUnusable, match="holds no offsets"):
        find_removal("".join(lines(outcomes, header)), "clicks", name="file")
    removals = [replace(outcome, removed_offsets=(commit,)) for outcome in outcomes]
    assert find_removal("".join(lines(removals, header)), "clicks", name="file").offsets == (commit,)

    # Reports of all documents, in all media, and the journal.
    entries = list(journal.entries())
    assert [entry.event for entry in entries] == [Event.INTENT, Event.OUTCOME, Event.OUTCOME]
    assert {entry.operation for entry in entries} == {"alter_cleanup"}
    report = drift.report(first_plan)
    assert {subject.sort for subject in report.subjects} == {"cleanup"}
    assert drift.parse(drift.dumps([report])) == (report,)
    for tree, words in (
        (plan_report(first_plan), "Can be undone: policies of 2 topics altered\n"),
        (plan_report(first_plan), "Reversible: cleanup policies altered\n"),
        (plan_report(first_plan), "    clicks: compact to delete\n"),
        (diff_report(comparison), "new: TopicCleanup/erasable/orders — alteration, compact to delete\n"),
        (results_report(header, outcomes), "Applied: policies of 1 topics altered\n"),
        (drift_report(report), "  clicks: the cleanup policy is another one\n"),
        (explain_report(first_plan, first_plan.actions[0].address), "TopicCleanup/erasable/clicks: alteration\n"),
        (explain_report(first_plan, first_plan.actions[0].address), "Request      cleanup.policy=delete\n"),
        (journal_report(entries, "prod"), "  TopicCleanup/erasable: policies of 1 topics altered\n"),
        (journal_report(entries, "prod", full=True), "clicks"),
    ):
        text = "\n".join(line.plain for line in write_lines(tree, width=80))
        assert words in text, text
        assert write_markdown(tree)
        write_annotations(tree)
    assert "- `clicks`: compact to delete\n" in write_markdown(plan_report(first_plan))
    assert "clicks: compact to delete" in write_annotations(plan_report(first_plan))
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
