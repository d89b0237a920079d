"""The token of a Spark Connect server is in no message."""

import socket

import pytest

from reconciler.cli.app import run
from reconciler.errors import ScanFailed, UsageError
from reconciler.scan import session
from reconciler.scan.session import SparkTarget, check_reachable

TOKEN = "planted-4f2c9aa"


@pytest.mark.parametrize(
    "address",
    [
        "sc://127.0.0.1:1/;token={}",
        "sc://127.0.0.1:1;use_ssl=true;token={}",
        "sc://127.0.0.1:1/;x-header={};user_id=ci",
        "sc://ci:{}@127.0.0.1:1",
        "sc://127.0.0.1:1/token={}",
        "sc://127.0.0.1:1?token={}",
        "https://127.0.0.1:1/;token={}",
        "sc://[x/;token={}",
        "sc://127.0.0.1:99999999/;token={}",
        "sc://127.0.0.1:1/;{}",
    ],
)
def test_no_error_has_the_token(address: str) -> None:
    """Neither our errors nor those of Spark, which quote the address or its parts."""
    remote = address.format(TOKEN)
    with pytest.raises(ScanFailed) as unreachable:
        check_reachable(remote)
    assert TOKEN not in f"{unreachable.value!r} {SparkTarget(remote=remote)} {SparkTarget(remote=remote)!r}"
    assert TOKEN not in f"{SparkTarget(master=remote)} {SparkTarget(master=remote)!r}"
    session.add_references(session._secrets(remote))
    if "/token" not in address and "?token" not in address:
        assert TOKEN not in session.first_line(RuntimeError(f"invalid: {remote!r}, header {TOKEN}"))


def test_an_address_without_secrets_is_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ScanFailed, match=f"no Spark Connect server at sc://{address}: "):
        check_reachable(f"sc://{address}/;use_ssl=true;user_id=ci")
    assert str(SparkTarget(master="local[2]")) == "Spark at local[2]"


def test_a_connect_server_is_no_master(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark would quote the address, with the token, in its error."""
    monkeypatch.setenv("RECONCILER_SPARK_MASTER", f"sc://127.0.0.1:1/;token={TOKEN}")
    assert run(["plan", "manifests/examples"]) == UsageError.exit_code
    shown = capsys.readouterr()
    assert "use --spark-remote" in shown.err
    assert TOKEN not in shown.out + shown.err
