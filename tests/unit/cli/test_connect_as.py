"""A pull request changes where CI connects, and nothing hears of it."""

from contextlib import AbstractContextManager, closing
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reconciler.errors import ExitCode
from reconciler.journal.file import JournalFile
from reconciler.manifest import files
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests.build import cluster_manifest, policy, waiver
from tests.command import reconciler
from tests.fakes.listener import Server

SECRET = "security.protocol: SASL_SSL, sasl.mechanism: {}, sasl.username: ci, sasl.password: '${{env:KAFKA_PASSWORD}}'"


def listener() -> AbstractContextManager[Server]:
    """A server that ends each connection without an answer."""
    return closing(Server(lambda _connection: None))


def write(folder: Path, *, name: str = "prod", servers: str, client: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    text = cluster_manifest(servers, limits="", cluster_id=f"id-of-{name}-0000000000", name=name)
    leaders = policy("LeaderPolicy", f"all, cluster: {name}", 'topics: ["*"]')
    (folder / f"{name}.yaml").write_text(f"{text}  client: {{{client}}}\n---\n{leaders}", encoding="utf-8")
    return folder


def plan(folder: Path, proposed: Path, *words: str, **variables: str) -> CompletedProcess[str]:
    password = {"KAFKA_PASSWORD": "planted-4f2c9aa-hunter2"}
    return reconciler(folder, "plan", str(proposed), "--timeout", "1", *words, **password, **variables)


def test_the_servers_of_a_pull_request_hear_nothing(tmp_path: Path) -> None:
    """With SASL/PLAIN they once got the password in clear text. The trusted servers are asked.

    Without trusted manifests the own servers are asked: the listener would notice.
    """
    with listener() as trusted, listener() as evil:
        base = write(tmp_path / "base", servers=trusted.address)
        proposed = write(tmp_path / "proposed", servers=evil.address, client=SECRET.format("PLAIN"))
        by_option = plan(tmp_path, proposed, "--connect-as", str(base))
        assert by_option.returncode == ExitCode.ERROR
        assert (trusted.connections > 0, evil.connections) == (True, 0)
        assert trusted.address in by_option.stderr
        assert "planted" not in by_option.stdout + by_option.stderr
        before = trusted.connections
        by_variable = plan(tmp_path, proposed, RECONCILER_CONNECTION=str(base))
        assert by_variable.returncode == ExitCode.ERROR
        assert (trusted.connections > before, evil.connections) == (True, 0)
        assert plan(tmp_path, write(tmp_path / "own", servers=evil.address)).returncode == ExitCode.ERROR
        assert evil.connections


def test_nothing_connects_to_a_cluster_that_is_not_trusted(tmp_path: Path) -> None:
    """A new Cluster of a pull request has no trusted connection."""
    with listener() as evil:
        base = write(tmp_path / "base", servers="127.0.0.1:1")
        proposed = write(tmp_path / "proposed", name="new", servers=evil.address)
        for more in ([], ["--cluster", "new"]):
            refused = plan(tmp_path, proposed, "--connect-as", str(base), *more)
            assert (refused.returncode, "Cluster/new" in refused.stderr) == (ExitCode.REFUSED, True)
        assert not evil.connections


def test_a_new_cluster_without_policies_needs_a_waiver(tmp_path: Path) -> None:
    """It was refused for ever: merge it without policies first, said the error of that very change."""
    with listener() as server:
        base = write(tmp_path / "base", servers="127.0.0.1:1")
        proposed = write(tmp_path / "proposed", name="new", servers=server.address)
        manifest = proposed / "new.yaml"
        manifest.write_text(manifest.read_text().partition("---")[0])
        refused = plan(tmp_path, proposed, "--connect-as", str(base))
        assert refused.returncode == ExitCode.REFUSED
        reason = "connects elsewhere after the merge (bootstrapServers, clusterId, journal): 3, the limit is 0"
        assert reason in refused.stderr
        first = waiver("Cluster/new", "connection", 3, name="first, reason: a new cluster", days=1)
        (proposed / "waiver.yaml").write_text(first)
        allowed = plan(tmp_path, proposed, "--connect-as", str(base))
        assert (allowed.returncode, "connects elsewhere after the merge" in allowed.stderr) == (ExitCode.DONE, True)
        assert not server.connections


@pytest.mark.parametrize("command", ["doctor", "journal", "explain LeaderPolicy/all", "converge", "drift"])
def test_no_command_connects_elsewhere_than_the_environment_says(tmp_path: Path, command: str) -> None:
    """Only `plan` had the variable: a step of CI beside it connected as the pull request said."""
    with listener() as trusted, listener() as evil:
        write(tmp_path / "base", servers=trusted.address)
        write(tmp_path / "proposed", servers=evil.address)
        words = (*command.split(), "proposed", "--timeout", "1")
        done = reconciler(tmp_path, *words, RECONCILER_CONNECTION=str(tmp_path / "base"))
        assert done.returncode == (ExitCode.ERROR if command == "drift" else ExitCode.REFUSED)
        assert "connects elsewhere (bootstrapServers)" in done.stdout + done.stderr
        assert (trusted.connections, evil.connections) == (0, 0)


def test_the_journal_is_that_of_the_trusted_manifest(tmp_path: Path) -> None:
    """A pull request could bring a journal file, or a link to a secret in its place."""
    base, proposed = (files.load([write(tmp_path / name, servers="a:1")], now_ms=0) for name in ("base", "proposed"))
    connected = proposed.for_cluster().connect_as(base)
    store = Run(manifests=connected, engine=Engine(), timeout_s=1, progress=print).journal.store
    assert isinstance(store, JournalFile)
    assert store.path == tmp_path / "base" / ".reconciler" / "prod.jsonl"
