"""The second listener lets in whom it knows, to what was granted, and nobody else; the plain one stays open."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from reconciler.sandbox import client as workload
from reconciler.sandbox.client import Topic
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.sandbox.security import SecureAccess, Security
from tests.kafka.acls import Grant, grant

pytestmark = pytest.mark.brokers

USERS = {"reader": "r3ader", "nobody": "n0body"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    cluster = start(1, name="guarded", heap_mib=256, security=Security(USERS, tls=True))
    try:
        yield cluster
    finally:
        stop(cluster)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_user_sees_what_was_granted_and_no_more(guarded: Cluster, mechanism: str) -> None:
    """Over TLS, by either mechanism: DESCRIBE on one topic shows that topic, and hides the other without an error."""
    seen, hidden = f"seen-{mechanism}", f"hidden-{mechanism}"
    workload.create_topics(guarded.bootstrap_servers, [Topic(seen), Topic(hidden)])
    grant(guarded.bootstrap_servers, [Grant("reader", AclOperation.DESCRIBE, ResourceType.TOPIC, seen)])
    topics = (
        client(access(guarded), access(guarded).client("reader", mechanism=mechanism)).list_topics(timeout=10).topics
    )
    assert seen in topics
    assert hidden not in topics
    nothing = client(access(guarded), access(guarded).client("nobody", mechanism=mechanism)).list_topics(timeout=10)
    assert nothing.topics == {}


def test_a_wrong_password_and_a_missing_certificate_are_refused(guarded: Cluster, tmp_path: Path) -> None:
    """Neither a stranger nor a client that cannot verify the brokers gets an answer."""
    known = access(guarded).client("reader")
    distrusting = {name: value for name, value in known.items() if name != "ssl.ca.location"}
    for properties in (known | {"sasl.password": "wrong"}, distrusting, {"security.protocol": "PLAINTEXT"}):
        with pytest.raises(KafkaException):
            client(access(guarded), properties).list_topics(timeout=3)


def test_the_plain_listener_stays_all_powerful(guarded: Cluster) -> None:
    """Tools and workload go on as on any sandbox."""
    workload.create_topics(guarded.bootstrap_servers, [Topic("plain")])
    workload.commit(guarded.bootstrap_servers, "plain", {("plain", 0): 0})


def test_passwords_are_not_shown(guarded: Cluster) -> None:
    """A cluster that is printed by a failing test must not teach secrets."""
    assert "r3ader" not in repr(guarded)
    assert "r3ader" not in repr(Security(USERS))


def access(cluster: Cluster) -> SecureAccess:
    assert cluster.secure is not None
    return cluster.secure


def client(secure: SecureAccess, properties: dict[str, str]) -> AdminClient:
    silent = {"error_cb": lambda _: None, "log_level": 0}
    return AdminClient({"bootstrap.servers": secure.bootstrap_servers} | properties | silent)
