"""What `suggest` finds on a cluster, kind by kind, and what it does not dare to say."""

from dataclasses import replace
from typing import Any

import pytest

from reconciler.companions.suggest import rules
from reconciler.companions.suggest.findings import Confidence, Finding, FindingKind, Suggestions
from reconciler.model.action import Mode
from reconciler.model.names import Address, TopicPartition
from reconciler.model.snapshot import (
    ClusterSnapshot,
    ConsumerPosition,
    ExternalPosition,
    GroupState,
    GroupType,
    KeptForever,
    LookupKind,
    PartitionFacts,
    RecordLookup,
    RecordStamp,
    Unknown,
)
from reconciler.plan import planner
from reconciler.plan.rules import RuleSet
from reconciler.policies import GroupRemoval, LeaderPolicy, RetentionFloor
from reconciler.policies.external_reader import ExternalReader
from tests.golden.wording import mentions
from tests.strategies import facts
from tests.strategies.facts import DAY, HOUR, LOST, NOW_MS, group, reader, snapshot, topic


def partition(topic_name: str, number: int = 0, **more: object) -> PartitionFacts:
    """A partition with what the scan of `suggest` reads of it."""
    return facts.partition(number, topic=topic_name, at={DAY: 50}, **more)


def suggest(snapshot: ClusterSnapshot, **more: object) -> Suggestions:
    return rules.suggest(snapshot, **({"cluster": facts.cluster()} | more))  # type: ignore[arg-type]


def found(suggestions: Suggestions, kind: FindingKind) -> dict[str, Finding]:
    return {finding.subject: finding for finding in suggestions.of(kind).findings}


SHARED = snapshot(
    partition("orders", readers=(reader("billing", 90), reader("old-etl", 20))),
    partition("orders", 1, leader=2, readers=(reader("billing", 100), reader("old-etl", 100))),
    group("billing", idle=HOUR, state=GroupState.STABLE),
    group("old-etl", idle=6 * DAY),
)
"""`billing` works, `old-etl` is idle and holds records back, and one leader is not the preferred one."""


def test_the_scan_asks_for_what_the_policies_would_ask_for() -> None:
    """The request of a floor on all topics asks for nothing that the request of `suggest` lacks."""
    request = rules.scan_request(NOW_MS)
    floor = facts.floor("*", keep={"unreadBy": ["a"]}).scan_request(NOW_MS)
    offsets = next(part for part in request.topics if part.offsets)
    assert offsets.instants_ms == floor.topics[0].instants_ms
    assert offsets.readers
    assert offsets.all_groups
    assert request.groups[0].activity


def test_an_idle_group_with_what_it_holds_back() -> None:
    finding = found(suggest(SHARED), FindingKind.IDLE_GROUP)["old-etl"]
    assert finding.id == "idle-group/old-etl"
    assert finding.records == 70
    assert finding.manifest == Address("GroupRemoval", "idle-groups")
    assert "70 records of orders" in " ".join(finding.evidence)
    assert "works less often" in finding.counter_evidence[0]


def test_records_that_every_remaining_group_has_read() -> None:
    """The floor names `billing` only: no group may be removed while a floor waits for its commits."""
    suggestions = suggest(SHARED)
    finding = found(suggestions, FindingKind.READ_RECORDS)["orders"]
    assert finding.records == 190
    assert '"old-etl"' in finding.evidence[1]
    (floor,) = (draft.policy for draft in suggestions.drafts if isinstance(draft.policy, RetentionFloor))
    assert floor.spec.keep.unread_by == ("billing",)
    assert floor.spec.consumers == "block"
    assert floor.mode is Mode.MERGE
    assert floor.metadata.owner == "TODO"
    assert floor.expect_at_most == 1


