"""Apply without some permissions, on brokers with an authorizer.

Each refusal belongs to its item, names the missing permission, and stops no other item. The tests
cover the three authorization rows of the error table end to end: manifests, plan, apply,
results.json, exit code.
"""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.security import Security
from tests.build import policy
from tests.command import reconciler
from tests.kafka import secured
from tests.kafka.acls import Grant, grant
from tests.toolbox import list_groups

pytestmark = pytest.mark.brokers

USERS = {"ci-some": "s3cretsome", "ci-reader": "s3cretreader", "ci-topics": "s3crettopics"}
PERMITTED, DENIED = "orders-permitted", "orders-denied"
PERMITTED_GROUP, DENIED_GROUP = "dead-permitted", "dead-denied"
LEADER_TOPIC = "payments"


@pytest.fixture(scope="module")
def secure_cluster() -> Iterator[SandboxCluster]:
    """Two brokers with an authorizer.

    Two users may describe everything; one of them may also delete in one topic and one group. A third one may
    describe topics only.
    """
    with stopping(start(2, name="rights", heap_mib=256, security=Security(USERS))) as cluster:
        servers = cluster.bootstrap_servers
        client.create_topics(servers, [Topic(PERMITTED), Topic(DENIED), Topic(LEADER_TOPIC, assignment=((1, 2),))])
        for topic in (PERMITTED, DENIED):
            client.produce(servers, topic, {0: [Record(b"x")] * 20})
        for group in (PERMITTED_GROUP, DENIED_GROUP):
            client.commit(servers, group, {(LEADER_TOPIC, 0): 0})
        tools.change_preferred_leaders(cluster, [(LEADER_TOPIC, 0)])
        rights = [
            (AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster"),
            (AclOperation.DESCRIBE, ResourceType.TOPIC, "*"),
            (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "*"),
            (AclOperation.DESCRIBE, ResourceType.GROUP, "*"),
            (AclOperation.READ, ResourceType.TOPIC, "__consumer_offsets"),
        ]
        grants = [Grant(user, *right) for user in ("ci-some", "ci-reader") for right in rights]
        grants.append(Grant("ci-topics", AclOperation.DESCRIBE, ResourceType.TOPIC, "*"))
        grants.append(Grant("ci-some", AclOperation.DELETE, ResourceType.TOPIC, PERMITTED))
        grants.append(Grant("ci-some", AclOperation.DELETE, ResourceType.GROUP, PERMITTED_GROUP))
        grant(servers, grants)
        yield cluster


def as_user(folder: Path, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return reconciler(folder, *arguments, KAFKA_USERNAME=user, KAFKA_PASSWORD=USERS[user])


def write_manifests(folder: Path, cluster: SandboxCluster, *policies: str, more: str = "") -> None:
    login = {"sasl.username": "${env:KAFKA_USERNAME}", "sasl.password": "${env:KAFKA_PASSWORD}"}
    properties = secured.access(cluster).client("ci-some") | login
    secured.write_manifests(folder, cluster, properties, "---\n".join(policies), more=more)


POLICIES = (
    policy("RetentionFloor", "floor", f"topics: [{PERMITTED}, {DENIED}], keep: {{last: 5}}"),
    policy("GroupRemoval", "dead", f"groups: [{PERMITTED_GROUP}, {DENIED_GROUP}], idleFor: 1s"),
    policy("LeaderPolicy", "leaders", f"topics: [{LEADER_TOPIC}]"),
)


def outcomes(folder: Path) -> dict[str, Any]:
    return {line["address"]: line for line in json.loads((folder / "results.json").read_text())["outcomes"]}


REFUSALS = {
    f"RetentionFloor/floor/{DENIED}[0]": ("TOPIC_AUTHORIZATION_FAILED", "DELETE on the topic"),
    f"GroupRemoval/dead/{DENIED_GROUP}": ("GROUP_AUTHORIZATION_FAILED", "DELETE on the group"),
    f"LeaderPolicy/leaders/{LEADER_TOPIC}[0]": ("CLUSTER_AUTHORIZATION_FAILED", "ALTER on the cluster"),
}
APPLIED = (f"RetentionFloor/floor/{PERMITTED}[0]", f"GroupRemoval/dead/{PERMITTED_GROUP}")


def test_an_action_without_permission_fails_and_the_others_go_on(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Without write permissions all actions fail, exit 1; with some of them, the others fail, exit
    5.

    The result names the missing permission, and nothing changes without one.
    """
    write_manifests(tmp_path, secure_cluster, *POLICIES)
    servers = secure_cluster.bootstrap_servers
    time.sleep(1.5)  # idleFor: 1s
    plan = as_user(tmp_path, "ci-reader", "plan", "-q", "--out", "plan.json", "--detailed-exitcode")
    assert plan.returncode == 2, plan.stdout + plan.stderr
    assert "records of 2 partitions of 2 topics deleted" in plan.stdout, plan.stdout
    assert "2 groups removed" in plan.stdout, plan.stdout
    assert "leader of 1 partition elected" in plan.stdout, plan.stdout

    denied_apply = as_user(tmp_path, "ci-reader", "apply", "-q", "plan.json", "--results", "results.json")
    assert denied_apply.returncode == 1, denied_apply.stdout + denied_apply.stderr
    assert {line["status"] for line in outcomes(tmp_path).values()} == {"failed"}
    assert {client.watermarks(servers, topic, 0)[0] for topic in (PERMITTED, DENIED)} == {0}

    partly_denied_apply = as_user(tmp_path, "ci-some", "apply", "-q", "plan.json", "--results", "results.json")
    assert partly_denied_apply.returncode == 5, partly_denied_apply.stdout + partly_denied_apply.stderr
    results = outcomes(tmp_path)
    assert set(results) == {*REFUSALS, *APPLIED}
    for address in APPLIED:
        assert results[address]["status"] == "applied", results[address]
    for address, (code, permission) in REFUSALS.items():
        line = results[address]
        assert (line["status"], line["code"], line["sends"]) == ("failed", code, 1), line
        assert permission in line["detail"], line
        assert permission in partly_denied_apply.stdout, partly_denied_apply.stdout
    assert client.watermarks(servers, PERMITTED, 0)[0] == 15
    assert client.watermarks(servers, DENIED, 0)[0] == 0
    groups = list_groups(secure_cluster)
    assert DENIED_GROUP in groups
    assert PERMITTED_GROUP not in groups
    state = client.partition_states(servers, LEADER_TOPIC)[0]
    assert state.leader != state.replicas[0]


def test_a_restored_group_needs_read_on_the_group_and_its_topics(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Without either right nothing is written, and the message names both."""
    servers, group = secure_cluster.bootstrap_servers, "dead-by-mistake"
    client.commit(servers, group, {(LEADER_TOPIC, 0): 0})
    client.wait_until(lambda: group in list_groups(secure_cluster), 30, f"{group} in the list")
    grant(servers, [Grant("ci-some", AclOperation.DELETE, ResourceType.GROUP, group)])
    write_manifests(tmp_path, secure_cluster, policy("GroupRemoval", "dead", f"groups: [{group}], idleFor: 0s"))
    for arguments in (("plan", "-q", "--out", "plan.json"), ("apply", "-q", "plan.json", "--results", "results.json")):
        answer = as_user(tmp_path, "ci-some", *arguments)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    command = ("restore-group", "results.json", group, "--confirm", group)
    for code, missing in (
        ("GROUP_AUTHORIZATION_FAILED", Grant("ci-some", AclOperation.READ, ResourceType.GROUP, group)),
        ("TOPIC_AUTHORIZATION_FAILED", Grant("ci-some", AclOperation.READ, ResourceType.TOPIC, LEADER_TOPIC)),
    ):
        answer = as_user(tmp_path, "ci-some", *command)
        assert answer.returncode == 1, answer.stdout + answer.stderr
        assert code in answer.stdout
        assert "needs READ on the group and on the topic" in answer.stdout
        assert group not in list_groups(secure_cluster)
        grant(servers, [missing])
    answer = as_user(tmp_path, "ci-some", *command)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert group in list_groups(secure_cluster)


def test_a_protection_of_groups_is_checked_where_no_policy_needs_groups(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """It was silent until a removal came. Who may not list the groups is not told that one is missing."""
    protect = f"protect: {{groups: [{DENIED_GROUP}, {DENIED_GROUP}s]}}"
    write_manifests(tmp_path, secure_cluster, policy("LeaderPolicy", "all", 'topics: ["*"]'), more=protect)
    named = f'none matches "{DENIED_GROUP}s" (did you mean "{DENIED_GROUP}"?)'
    for command in ("plan", "drift"):
        (line,) = re.findall(
            "a part of protect.groups guards nothing.*", as_user(tmp_path, "ci-reader", command).stdout
        )
        assert named in line
        unlisted = as_user(tmp_path, "ci-topics", command)
        assert unlisted.returncode in (0, 2), unlisted.stdout + unlisted.stderr
        assert "guards" not in unlisted.stdout
    assert as_user(tmp_path, "ci-reader", "plan", "--fail-on", "unmatched").returncode == 3
