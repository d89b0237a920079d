"""What makes a group idle, and why an idle group need not be dead."""

import re
from collections.abc import Collection, Iterable, Mapping

from reconciler.model.block_reason import BlockReason, known
from reconciler.model.snapshot import GroupFacts, GroupType, Unknown
from reconciler.text.escape import quoted
from reconciler.text.formatting import format_duration, format_instant

# Names that Kafka Streams and Kafka Connect give, unless told otherwise.
_STREAMS_TOPIC = re.compile(r"(.+)-(?:repartition|changelog)")
_CONNECTOR = "connect-"

IdleEvidence = tuple[str, int | None, tuple[int, int] | None]
"""Why a group counts as idle, its last activity and newest record; None: `idleFor: 0s`."""


def idle_evidence(facts: GroupFacts, idle_for_ms: int, observed_at_ms: int, *, exact: bool) -> IdleEvidence:
    """Return the evidence that a group is idle for long enough. Raises BlockReason.

    `exact`: an exact name selected it, which alone may give up the evidence.
    """
    group = quoted(facts.group)
    if idle_for_ms == 0:
        if exact:
            return "idle time not checked (idleFor: 0s)", None, None
        reason = f"idleFor 0s gives up the evidence that {group} is idle, and a pattern selected it"
        raise BlockReason("B305", reason)
    last_ms = known(facts.last_activity_ms, f"when group {group} was last active")
    newest_record = known(facts.newest_record, f"the newest record of group {group} in __consumer_offsets")
    last = format_instant(last_ms)
    if observed_at_ms - last_ms < idle_for_ms:
        reason = f"group {group} was active at {last}, and idleFor is {format_duration(idle_for_ms)}"
        raise BlockReason("B304", reason)
    return f"no activity since {last}", last_ms, newest_record


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


def state_elsewhere(group: str, type_: GroupType | Unknown, topic: str | None) -> tuple[str, str] | None:
    """Return whose group it is and what to do there, where another system holds the rest of the state.

    `topic`: its entry of `topics_of_streams`. None: no such system is known.
    """
    if topic is not None or type_ is GroupType.STREAMS:
        owns = f", which has the topic {topic}" if topic is not None else ""
        return (
            f"it is the group of a Kafka Streams application{owns}",
            f"reset the application with kafka-streams-application-reset.sh --application-id {quoted(group)}",
        )
    if group.startswith(_CONNECTOR) and group != _CONNECTOR:
        connector = group.removeprefix(_CONNECTOR)
        return (
            "it has the name of a Kafka Connect sink connector's group, and a stopped connector keeps its offsets on purpose",
            f"resume or delete the connector {quoted(connector)} with Connect's REST API",
        )
    return None