def test_records_go_once_the_groups_that_are_behind_are_removed() -> None:
    """A group that leaves and has read them holds nothing back: the plan deletes them while it is still there."""
    readers = (reader("billing", 90), reader("old-etl", 20), reader("done", 95))
    idle = (group(name, idle=6 * DAY) for name in ("old-etl", "done"))
    busy = group("billing", idle=HOUR, state=GroupState.STABLE)
    finding = found(suggest(snapshot(partition("orders", readers=readers), busy, *idle)), FindingKind.READ_RECORDS)
    assert finding["orders"].evidence[1:] == (
        'they go once "old-etl" is removed',
        'no other group reads the topic but those to be removed: "done", "old-etl"',
    )


def test_an_ignored_idle_group_stays_a_reader() -> None:
    suggestions = suggest(SHARED, ignored=["idle-group/old-etl", "leader/gone"])
    assert suggestions.of(FindingKind.IDLE_GROUP).findings == ()
    assert suggestions.of(FindingKind.IDLE_GROUP).ignored == 1
    assert suggestions.unmatched == ("leader/gone",)
    assert found(suggestions, FindingKind.READ_RECORDS)["orders"].records == 120


@pytest.mark.parametrize(
    ("state", "awaited"),
    [(GroupState.EMPTY, ("billing",)), (GroupState.UNKNOWN, ("billing", "old-etl"))],
)
def test_a_group_that_a_present_policy_removes_is_awaited_by_no_floor(
    state: GroupState, awaited: tuple[str, ...]
) -> None:
    """A floor that names it would block the removal for ever (B306). One whose members get partitions stays."""
    groups = {**SHARED.groups, "old-etl": replace(SHARED.groups["old-etl"], state=state)}
    suggestions = suggest(replace(SHARED, groups=groups), policies=[facts.removal("old-etl")])
    assert suggestions.of(FindingKind.IDLE_GROUP).findings == ()
    (floor,) = (draft.policy for draft in suggestions.drafts if isinstance(draft.policy, RetentionFloor))
    assert floor.awaited_groups == awaited


def test_only_repartition_topics_are_certain() -> None:
    """Their records are read once; records of other topics may be read again."""
    read = (reader("a", 100),)
    snap = snapshot(
        partition("x-repartition", readers=read),
        partition("clicks", readers=read),
        group("a", idle=HOUR, state=GroupState.EMPTY),
    )
    findings = found(suggest(snap), FindingKind.READ_RECORDS)
    assert findings["x-repartition"].confidence is Confidence.HIGH
    assert findings["clicks"].confidence is Confidence.LOW


def test_a_share_group_leaves_no_finding_about_the_topics_that_it_may_read() -> None:
    """And all findings about others: one share group once left none about any record."""
    workers = group("workers", type=GroupType.SHARE, listed=False, may_read=frozenset({"other"}))
    groups = {**SHARED.groups, "workers": workers}
    assert "orders" in found(suggest(replace(SHARED, groups=groups)), FindingKind.READ_RECORDS)
    groups["workers"] = replace(workers, may_read=frozenset({"orders"}))
    suggestions = suggest(replace(SHARED, groups=groups))
    assert "orders" not in found(suggestions, FindingKind.READ_RECORDS)
    assert any("workers" in line for line in suggestions.of(FindingKind.READ_RECORDS).unknown)


@pytest.mark.parametrize(("at", "records", "todo"), [(40, 60, "let it catch up"), (5_000, 100, "reset its offsets")])
def test_a_group_that_holds_purges_back_is_a_question(at: int, records: int, todo: str) -> None:
    """One whose position is above the end was told to catch up, too."""
    snap = snapshot(
        topic("orders", records=100),
        partition("orders", readers=(reader("audit", at), reader("billing", 100))),
        # Neither another group's position counts, nor one on another topic.
        partition("orders", 1, end=0, readers=(reader("billing", 5_000),)),
        topic("clicks", records=0),
        partition("clicks", end=0, readers=(reader("audit", 5_000),)),
        group("audit", idle=HOUR),
        group("billing", idle=HOUR, state=GroupState.STABLE),
    )
    finding = found(suggest(snap), FindingKind.LAGGING_GROUP)["audit"]
    assert (finding.records, finding.manifest, finding.id) == (records, None, "lagging-group/audit/orders")
    assert finding.title.startswith(todo)


