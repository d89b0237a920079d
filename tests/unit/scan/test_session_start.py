"""Abandoned session starts beside later ones, with a fake server."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.errors import ScanFailed
from reconciler.scan import session
from reconciler.scan.session import PendingSession, SessionHandle, SparkTarget, TimedCall, close

ENGINE = SparkTarget(remote="sc://server:15002")


class Server:
    """Creates sessions. The code upload of the first one waits for `upload`, and then fails."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.with_code: list[Any] = []
        self.released: list[Any] = []
        self.uploading = threading.Event()
        self.upload = threading.Event()
        self.uploaded = threading.Event()

    def connect(self, _engine: SparkTarget) -> SessionHandle:
        given = SimpleNamespace(conf={"spark.sql.session.timeZone": "UTC"})
        self.made.append(given)
        return session._register(SessionHandle(release=TimedCall(lambda: self.released.append(given)), session=given))

    def ship(self, given: Any) -> None:
        if given is not self.made[0]:
            self.with_code.append(given)
            return
        self.uploading.set()
        self.upload.wait(60)
        self.uploaded.set()
        raise RuntimeError("the upload failed")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    close()
    made = Server()
    monkeypatch.setattr(session, "_START_LIMIT_S", 30.0)
    monkeypatch.setattr(session, "_ABANDON_LIMIT_S", 0.1)
    monkeypatch.setattr(session, "_connect", made.connect)
    monkeypatch.setattr(session, "add_package", made.ship)
    monkeypatch.setattr(session, "check_reachable", lambda _address: None)
    yield made
    made.upload.set()
    close()


def eventually(done: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(100):
        if done():
            return
        waited.wait(0.05)
    raise AssertionError("never happened")


def give_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> PendingSession:
    """Start a session and give it up while its code is uploaded."""
    first = PendingSession(ENGINE)
    assert server.uploading.wait(30)
    with monkeypatch.context() as context:
        context.setattr(session, "_START_LIMIT_S", 0.1)
        with pytest.raises(ScanFailed, match="no Spark session within"):
            first.result()
    return first


def test_a_session_without_our_code_is_not_reused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upload of the first start hangs; the second start does not get its session, in which no
    task could run.
    """
    give_up(server, monkeypatch)
    second = PendingSession(ENGINE).result()
    assert second is server.made[1]
    assert server.with_code == [second]
    assert server.released == [server.made[0]]
    assert PendingSession(ENGINE).result() is second, "and this one is warm"


def test_a_start_that_fails_late_closes_no_other_session(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    first = give_up(server, monkeypatch)
    second = PendingSession(ENGINE).result()
    server.upload.set()
    eventually(first._future.done)
    assert server.uploaded.is_set()
    assert server.released == [server.made[0]]
    assert PendingSession(ENGINE).result() is second
