"""Journal entries as CloudEvents, with what was observed, and their author."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import JournalUnavailable
from reconciler.journal.cloud_events import dump_event
from reconciler.journal.entry import JournalEntry, create, dump, parse
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal, whoami
from reconciler.journal.release import Release, ReviewedTree
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import GroupObservation, GroupState, GroupType, ObservedCommit
from tests.fakes.runs import last_purges
from tests.strategies.examples import purge, removal
from tests.strategies.facts import HOUR

RUN = {"run_id": "run-1", "plan_digest": "sha256:plan", "at_ms": 1_800_000_000_123, "who": "ann"}
RELEASE = Release(at_ms=1, released_at_ms=1, manifests="sha256:" + "0" * 64, run_id="run-1")
ENTRIES = {
    "action.intent": create(purge(), **RUN),
    "action.outcome": create(Outcome(action=removal(), status=Status.APPLIED, detail="gone"), **RUN),
    "manifests.released": RELEASE,
    "manifests.reviewed": ReviewedTree(at_ms=1, reviewed_at_ms=1, tree="4f2c9aa", run_id="run-1"),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_an_event_has_the_required_attributes_and_the_entry(kind: str) -> None:
    """CloudEvents 1.0: specversion, id, source and type; names of attributes are lower case letters."""
    entry = ENTRIES[kind]
    event = json.loads(text := dump_event(entry, "5L6g3nShT-eMCtK--X86sw"))
    assert "\n" not in text
    assert all(name.isalnum() and name.islower() for name in event)
    assert (event["specversion"], event["type"]) == ("1.0", f"kafka-reconciler.{kind}")
    assert event["source"] == "urn:kafka-reconciler:cluster:5L6g3nShT-eMCtK--X86sw"
    assert event["data"] == json.loads(dump(entry))
    assert event["time"].endswith("Z")
    if isinstance(entry, JournalEntry):
        assert (event["subject"], event["time"]) == (str(entry.address), "2027-01-15T08:00:00.123Z")


def test_an_id_is_of_the_entry_and_not_of_its_place() -> None:
    """A topic loses its oldest entries: a number of the line would be another one in the next export."""
    entry = create(purge(), **RUN)
    [read] = parse(dump(entry).encode(), JournalEntry)
    ids = [json.loads(dump_event(e, "c"))["id"] for e in (entry, read, replace(entry, at_ms=entry.at_ms + 1))]
    assert ids[0] == ids[1] != ids[2]


def test_two_intents_of_one_action_in_one_run_differ() -> None:
    """A request that is sent again has a second intent; an id of run and address would drop it."""
    entry = create(purge(), **RUN)
    offsets = replace(entry, request={"before_offset": 7})
    assert json.loads(dump_event(entry, "c"))["id"] != json.loads(dump_event(offsets, "c"))["id"]


CLUSTER = "5L6g3nShT-eMCtK--X86sw"
COMMIT = ObservedCommit(topic="orders", topic_id="id", partition=3, offset=5, last_stable_offset=9)


@pytest.fixture
def journal(tmp_path: Path) -> ActionJournal:
    return ActionJournal(JournalFile(tmp_path / "journal.jsonl"))


def observation(hours: int, group: str = "old-etl", commits: Sequence[ObservedCommit] = (COMMIT,)) -> GroupObservation:
    return GroupObservation(
        at_ms=hours * HOUR, group=group, type=GroupType.CLASSIC, state=GroupState.EMPTY, commits=tuple(commits)
    )


def record(journal: ActionJournal, *observations: GroupObservation, run: str, cluster_id: str = CLUSTER) -> None:
    journal.record_observations(observations, cluster_id=cluster_id, run_id=run)


def read(journal: ActionJournal, group: str = "old-etl", since_ms: int = 0) -> tuple[GroupObservation, ...]:
    return journal.observations([group], cluster_id=CLUSTER, since_ms=since_ms)[group]


def test_observations_are_read_back_in_their_order(journal: ActionJournal) -> None:
    """Names are any text; scans of another cluster that had this journal are left out."""
    name = 'live "β" \n"released_at_ms":1'
    first, second = observation(1, name), observation(2, name, [])
    record(journal, first, run="a")
    record(journal, observation(1, name), run="b", cluster_id="another")
    record(journal, second, run="c")
    assert read(journal, name) == (first, second)
    assert read(journal, "never-seen") == tuple(
        GroupObservation(at_ms=seen.at_ms, group="never-seen", type=GroupType.HIDDEN, state=GroupState.DEAD)
        for seen in (first, second)
    ), "a scan that has seen other groups only shows that it was absent"


def test_a_group_that_a_run_removed_or_restored_begins_anew(journal: ActionJournal) -> None:
    """Restored commits equal those before the removal, so the next run would have removed the group at once."""
    action = removal("old-etl")
    record(journal, observation(1), run="a")
    refused = Outcome(action=action, status=Status.FAILED, detail="refused")
    journal.record([refused], run_id="r", plan_digest="sha256:0", at_ms=2 * HOUR)
    record(journal, observation(3), run="b")
    assert [seen.at_ms for seen in read(journal)] == [HOUR, 3 * HOUR]
    journal.record([replace(refused, status=Status.APPLIED)], run_id="r", plan_digest="sha256:0", at_ms=4 * HOUR)
    assert read(journal) == ()
    record(journal, observation(5), run="c")
    assert [seen.at_ms for seen in read(journal)] == [5 * HOUR]


def test_observations_are_no_actions_and_no_releases(journal: ActionJournal) -> None:
    """The clock of `every`, the history and the newest release read over them."""
    record(journal, observation(1), observation(1, "other"), run="a")
    assert last_purges(journal) == {}
    assert list(journal.history()) == []
    assert journal.newest_release(now_ms=2 * HOUR) is None


def test_a_damaged_observation_stops_the_reading(journal: ActionJournal, tmp_path: Path) -> None:
    """A line that was edited could make a live group look idle."""
    record(journal, observation(1), run="a")
    path = tmp_path / "journal.jsonl"
    path.write_text(path.read_text().replace('"EMPTY"', '"empty"'))
    with pytest.raises(JournalUnavailable, match="damaged"):
        read(journal)


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number of no user list: once no plan could be applied there."""
    for name in ("GITHUB_ACTOR", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_234_567)
    assert whoami().startswith("uid-1234567@")