@pytest.mark.parametrize(
    ("name", "kept", "is_drafted"),
    [
        ("orders", KeptForever.TOPIC, False),
        ("orders", Unknown("no right"), False),
        ("orders", KeptForever.BROKER, True),
        ("app-by-key-repartition", KeptForever.TOPIC, True),
    ],
)
def test_no_draft_deletes_what_a_topic_keeps_for_ever(name: str, kept: KeptForever | Unknown, is_drafted: bool) -> None:
    """A draft names its topics exactly, so that B215 does not stop it: one was for a topic with retention.ms=-1."""
    facts = topic(name, records=100, kept_forever=kept), partition(name, readers=(reader("billing", 90),))
    suggestions = suggest(snapshot(*facts, group("billing", idle=HOUR, state=GroupState.STABLE)))
    assert (name in found(suggestions, FindingKind.READ_RECORDS)) == is_drafted


def test_a_topic_that_no_group_reads_is_a_question() -> None:
    suggestions = suggest(snapshot(partition("orders"), topic("compacted", cleanup_policy=frozenset({"compact"}))))
    finding = found(suggestions, FindingKind.UNREAD_TOPIC)["orders"]
    assert finding.manifest is None
    assert finding.confidence is Confidence.LOW
    assert suggestions.drafts == ()


def test_leaders_that_are_not_preferred() -> None:
    suggestions = suggest(SHARED)
    finding = found(suggestions, FindingKind.LEADER)["orders"]
    assert finding.partitions == 1
    assert "1 from broker 2 to 1" in finding.evidence[0]
    (policy,) = (draft.policy for draft in suggestions.drafts if isinstance(draft.policy, LeaderPolicy))
    assert [selector.name for selector in policy.selectors] == ["orders"]


def test_a_broker_that_is_silent_is_not_called_alive() -> None:
    """Without a quorum nobody fences it: it was in the list of those alive, and its election of high confidence."""
    led_by_2 = partition("orders", leader=2)
    assert found(suggest(snapshot(led_by_2)), FindingKind.LEADER).keys() == {"orders"}
    assert found(suggest(snapshot(led_by_2, silent_brokers=frozenset({1}))), FindingKind.LEADER) == {}


def test_topics_to_protect_and_why() -> None:
    compact = frozenset({"compact"})
    names = [topic("_schemas", cleanup_policy=compact), topic("__consumer_offsets", internal=True)]
    names += [topic("customers", cleanup_policy=compact), topic("app-x-changelog"), topic("orders")]
    suggestions = suggest(snapshot(*names))
    assert set(found(suggestions, FindingKind.PROTECTION)) == {"_schemas", "customers", "app-x-changelog"}
    protected = facts.cluster(protect={"topics": ["_*", "customers", "*-changelog"]})
    assert suggest(snapshot(*names), cluster=protected).of(FindingKind.PROTECTION).findings == ()


def test_limits_are_lower_than_the_defaults_and_allow_the_drafts() -> None:
    """The suggested manifests pass the suggested limits, and no limit rises."""
    suggestions = suggest(SHARED)
    limits = {name: finding.value for name, finding in found(suggestions, FindingKind.LIMIT).items()}
    assert set(limits) == {"topics", "groups", "elections"}
    assert "uncleanElections" not in limits
    cluster = facts.cluster(limits=limits)
    plan = planner.plan(RuleSet(cluster, [draft.policy for draft in suggestions.drafts]), SHARED)
    assert [verdict.id for verdict in plan.refused if verdict.id in limits] == []


