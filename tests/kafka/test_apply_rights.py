"""Apply without some permissions, on brokers with an authorizer.

Each refusal belongs to its item, names the missing permission, and stops no other item. The tests
cover the three authorization rows of the error table end to end: manifests, plan, apply,
results.json, exit code.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from reconciler.sandbox import client, tools
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.security import Security
from tests.command import reconciler
from tests.kafka.acls import Grant, grant
from tests.toolbox import list_groups

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

USERS = {"ci-some": "s3cretsome", "ci-reader": "s3cretreader"}
MINE, THEIRS = "orders-mine", "orders-theirs"
DEAD_MINE, DEAD_THEIRS = "dead-mine", "dead-theirs"
LED = "payments"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """Three brokers with an authorizer.

    Both users may describe everything; one of them may also delete in one topic and one group.
    """
    cluster = start(3, name="rights", heap_mib=256, security=Security(USERS))
    try:
        servers = cluster.bootstrap_servers
        client.create_topics(servers, [Topic(MINE), Topic(THEIRS), Topic(LED, assignment=((1, 2, 3),))])
        for topic in (MINE, THEIRS):
            client.produce(servers, topic, {0: [Record(b"x")] * 20})
        for group in (DEAD_MINE, DEAD_THEIRS):
            client.commit(servers, group, {(LED, 0): 0})
        tools.change_preferred_leaders(cluster, [(LED, 0)])
        for user in USERS:
            grant(
                servers,
                [
                    Grant(user, AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster"),
                    Grant(user, AclOperation.DESCRIBE, ResourceType.TOPIC, "*"),
                    Grant(user, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "*"),
                    Grant(user, AclOperation.DESCRIBE, ResourceType.GROUP, "*"),
                    Grant(user, AclOperation.READ, ResourceType.TOPIC, "__consumer_offsets"),
                ],
            )
        grant(
            servers,
            [
                Grant("ci-some", AclOperation.DELETE, ResourceType.TOPIC, MINE),
                Grant("ci-some", AclOperation.DELETE, ResourceType.GROUP, DEAD_MINE),
            ],
        )
        yield cluster
    finally:
        stop(cluster)


def as_user(folder: Path, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    return reconciler(folder, *words, KAFKA_USERNAME=user, KAFKA_PASSWORD=USERS[user])


def write_manifests(folder: Path, cluster: Cluster) -> None:
    assert cluster.secure is not None
    properties = cluster.secure.client("ci-some") | {
        "sasl.username": "${env:KAFKA_USERNAME}",
        "sasl.password": "${env:KAFKA_PASSWORD}",
    }
    (folder / "manifests").mkdir()
    (folder / "manifests" / "all.yaml").write_text(
        f"""\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: guarded}}
spec:
  clusterId: {cluster.cluster_id}
  bootstrapServers: {json.dumps(cluster.secure.bootstrap_servers.split(","))}
  client: {json.dumps(properties)}
  limits: {{groupsPercent: 100, recordsPercent: 100}}
---
apiVersion: reconciler/v1
kind: RetentionFloor
metadata: {{name: floor}}
spec: {{topics: [{MINE}, {THEIRS}], keep: {{last: 5}}}}
---
apiVersion: reconciler/v1
kind: GroupRemoval
metadata: {{name: dead}}
spec: {{groups: [{DEAD_MINE}, {DEAD_THEIRS}], idleFor: 1s}}
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: leaders}}
spec: {{topics: [{LED}]}}
"""
    )


def outcomes(folder: Path) -> dict[str, Any]:
    return {line["address"]: line for line in json.loads((folder / "results.json").read_text())["outcomes"]}


REFUSALS = {
    f"RetentionFloor/floor/{THEIRS}[0]": ("TOPIC_AUTHORIZATION_FAILED", "DELETE on the topic"),
    f"GroupRemoval/dead/{DEAD_THEIRS}": ("GROUP_AUTHORIZATION_FAILED", "DELETE on the group"),
    f"LeaderPolicy/leaders/{LED}[0]": ("CLUSTER_AUTHORIZATION_FAILED", "ALTER on the cluster"),
}
CARRIED_OUT = (f"RetentionFloor/floor/{MINE}[0]", f"GroupRemoval/dead/{DEAD_MINE}")


def test_what_may_not_be_done_is_failed_and_the_rest_goes_on(guarded: Cluster, tmp_path: Path) -> None:
    """Without write permissions all actions fail, exit 1; with some of them, the others fail, exit
    5.

    The result names the missing permission, and nothing changes without one.
    """
    write_manifests(tmp_path, guarded)
    servers = guarded.bootstrap_servers
    time.sleep(1.5)  # idleFor: 1s
    planned = as_user(tmp_path, "ci-reader", "plan", "-q", "--out", "plan.json", "--detailed-exitcode")
    assert planned.returncode == 2, planned.stdout + planned.stderr
    assert "2 record deletions" in planned.stdout, planned.stdout
    assert "2 group removals, 1 election" in planned.stdout, planned.stdout

    denied = as_user(tmp_path, "ci-reader", "apply", "-q", "plan.json", "--results", "results.json")
    assert denied.returncode == 1, denied.stdout + denied.stderr
    assert {line["status"] for line in outcomes(tmp_path).values()} == {"failed"}
    assert {client.watermarks(servers, topic, 0)[0] for topic in (MINE, THEIRS)} == {0}

    partly_denied = as_user(tmp_path, "ci-some", "apply", "-q", "plan.json", "--results", "results.json")
    assert partly_denied.returncode == 5, partly_denied.stdout + partly_denied.stderr
    results = outcomes(tmp_path)
    assert set(results) == {*REFUSALS, *CARRIED_OUT}
    for address in CARRIED_OUT:
        assert results[address]["status"] == "applied", results[address]
    for address, (code, right) in REFUSALS.items():
        line = results[address]
        assert (line["status"], line["code"], line["sends"]) == ("failed", code, 1), line
        assert right in line["detail"], line
        assert right in partly_denied.stdout, partly_denied.stdout
    assert client.watermarks(servers, MINE, 0)[0] == 15
    assert client.watermarks(servers, THEIRS, 0)[0] == 0
    groups = list_groups(guarded)
    assert DEAD_THEIRS in groups
    assert DEAD_MINE not in groups
    state = client.partition_states(servers, LED)[0]
    assert state.leader != state.replicas[0]
