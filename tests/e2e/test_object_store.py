"""ExternalReader and `scan` against a stand-in for S3, moto: what it holds, and what it refuses or breaks off.

The endpoint comes from the environment. A relay before moto breaks answers off, and knows who asked.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from reconciler.companions.sandbox.ports import listens
from tests.e2e.test_external_readers import CLAMP, reader
from tests.e2e.workspace import Workspace, blocks, floor, targets
from tests.repeats import LONG
from tests.spark.servers import free_port, process, wait_for

pytestmark = pytest.mark.skipif(not LONG, reason="it downloads moto: `make test-long` runs it")

LOCK = Path(__file__).parent / "store" / "requirements.lock"
LISTING = "list-type=2"
Rule = Callable[[str, str], bool]


class Store(ThreadingHTTPServer):
    """A relay on loopback before moto. `requests`: what came; `breaks`: whose answers end in the middle.

    A listing has two names in each page, as it has 1,000 with S3.
    """

    def __init__(self, moto: int) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.moto = moto
        self.requests: list[tuple[str, str]] = []
        self.breaks: Rule = lambda _method, _path: False

    @property
    def environment(self) -> dict[str, str]:
        """What a machine says of its store; RECONCILER_READER_ROOTS has one bucket."""
        keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
        address = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}", "AWS_REGION": "us-east-1"}
        return {**keys, **address, "RECONCILER_READER_ROOTS": "s3://lake, s3://gone"}

    def put(self, path: str, content: str) -> None:
        """Put an object without the relay."""
        with self.files().open_output_stream(path) as stream:
            stream.write(content.encode())

    def refuse(self, *, everyone: bool) -> None:
        """Let moto answer 403 to everyone, or to none."""
        self.send("POST", "moto-api/reset-auth", b"0" if everyone else b"inf")

    def send(self, method: str, path: str, content: bytes) -> None:
        address = f"http://127.0.0.1:{self.moto}/{path}"
        headers = {"Content-Type": "application/octet-stream"}
        urllib.request.urlopen(urllib.request.Request(address, content, headers, method=method), timeout=30).close()

    def object_keys(self) -> list[str]:
        """Return the keys of the bucket."""
        names = fs.FileSelector("lake", recursive=True)
        return [info.path for info in self.files().get_file_info(names) if info.is_file]

    def files(self) -> fs.S3FileSystem:
        """Return the store without the relay."""
        keys = {"access_key": "test", "secret_key": "test", "region": "us-east-1", "scheme": "http"}
        return fs.S3FileSystem(endpoint_override=f"127.0.0.1:{self.moto}", **keys)


class Relay(BaseHTTPRequestHandler):
    """Passes a request on, and the answer back: whole, or half of it."""

    server: Store
    protocol_version = "HTTP/1.1"

    def content(self) -> bytes:
        """Read the content of the request, which may come in chunks."""
        content, length = b"", int(self.headers.get("Content-Length", 0))
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(length)
        del self.headers["Transfer-Encoding"]
        while length := int(self.rfile.readline(), 16):
            content += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def relay(self) -> None:
        self.server.requests.append((self.command, self.path))
        moto = HTTPConnection("127.0.0.1", self.server.moto, timeout=30)
        moto.request(self.command, self.path.replace("max-keys=1000", "max-keys=2"), self.content(), dict(self.headers))
        answer = moto.getresponse()
        body = answer.read()
        moto.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        is_broken = self.server.breaks(self.command, self.path)
        self.wfile.write(body[: len(body) // 2] if is_broken else body)
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: the test has the requests."""


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of moto, in an environment of its own from a lock file."""
    folder = tmp_path_factory.mktemp("moto")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    if downloaded := os.environ.get("RECONCILER_TEST_WHEELHOUSE"):
        options += ["--no-index", "--find-links", downloaded]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
    subprocess.run([*pip, "--requirement", str(LOCK)], check=True, timeout=900)
    port, log = free_port(), folder / "moto.log"
    with process(log, str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)) as server:
        wait_for(server, log, lambda: listens(port), "moto")
        yield port


@pytest.fixture
def store(moto: int) -> Iterator[Store]:
    """The store with an empty bucket `lake`."""
    with Store(moto) as store:
        store.send("POST", "moto-api/reset", b"")
        store.send("PUT", "lake", b"")
        Thread(target=store.serve_forever, daemon=True).start()
        yield store
        store.refuse(everyone=False)
        store.shutdown()


def put_checkpoint(store: Store, topic: str, *offsets: int) -> None:
    """Put a checkpoint whose newest batch is not committed."""
    store.put("lake/query/metadata", '{"id":"x"}')
    for number, offset in enumerate(offsets):
        store.put(f"lake/query/offsets/{number}", "v1\n\n" + json.dumps({topic: {"0": offset}}))
        if number < len(offsets) - 1:
            store.put(f"lake/query/commits/{number}", "v1\n{}")


def test_a_checkpoint_in_s3_holds_a_floor_from_plan_to_request(store: Store, space: Workspace, topic: str) -> None:
    """Its newest commit counts, also on the third page of a listing, and again directly before the request."""
    put_checkpoint(store, topic, 5, 10, 20, 30, 40, 95)
    query = reader(topic, "sparkCheckpoint: s3://lake/query")
    assert targets(space.plan(floor(topic, CLAMP), query, **store.environment)) == [40]
    pages = [path for _method, path in store.requests if LISTING in path and "commits" in path]
    assert len(pages) == 3, "the listing had one page only"

    store.put("lake/query/offsets/4", "v1\n\n" + json.dumps({topic: {"0": 25}}))
    space.apply(**store.environment)
    assert space.log_start(topic) == 25
    assert "it is at 25 on" in space.run("suggest", "manifests", **store.environment)


def break_second_page(store: Store) -> None:
    store.breaks = lambda _method, path: "continuation-token" in path


def break_objects(store: Store) -> None:
    store.breaks = lambda method, path: method == "GET" and LISTING not in path


@pytest.mark.parametrize(
    ("place", "harm", "reason"),
    [
        ("s3://gone/query", lambda _store: None, "it has no file metadata"),
        ("s3://gone/positions.csv", lambda _store: None, "there is no such file"),
        ("s3://lake/query", lambda store: store.refuse(everyone=True), "the object store answers "),
        ("s3://lake/positions.csv", lambda store: store.refuse(everyone=True), "the object store answers "),
        ("s3://lake/query", break_second_page, "commits: "),
        ("s3://lake/query", break_objects, "metadata: "),
        ("s3://other/query", lambda _store: None, "below no root"),
        ("s3://lakes/query", lambda _store: None, "below no root"),
    ],
)
def test_a_store_that_does_not_answer_blocks_the_topics(
    place: str, harm: Callable[[Store], None], reason: str, store: Store, space: Workspace, topic: str
) -> None:
    """No bucket, no right, answers that end in the middle, and no root: each is unknown, and none is empty.

    Without a root nothing is sent. Half a listing of commits would say an older position, and a table
    that is not there would say none.
    """
    put_checkpoint(store, topic, 5, 10, 20, 30, 40, 95)
    kind = "table" if place.endswith("csv") else "sparkCheckpoint"
    harm(store)
    planned = space.plan(floor(topic, CLAMP), reader(topic, f"{kind}: {place}"), code=1, **store.environment)
    (block,) = blocks(planned).values()
    assert (block["code"], planned["actions"]) == ("B218", [])
    assert reason in block["reason"]
    assert bool(store.requests) == ("root" not in reason)


def test_scans_in_s3(store: Store, space: Workspace, topic: str) -> None:
    """One reading, which a second one replaces, and a history of two; tables of each are read back from S3."""
    space.commit(f"reader-{topic}", topic)
    words = ("scan", "--bootstrap-server", space.servers)
    for _ in range(2):
        for option, place in (("--out", "s3://lake/facts"), ("--append", "s3://lake/history")):
            output = space.run(*words, option, place, **store.environment)
            assert f"{place}/partitions/" in output
    for place, readings in ("facts", 1), ("history", 2):
        tables = {
            name: pq.read_table(f"lake/{place}/{name}", filesystem=store.files()) for name in ("scans", "commits")
        }
        assert tables["scans"].num_rows == readings, place
        assert len([row for row in tables["commits"].to_pylist() if row["topic"] == topic]) == readings
    assert "lake/facts/run.json" in store.object_keys()


@pytest.mark.parametrize("option", ["--out", "--append"])
@pytest.mark.parametrize(
    ("bucket", "harm", "reason"),
    [
        ("gone", lambda _store: None, "NO_SUCH_BUCKET"),
        ("lake", lambda store: store.refuse(everyone=True), "the object store answers "),
        ("lake", lambda store: setattr(store, "breaks", lambda _method, path: "/topics/" in path), "the object store"),
    ],
)
def test_a_scan_that_cannot_be_written_does_not_exist(
    option: str, bucket: str, harm: Callable[[Store], None], reason: str, store: Store, space: Workspace
) -> None:
    """It ends with the store's word, without the last file, and without a folder `s3:` on this machine."""
    harm(store)
    words = ("scan", "--bootstrap-server", space.servers, option, f"s3://{bucket}/x", "--timeout", "5")
    output = space.run(*words, code=1, **store.environment)
    assert reason in output
    assert "bug" not in output
    store.refuse(everyone=False)
    assert not any("scans" in key or "run.json" in key for key in store.object_keys())
    assert list(space.folder.iterdir()) == []
