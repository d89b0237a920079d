"""Topics that their own configuration keeps for ever, on real brokers: a pattern leaves them alone."""

from pathlib import Path
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from tests.build import head
from tests.command import reconciler
from tests.e2e.test_unseen_consumers import read_plan, write_manifests
from tests.toolbox import log_start_offsets

pytestmark = pytest.mark.brokers

FLOOR = head("RetentionFloor", "floor") + "\nspec: {topics: [%s], expectAtMost: 9, keep: {last: 10}}\n"
FOREVER = {"retention.ms": "-1"}


@pytest.mark.parametrize(
    ("configs", "is_kept"),
    [
        (FOREVER, True),
        ({"retention.ms": str(2**63 - 1)}, True),
        (FOREVER | {"retention.bytes": "-1"}, True),
        (FOREVER | {"retention.bytes": "1000000"}, False),
        ({"retention.ms": "604800000"}, False),
        ({}, False),
    ],
    ids=["-1", "the largest number", "without a size", "with a size", "a week", "the default"],
)
def test_a_pattern_skips_what_the_topic_keeps(
    cluster: SandboxCluster, tmp_path: Path, configs: dict[str, str], is_kept: bool
) -> None:
    """An exact name still says what may go."""
    topic = f"kept-{uuid4().hex[:8]}"
    client.create_topics(cluster.bootstrap_servers, [Topic(topic, configs=configs)])
    client.produce(cluster.bootstrap_servers, topic, {0: [Record(b"x")] * 50})
    write_manifests(tmp_path, cluster, FLOOR % f'"{topic}*"')
    plan = read_plan(tmp_path)
    assert [row["code"] for row in plan["skipped"]] == ["B215"] * is_kept
    assert len(plan["actions"]) == (not is_kept)
    write_manifests(tmp_path, cluster, FLOOR % topic)
    assert len(read_plan(tmp_path)["actions"]) == 1
    answer = reconciler(tmp_path, "apply", "plan.json")
    assert answer.returncode == 0, answer.stderr
    assert log_start_offsets(cluster, topic) == {0: 40}
