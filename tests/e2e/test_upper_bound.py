"""The reviewed plan is an upper bound: `plan --within` and its apply, after changes of the cluster."""

from dataclasses import replace
from uuid import uuid4

from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import plan_file
from tests import kafka_client
from tests.command import reconciler
from tests.e2e.workspace import Workspace, floor, removal
from tests.strategies.facts import OTHER_ID


def test_changes_after_the_review_are_bounded_or_blocked(space: Workspace) -> None:
    """A higher floor becomes the reviewed one; new subjects and edits of the file are beyond the
    review.

    So are a topic that was created again and a group with a new commit. Kafka's own tools show the
    effects of the apply.
    """
    names = grown, recreated, tampered, forged, new = [
        space.create_topic(records, name=f"{name}-{uuid4().hex[:8]}")
        for name, records in (("grown", 100), ("recreated", 100), ("tampered", 100), ("forged", 100), ("znew", 0))
    ]
    idle_group, active_group = (space.commit(f"{name}-{new}", new, 0) for name in ("idle", "active"))
    rule = 'keep: {last: 90}, exceptGroups: ["*"], consumers: ignore'
    space.write(floor(", ".join(names), rule), removal(f"{idle_group}, {active_group}"))
    space.run("plan", "--out", "reviewed.json")
    reviewed = space.folder / "reviewed.json"
    reviewed_plan = plan_file.read(reviewed)
    plan_file.write(
        replace(
            reviewed_plan,
            decisions=tuple(
                replace(decision, before_offset=1)
                if isinstance(decision, DeleteRecords) and decision.partition.topic == tampered
                else replace(decision, seen=replace(decision.seen, topic_id=OTHER_ID))
                if isinstance(decision, DeleteRecords) and decision.partition.topic == forged
                else decision
                for decision in reviewed_plan.decisions
            ),
        ),
        reviewed,
    )
    for name in (grown, tampered, forged, new):
        space.produce(name, 150)
    kafka_client.delete_topics(space.servers, [recreated])
    space.create_topic(200, name=recreated)
    space.commit(active_group, new, 5)
    words = ("plan", "--within", "reviewed.json", "--out", "plan.json", "--output-file", "json=shown.json")
    text = reconciler(space.folder, *words).stdout
    bounded_plan = space.read("plan.json")
    assert {row["address"]: row["request"].get("before_offset") for row in bounded_plan["actions"]} == {
        f"RetentionFloor/floor/{grown}[0]": 10,
        f"RetentionFloor/floor/{tampered}[0]": 1,
        f"GroupRemoval/dead/{idle_group}": None,
    }
    blocked = {row["address"]: (row["code"], row["reason"]) for row in bounded_plan["blocked"]}
    assert {code for code, _reason in blocked.values()} == {"B108"}
    assert "the topic is" in blocked[f"RetentionFloor/floor/{recreated}[0]"][1]
    assert "the topic is" in blocked[f"RetentionFloor/floor/{forged}[0]"][1]
    assert "new: " in blocked[f"RetentionFloor/floor/{new}[0]"][1]
    assert "other commits" in blocked[f"GroupRemoval/dead/{active_group}"][1]
    assert text.count("B108") == 4
    space.apply()
    assert [space.log_start(name) for name in names] == [10, 0, 1, 0, 0]
    assert {idle_group, active_group} & space.groups() == {active_group}
    assert space.run("plan", "diff", "reviewed.json", "plan.json").startswith("Differences: 3 blocked")
