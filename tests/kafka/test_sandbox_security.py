"""The second listener accepts its users with their granted permissions; the plain one stays open."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from reconciler.companions.sandbox import client as sandbox_client
from reconciler.companions.sandbox.client import Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.companions.sandbox.security import SecureAccess, Security
from tests.kafka.acls import Grant, grant
from tests.kafka.secured import USERS, access

pytestmark = pytest.mark.brokers


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_user_sees_only_the_granted_topic(tls_broker: SandboxCluster, mechanism: str) -> None:
    """Over TLS, with either mechanism, a user with DESCRIBE on one topic sees only that topic."""
    visible, hidden = f"visible-{mechanism}", f"hidden-{mechanism}"
    sandbox_client.create_topics(tls_broker.bootstrap_servers, [Topic(visible), Topic(hidden)])
    grant(tls_broker.bootstrap_servers, [Grant("reader", AclOperation.DESCRIBE, ResourceType.TOPIC, visible)])
    topics = (
        client(access(tls_broker), access(tls_broker).client("reader", mechanism=mechanism))
        .list_topics(timeout=10)
        .topics
    )
    assert visible in topics
    assert hidden not in topics
    metadata = client(access(tls_broker), access(tls_broker).client("powerless", mechanism=mechanism)).list_topics(
        timeout=10
    )
    assert metadata.topics == {}


def test_a_wrong_password_and_a_missing_certificate_are_refused(tls_broker: SandboxCluster, tmp_path: Path) -> None:
    """A client with a wrong password or without the certificate gets no answer."""
    properties = access(tls_broker).client("reader")
    without_certificate = {name: value for name, value in properties.items() if name != "ssl.ca.location"}
    for client_properties in (
        properties | {"sasl.password": "wrong"},
        without_certificate,
        {"security.protocol": "PLAINTEXT"},
    ):
        with pytest.raises(KafkaException):
            client(access(tls_broker), client_properties).list_topics(timeout=3)


def test_the_plain_listener_allows_every_operation(tls_broker: SandboxCluster) -> None:
    """Tools and client calls work as on any sandbox."""
    sandbox_client.create_topics(tls_broker.bootstrap_servers, [Topic("plain")])
    sandbox_client.commit(tls_broker.bootstrap_servers, "plain", {("plain", 0): 0})


def test_passwords_are_not_shown(tls_broker: SandboxCluster) -> None:
    """The output of a failing test must not contain a password."""
    assert "r3ader" not in repr(tls_broker)
    assert "r3ader" not in repr(Security(USERS))


def client(secure: SecureAccess, properties: dict[str, str]) -> AdminClient:
    no_output = {"error_cb": lambda _: None, "log_level": 0}
    return AdminClient({"bootstrap.servers": secure.bootstrap_servers} | properties | no_output)
