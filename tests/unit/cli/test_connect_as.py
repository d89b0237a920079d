"""A pull request changes where CI connects, and nothing hears of it."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.cli.app import run
from reconciler.errors import ExitCode
from reconciler.journal.file import JournalFile
from reconciler.manifest import files
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine

CLUSTER = """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {{name: {name}}}
spec:
  clusterId: id-of-{name}-0000000000
  bootstrapServers: [{servers}]
  client: {{{client}}}
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {{name: all, cluster: {name}}}
spec: {{topics: ["*"]}}
"""
SECRET = "security.protocol: SASL_SSL, sasl.mechanism: {}, sasl.username: ci, sasl.password: '${{env:KAFKA_PASSWORD}}'"


@contextmanager
def listener() -> Iterator[tuple[str, socket.socket]]:
    """A server that accepts without an answer; a connection waits in its queue."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield f"127.0.0.1:{server.getsockname()[1]}", server


def hears(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def write(folder: Path, *, name: str = "prod", servers: str, client: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(CLUSTER.format(name=name, servers=servers, client=client), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "planted-4f2c9aa-hunter2")


def test_the_servers_of_a_pull_request_hear_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With SASL/PLAIN they once got the password in clear text. The trusted servers are asked."""
    with listener() as (trusted_address, trusted), listener() as (evil_address, evil):
        base = write(tmp_path / "base", servers=trusted_address)
        proposed = write(tmp_path / "proposed", servers=evil_address, client=SECRET.format("PLAIN"))
        arguments = ["plan", str(proposed), "--timeout", "1", "--connect-as", str(base)]
        assert run(arguments) == ExitCode.ERROR
        assert (hears(trusted), hears(evil)) == (True, False)
    shown = capsys.readouterr()
    assert trusted_address in shown.err
    assert "planted" not in shown.out + shown.err


def test_without_trusted_manifests_the_own_servers_are_asked(tmp_path: Path) -> None:
    """The listener would notice: the test above can fail."""
    with listener() as (address, server):
        assert run(["plan", str(write(tmp_path, servers=address)), "--timeout", "1"]) == ExitCode.ERROR
        assert hears(server)


def test_the_environment_names_trusted_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener() as (trusted_address, trusted), listener() as (evil_address, evil):
        monkeypatch.setenv("RECONCILER_CONNECTION", str(write(tmp_path / "base", servers=trusted_address)))
        assert (
            run(["plan", str(write(tmp_path / "proposed", servers=evil_address)), "--timeout", "1"]) == ExitCode.ERROR
        )
        assert (hears(trusted), hears(evil)) == (True, False)


def test_nothing_connects_to_a_cluster_that_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new Cluster of a pull request has no trusted connection."""
    with listener() as (evil_address, evil):
        base = write(tmp_path / "base", servers="127.0.0.1:1")
        proposed = write(tmp_path / "proposed", name="new", servers=evil_address)
        for more in ([], ["--cluster", "new"]):
            assert run(["plan", str(proposed), "--connect-as", str(base), *more]) == ExitCode.REFUSED
            assert "Cluster/new" in capsys.readouterr().err
        assert not hears(evil)


def test_a_new_cluster_without_policies_needs_a_waiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was refused for ever: merge it without policies first, said the error of that very change."""
    with listener() as (address, server):
        base = write(tmp_path / "base", servers="127.0.0.1:1")
        proposed = write(tmp_path / "proposed", name="new", servers=address)
        manifest = proposed / "new.yaml"
        manifest.write_text(manifest.read_text().partition("---")[0])
        arguments = ["plan", str(proposed), "--connect-as", str(base)]
        assert run(arguments) == ExitCode.REFUSED
        refusal = capsys.readouterr().err
        assert "connects elsewhere after the merge (bootstrapServers, clusterId, journal): 3, the limit is 0" in refusal
        expires = datetime.now(UTC) + timedelta(days=1)
        (proposed / "waiver.yaml").write_text(
            "apiVersion: reconciler/v1\nkind: Waiver\nmetadata: {name: first, reason: a new cluster}\n"
            f"spec: {{policy: Cluster/new, limit: connection, value: 3, expires: {expires:%Y-%m-%dT%H:%M:%SZ}}}\n"
        )
        assert run(arguments) == ExitCode.DONE
        assert "connects elsewhere after the merge" in capsys.readouterr().err
        assert not hears(server)


@pytest.mark.parametrize("command", ["doctor", "journal", "explain LeaderPolicy/all", "converge", "drift"])
def test_no_command_connects_elsewhere_than_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Only `plan` had the variable: a step of CI beside it connected as the pull request said."""
    with listener() as (trusted_address, trusted), listener() as (evil_address, evil):
        monkeypatch.setenv("RECONCILER_CONNECTION", str(write(tmp_path / "base", servers=trusted_address)))
        proposed = write(tmp_path / "proposed", servers=evil_address)
        code = run([*command.split(), str(proposed), "--timeout", "1"])
        assert code == (ExitCode.ERROR if command == "drift" else ExitCode.REFUSED)
        shown = capsys.readouterr()
        assert "connects elsewhere (bootstrapServers)" in shown.out + shown.err
        assert (hears(trusted), hears(evil)) == (False, False)


def test_the_journal_is_that_of_the_trusted_manifest(tmp_path: Path) -> None:
    """A pull request could bring a journal file, or a link to a secret in its place."""
    base, proposed = (files.load([write(tmp_path / name, servers="a:1")], now_ms=0) for name in ("base", "proposed"))
    connected = proposed.for_cluster().connect_as(base)
    store = Run(manifests=connected, engine=Engine(), timeout_s=1, progress=print).journal.store
    assert isinstance(store, JournalFile)
    assert store.path == tmp_path / "base" / ".reconciler" / "prod.jsonl"