def test_what_policies_cover_and_what_is_protected_is_left_out() -> None:
    policies = [facts.floor("orders", keep={"newerThan": "7d"}), facts.removal("old-*"), facts.leaders("*")]
    assert suggest(SHARED, policies=policies).drafts == ()
    cluster = facts.cluster(protect={"topics": ["orders"], "groups": ["old-etl"]})
    kinds = {type(draft.policy) for draft in suggest(SHARED, cluster=cluster).drafts}
    assert kinds == {LeaderPolicy}, "moving a leader loses nothing"


def test_drafts_have_names_that_no_policy_has() -> None:
    """A draft of an earlier run was reviewed and stays; this run finds another group."""
    suggestions = suggest(SHARED, policies=[facts.removal("other", name="idle-groups")])
    assert found(suggestions, FindingKind.IDLE_GROUP)["old-etl"].manifest == Address("GroupRemoval", "idle-groups-2")


def test_many_subjects_take_several_manifests() -> None:
    """A manifest has at most 1,000 selectors."""
    groups = [group(f"g-{number}") for number in range(1_500)]
    large = facts.cluster(limits={"groups": 2_000, "groupsPercent": 100})
    drafts = suggest(snapshot(*groups), cluster=large).drafts
    assert [len(draft.policy.selectors) for draft in drafts] == [1_000, 500]
    assert [draft.policy.expect_at_most for draft in drafts] == [1_000, 500]


def test_the_manifests_hold_what_the_limits_allow_at_once() -> None:
    """A plan that a limit refuses does nothing. The best findings come first, the others later."""
    groups = [group(f"g-{number}", idle=(64 + number) * DAY) for number in range(60)]
    suggestions = suggest(snapshot(*groups))
    section = suggestions.of(FindingKind.IDLE_GROUP)
    assert len(section.findings) == 60
    (draft,) = suggestions.drafts
    assert len(draft.findings) == 20
    assert {finding.confidence for finding in draft.findings} == {Confidence.HIGH}
    later = [finding for finding in section.findings if finding.manifest is None]
    assert all("the limit `groups` of one plan allows 20" in finding.counter_evidence[-1] for finding in later)


@pytest.mark.parametrize(
    ("name", "topics", "next_step"),
    [
        ("connect-lake", (), "Connect's REST API"),
        ("counts", ("counts-store-changelog",), "kafka-streams-application-reset.sh"),
        ("counts", ("counts-by-user-repartition",), "kafka-streams-application-reset.sh"),
    ],
)
def test_idle_is_not_dead_where_another_system_holds_the_rest(
    name: str, topics: tuple[str, ...], next_step: str
) -> None:
    """An idle group was suggested with high confidence, although its connector was paused."""
    snap = snapshot(group(name, idle=100 * DAY), group("old-etl", idle=100 * DAY), *map(topic, topics))
    findings = found(suggest(snap), FindingKind.IDLE_GROUP)
    assert (findings[name].confidence, findings["old-etl"].confidence) == (Confidence.LOW, Confidence.HIGH)
    assert any(next_step in sentence for sentence in findings[name].counter_evidence)
    assert not any(next_step in sentence for sentence in findings["old-etl"].counter_evidence)


@pytest.mark.parametrize("idle_days", [31, 92])
def test_a_group_that_works_once_a_month_or_a_quarter_is_not_proven_dead(idle_days: int) -> None:
    """After 30 days its removal was suggested with high confidence, and a month has 31."""
    snap = snapshot(group("billing-run", idle=idle_days * DAY))
    assert found(suggest(snap), FindingKind.IDLE_GROUP)["billing-run"].confidence is Confidence.MEDIUM


@pytest.mark.parametrize(("committed", "confidence"), [(100, Confidence.LOW), (20, Confidence.HIGH)])
def test_a_standalone_consumer_that_has_read_everything_is_in_doubt(committed: int, confidence: Confidence) -> None:
    """It commits nothing on a quiet topic. One that leaves records unread would have moved."""
    of_topic = partition("orders", readers=(reader("billing", 100), reader("alone", committed)))
    snap = snapshot(
        of_topic, group("billing", state=GroupState.STABLE), group("alone", idle=100 * DAY, commits_only=True)
    )
    finding = found(suggest(snap), FindingKind.IDLE_GROUP)["alone"]
    assert finding.confidence is confidence
    doubts = [sentence for sentence in finding.counter_evidence if "assigns its partitions itself" in sentence]
    assert len(doubts) == (confidence is Confidence.LOW)


