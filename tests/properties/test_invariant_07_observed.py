"""Invariant 7 where `__consumer_offsets` is hidden: no live group is idle by observation.

A live consumer commits what it could read within `idleFor`. It looks EMPTY, because it assigns its
partitions itself. The rule "EMPTY, and the same commits in every scan" called two of them dead: the
consumer of a topic without new records, and one that waits behind an open transaction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Blocked, Decision
from reconciler.model.snapshot import GroupObservation, GroupState, GroupType, ObservedCommit, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.idle_groups import UNREAD
from tests.golden.wording import mentions
from tests.strategies.facts import DAY, HOUR, NOW_MS, group, planned, removal, snapshot

IDLE_H = 8
GAP_H = IDLE_H // 4
Hour = tuple[int, int, int, bool, bool]
"""Of one hour: new records of two partitions, whether a transaction is open on the second one, whether the
consumer runs, whether a scan looks."""


@dataclass
class World:
    """Two partitions with a record each, and a consumer that runs at least every `IDLE_H - 1` hours.

    `markers`: transaction markers behind all records, before which the consumer stands.
    """

    markers: int = 0
    ends: list[int] = field(default_factory=lambda: [1, 1])
    stable: list[int] = field(default_factory=lambda: [1, 1])
    commits: list[int] = field(default_factory=lambda: [0, 0])
    waited_h: int = 0

    def pass_hour(self, hour: Hour, *, alive: bool) -> None:
        first, second, open_since, runs, _looks = hour
        self.ends = [self.ends[0] + first, self.ends[1] + second]
        self.stable = [self.ends[0], self.stable[1] if open_since else self.ends[1]]
        self.waited_h += 1
        if alive and (runs or self.waited_h >= IDLE_H - 1):
            self.commits, self.waited_h = [end - self.markers for end in self.stable], 0

    def look(self, at_ms: int) -> GroupObservation:
        commits = (
            ObservedCommit(topic="t", topic_id="id", partition=number, offset=offset, last_stable_offset=end)
            for number, (offset, end) in enumerate(zip(self.commits, self.stable, strict=True))
        )
        return observation(at_ms, *commits)


def observation(at_ms: int, *commits: ObservedCommit, state: GroupState = GroupState.EMPTY) -> GroupObservation:
    return GroupObservation(at_ms=at_ms, group="old-etl", type=GroupType.CLASSIC, state=state, commits=commits)


def decide(*observations: GroupObservation) -> Decision:
    """Return the decision on a group of these observations, at the time of the last one."""
    now_ms = observations[-1].at_ms
    hidden = Unknown("__consumer_offsets is hidden")
    facts = group(last_activity_ms=hidden, newest_record=hidden, observations=observations)
    seen = snapshot(facts, observed_at_ms=now_ms, consumer_offsets_hidden=True)
    (decision,) = planned(removal(idleFor=f"{IDLE_H}h"), seen).decisions
    return decision


def look_on(hours: list[Hour], *, alive: bool, markers: int = 0) -> Iterator[list[GroupObservation]]:
    """Yield all observations so far, after each scan."""
    world, seen = World(markers=markers), list[GroupObservation]()
    for number, hour in enumerate(hours):
        world.pass_hour(hour, alive=alive)
        if hour[-1] or number % GAP_H == 0:
            seen.append(world.look(number * HOUR))
            yield seen


counts = st.integers(0, 2)
hours = st.lists(st.tuples(counts, counts, st.integers(0, 1), st.booleans(), st.booleans()), min_size=10, max_size=40)


@given(hours, st.integers(0, 1))
def test_no_live_group_is_ever_idle(hours: list[Hour], markers: int) -> None:
    """Whatever is written, held back by transactions and looked at: a group that reads what it can stays."""
    for seen in look_on(hours, alive=True, markers=markers):
        assert isinstance(decide(*seen), Blocked)


@given(hours)
def test_a_dead_group_is_idle_once_every_partition_has_moved(hours: list[Hour]) -> None:
    """The rule is not empty: a group that never commits again is removed as soon as the evidence is complete."""
    for seen in look_on(hours, alive=False):
        decision = decide(*seen)
        start = max((o for o in seen if seen[-1].at_ms - o.at_ms >= IDLE_H * HOUR), key=lambda o: o.at_ms, default=None)
        moved = start is not None and all(
            any(of.commits[number].last_stable_offset < commit.last_stable_offset for of in seen[: seen.index(start)])
            for number, commit in enumerate(start.commits)
        )
        assert isinstance(decision, DeleteGroup) is moved


def history(*ends: int, offset: int = 5, partition: int = 0) -> list[GroupObservation]:
    """Return observations two hours apart, up to NOW_MS, one for each last stable offset."""
    times = range(NOW_MS - (len(ends) - 1) * GAP_H * HOUR, NOW_MS + 1, GAP_H * HOUR)
    place = {"topic": "t", "topic_id": "id", "offset": offset}
    return [
        observation(at, ObservedCommit(**place, partition=partition, last_stable_offset=end))  # type: ignore[arg-type]
        for at, end in zip(times, ends, strict=True)
    ]


IDLE = history(6, 7, 8, 9, 10, 11)
RECONCILING = sorted(
    [*IDLE, replace(IDLE[2], at_ms=IDLE[2].at_ms + HOUR // 2, state=GroupState.UNKNOWN, commits=())],
    key=lambda seen: seen.at_ms,
)
"""One more observation, of the present type: the library has no name for ASSIGNING and RECONCILING (KIP-848)."""


NOT_IDLE: dict[str, tuple[list[GroupObservation], str, str]] = {
    "a live consumer of a quiet topic": (history(5, 5, 5, 5, 5, 5), "B307", "no record of t[0]"),
    "a marker behind all that it has read": (history(6, 6, 6, 6, 6, 6), "B307", "no record of t[0]"),
    "a marker, and a record that has just come": (history(6, 6, 6, 6, 6, 8), "B307", "no record of t[0]"),
    "nothing shows that it was more than a marker": (history(6, 7, 8, 9, 10), "B307", "no record of t[0]"),
    "it had read everything at the beginning": (history(5, 5, 6, 7, 8, 9), "B307", "no record of t[0]"),
    "it stands behind an open transaction, where it reads uncommitted": (
        history(4, 4, 6, 7, 8, 9),
        "B307",
        "no record of t[0]",
    ),
    "not observed for idleFor": (IDLE[2:], "B307", "it is observed since 2026-11-21T04:00:00Z"),
    "a gap above a quarter of idleFor": (
        [*IDLE[:3], *IDLE[4:]],
        "B307",
        "between 2026-11-21T04:00:00Z and 2026-11-21T08:00:00Z",
    ),
    "no commit": ([replace(seen, commits=()) for seen in IDLE], "B307", "no commit"),
    "a scan that could not read it leaves a gap": (
        [*IDLE[:3], replace(IDLE[3], type=UNREAD[0], state=UNREAD[1], commits=()), *IDLE[4:]],
        "B307",
        "between",
    ),
    "a clock that was set back": ([*IDLE[:2], replace(IDLE[2], at_ms=NOW_MS + DAY), *IDLE[3:]], "B307", "between"),
    "it had members": (
        [*IDLE[:3], replace(IDLE[3], state=GroupState.STABLE, commits=()), *IDLE[4:]],
        "B304",
        "2026-11-21T06:00:00Z",
    ),
    "it was gone in between": (
        [*IDLE[:3], replace(IDLE[3], state=GroupState.DEAD, commits=()), *IDLE[4:]],
        "B304",
        "2026-11-21T06:00:00Z",
    ),
    "its members got partitions": (RECONCILING, "B304", "2026-11-21T04:30:00Z"),
    "it was of another type": (
        [*IDLE[:3], replace(IDLE[3], type=GroupType.CONSUMER), *IDLE[4:]],
        "B304",
        "2026-11-21T06:00:00Z",
    ),
    "it has committed": ([*history(6, 7, 8, 9, 10, 11, offset=4)[:5], IDLE[-1]], "B304", "2026-11-21T08:00:00Z"),
    "it has a commit on another partition": (
        [*IDLE[:3], *history(6, 6, 6, partition=1)],
        "B304",
        "2026-11-21T04:00:00Z",
    ),
}


@pytest.mark.parametrize(("seen", "code", "fact"), NOT_IDLE.values(), ids=NOT_IDLE)
def test_what_does_not_prove_idleness(seen: list[GroupObservation], code: str, fact: str) -> None:
    """Each condition of the rule is needed; what is missing is named."""
    decision = decide(*seen)
    assert isinstance(decision, Blocked)
    assert decision.code == code
    assert mentions(decision.reason, '"old-etl"', fact)


def test_what_proves_idleness() -> None:
    """The action says since when, and that unseen commits do not count; no record of the log is expected."""
    decision = decide(*IDLE)
    assert isinstance(decision, DeleteGroup)
    assert (decision.seen.last_activity_ms, decision.seen.newest_record) == (IDLE[1].at_ms, None)
    assert mentions(decision.reason, "2026-11-21T02:00:00Z", "may not describe")
    unread_before = [replace(IDLE[0], at_ms=IDLE[0].at_ms - DAY, state=GroupState.STABLE), *IDLE]
    assert isinstance(decide(*unread_before), DeleteGroup), "what was before the window does not matter"
    stamped_back = [replace(IDLE[2], at_ms=IDLE[2].at_ms + seconds * 1_000) for seconds in (120, 60)]
    assert isinstance(decide(*IDLE[:3], *stamped_back, *IDLE[3:]), DeleteGroup), "clocks differ by a minute"
