"""Parts of a sandbox: ids, configuration, ports, logs, tools, Java. Tests with brokers are in tests/kafka."""

import base64
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.cli.app import run
from reconciler.companions.sandbox import client, command
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from reconciler.companions.sandbox.config import LOG4J, LOG4J2, NodeAddress, broker_command, render_properties
from reconciler.companions.sandbox.java import find_java
from reconciler.companions.sandbox.logs import tail
from reconciler.companions.sandbox.ports import free_addresses, listens
from reconciler.companions.sandbox.security import KeyStore, SecureAccess, Security
from reconciler.companions.sandbox.storage import random_id
from reconciler.companions.sandbox.tools import tool_command, tool_names
from reconciler.errors import ExitCode, SandboxError
from reconciler.scan.java import parse_version
from tests.build import program
from tests.golden.wording import mentions


def test_each_id_is_another_one_of_16_bytes_and_no_option() -> None:
    """Kafka writes an id in base64url without padding. A leading dash would make it an option."""
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(base64.urlsafe_b64decode(text + "==")) for text in ids} == {16}
    assert not [text for text in ids if text.startswith("-")]


@pytest.mark.parametrize(
    "cluster_id", ["short", "-2FuZGJveC1zYW5kYm94MQ", f"{CLUSTER_ID}==", "c2FuZGJveC1zYW5kYm94M/", "", "x" * 22]
)
def test_an_invalid_cluster_id_is_refused_before_anything_starts(
    cluster_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error shows a valid one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run(["sandbox", "up", "--nodes", "1", f"--cluster-id={cluster_id}"]) == ExitCode.USAGE
    assert f"{cluster_id!r} is not a cluster id: expected 16 bytes in base64url" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(("variable", "words"), [("XDG_STATE_HOME", "sandbox up"), ("XDG_CACHE_HOME", "demo")])
def test_a_home_that_takes_no_folder_is_named(
    variable: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service's user may own no home, and the error called that a bug."""
    java = fake_java(tmp_path / "java" / "bin", 'openjdk version "17.0.1"')
    taken = tmp_path / "file"
    taken.touch()
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    monkeypatch.setenv(variable, str(taken))
    assert run(words.split()) == ExitCode.ERROR
    assert mentions(capsys.readouterr().err, str(taken), "Not a directory", variable)


def test_an_interrupted_demo_says_what_became_of_its_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its apply had removed a group, and the last line said that no group was changed."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    for name in ("find_java", "start", "stop"):
        monkeypatch.setattr(command, name, lambda *_words, **_options: None)
    monkeypatch.setattr(command, "_run_steps", interrupt)
    assert run(["demo"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err.endswith(
        "error: interrupted: the demo's brokers are stopped, their data is removed\n"
    )


def test_an_interrupt_that_the_client_loses_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a callback of the client was a bug of this program, in three of eleven tries with `demo`."""

    def lose(*_arguments: object) -> None:
        raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")

    monkeypatch.setattr(client, "Producer", lambda *_arguments, **_options: SimpleNamespace(flush=lose))
    with pytest.raises(KeyboardInterrupt):
        client.produce("127.0.0.1:1", "orders", {})


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    """The output of a failing test must not contain a password."""
    users = {"reader": "r3ader"}
    for holder in (Security(users), SecureAccess("b:1", None, users), KeyStore(tmp_path, "r3ader", tmp_path)):
        assert "r3ader" not in repr(holder)


def version(folder: Path, text: str) -> SandboxCluster:
    """A cluster with the jars of a Kafka version."""
    (folder / f"kafka-clients-{text}.jar").touch()
    return SandboxCluster("x", "127.0.0.1:1,127.0.0.1:2", "id", folder, folder, ((1, 1),), folder)


@pytest.mark.parametrize("option", ["--bootstrap-server=a:1", "--bootstrap-server a:1", "--bootstrap-controller a:1"])
def test_a_tool_gets_the_address_unless_its_words_name_one(option: str, tmp_path: Path) -> None:
    """Two addresses would be an error of the tool."""
    cluster = version(tmp_path, "4.3.1")
    name = "org.apache.kafka.tools.TopicCommand"
    words = [name, "--bootstrap-server", "127.0.0.1:1,127.0.0.1:2", "--list"]
    assert tool_command(cluster, "kafka-topics", "--list")[-4:] == words
    command = tool_command(cluster, "kafka-topics", *option.split(), "--list")
    assert command[command.index(name) :] == [name, *option.split(), "--list"]


def test_tools_that_a_version_lacks_are_not_listed(tmp_path: Path) -> None:
    """Kafka 3.9 has no share groups."""
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    missing = {*tool_names(version(tmp_path / "new", "4.3.1"))} - {*tool_names(version(tmp_path / "old", "3.9.1"))}
    assert missing == {"kafka-groups", "kafka-share-groups", "kafka-streams-groups"}


# --- the rendered configuration of the brokers


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


# --- free ports


def test_every_node_has_ports_of_its_own_and_three_have_a_controller() -> None:
    """Two listeners with the same port would prevent the start of a broker."""
    addresses = free_addresses(5)
    assert [address.id for address in addresses] == [1, 2, 3, 4, 5]
    assert [address.controller_port is not None for address in addresses] == [True, True, True, False, False]
    ports = [port for address in addresses for port in (address.port, address.controller_port) if port is not None]
    assert len(set(ports)) == len(ports) == 8


def test_listening_is_seen() -> None:
    """`listens` is true exactly while a process accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listens(port)
    assert not listens(port)


# --- the part of a broker's log that an error message shows


def test_the_cause_is_shown_though_it_stands_far_above_the_end(tmp_path: Path) -> None:
    """A hundred lines about the shutdown follow it; once only the last ones were shown."""
    log = tmp_path / "broker-1.log"
    shutdown = [f"[now] INFO shutting down step {number}" for number in range(100)]
    cause = ["[now] ERROR Fatal error during broker startup", "Caused by: java.net.BindException: in use"]
    log.write_text("\n".join([*cause, "\tat some.Frame(Frame.java:1)", "\t... 9 more", *shutdown]))
    text = tail(log)
    assert str(log) in text
    assert "Fatal error during broker startup" in text
    assert "BindException" in text
    assert "step 99" in text
    assert "Frame.java" not in text
    assert "more" not in text


def test_a_broker_that_wrote_nothing_is_said_to_have_written_nothing(tmp_path: Path) -> None:
    """An error while reading the log would hide the first error."""
    assert tail(tmp_path / "none.log").endswith(f"{tmp_path / 'none.log'}")


# --- the choice of a Java


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no such thing", None),
    ],
)
def test_versions_are_read_in_both_ways_of_counting(output: str, major: int | None) -> None:
    """Java 8 calls itself 1.8."""
    assert parse_version(output) == major


def test_no_java_is_one_sentence_that_says_how_to_get_it(tmp_path: Path) -> None:
    """A user without Java needs a command, not a traceback."""
    with pytest.raises(SandboxError) as error:
        find_java({"PATH": str(tmp_path)})
    assert mentions(str(error.value), "Java 17")
    assert "install" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_old_java_is_refused_with_its_version(tmp_path: Path) -> None:
    """An old Java would fail later, with an UnsupportedClassVersionError in a log."""
    java = fake_java(tmp_path / "bin", 'openjdk version "11.0.2" 2019-01-15')
    with pytest.raises(SandboxError, match=rf"{re.escape(str(java))}\b.*\b11\b"):
        find_java({"PATH": str(java.parent)})


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """Users set JAVA_HOME to choose a Java. It often names a JDK that was removed: PATH counts then."""
    on_path = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    at_home = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.1"')
    for home, expected in (("home", at_home), ("gone", on_path)):
        assert find_java({"PATH": str(on_path.parent), "JAVA_HOME": str(tmp_path / home)}) == expected


def fake_java(folder: Path, output: str) -> Path:
    return program(folder / "java", f"echo '{output}' >&2")