@pytest.mark.parametrize(
    ("next_record", "confidence", "held"),
    [
        (None, Confidence.LOW, None),
        (RecordStamp(95, NOW_MS - DAY), Confidence.HIGH, "5 offsets of orders"),
        (Unknown("the right READ on orders is missing"), Confidence.HIGH, "10 offsets of orders"),
    ],
    ids=["markers", "a record", "unread"],
)
def test_markers_are_no_records_that_a_group_could_have_read(
    next_record: RecordStamp | Unknown | None, confidence: Confidence, held: str | None
) -> None:
    """A running consumer before the last marker was suggested for removal: it held back a record, and did not move."""
    groups = group("billing", state=GroupState.STABLE), group("alone", idle=100 * DAY, commits_only=True)
    of_topic = partition("orders", readers=(reader("billing", 100), reader("alone", 90)), lookups={})
    asking = suggest(snapshot(of_topic, topic("orders"), topic("__transaction_state"), *groups))
    lookup = RecordLookup(LookupKind.FIRST, 90, 100)
    assert asking.asked == {of_topic.partition: (lookup,)}
    of_topic = replace(of_topic, lookups={lookup: next_record})
    suggestions = suggest(snapshot(of_topic, topic("orders"), topic("__transaction_state"), *groups))
    assert not suggestions.asked
    finding = found(suggestions, FindingKind.IDLE_GROUP)["alone"]
    assert finding.confidence is confidence
    assert ("holds back" in " ".join(finding.evidence)) is (held is not None)
    assert held is None or held in " ".join(finding.evidence)


def test_what_a_floor_asks_of_records_is_asked() -> None:
    """Behind an open transaction it could not tell, for records that nobody had looked up."""
    ends: dict[str, Any] = {"at": {DAY: None}, "end": 90, "high_watermark": 100}
    of_topic = facts.partition(readers=(reader("a", 90),), lookups={}, **ends)
    working = group("a", state=GroupState.STABLE)
    suggestions = suggest(snapshot(of_topic, topic("orders"), topic("__transaction_state"), working))
    assert [lookup.kind for lookup in suggestions.asked[of_topic.partition]] == [LookupKind.UNCOMMITTED] * 2
    more = RecordLookup(LookupKind.NEWEST), RecordLookup(LookupKind.LAST, 0, 90)
    answers = dict.fromkeys([*suggestions.asked[of_topic.partition], *more], RecordStamp(90, NOW_MS))
    of_topic = replace(of_topic, lookups=answers)
    suggestions = suggest(snapshot(of_topic, topic("orders"), topic("__transaction_state"), working))
    assert found(suggestions, FindingKind.READ_RECORDS)["orders"].records == 90


def test_the_topics_of_a_stopped_streams_application_are_no_question() -> None:
    """Nothing reads its repartition topic while it is stopped, also once its group has expired."""
    snap = snapshot(partition("app-by-user-repartition"), partition("app-store-changelog"), partition("orders"))
    assert found(suggest(snap), FindingKind.UNREAD_TOPIC).keys() == {"orders"}


def test_no_floor_is_suggested_past_a_group_with_members() -> None:
    """Its removal removes nothing; its unread records were suggested as read by all."""
    snap = snapshot(
        partition("orders", readers=(reader("billing", 90), reader("slow", 20))),
        group("billing", idle=HOUR, state=GroupState.STABLE),
        group("slow", idle=HOUR, state=GroupState.STABLE),
    )
    finding = found(suggest(snap, policies=[facts.removal("slow")]), FindingKind.READ_RECORDS)["orders"]
    assert finding.records == 20
    assert not any("removed" in sentence for sentence in finding.evidence)


