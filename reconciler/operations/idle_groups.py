"""What makes a group idle, and why an idle group need not be dead."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from reconciler.model.block_reason import BlockReason, known
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import Cause, GroupFacts, GroupObservation, GroupState, GroupType, Unknown
from reconciler.text.escape import quoted
from reconciler.text.formatting import format_duration, format_instant

# Names that Kafka Streams and Kafka Connect give, unless told otherwise.
_STREAMS_TOPIC = re.compile(r"(.+)-(?:repartition|changelog)")
_CONNECTOR = "connect-"

IdleEvidence = tuple[str, int | None, tuple[int, int] | None, int]
"""Why a group counts as idle, its last activity and newest record, and how many observations stand for it.

None: `idleFor: 0s`.
"""

END_TRANSACTION = (
    "wait for the end of the transaction; kafka-transactions.sh find-hanging --topic __consumer_offsets shows one that "
    "hangs, and abort ends it; or name the group in exceptGroups"
)
_CATCH_UP = "let it catch up"
UNREAD = GroupType.HIDDEN, GroupState.UNKNOWN
"""Type and state in the observation of a group that could not be read."""
_GAPS = 4
"""Least number of parts of `idleFor` between observations."""
_CLOCK_TOLERANCE_MS = 60_000
"""How much earlier than the one before an observation may be: brokers stamp it, or this machine."""
_UNCOUNTED = "commits on topics that this principal may not describe go, too, and are not counted"


def idle_evidence(facts: GroupFacts, idle_for_ms: int, observed_at_ms: int, *, exact: bool) -> IdleEvidence:
    """Return the evidence that a group is idle for long enough. Raises BlockReason.

    `exact`: an exact name selected it, which alone may give up the evidence.
    """
    group = quoted(facts.group)
    if idle_for_ms == 0:
        if exact:
            return "idle time not checked (idleFor: 0s)", None, None, 0
        reason = f"idleFor 0s gives up the evidence that {group} is idle, and a pattern selected it"
        raise BlockReason("B305", reason)
    if facts.observations is not None:
        observations = known(facts.observations, f"whether group {group} is idle")
        window = _idle_window(group, observations, idle_for_ms)
        since_ms = window[0].at_ms
        words = f"no commit since {format_instant(since_ms)}, when each partition had records to read; {_UNCOUNTED}"
        return words, since_ms, None, len(window)
    last = facts.last_activity_ms
    if isinstance(last, Unknown) and last.cause is Cause.OPEN_TRANSACTION:
        raise BlockReason("B304", f"group {group} may be in use: {last.reason}", next_step=END_TRANSACTION)
    last_ms = known(last, f"when group {group} was last active")
    newest_record = known(facts.newest_record, f"the newest record of group {group} in __consumer_offsets")
    since = format_instant(last_ms)
    if observed_at_ms - last_ms < idle_for_ms:
        reason = f"group {group} has a record of {since} in __consumer_offsets, and idleFor is {format_duration(idle_for_ms)}"
        raise BlockReason("B304", reason)
    return f"no activity since {since}", last_ms, newest_record, 0


def _idle_window(group: str, observations: Sequence[GroupObservation], idle_for_ms: int) -> Sequence[GroupObservation]:
    """Return the observations that show that a group does not read what it could. Raises BlockReason.

    `observations`: the present one is the last. From one that is at least `idle_for_ms` old, without a
    gap above a quarter of that, each shows the same type, the state EMPTY and the same commits. Until then
    each partition with a commit got a record: what lies right behind a commit may be a transaction marker.
    """

    def unproven(why: str) -> BlockReason:
        return BlockReason("B307", f"whether group {group} is idle is not proven: {why}")

    # A group of a known type and no known state was read: its members get partitions (KIP-848).
    complete = [seen for seen in observations if (seen.type, seen.state) != UNREAD]
    now, length = complete[-1], format_duration(idle_for_ms)
    old = [index for index, seen in enumerate(complete) if now.at_ms - seen.at_ms >= idle_for_ms]
    window = complete[old[-1] if old else 0 :]
    for seen in reversed(window):
        if (seen.type, seen.state) != (now.type, GroupState.EMPTY) or _positions(seen) != _positions(now):
            reason = f"group {group} was active at or after {format_instant(seen.at_ms)}, and idleFor is {length}"
            raise BlockReason("B304", reason)
    first = window[0]
    if not old:
        raise unproven(f"it is observed since {format_instant(first.at_ms)}, and idleFor is {length}")
    for seen, later in pairwise(window):
        if not -_CLOCK_TOLERANCE_MS <= later.at_ms - seen.at_ms <= idle_for_ms // _GAPS:
            between = f"{format_instant(seen.at_ms)} and {format_instant(later.at_ms)}"
            raise unproven(f"nothing observed it between {between}, longer than a quarter of idleFor ({length})")
    if not now.commits:
        raise unproven("it has no commit, so nothing shows what it could read")
    same = [seen.commits for seen in complete[: old[-1]] if _positions(seen) == _positions(now)]
    for commit, *before in zip(first.commits, *same, strict=True):
        if not any(commit.offset < seen.last_stable_offset < commit.last_stable_offset for seen in before):
            partition = TopicPartition(commit.topic, commit.partition)
            raise unproven(f"no record of {partition} that it could read is known to be older than {length}")
    return window


def _positions(seen: GroupObservation) -> list[tuple[str, str, int, int]]:
    return [(commit.topic, commit.topic_id, commit.partition, commit.offset) for commit in seen.commits]


def topics_of_streams(topics: Iterable[str], groups: Collection[str]) -> Mapping[str, str]:
    """Return a topic of Kafka Streams for each group that has one: `GROUP-…-changelog` or `-repartition`.

    The group with the longest fitting name owns a topic.
    """
    owned: dict[str, str] = {}
    for topic in sorted(topics):
        if match := _STREAMS_TOPIC.fullmatch(topic):
            group = match[1]
            while "-" in group:
                group = group.rpartition("-")[0]
                if group in groups:
                    owned.setdefault(group, topic)
                    break
    return owned


def standalone_doubt(facts: GroupFacts | None) -> tuple[str, str] | None:
    """Return why a group that looks idle may be in use, and what to do; None: it has had members, or nothing tells.

    Such a group has no member whose absence shows, and librdkafka commits no offset that has not moved.
    """
    if facts is None or not facts.commits_only:
        return None
    why = (
        "no record shows that it ever had a member: it may be of a running consumer that assigns its partitions itself"
    )
    return f"{why}, and commits nothing while its topics are quiet", "ask its owner"


def state_elsewhere(group: str, facts: GroupFacts | None, topic: str | None) -> tuple[str, str] | None:
    """Return whose group it is and what to do there, where another system holds the rest of the state.

    A reset or a deletion is for what has stopped: one with members has to catch up. `topic`: its entry of
    `topics_of_streams`. None: no such system is known.
    """
    if topic is not None or (facts is not None and facts.type is GroupType.STREAMS):
        owns = f", which has the topic {topic}" if topic is not None else ""
        why = f"it is the group of a Kafka Streams application{owns}"
        step = f"reset the application with kafka-streams-application-reset.sh --application-id {quoted(group)}"
    elif group.startswith(_CONNECTOR) and group != _CONNECTOR:
        why = "it has the name of a Kafka Connect sink connector's group, and a stopped connector keeps its offsets on purpose"
        step = f"resume or delete the connector {quoted(group.removeprefix(_CONNECTOR))} with Connect's REST API"
    else:
        return None
    return why, step if facts is not None and facts.state is GroupState.EMPTY else _CATCH_UP
