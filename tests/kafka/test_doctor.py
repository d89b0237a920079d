"""The doctor on brokers with TLS, SCRAM and an authorizer.

It checks exactly the permissions that planning and applying need.
"""

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.companions.sandbox import client as workload
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.tools import kafka_version
from reconciler.doctor import apply_request, write_permission
from reconciler.errors import JournalUnavailable
from reconciler.kafka import doctor
from reconciler.kafka.connect import Connection
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.permissions import NameSelection, RequiredAccess, Role
from reconciler.kafka.session import KafkaSession
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.operations import OPERATIONS, DeleteRecords, ElectLeader
from tests import build
from tests.build import policy
from tests.command import reconciler
from tests.kafka import secured
from tests.kafka.secured import USERS, access
from tests.kafka_client import begin_transaction
from tests.toolbox import run_kafka_tool

pytestmark = pytest.mark.brokers

PRINCIPALS = tuple(f"ci-{purpose}" for purpose in ("plan", "apply", "elections", "none", "earlier"))
JOURNAL = "_reconciler.journal"
SILENT = {"log_level": 0}
"""Discard the log of the tests' clients, which would otherwise mix with a command's output."""
OLD = 'topics: [orders, "clicks-*"], exceptTopics: [clicks-audit], expectAtMost: 5, keep: {last: 10}, every: 1s'
REMOVAL = policy("GroupRemoval", "dead", "groups: [old-etl], idleFor: 1s")
POLICIES = (
    policy("RetentionFloor", "old", OLD),
    policy("RetentionFloor", "events", 'topics: ["events-*"], expectAtMost: 5, keep: {last: 10}'),
    REMOVAL,
    policy("LeaderPolicy", "preferred", 'topics: ["*"]'),
)


@pytest.fixture(scope="module")
def secure_cluster(tls_broker: SandboxCluster) -> SandboxCluster:
    """One broker with TLS and an authorizer, with topics, groups and a journal; no principal has a permission yet."""
    topics = ("orders", "clicks-eu", "clicks-audit", "events-1", "payments", JOURNAL)
    workload.create_topics(tls_broker.bootstrap_servers, [Topic(name) for name in topics])
    for name in topics[:-1]:
        workload.produce(tls_broker.bootstrap_servers, name, {0: [Record(b"x")] * 50})
    for group in ("old-etl", "other-etl"):
        workload.commit(tls_broker.bootstrap_servers, group, {("payments", 0): 50})
    return tls_broker


def connection(cluster: SandboxCluster, user: str) -> Connection:
    return Connection((access(cluster).bootstrap_servers,), access(cluster).client(user), timeout_s=10)