def mirrored(position: ExternalPosition | Unknown) -> ClusterSnapshot:
    """A cluster with offset syncs, whose position was read."""
    snap = snapshot(partition("orders", end=50), topic("mm2-offset-syncs.B.internal"))
    (request,) = rules.undeclared_readers(snap)
    return replace(snap, external={request: position})


def test_a_mirror_is_drafted_with_the_topics_that_it_mirrors() -> None:
    """Topics that are gone are left out, a topic that it reads is not a question, and the draft declares it."""
    offsets = {TopicPartition("orders", 0): 40, TopicPartition("gone", 0): 7}
    suggestions = suggest(mirrored(ExternalPosition(offsets, NOW_MS)))
    finding = found(suggestions, FindingKind.EXTERNAL_READER)["mm2-offset-syncs.B.internal"]
    assert finding.manifest == Address("ExternalReader", "mm2-offset-syncs.b.internal")
    assert finding.confidence is Confidence.MEDIUM, "the topic may lie on the cluster that the mirror writes"
    assert "offset-syncs.topic.location: target" in finding.counter_evidence[1]
    (draft,) = (draft.policy for draft in suggestions.drafts if isinstance(draft.policy, ExternalReader))
    assert draft.request.at == "mm2-offset-syncs.B.internal"
    assert [selector.text for selector in draft.request.topics] == ["orders"]
    assert found(suggestions, FindingKind.UNREAD_TOPIC) == {}
    ignored = suggest(mirrored(ExternalPosition(offsets, NOW_MS)), ignored=[finding.id])
    assert found(ignored, FindingKind.EXTERNAL_READER) == {}
    assert ignored.unmatched == ()


def declared(
    position: ExternalPosition | Unknown, *given: PartitionFacts | facts.GroupFacts, policy: str = "delete"
) -> ClusterSnapshot:
    """A cluster with a reader that a manifest declares on `orders`, whose position was read."""
    metadata = {"apiVersion": "reconciler/v1", "kind": "ExternalReader", "metadata": {"name": "lake"}}
    spec = {"topics": ["orders"], "position": {"sparkCheckpoint": "s3://lake/orders"}}
    lake = ExternalReader.model_validate({**metadata, "spec": spec})
    partitions = sum(isinstance(of, PartitionFacts) for of in given)
    orders = topic(partitions=partitions, records=100 * partitions, cleanup_policy=frozenset({policy}))
    return replace(snapshot(*given, orders), external={lake.request: position})


def held_by_lake(snap: ClusterSnapshot, **more: object) -> Finding:
    (finding,) = suggest(snap, **more).of(FindingKind.EXTERNAL_READER).findings
    return finding


def at(*offsets: int, age: int = 0) -> ExternalPosition:
    return ExternalPosition({TopicPartition("orders", n): offset for n, offset in enumerate(offsets)}, NOW_MS - age)


def test_a_declared_reader_says_where_it_is_and_what_it_holds_back() -> None:
    """The partition that it holds most, since when it has not moved, and the records of all partitions."""
    finding = held_by_lake(declared(at(80, 30, age=5 * DAY), partition("orders"), partition("orders", 1)))
    assert (finding.id, finding.records, finding.partitions) == ("external-reader/ExternalReader%2Flake/orders", 90, 2)
    assert finding.evidence == (
        "it is at 30 on orders[1] (1 more partition behind), and has not moved since 2026-11-16T10:00:00Z",
        "block and clamp keep up to 90 records (45.0 %) of orders for it",
    )
    assert finding.confidence is Confidence.HIGH
    assert finding.manifest is None, "its manifest is there already"
    ignored = suggest(declared(at(30), partition("orders")), ignored=[finding.id])
    assert ignored.of(FindingKind.EXTERNAL_READER).ignored == 1


