"""A plan is written whole or not at all, readable by its owner, and only if it can be read back."""

import dataclasses
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ReconcilerError
from reconciler.model.names import Address
from reconciler.model.plan import LimitVerdict, Satisfied
from reconciler.plan import document
from tests.strategies.examples import plan, purge, removal, satisfied


def test_the_file_is_private_and_alone(tmp_path: Path) -> None:
    """Mode 0600, folders made, nothing left beside it."""
    path = tmp_path / "deep" / "plan.json"
    document.write(plan(purge()), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert document.read(path) == plan(purge())


def test_a_write_that_fails_leaves_the_older_plan(tmp_path: Path) -> None:
    """Nobody finds half a plan where a whole one was."""
    path = tmp_path / "plan.json"
    document.write(plan(purge()), path)
    broken = dataclasses.replace(
        plan(), limits=(LimitVerdict(id="x", limit=float("nan"), observed=1, passed=True, message=""),)
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        document.write(broken, path)
    assert document.read(path) == plan(purge())
    assert list(tmp_path.iterdir()) == [path]


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    """One line with the path, the reason and what to do; no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ReconcilerError, match=r"cannot write the plan to .*file/plan\.json: .*choose another --out"):
        document.write(plan(), tmp_path / "file" / "plan.json")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The plan is written where the link points."""
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    document.write(plan(purge()), link)
    assert link.is_symlink()
    assert document.read(real) == plan(purge())


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """`--out /dev/stdout` or a named pipe must not be renamed over."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    document.write(plan(purge()), pipe)
    reader.join(timeout=30)
    assert found == [document.dumps(plan(purge()))]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decisions": (purge(partition=4), purge(partition=3))}, "not in address order"),
        ({"decisions": (purge(), purge())}, "not in address order"),
        ({"decisions": (Satisfied(Address("RetentionFloor", "a", "topic[3]")),)}, "means another subject"),
        ({"decisions": (Satisfied(Address("RetentionFloor", "a/b", "topic")),)}, "means another subject"),
        ({"observed_at_ms": 10**18, "expires_at_ms": 10**18}, "years 1 to 9999"),
        ({"expires_at_ms": 0}, "before its scan"),
    ],
)
def test_a_plan_that_no_file_can_hold_is_refused(changes: dict[str, Any], message: str) -> None:
    """Better no file than one that reads as something else."""
    with pytest.raises(ValueError, match=message):
        document.dumps(dataclasses.replace(plan(), **changes))


def test_halves_of_a_surrogate_pair_are_refused_and_one_half_is_kept() -> None:
    """Two code units side by side would come back as one character: another group."""
    with pytest.raises(ValueError, match="surrogate"):
        document.dumps(plan(removal("a\ud83d\ude00")))
    text = document.dumps(plan(removal("a\udc80")))
    assert json.loads(text)["actions"][0]["request"]["group"] == "a\udc80"


def test_what_is_in_sync_takes_a_line_per_topic() -> None:
    """In sync is the common case: 5,000 partitions of a topic are one short line."""
    many = plan(*[satisfied(f"LeaderPolicy/all/x[{n}]") for n in range(5000) if n != 7], satisfied("GroupRemoval/a/b"))
    rows = json.loads(document.dumps(many))["satisfied"]
    assert rows == [{"address": "GroupRemoval/a/b"}, {"address": "LeaderPolicy/all/x", "partitions": "0-6,8-4999"}]