def as_user(folder: Path, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as `user`; name, password and certificate come from the environment."""
    variables = {"KAFKA_USERNAME": user, "KAFKA_PASSWORD": USERS[user], "RECONCILER_SECRETS_DIR": str(folder)}
    return reconciler(folder, *arguments, **variables)


def write_manifests(folder: Path, cluster: SandboxCluster, *policies: str) -> None:
    """Write the Cluster with its journal, and policies, by default POLICIES."""
    properties = access(cluster).client("ci-plan") | {
        "sasl.username": "${env:KAFKA_USERNAME}",
        "sasl.password": "${env:KAFKA_PASSWORD}",
        "ssl.ca.location": "ca.pem",
    }
    certificate = access(cluster).certificate
    assert certificate is not None
    shutil.copy(certificate, folder / "ca.pem")
    text = "---\n".join(policies or POLICIES)
    secured.write_manifests(folder, cluster, properties, text, more=f"journal: {{topic: {JOURNAL}}}")


def refusals(client: AdminClient) -> list[str]:
    """The brokers' errors for deletions on another topic and on an excepted one, of another group, and for a new topic."""
    futures = [
        *client.delete_records([TopicPartition(topic, 0, 5) for topic in ("payments", "clicks-audit")]).values(),
        *client.delete_consumer_groups(["other-etl"]).values(),
        *client.create_topics([NewTopic("new-topic", 1, 1)]).values(),
    ]
    return [future.exception(20).args[0].name() for future in futures]


def test_principals_with_the_printed_grants_can_do_their_part_and_nothing_else(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Without permissions the doctor names the missing ones and their effects.

    With the printed kafka-acls commands one principal can plan and not apply, and another can apply
    and do no more.
    """
    write_manifests(tmp_path, secure_cluster)
    unauthorized = as_user(tmp_path, "ci-none", "doctor", "-q")
    assert unauthorized.returncode == 1, unauthorized.stderr
    for sentence in (
        "MISSING  DESCRIBE on the cluster: brokers leave groups out",
        "MISSING  DESCRIBE on topic orders:",
        "MISSING  READ on topic __consumer_offsets:",
        'MISSING  DESCRIBE on group "old-etl":',
        f"MISSING  READ on topic {JOURNAL}: the purge clock",
        "absent   DELETE on topic orders: apply cannot",
    ):
        assert sentence in unauthorized.stdout, unauthorized.stdout

    commands = grant_permissions(tmp_path, secure_cluster)
    for user, purpose in (("ci-plan", "plan"), ("ci-apply", "apply"), ("ci-elections", "elections")):
        report = as_user(tmp_path, user, "doctor", "-q", "--for", purpose)
        assert report.returncode == 0, f"{user}: {report.stdout}{report.stderr}"
    election_plan = as_user(tmp_path, "ci-elections", "plan", "-q", "--target", "LeaderPolicy/preferred")
    assert election_plan.returncode == 0, election_plan.stderr
    assert "Incomplete" not in election_plan.stdout
    plan_principal_report = as_user(tmp_path, "ci-plan", "doctor", "-q", "--for", "apply")
    assert plan_principal_report.returncode == 1
    assert "MISSING  DELETE on topic clicks-eu, events-1, orders: apply cannot" in plan_principal_report.stdout

    time.sleep(1.5)  # idleFor: 1s
    plan = as_user(tmp_path, "ci-plan", "plan", "-q", "--out", "plan.json", "--detailed-exitcode")
    assert plan.returncode == 2, plan.stdout + plan.stderr
    assert "Incomplete" not in plan.stdout
    assert "records of 3 partitions of" in plan.stdout, plan.stdout
    refused_apply = as_user(tmp_path, "ci-plan", "apply", "-q", "plan.json")
    assert refused_apply.returncode == 1, refused_apply.stdout + refused_apply.stderr
    assert workload.watermarks(secure_cluster.bootstrap_servers, "orders", 0)[0] == 0
    apply = as_user(tmp_path, "ci-apply", "apply", "-q", "plan.json")
    assert apply.returncode == 0, apply.stdout + apply.stderr
    log_starts = {
        name: workload.watermarks(secure_cluster.bootstrap_servers, name, 0)[0] for name in ("orders", "clicks-eu")
    }
    assert log_starts == {"orders": 40, "clicks-eu": 40}

    login = (
        SILENT
        | {"bootstrap.servers": access(secure_cluster).bootstrap_servers}
        | access(secure_cluster).client("ci-apply")
    )
    *deletions, creation = refusals(AdminClient(login))
    assert deletions == [*["TOPIC_AUTHORIZATION_FAILED"] * 2, "GROUP_AUTHORIZATION_FAILED"]
    assert creation in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED")
    unwritten: list[str] = []
    producer = Producer(login)
    producer.produce("orders", b"x", on_delivery=lambda error, _: unwritten.append(error.name() if error else ""))
    producer.flush(20)
    assert unwritten == ["TOPIC_AUTHORIZATION_FAILED"]
    for password in USERS.values():
        assert (
            password not in unauthorized.stdout + "".join(commands) + plan.stdout + plan.stderr + refused_apply.stderr
        )


def test_a_plan_principal_of_an_earlier_version_lacks_read(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """Its rules by time are blocked, a group stays behind, and each block names the right; doctor too."""
    specs = {"old": "topics: [clicks-eu], keep: {newerThan: 1s}", "few": "topics: [payments], keep: {last: 1}"}
    floors = (policy("RetentionFloor", name, spec) for name, spec in specs.items())
    write_manifests(tmp_path, secure_cluster, *floors)
    for command in printed_grants(tmp_path, secure_cluster, "User:earlier"):
        if "User:earlier-plan" in command:
            before_read = command.replace("earlier-plan", "ci-earlier").replace(" --operation Read", "")
            if "--operation" in before_read:
                run_kafka_tool(secure_cluster, "kafka-acls", *shlex.split(before_read)[5:])
    log = ("--operation", "Read", "--topic", "__consumer_offsets")
    run_kafka_tool(secure_cluster, "kafka-acls", "--add", "--allow-principal", "User:ci-earlier", *log)
    workload.commit(secure_cluster.bootstrap_servers, "slow", {("payments", 0): 40})
    time.sleep(1.5)
    plan = as_user(tmp_path, "ci-earlier", "plan", "-q", "--out", "plan.json", "-o", "json")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    document = json.loads((tmp_path / "plan.json").read_text())
    by_topic = {row["address"].split("/")[-1]: row for row in (*document["blocked"], *document["unread"])}
    assert document["actions"] == []
    for subject, code in (("clicks-eu[0]", "B216"), ("payments[0]", "B204")):
        assert by_topic[subject]["code"] == code
        assert f"the right READ on {subject[:-3]} is missing" in by_topic[subject]["reason"]
    report = as_user(tmp_path, "ci-earlier", "doctor", "-q")
    assert report.returncode == 1
    assert "MISSING  READ on topic clicks-eu, payments" in report.stdout, report.stdout


def test_the_grants_for_removals_alone_let_the_plan_principal_plan_them(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """They hold DESCRIBE on all topics, where the group may have commits, and doctor asks for it.

    Brokers leave other commits out of the answer. Once nothing granted it, doctor called all well, and the plan
    blocked the removal.
    """
    workload.commit(secure_cluster.bootstrap_servers, "old-etl", {("payments", 0): 50})
    write_manifests(tmp_path, secure_cluster, REMOVAL)
    grants = [c for c in printed_grants(tmp_path, secure_cluster, "User:x") if "User:x-plan" in c]
    for command in grants:
        run_kafka_tool(secure_cluster, "kafka-acls", *shlex.split(command.replace("x-plan", "ci-removals"))[5:])
    time.sleep(1.5)  # idleFor: 1s
    plan = as_user(tmp_path, "ci-removals", "plan", "-q", "--detailed-exitcode")
    assert plan.returncode == 2, plan.stdout + plan.stderr
    assert "1 committed offset on 1 topic" in plan.stdout, plan.stdout
    report = as_user(tmp_path, "ci-removals", "doctor", "-q")
    assert report.returncode == 0, report.stdout
    assert re.search(r"ok       DESCRIBE on \d+ topics", report.stdout), report.stdout


def test_what_may_not_be_described_is_not_called_something_else(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """A group of KIP-848 whose members read a topic that the principal may not describe, and such a journal.

    From Kafka 4.0 on the group's description is refused for its topics. The plan and doctor once named DESCRIBE on
    the group, which the principal has, and doctor said that the journal's topic does not exist.
    """
    refused = kafka_version(secure_cluster) >= (4,)  # earlier brokers describe such a group, or have none
    user = "--allow-principal User:ci-topics --operation"
    for grant in ("Describe --cluster", "Describe --group *", "Read --topic __consumer_offsets", "All --topic orders"):
        run_kafka_tool(secure_cluster, "kafka-acls", "--add", *shlex.split(f"{user} {grant}"))
    write_manifests(tmp_path, secure_cluster, policy("RetentionFloor", "few", "topics: [orders], keep: {last: 1}"))
    settings = {"group.id": "new-protocol", "group.protocol": "consumer" if refused else "classic"}
    member = Consumer(SILENT | settings | {"bootstrap.servers": secure_cluster.bootstrap_servers})
    member.subscribe(["payments"])
    workload.wait_until(lambda: member.poll(0.1) is None and member.assignment(), 30, "the member's partitions")
    reports = [as_user(tmp_path, "ci-topics", command, "-q") for command in ("plan", "doctor")]
    member.close()
    plan, report = (command.stdout for command in reports)
    assert ("the right DESCRIBE on all topics of its members is missing" in plan) == refused, plan
    right = 'unknown  DESCRIBE on group "new-protocol": ConsumerGroupDescribe: The group has described topic(s)'
    assert (right in report) == refused, report
    assert "does not exist" not in report, report
    assert "how safe the journal's topic is: the right DESCRIBE on the topic is missing" in report, report


def test_a_principal_that_sees_no_transactions_does_not_count_their_offsets_as_records(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Records that were aborted hide no share, also from who may not describe `__transaction_state`.

    A floor that took all ten records was 50.5 % of the topic to such a principal, below the limit of 90.
    """
    workload.create_topics(secure_cluster.bootstrap_servers, [Topic("gaps")])
    workload.produce(secure_cluster.bootstrap_servers, "gaps", {0: [Record(b"x")] * 10})
    producer = begin_transaction(secure_cluster.bootstrap_servers, "gaps")
    for _ in range(90):
        producer.produce("gaps", b"x", partition=0)
    producer.flush(20)
    producer.abort_transaction()
    user = "--allow-principal User:ci-topics --operation"
    for grant in ("Describe --cluster", "Describe --group *", "Read --topic __consumer_offsets", "All --topic gaps"):
        run_kafka_tool(secure_cluster, "kafka-acls", "--add", *shlex.split(f"{user} {grant}"))
    write_manifests(tmp_path, secure_cluster, policy("RetentionFloor", "few", "topics: [gaps], keep: {last: 50}"))
    plan = as_user(tmp_path, "ci-topics", "plan", "-q")
    assert "at most 51 offsets: up to 100.0 % of the topic" in plan.stdout, plan.stdout + plan.stderr


def grant_permissions(folder: Path, cluster: SandboxCluster) -> list[str]:
    """Run the commands that `doctor --acls` prints, and return them."""
    commands = printed_grants(folder, cluster, "User:ci")
    for line in commands:
        arguments = shlex.split(line)
        assert arguments[:5:2] == ["kafka-acls", cluster.bootstrap_servers, "admin.properties"], line
        run_kafka_tool(cluster, "kafka-acls", *arguments[5:])
    return commands


def printed_grants(folder: Path, cluster: SandboxCluster, principal: str) -> list[str]:
    """The commands that `doctor --acls` prints."""
    # Only a principal that sees every topic knows which topics a pattern selects.
    file = folder / "manifests" / "all.yaml"
    manifest = file.read_text()
    plain_manifest = manifest.replace(access(cluster).bootstrap_servers, cluster.bootstrap_servers)
    lines = [line for line in plain_manifest.splitlines(keepends=True) if "  client:" not in line]
    file.write_text("".join(lines))
    printed = as_user(folder, "ci-none", "doctor", "-q", "--acls", "--principal", principal)
    assert printed.returncode == 0, printed.stderr
    file.write_text(manifest)
    return [line for line in printed.stdout.splitlines() if not line.startswith("#")]


def test_each_printed_grant_is_needed_and_a_missing_one_is_reported(
    secure_cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Every printed grant is necessary: without it the doctor of that role fails or sees fewer
    topics.

    If one grant is removed, the doctor exits with 1 and names the operation, or lists fewer topics;
    after the grant is back, all is well. So the grants are the minimum, and the doctor requires no
    unnecessary permission. The doctor itself creates no topic, group or record.
    """
    # The test above may have removed the group; doctor reports no permissions on missing groups.
    workload.commit(secure_cluster.bootstrap_servers, "old-etl", {("payments", 0): 50})
    write_manifests(tmp_path, secure_cluster)
    commands = grant_permissions(tmp_path, secure_cluster)

    def state() -> list[str]:
        tools = (("kafka-get-offsets",), ("kafka-consumer-groups", "--list"))
        return [run_kafka_tool(secure_cluster, *words) for words in tools]

    def read_report(purpose: str) -> tuple[str, int]:
        """Return the missing permissions and the number of visible topics that the doctor reports for a role."""
        report = as_user(tmp_path, f"ci-{purpose}", "doctor", "-q", "--for", purpose)
        missing = " ".join(re.findall("^  MISSING.*", report.stdout, re.MULTILINE))
        assert report.returncode == bool(missing)
        [topics] = re.findall(r"(\d+) topics?, ", report.stdout)
        return missing.replace("_", "").upper(), int(topics)

    def wait_for_report(purpose: str, condition: Callable[[str, int], bool], description: str) -> None:
        """Wait until the authorizers know a grant, some time after the tool has created it."""
        workload.wait_until(lambda: condition(*read_report(purpose)), 90, description)

    def is_complete(missing: str, topics: int) -> bool:
        return not missing and topics == all_topics

    before, purposes = state(), ("plan", "apply", "elections")
    wait_for_report("plan", lambda missing, _topics: not missing, "the grants of the plan principal")
    _, all_topics = read_report("plan")
    for purpose in purposes:
        wait_for_report(purpose, is_complete, f"the grants of {purpose}")
    for line in commands:
        arguments = shlex.split(line)[5:]
        purpose = arguments[arguments.index("--allow-principal") + 1].rpartition("-")[2]
        operations = [arguments[at + 1].upper() for at, word in enumerate(arguments) if word == "--operation"]
        # A principal sees only the topics that it may describe or read, so doctor cannot report the others of a
        # pattern (docs/rights.md).
        hides_topics = "--topic" in arguments and "*" in arguments
        run_kafka_tool(secure_cluster, "kafka-acls", "--remove", "--force", *arguments[1:])
        wait_for_report(
            purpose,
            lambda missing, topics, removed=operations, hides=hides_topics: (  # type: ignore[misc]
                topics < all_topics if hides else any(operation in missing for operation in removed)
            ),
            f"a report without {line}",
        )
        run_kafka_tool(secure_cluster, "kafka-acls", *arguments)
    for purpose in purposes:
        wait_for_report(purpose, is_complete, f"the restored grants of {purpose}")
    assert len(commands) > 10
    assert state() == before


def test_elections_are_granted_to_the_elections_principal_alone(secure_cluster: SandboxCluster) -> None:
    """After these grants only the third principal has ALTER on the cluster; the doctor says what
    else it allows.
    """
    required = RequiredAccess(
        needs=ScanRequest(topics=(TopicRequest(topics=(Selector("*"),)),)), changes=(write_permission(ElectLeader),)
    )
    reports = {user: doctor.run_checks(KafkaSession(connection(secure_cluster, user)), required) for user in PRINCIPALS}
    may_elect = [
        user
        for user, report in reports.items()
        if not any(r.missing or r.unread for r in report.rights if r.purpose is Role.ELECTIONS)
    ]
    assert may_elect == ["ci-elections"]
    assert any("can grant every permission" in sentence for sentence in reports["ci-elections"].beyond)
    assert not any("can grant every permission" in sentence for sentence in reports["ci-apply"].beyond)


def test_the_doctor_reports_versions_clock_and_absent_names(secure_cluster: SandboxCluster) -> None:
    """The report has the version and the operations of each broker, and the clock.

    A topic that does not exist has no permissions in the result.
    """
    now_ms = int(time.time() * 1000)
    workload.commit(secure_cluster.bootstrap_servers, "stamped", {("payments", 0): now_ms % 50})
    required = RequiredAccess(
        needs=ScanRequest(
            topics=(TopicRequest(topics=(Selector("orders"), Selector("not-there")), offsets=True, readers=True),),
            groups=(GroupRequest(groups=(Selector("old-etl"),), activity=True),),
        ),
        changes=(write_permission(DeleteRecords, NameSelection(selectors=(Selector("not-there"),))),),
        journal_topic="no-journal",
        requests=tuple(map(apply_request, OPERATIONS)),
    )
    session = KafkaSession(Connection((secure_cluster.bootstrap_servers,), timeout_s=10))
    report = doctor.run_checks(session, required)
    [version] = report.versions
    assert version.kafka_4 == (kafka_version(secure_cluster) >= (4,))
    assert version.lacking == ()
    assert set(version.operations) == {operation.API[0] for operation in OPERATIONS}
    assert isinstance(report.clock_age_ms, int)
    assert abs(report.clock_age_ms) < 60_000
    assert report.journal_missing
    # An apply names the command that doctor names: its replicas are no more than the brokers.
    with pytest.raises(JournalUnavailable, match=r"--replication-factor 1 .*min.insync.replicas=1"):
        JournalTopic(session, "no-journal").append([b"x"])
    assert {(r.operation, r.resource): r.total for r in report.rights if r.resource == "topic"} == {
        ("DESCRIBE", "topic"): len(report.topics),  # the group may have commits on any
        ("DESCRIBE_CONFIGS", "topic"): 1,
        ("READ", "topic"): 1,
    }
    assert not any(right.missing or right.unread for right in report.rights)


def test_a_controller_in_bootstrap_servers_is_named(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """It answers ApiVersions and no request for metadata: 30 seconds later the error was "no answer"."""
    properties = "".join(path.read_text() for path in secure_cluster.dir.rglob("*.properties"))
    controller = re.search(r"CONTROLLER://(127.0.0.1:[0-9]+)", properties)
    assert controller is not None
    build.write_manifests(tmp_path, controller[1], REMOVAL, cluster_id=secure_cluster.cluster_id)
    result = reconciler(tmp_path, "doctor", "-q")
    assert result.returncode == 1
    assert f"no broker of {controller[1]} answered: a controller answered" in result.stderr
    assert "bootstrapServers" in result.stderr


def test_the_requests_of_planning_stand_beside_those_of_apply(secure_cluster: SandboxCluster, tmp_path: Path) -> None:
    """Each with its versions on the broker; the version of Kafka is a guess, and only requests of the manifests count."""
    build.write_manifests(tmp_path, secure_cluster.bootstrap_servers, REMOVAL, cluster_id=secure_cluster.cluster_id)
    result = reconciler(tmp_path, "doctor", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    for line in (
        r"  brokers +\"?127.*: probably Kafka (4.0 or later|before 4.0), by the",
        r"    plan +Fetch [0-9.]+, FindCoord.* [0-9.]+, ListGroups [0-9.]+, Offs",
        r"    apply +DeleteGroups [0-9.]+\n",
    ):
        assert re.search(line, result.stdout), result.stdout