@pytest.mark.parametrize("readers", [(), (reader("billing", 100),), (reader("ExternalReader/lake", 30),)])
def test_a_declared_reader_holds_records_whether_or_not_a_group_has_read_them(
    readers: tuple[ConsumerPosition, ...],
) -> None:
    """No group at all, one at the end, and one of its name at its place: floors wait for the reader."""
    snap = declared(at(30), partition("orders", readers=readers), *(group(of.group, idle=HOUR) for of in readers))
    finding = held_by_lake(snap)
    assert (finding.records, finding.confidence) == (70, Confidence.MEDIUM)
    assert found(suggest(snap), FindingKind.LAGGING_GROUP) == {}


@pytest.mark.parametrize(
    ("offsets", "where", "todo"),
    [
        (
            (900,),
            "its position 900 on orders[0] is above the end, so it counts as at 0",
            "correct its position on orders",
        ),
        ((), "it has no position on orders[0], so it counts as at 0", "let it catch up on orders"),
    ],
)
def test_a_position_that_proves_nothing_holds_everything(offsets: tuple[int, ...], where: str, todo: str) -> None:
    """The checkpoint of another cluster, and a query before its first batch of a new partition."""
    finding = held_by_lake(declared(at(*offsets), partition("orders")))
    assert finding.evidence[0].startswith(where)
    assert (finding.records, finding.title) == (100, f"{todo}, or ask its owner")


@pytest.mark.parametrize(("age", "words"), [(NOW_MS, "before 2001"), (-DAY, "later than the scan")])
def test_a_time_that_is_not_plausible_is_no_age(age: int, words: str) -> None:
    """A reader that was written in 1970 counted as one that has not moved for 56 years, with high confidence."""
    finding = held_by_lake(declared(at(30, age=age), partition("orders")))
    assert mentions(finding.evidence[0], "30 on orders[0]", words, "not known")
    assert finding.confidence is Confidence.MEDIUM


IDLE, READ, UNREAD = FindingKind.IDLE_GROUP, FindingKind.READ_RECORDS, FindingKind.UNREAD_TOPIC
LEADER, LIMIT, READER = FindingKind.LEADER, FindingKind.LIMIT, FindingKind.EXTERNAL_READER
OF_RECORDS = (READ, FindingKind.LAGGING_GROUP, UNREAD)
NO_CONFIGS = Unknown("DESCRIBE_CONFIGS is missing")
UNCONFIGURED = snapshot(
    topic("orders", cleanup_policy=NO_CONFIGS), partition("orders", readers=(reader("a", 100),)), group("a", idle=HOUR)
)
FIRST = min(SHARED.partitions)
NOT_ALL, GROUPS = "not all offsets and groups could be read", "the list of groups is incomplete"
NOTHING_YET = "elections, groups, topics: the cluster has nothing yet that it counts: it stays as it is"
PROTECTED = {"cluster": facts.cluster(protect={"topics": ["orders"]})}
AWAITING = {"policies": [facts.floor("clicks", keep={"unreadBy": ["old-etl"]})]}
NO_LSO = partition("orders", last_stable_offset=LOST)


def without(fact: str) -> ClusterSnapshot:
    """Return the cluster without one fact of the first partition of `orders`."""
    lost = replace(SHARED.partitions[FIRST], **{fact: LOST})  # type: ignore[arg-type]
    return replace(SHARED, partitions={**SHARED.partitions, FIRST: lost})


