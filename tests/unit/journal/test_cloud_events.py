"""`journal -o cloudevents`: valid events, and one id for one entry in every export."""

import json
from dataclasses import replace

import pytest

from reconciler.journal.cloud_events import dump_event
from reconciler.journal.entry import JournalEntry, create, dump, parse
from reconciler.journal.release import Release, ReviewedTree
from reconciler.model.outcome import Outcome, Status
from tests.strategies.examples import purge, removal

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
    [read] = parse(dump(entry).encode())
    ids = [json.loads(dump_event(e, "c"))["id"] for e in (entry, read, replace(entry, at_ms=entry.at_ms + 1))]
    assert ids[0] == ids[1] != ids[2]


def test_two_intents_of_one_action_in_one_run_differ() -> None:
    """A request that is sent again has a second intent; an id of run and address would drop it."""
    entry = create(purge(), **RUN)
    offsets = replace(entry, request={"before_offset": 7})
    assert json.loads(dump_event(entry, "c"))["id"] != json.loads(dump_event(offsets, "c"))["id"]
