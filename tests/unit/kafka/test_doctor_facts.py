"""What doctor finds that no broker tells anybody: a plan would block every floor and every removal."""

import pytest

from reconciler.kafka.doctor import _undecidable
from reconciler.kafka.group_listing import GroupListing
from reconciler.kafka.permissions import RequiredAccess
from reconciler.kafka.topics import CONSUMER_OFFSETS_TOPIC, TopicListing
from reconciler.model.scan_request import GroupRequest, ScanRequest
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupFacts, GroupState, GroupType, TopicFacts, Unknown

LOG = {CONSUMER_OFFSETS_TOPIC: TopicFacts(name=CONSUMER_OFFSETS_TOPIC, topic_id="id", internal=True, partitions=50)}
NO_RIGHT = Unknown("the right DESCRIBE on the topic is missing")


CLASSIC = GroupType.CLASSIC
NOT_TOLD: dict[str, tuple[GroupType, bool, dict[str, TopicFacts], Unknown | None, bool, list[str]]] = {
    "all is told": (CLASSIC, False, LOG, None, False, []),
    # Doctor said that all was well.
    "a rolling upgrade from 3.7": (GroupType.HIDDEN, False, LOG, None, False, ['do not tell the type of "g"']),
    "before 3.8, where __consumer_offsets shows that all groups are classic": (CLASSIC, True, LOG, None, False, []),
    "before 3.8, and __consumer_offsets is hidden": (CLASSIC, True, {}, None, True, ['do not tell the type of "g"']),
    "__consumer_offsets is hidden, and no Cluster says so": (CLASSIC, False, {}, None, False, ["is hidden or absent"]),
    "the Cluster says so": (CLASSIC, False, {}, None, True, []),
    "a missing right has a row of its own": (CLASSIC, False, {}, NO_RIGHT, False, []),
}


@pytest.mark.parametrize(
    ("type_", "without_types", "topics", "failure", "hidden", "expected"), NOT_TOLD.values(), ids=NOT_TOLD
)
def test_what_no_broker_tells(
    type_: GroupType,
    without_types: bool,
    topics: dict[str, TopicFacts],
    failure: Unknown | None,
    hidden: bool,
    expected: list[str],
) -> None:
    """Each sentence fails doctor, since a plan could do nothing about groups and floors."""
    removals = (GroupRequest(groups=(Selector("g"),), activity=True, idle_for_ms=1),)
    required = RequiredAccess(needs=ScanRequest(groups=removals, without_consumer_offsets=hidden))
    group = GroupFacts(group="g", listed=True, type=type_, state=GroupState.EMPTY)
    listing = GroupListing(groups={"g": group}, without_types=without_types)
    described = TopicListing(brokers=(1,), topics=topics, partitions={}, incomplete=failure)
    sentences = list(_undecidable(required, listing, described))
    assert len(sentences) == len(expected)
    assert all(part in sentence for part, sentence in zip(expected, sentences, strict=True))
    assert list(_undecidable(RequiredAccess(needs=ScanRequest()), listing, described)) == []
