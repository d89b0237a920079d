"""Cluster ids of sandboxes, and the addresses of Kafka's tools. Tests with brokers are in tests/kafka."""

import base64
from pathlib import Path

import pytest

from reconciler.cli.app import run
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster, random_id
from reconciler.companions.sandbox.tools import tool_command, tool_names
from reconciler.errors import ExitCode


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