@pytest.mark.parametrize(
    ("snap", "changes", "kind", "unknown"),
    [
        # A group that may be in use.
        *(
            (snapshot(group("g", **present)), {}, IDLE, "")
            for present in (
                {"idle": DAY},
                {"state": GroupState.STABLE},
                {"state": LOST},
                {"idle": LOST},
                {"type": GroupType.SHARE},
                {"listed": False},
                {"fingerprint": LOST},
            )
        ),
        (SHARED, AWAITING, IDLE, ""),
        (replace(SHARED, groups_incomplete=LOST), {}, IDLE, f"{GROUPS}: {LOST.reason}$"),
        # `[ab]` as a selector would select the groups `a` and `b`.
        (snapshot(group("[ab]"), group("a", idle=0)), {}, IDLE, '"[ab]"'),
        # Unknown consumers leave no finding about records.
        *((replace(SHARED, readers_incomplete=LOST), {}, kind, LOST.reason) for kind in OF_RECORDS),
        *((replace(SHARED, groups_incomplete=LOST), {}, kind, LOST.reason) for kind in OF_RECORDS),
        *((replace(SHARED, groups={"s": group("s", type=GroupType.SHARE)}), {}, kind, "share") for kind in OF_RECORDS),
        # One partition that is not known is enough.
        *(
            (without(fact), {}, READ, f"orders: {NOT_ALL}: {LOST.reason}$")
            for fact in ("log_start", "last_stable_offset", "high_watermark", "readers", "topic_id")
        ),
        *(
            (snapshot(partition("orders", leader=2), partition("orders", 1, **{fact: LOST})), {}, LEADER, LOST.reason)
            for fact in ("leader", "replicas", "in_sync", "topic_id")
        ),
        *((UNCONFIGURED, {}, kind, NO_CONFIGS.reason) for kind in (READ, UNREAD, FindingKind.PROTECTION)),
        # A limit of 1 was once proposed where there was nothing to measure.
        (snapshot(), {}, LIMIT, f"{NOTHING_YET}$"),
        (snapshot(topic("__consumer_offsets", internal=True)), {}, LIMIT, f"{NOTHING_YET}$"),
        (snapshot(group("gone", listed=False)), {}, LIMIT, f"{NOTHING_YET}$"),
        (SHARED, {"policies": [facts.leaders("orders")]}, LIMIT, "LeaderPolicy/all"),
        # Without its syncs it is not known which topics a mirror reads, so there is no draft.
        (mirrored(Unknown("no READ")), {}, READER, "mm2-offset-syncs.B.internal: no READ$"),
        # A reader at its work: below a tenth of the topic. Compacted and protected topics lose nothing anyway.
        (declared(at(95), partition("orders")), {}, READER, ""),
        (declared(at(0), partition("orders"), policy="compact"), {}, READER, ""),
        (declared(at(0), partition("orders")), PROTECTED, READER, ""),
        # An unreadable position or an unknown offset is no reader that holds nothing.
        (declared(Unknown("no bucket"), partition("orders")), {}, READER, "ExternalReader/lake: no bucket$"),
        (
            declared(at(10), NO_LSO),
            {},
            READER,
            f"ExternalReader/lake on orders: not all offsets could be read: {LOST.reason}$",
        ),
    ],
)
def test_where_there_is_no_finding(
    snap: ClusterSnapshot, changes: dict[str, object], kind: FindingKind, unknown: str
) -> None:
    """`unknown`: in the first sentence about what is not known; with `$`, all of the only one."""
    suggestions = suggest(snap, **changes)
    section = suggestions.of(kind)
    assert section.findings == ()
    if unknown.endswith("$"):
        assert section.unknown == (unknown[:-1],)
    assert unknown[:-1] in "".join(section.unknown[:1])
    drafted = {READ: RetentionFloor, IDLE: GroupRemoval, LEADER: LeaderPolicy, READER: ExternalReader}
    assert not any(isinstance(draft.policy, drafted.get(kind, ())) for draft in suggestions.drafts)


def test_a_limit_is_proposed_where_there_is_something_to_measure() -> None:
    """Three topics without a group give a limit of topics, and none of groups."""
    section = suggest(snapshot(*(topic(name) for name in "abc"))).of(LIMIT)
    assert {finding.subject: finding.value for finding in section.findings} == {"topics": 1}
    assert section.unknown[0].startswith("elections, groups: ")
