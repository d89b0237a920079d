"""Hypothesis strategies of outcomes and journal entries, with hostile free text."""

from hypothesis import strategies as st

from reconciler.journal.entry import Event, JournalEntry
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from tests.strategies import plans as strategies

committed_offsets = st.builds(
    CommittedOffset,
    topic=st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
    topic_id=st.none() | st.just("6GI8O0VjR6OzjwaSOJi3ww"),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.none() | st.integers(0, 2**31 - 1),
    metadata=st.none() | strategies.prose,
    metadata_base64=st.none() | st.sampled_from(["", "YQ==", "/v8tMQ=="]),
)
removed_offsets = st.none() | st.lists(committed_offsets, max_size=3).map(tuple)

outcomes = st.builds(
    Outcome,
    action=strategies.actions,
    status=st.sampled_from(Status),
    detail=strategies.prose,
    code=st.none() | st.sampled_from(("NONE", "REQUEST_TIMED_OUT")) | strategies.prose,
    read_back=st.none() | strategies.prose,
    sends=st.integers(0, 5),
    removed_max=st.integers(0, 2**63),
    low_watermark=st.none() | st.integers(0, 2**63 - 1),
    removed_offsets=removed_offsets,
)


@st.composite
def entries(draw: st.DrawFn) -> JournalEntry:
    action = draw(strategies.actions)
    return JournalEntry(
        event=draw(st.sampled_from(Event)),
        at_ms=draw(st.integers(-(2**62), 2**62)),
        run_id=draw(strategies.prose),
        plan_digest="sha256:" + "0" * 64,
        address=action.address,
        operation=action.OPERATION,
        request=action.request(),
        who=draw(st.none() | strategies.prose),
        commit=draw(st.none() | strategies.prose),
        status=draw(st.none() | st.sampled_from(Status)),
        detail=draw(st.none() | strategies.prose),
        code=draw(st.none() | strategies.prose),
        read_back=draw(st.none() | strategies.prose),
        removed_offsets=draw(removed_offsets),
    )
