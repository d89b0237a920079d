"""A server that hides `__consumer_offsets`, as a principal without a right on it sees one.

OffsetFetch, the list of groups and ListOffsets answer it as always. Nothing tells what is in open
transactions, or when a group was last active.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.companions.sources.data_sources import KafkaGroupCommits
from reconciler.errors import ScanFailed, UsageError
from tests import build
from tests.build import git, policy
from tests.command import reconciler
from tests.kafka import secured
from tests.kafka.acls import Grant, grant
from tests.kafka.secured import USERS, access
from tests.kafka_client import begin_transaction
from tests.toolbox import list_groups

pytestmark = pytest.mark.brokers

USER = "ci-hidden"
TOPICS = ("clicks", "orders", "quiet", "ledger", "ended")
FLOOR, DEAD = "RetentionFloor/floor/clicks[0]", "GroupRemoval/idle/dead"
LIVE = {f"GroupRemoval/idle/{group}" for group in ("at-the-end", "before-a-marker", "behind-a-transaction")}
HOURS_MS = 3_600_000
POLICIES = "---\n".join(
    (
        policy("RetentionFloor", "floor", "topics: [clicks], keep: {unreadBy: [billing]}"),
        policy("GroupRemoval", "named", "groups: [gone], idleFor: 0s"),
        policy(
            "GroupRemoval", "idle", "groups: [dead, at-the-end, before-a-marker, behind-a-transaction], idleFor: 3d"
        ),
    )
)
HIDDEN = "consumerOffsets: hidden"


@pytest.fixture(scope="module")
def secure_cluster(sasl_broker: SandboxCluster) -> SandboxCluster:
    """One broker with an authorizer; the user has every right but those on `__consumer_offsets`."""
    servers = sasl_broker.bootstrap_servers
    client.create_topics(servers, [Topic(topic) for topic in TOPICS])
    for topic in TOPICS:
        client.produce(servers, topic, {0: [Record(b"x")] * 20})
    rights = [(AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster")]
    of_topics = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.READ, AclOperation.DELETE)
    rights += [(operation, ResourceType.TOPIC, topic) for operation in of_topics for topic in TOPICS]
    rights += [(operation, ResourceType.GROUP, "*") for operation in (AclOperation.DESCRIBE, AclOperation.DELETE)]
    grant(servers, [Grant(USER, *right) for right in rights])
    return sasl_broker


def write_manifests(folder: Path, cluster: SandboxCluster, *, field: str = "") -> None:
    properties = access(cluster).client(USER) | {"sasl.password": "${env:KAFKA_PASSWORD}"}
    secured.write_manifests(folder, cluster, properties, POLICIES, more=field)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return reconciler(folder, *arguments, KAFKA_PASSWORD=USERS[USER])


def plan(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the plan file, and the code of each subject without an action."""
    result = run(folder, "plan", "--out", "plan.json", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    document: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return document, {row["address"]: row["code"] for row in (*document["blocked"], *document["unread"])}


def actions(document: dict[str, Any]) -> set[str]:
    return {row["address"] for row in document["actions"]}


def backdate(journal: Path) -> None:
    """Put copies of the observations before them, 18 hours apart, as if a schedule had run for days.

    Before the first one, the groups could read a record less.
    """
    lines = journal.read_text().splitlines()
    before = []
    for back in range(5, 0, -1):
        for line in lines:
            seen = json.loads(line)
            moved = line.replace(f'"at_ms":{seen["at_ms"]}', f'"at_ms":{seen["at_ms"] - back * 18 * HOURS_MS}', 1)
            for end in (20, 22) if back == 5 else ():
                moved = moved.replace(f'"last_stable_offset":{end}', f'"last_stable_offset":{end - 1}')
            before.append(moved.replace(f'"run":"{seen["run"]}"', f'"run":"{seen["run"]}-{back}"', 1))
    journal.write_text("".join(f"{line}\n" for line in (*before, *lines)))


def test_hidden_consumer_offsets(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """Without the field only what needs the topic is blocked, with it positions count, and observation finds
    the dead group and none of the live ones.

    It was said not to exist yet. Groups that only stay EMPTY with the same commits are not dead groups.
    """
    servers = secure_cluster.bootstrap_servers
    transaction = begin_transaction(servers, "open")
    transaction.produce("ledger", b"x", partition=0)
    transaction.flush(30)
    ended = begin_transaction(servers, "ended")
    ended.produce("ended", b"x", partition=0)
    ended.commit_transaction(30)
    client.wait_until(lambda: client.watermarks(servers, "ended", 0)[1] == 22, 30, "the marker")
    commits = {
        "billing": ("clicks", 15),
        "gone": ("clicks", 20),
        "dead": ("orders", 10),
        "before-a-marker": ("ended", 21),
    }
    for group, (topic, offset) in (
        commits | {"at-the-end": ("quiet", 20), "behind-a-transaction": ("ledger", 20)}
    ).items():
        client.commit(servers, group, {(topic, 0): offset})

    if kafka_version(secure_cluster) < (3, 8):
        # These brokers tell no types, and know the early access of the consumer protocol: no group is taken for classic.
        for field in ("", HIDDEN):
            write_manifests(tmp_path, secure_cluster, field=field)
            refused = run(tmp_path, "plan", "-q")
            assert refused.returncode == 1
            assert 'the type of group "gone" could not be read' in refused.stdout
        transaction.abort_transaction(30)
        return
    write_manifests(tmp_path, secure_cluster)
    undeclared, codes = plan(tmp_path)
    assert actions(undeclared) == {"GroupRemoval/named/gone"}
    assert codes == dict.fromkeys((FLOOR, DEAD, *LIVE), "B103")
    assert "the right DESCRIBE on the topic is missing" in " ".join(row["reason"] for row in undeclared["unread"])
    assert "exist yet" not in json.dumps(undeclared)
    assert "unseen" not in undeclared
    doctor = run(tmp_path, "doctor", "-q")
    assert doctor.returncode == 1
    assert "MISSING  READ on topic __consumer_offsets" in doctor.stdout, doctor.stdout

    write_manifests(tmp_path, secure_cluster, field=HIDDEN)
    declared, codes = plan(tmp_path)
    assert actions(declared) == {FLOOR, "GroupRemoval/named/gone"}
    assert codes == dict.fromkeys((DEAD, *LIVE), "B307")
    [unseen] = declared["unseen"]
    assert "Cluster/guarded (manifests/all.yaml:1) says consumerOffsets: hidden" in unseen
    assert declared["incomplete"] == []
    assert declared["plan_digest"] != undeclared["plan_digest"]
    doctor = run(tmp_path, "doctor", "-q")
    assert doctor.returncode == 0, doctor.stdout

    observed = run(tmp_path, "observe")
    assert (observed.returncode, observed.stdout) == (0, "guarded: recorded 4 groups, 4 EMPTY\n"), observed.stderr
    backdate(tmp_path / "manifests" / ".reconciler" / "guarded.jsonl")
    for topic in ("orders", "ledger", "ended"):
        client.produce(servers, topic, {0: [Record(b"x")] * 10})
    assert client.watermarks(servers, "ledger", 0, isolation="read_committed")[1] == 20
    proven, codes = plan(tmp_path)
    assert actions(proven) == {FLOOR, "GroupRemoval/named/gone", DEAD}
    assert codes == dict.fromkeys(LIVE, "B307")
    journal = run(tmp_path, "journal")
    assert (journal.returncode, journal.stdout) == (0, ""), "observations are not actions"

    # As if a pull request had brought the observations along.
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "manifests")
    delivered, codes = plan(tmp_path)
    assert codes[DEAD] == "B103"
    assert "proves nothing: git has it" in json.dumps(delivered["unread"])
    shutil.rmtree(tmp_path / ".git")
    plan(tmp_path)

    # The field takes nothing away where __consumer_offsets can be seen.
    (tmp_path / "seen").mkdir()
    build.write_manifests(tmp_path / "seen", servers, POLICIES, cluster_id=secure_cluster.cluster_id, more=HIDDEN)
    seen, codes = plan(tmp_path / "seen")
    assert "unseen" not in seen
    assert codes == dict.fromkeys((DEAD, *LIVE), "B304")

    applied = run(tmp_path, "apply", "plan.json", "-q")
    transaction.abort_transaction(30)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert list_groups(secure_cluster) == {"billing", "at-the-end", "before-a-marker", "behind-a-transaction"}
    assert client.watermarks(servers, "clicks", 0)[0] == 15


def test_the_data_source_says_that_groups_may_be_missing(secure_cluster: SandboxCluster) -> None:
    """Without the option it fails: rows of some groups would read as those of all. With it they are all there is."""
    servers = secure_cluster.bootstrap_servers
    client.commit(servers, "reader", {("clicks", 0): 7})
    login = access(secure_cluster).client(USER) | {"sasl.password": USERS[USER]}
    options = {"kafka.bootstrap.servers": access(secure_cluster).bootstrap_servers, "groups": "reader"}
    options |= {f"kafka.{name}": str(value) for name, value in login.items()}
    with pytest.raises(ScanFailed, match="whether every group is listed is unknown"):
        KafkaGroupCommits(options).partitions()
    with pytest.raises(UsageError, match="consumerOffsets=hide: expected hidden"):
        KafkaGroupCommits(options | {"consumerOffsets": "hide"}).partitions()
    source = KafkaGroupCommits(options | {"consumerOffsets": "hidden"})
    rows = [row for part in source.partitions() for batch in source.read(part) for row in batch.to_pylist()]
    assert [(row["group"], row["committed"]) for row in rows if row["topic"]] == [("reader", 7)]
    assert {row["error"] for row in rows} == {None}
