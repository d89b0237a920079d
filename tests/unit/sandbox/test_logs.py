"""What an error message shows of a broker's log."""

from pathlib import Path

from reconciler.sandbox.logs import tail


def test_the_cause_is_shown_though_it_stands_far_above_the_end(tmp_path: Path) -> None:
    """A broker that dies says why first, then for a hundred lines how it shuts down; the last lines alone said nothing."""
    log = tmp_path / "broker-1.log"
    shutdown = [f"[now] INFO shutting down step {number}" for number in range(100)]
    cause = ["[now] ERROR Fatal error during broker startup", "Caused by: java.net.BindException: in use"]
    log.write_text("\n".join([*cause, "\tat some.Frame(Frame.java:1)", "\t... 9 more", *shutdown]))
    shown = tail(log)
    assert str(log) in shown
    assert "Fatal error during broker startup" in shown
    assert "BindException" in shown
    assert "step 99" in shown
    assert "Frame.java" not in shown
    assert "more" not in shown


def test_a_broker_that_wrote_nothing_is_said_to_have_written_nothing(tmp_path: Path) -> None:
    """An error about an error would hide the first one."""
    assert tail(tmp_path / "none.log").endswith(f"{tmp_path / 'none.log'}")
