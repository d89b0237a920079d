"""The rendered configuration of the brokers."""

from pathlib import Path

import pytest

from reconciler.companions.sandbox.config import LOG4J, LOG4J2, NodeAddress, broker_command, render_properties


def parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def nodes(count: int) -> list[NodeAddress]:
    return [
        NodeAddress(number, 20_000 + number, 21_000 + number if number <= 3 else None) for number in range(1, count + 1)
    ]


def test_every_listener_is_on_loopback() -> None:
    """A sandbox has no passwords, so other machines must not reach it."""
    for node in nodes(4):
        properties = parsed(render_properties(node, nodes(4), Path("data"), overrides={}))
        for name in ("listeners", "advertised.listeners"):
            for listener in properties[name].split(","):
                assert listener.split("://")[1].startswith("127.0.0.1:")


def test_three_nodes_are_controllers_and_further_ones_are_not() -> None:
    """The controller can move between three nodes; a fourth node is a broker only."""
    properties = [parsed(render_properties(node, nodes(4), Path("data"), overrides={})) for node in nodes(4)]
    assert [node["process.roles"] for node in properties] == ["broker,controller"] * 3 + ["broker"]
    assert {node["controller.quorum.voters"] for node in properties} == {
        "1@127.0.0.1:21001,2@127.0.0.1:21002,3@127.0.0.1:21003"
    }
    assert "CONTROLLER" not in properties[3]["listeners"]


@pytest.mark.parametrize(("count", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_fit_the_number_of_nodes(count: int, replicas: str) -> None:
    """If the offsets topic needs more replicas than there are brokers, it is never created."""
    properties = parsed(render_properties(nodes(count)[0], nodes(count), Path("data"), overrides={}))
    for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{name}.replication.factor"] == replicas


def test_kafka_repairs_nothing_before_the_reconciler() -> None:
    """Kafka would repair leaders after 300 s and delete old records after 7 days, during a test."""
    properties = parsed(render_properties(nodes(1)[0], nodes(1), Path("data"), overrides={}))
    assert properties["auto.leader.rebalance.enable"] == "false"
    assert properties["log.retention.ms"] == "-1"


def test_overrides_win_and_do_not_repeat_a_key() -> None:
    """The meaning of a repeated key depends on the broker's parser."""
    text = render_properties(nodes(1)[0], nodes(1), Path("data"), overrides={"offsets.topic.num.partitions": "50"})
    assert text.count("offsets.topic.num.partitions=") == 1
    assert parsed(text)["offsets.topic.num.partitions"] == "50"


def test_the_command_names_heap_logging_and_configuration() -> None:
    """Each version of log4j gets its file; without it a broker has no log."""
    command = broker_command(Path("java"), Path("/jars"), Path("/dir"), Path("/dir/server.properties"), heap_mib=384)
    assert "-Xmx384m" in command
    assert "-Dlog4j2.configurationFile=/dir/log4j2.properties" in command
    assert "-Dlog4j.configuration=file:///dir/log4j.properties" in command
    assert command[-4:] == ("-cp", "/jars/*", "kafka.Kafka", "/dir/server.properties")


def test_logs_go_to_standard_output() -> None:
    """The supervisor sends standard output to the broker's log, with the messages of the JVM."""
    assert parsed(LOG4J2)["appender.console.type"] == "Console"
    assert parsed(LOG4J)["log4j.appender.console"] == "org.apache.log4j.ConsoleAppender"
