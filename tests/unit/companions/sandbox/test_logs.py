"""The part of a broker's log that an error message shows."""

from pathlib import Path

from reconciler.companions.sandbox.logs import tail


def test_the_cause_is_shown_though_it_stands_far_above_the_end(tmp_path: Path) -> None:
    """A failing broker writes the cause first, then a hundred lines about its shutdown.

    The message once showed only the last lines, without the cause.
    """
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
