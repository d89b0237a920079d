"""The main workflow as a user types it: validate, plan, apply, plan again.

Kafka's own tools, not our client, show the effects.
"""

import time
from pathlib import Path

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.tools import reassign
from tests.command import WARM_SPARK, reconciler, reconciler_process
from tests.e2e.workspace import DAY_MS, Workspace, floor, leaders, removal
from tests.toolbox import await_leader, log_start_offsets, partition_leaders


def test_plan_apply_plan_on_all_three_kinds(space: Workspace) -> None:
    """Exactly the planned changes happen, and the next plan is empty.

    A second apply of the file changes nothing. A continuous policy converges by the same engine.
    """
    topic, other = (space.create_topic(40, age_ms=30 * DAY_MS, partitions=n, replication=3) for n in (2, 1))
    for name, partitions in ((topic, 2), (other, 1)):
        space.produce(name, 60, partitions=partitions)
    group, live_group = space.commit(f"dead-{topic}", other, 10), space.commit(f"live-{topic}", other, 20)

    def policies(keep: str, mode: str = "") -> tuple[str, ...]:
        rule = "idleFor: 1s, expectAtMost: 3"
        slice_ = floor(topic, f"keep: {{{keep}}}", name="slice, owner: tests", mode=mode)
        return slice_, removal(f'"dead-{topic}*"', rule), leaders(topic)

    def log_starts(name: str = topic) -> dict[int, int]:
        return log_start_offsets(space.cluster, name)

    limits = "groupsPercent: 100, recordsPercent: 100"
    space.write(*policies("newerThan: 7d"), limits=limits)
    time.sleep(1.5)  # idleFor: 1s
    first_plan = space.run("plan", "--out", "plan.json", "--detailed-exitcode", code=2, **WARM_SPARK)
    assert f"{topic} (" in first_plan
    assert "Cannot be undone: records of 2 partitions of 1 topic deleted" in first_plan
    explanation = space.run("explain", group)
    assert explanation.startswith(f"GroupRemoval/dead/{group}: group removal\n")
    assert "read 0 partitions" in explanation, "explaining a group needs no offset of a topic"
    election = reconciler(space.folder, "explain", f"LeaderPolicy/leaders/{topic}[0]")
    assert " groups" not in election.stderr, "groups that nothing listed once were 0 groups"
    space.apply("--results", "results.json")
    assert log_starts() == {0: 40, 1: 40}
    assert log_starts(other) == {0: 0}
    assert {group, live_group} & space.groups() == {live_group}
    assert space.read("results.json")["exit_code"] == 0
    space.apply()
    assert log_starts() == {0: 40, 1: 40}
    space.run("plan", "--detailed-exitcode", **WARM_SPARK)

    space.write(*policies("last: 50", mode="continuous"), limits=limits)
    space.run("converge", **WARM_SPARK)
    assert log_starts() == {0: 50, 1: 50}


def test_elections_move_leaders_back(space: Workspace) -> None:
    """A LeaderPolicy plan needs no Spark; afterwards kafka-topics shows the first replica as leader
    everywhere.
    """
    topic = space.create_topic(0, assignment=((1, 2, 3), (2, 3, 1), (3, 1, 2)))
    reassign(space.cluster, {(topic, 0): (2, 1, 3)})
    client.wait_until(lambda: partition_leaders(space.cluster, topic)[0] == (1, 2), 30, "the new preferred replica")
    space.write(leaders(topic), limits="")
    plan = reconciler_process(space.folder, "plan", "--out", "plan.json", PATH=str(Path("/usr/bin")))
    assert plan.returncode == 0, plan.stderr
    assert f"{topic}[0] (leaders): from broker 1 to 2" in plan.stdout
    space.apply()
    await_leader(space.cluster, topic, 0, 2)
