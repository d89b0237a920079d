"""What a path in a manifest cannot do: every attack ends in a reason, and nothing is sent or opened."""

import os
import re
import socket
from pathlib import Path

import pytest

from reconciler.external import places
from reconciler.external.places import LARGEST_BYTES, Files, PositionUnreadable, open_files
from reconciler.references import READER_ROOTS
from tests.fakes.listener import Listener

SECRET = "planted-4f2c9aa-hunter2"
_FILE_SYSTEM = re.compile(r"from pyarrow import .*\bfs\b|pyarrow\.fs\b.*import|import pyarrow\.fs")


def files(text: str | Path, roots: str | Path, **environment: str) -> Files:
    return open_files(str(text), {READER_ROOTS: str(roots), **environment}, limit_s=5)


def refusal(text: str | Path, roots: str | Path, *below: str) -> str:
    with pytest.raises(PositionUnreadable) as refused:
        files(text, roots).read(*below)
    assert SECRET not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://ID:SECRET@lake/x", "user info"),
        ("s3://lake@HOST/x", "user info"),
        ("s3://lake/x?endpoint_override=HOST&scheme=http", "a query"),
        ("s3://lake/x#HOST", "a fragment"),
        ("s3://HOST/x", "a port"),
        ("http://HOST/x", "unknown scheme"),
        ("s3a://lake/x", "unknown scheme"),
        ("S3://lake/x", "unknown scheme"),
        ("hdfs://lake/x", "unknown scheme"),
        ("s3:///x", "no bucket"),
        ("abfss://lake@account.dfs.core.windows.net/x", "user info"),
        ("file://lake/x", "has no host"),
        ("lake/x", "not a place"),
        ("", "not a place"),
        ("s3://lake/x/../y", "`..`"),
        ("s3://lake/x//y", "empty name"),
        ("s3://lake/./x", "`.`"),
        ("s3://lake/x\\y", "backslash"),
        ("s3://lake/x\n", "unprintable"),
        ("s3://lake/\u202ex", "unprintable"),
        ("s3://other/x", "below no root"),
        ("s3://lake2/x", "below no root"),
        ("gs://lake/x", "below no root"),
        ("/lake/x", "below no root"),
    ],
)
def test_a_uri_cannot_choose_its_host(
    uri: str, reason: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User info, ports, options, other schemes and other buckets are refused before anything is sent.

    `s3://ID:SECRET@bucket/x?endpoint_override=HOST` made the client send a signed request to HOST.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert reason in refusal(uri.replace("HOST", listener.address), "s3://lake")
    assert (listener.connections, listener.received) == (0, b"")


def test_the_machine_names_the_endpoint(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place below a root is read from the endpoint of the environment: the listener of the attacks hears it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    store = files("s3://lake/x", "s3://lake", AWS_ENDPOINT_URL=f"http://{listener.address}")
    with pytest.raises(PositionUnreadable) as failure:
        store.names("commits")
    assert SECRET not in str(failure.value)
    assert listener.received.startswith(b"GET /lake?")


@pytest.mark.parametrize("roots", ["", " , ", "/other", "/data/checkpoint", "/data/checkpoints/a", "s3://data"])
def test_without_a_root_nothing_is_read(roots: str) -> None:
    """No root is set by default, and a root covers whole names only."""
    assert "below no root" in refusal("/data/checkpoints", roots, "metadata")


def test_a_root_that_is_not_a_place_is_named() -> None:
    """A typing error in the variable does not look like a missing root."""
    assert "'data'" in refusal("/data", "data")


def test_files_below_a_root_are_read(tmp_path: Path) -> None:
    """The control: names with their times, content, and None for what is not there. The root may be a link."""
    (tmp_path / "real" / "query" / "commits").mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    commit = tmp_path / "real" / "query" / "commits" / "7"
    commit.write_bytes(b"v1")
    os.utime(commit, ns=(0, 1_700_000_000_123_456_789))
    for text in (f"{tmp_path}/root/query", f"file://{tmp_path}/root/query/"):
        found = files(text, tmp_path / "root")
        assert found.names("commits") == {"7": 1_700_000_000_123}
        assert found.read("commits", "7") == b"v1"
        assert found.names("offsets") == {}
        assert found.read("offsets", "7") is None
    assert files(commit, tmp_path / "real").read() == b"v1"


def test_links_below_a_root_lead_nowhere(tmp_path: Path) -> None:
    """A link to a file, and a link among the folders, are refused: both lead out of the root."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text(SECRET)
    root = tmp_path / "root"
    (root / "query").mkdir(parents=True)
    (root / "link").symlink_to(outside)
    (root / "query" / "file").symlink_to(outside / "file")
    refusal(root / "query", root, "file")
    refusal(root / "link", root, "file")
    refusal(root, root, "link", "file")
    with pytest.raises(PositionUnreadable):
        files(root, root).names("link")
    assert files(root / "query", root).names() == {}


def test_pipes_devices_sockets_and_folders_are_not_files(tmp_path: Path) -> None:
    """Nothing waits for a writer, and no device is opened."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name in ("pipe", "folder", "socket"):
            assert "not a regular file" in refusal(tmp_path, tmp_path, name)
    assert "not a regular file" in refusal("/dev", "/dev", "zero")
    assert refusal("/dev/zero", "/dev", "commits")
    assert files(tmp_path, tmp_path).names() == {}


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """16 MiB are read, and a byte more is refused."""
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, LARGEST_BYTES)
    assert files(large, tmp_path).read() == bytes(LARGEST_BYTES)
    os.truncate(large, LARGEST_BYTES + 1)
    assert "too large" in refusal(large, tmp_path)


def test_only_two_rooms_open_object_stores() -> None:
    """A path of a manifest reaches `pyarrow.fs` through the rules of this file only; a command line may, too."""
    package = Path(places.__file__).parents[1]
    users = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if _FILE_SYSTEM.search(path.read_text())
    }
    assert {name for name in users if not name.startswith("companions/sources/")} == {"external/places.py"}
