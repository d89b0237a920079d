"""restore-group on the fake cluster: which offsets may be written, and what became of each."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from reconciler.apply import restore, results
from reconciler.apply.restore import Removal, find_removal
from reconciler.apply.results import exit_code
from reconciler.cli.app import run as run_command
from reconciler.errors import ExitCode, JournalUnavailable, PlanUnusable
from reconciler.journal.entry import Event, JournalEntry, dump, parse
from reconciler.journal.journal import ActionJournal
from reconciler.kafka.groups import unknown_group
from reconciler.model.names import Address, TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset, GroupType
from reconciler.operations.restore_offset import RestoreOffset
from reconciler.policies import Policy
from reconciler.report.restore import restore_report
from reconciler.report.terminal import write_lines
from reconciler.report.tree import Report
from tests.fakes.cluster import FakeCluster, FakeGroup, cluster_of_orders
from tests.fakes.runs import HEADER, context, intercept, new_journal, removal, run
from tests.strategies import facts

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
GROUP = "etl"
ADDRESS = Address("GroupRemoval", "dead", GROUP)


@pytest.fixture
def cluster() -> FakeCluster:
    """Two partitions with 100 records each, of which the first 10 are gone; the group is removed."""
    cluster = cluster_of_orders(2)
    cluster.expire(FIRST, 10)
    cluster.expire(SECOND, 10)
    return cluster


def removal_of(cluster: FakeCluster, first: int = 50) -> Removal:
    topic_id = cluster.topics["orders"].topic_id
    offsets = tuple(
        CommittedOffset(topic="orders", topic_id=topic_id, partition=number, offset=offset, metadata_base64="")
        for number, offset in enumerate((first, 60))
    )
    return Removal(address=ADDRESS, offsets=offsets, plan_digest="sha256:plan", source="the test")


Restored = Callable[..., list[Outcome]]


@pytest.fixture
def restored(cluster: FakeCluster) -> Restored:
    """Checks a removal, unless it was checked, writes it back, and returns what became of each offset.

    `fields`: of ApplyContext.
    """

    def restored(
        removal: Removal | None = None, unwritable: restore.Unwritable | None = None, **fields: Any
    ) -> list[Outcome]:
        removal = removal or removal_of(cluster)
        unwritable = restore.find_unwritable(removal, cluster) if unwritable is None else unwritable
        return list(restore.restore(removal, unwritable, context(cluster, **fields)).values())

    return restored


def journaled() -> list[JournalEntry]:
    return list(new_journal().entries())


def details(outcomes: Sequence[Outcome]) -> list[tuple[Status, str]]:
    return [(outcome.status, outcome.detail) for outcome in outcomes]


@pytest.mark.parametrize("offset", [10, 100])
def test_offsets_from_the_log_start_to_the_end_are_written(
    cluster: FakeCluster, restored: Restored, offset: int
) -> None:
    """Both bounds belong to the log; the journal has an intent and an outcome of each offset."""
    outcomes = restored(removal_of(cluster, offset))
    assert details(outcomes) == [(Status.APPLIED, "written back")] * 2
    assert cluster.groups[GROUP].commits == {FIRST: offset, SECOND: 60}
    assert exit_code(outcomes) == 0
    entries = journaled()
    assert {(entry.operation, entry.address) for entry in entries} == {("restore_group", ADDRESS)}
    assert [(entry.event, entry.request["offset"], entry.detail) for entry in entries] == [
        (Event.INTENT, offset, None),
        (Event.INTENT, 60, None),
        (Event.OUTCOME, offset, "written back"),
        (Event.OUTCOME, 60, "written back"),
    ]


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (lambda c: c.delete_topic("orders"), Status.STALE, "the partition is gone"),
        (lambda c: (c.delete_topic("orders"), c.create_topic("orders", 2)), Status.STALE, "deleted and created again"),
        (lambda c: c.expire(FIRST, 51), Status.STALE, "the log starts at 51, above the offset"),
        (lambda c: setattr(c.partition(FIRST), "high_watermark", 49), Status.STALE, "the log ends at 49, below"),
        (lambda c: setattr(c.partition(FIRST), "leader", None), Status.NOT_ATTEMPTED, "could not be read"),
    ],
    ids=["gone", "created again", "starts above", "ends below", "no leader"],
)
def test_an_offset_of_other_records_is_not_written(
    cluster: FakeCluster, restored: Restored, change: Any, status: Status, reason: str
) -> None:
    """Neither before the confirmation nor, where the cluster changes meanwhile, after it."""
    etl_removal = removal_of(cluster)
    before = restore.find_unwritable(etl_removal, cluster)
    change(cluster)
    now = restore.find_unwritable(etl_removal, cluster)
    assert (now[FIRST].status, reason in now[FIRST].detail) == (status, True), now
    outcomes = restored(etl_removal, before)
    assert (outcomes[0].status, outcomes[0].sends) == (status, 0)
    assert FIRST not in [commit.at for commit in cluster.restored]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda _c: None, Status.APPLIED),
        (lambda c: c.commit(GROUP, {FIRST: 51}), Status.BLOCKED),
        (lambda c: c.commit(GROUP, {SECOND: 61}), Status.BLOCKED),
        (lambda c: c.join(GROUP, "orders"), Status.BLOCKED),
        (lambda c: c.groups[GROUP].commits.clear(), Status.BLOCKED),
    ],
    ids=["as it was left", "gone on", "gone on elsewhere", "with a member", "without commits"],
)
def test_what_a_broker_that_was_down_left_out_is_written_later(
    cluster: FakeCluster, restored: Restored, change: Any, status: Status
) -> None:
    """The first run made the group, and no later one wrote the offset of the partition without a leader."""
    leader = cluster.partition(FIRST).leader
    cluster.partition(FIRST).leader = None
    first, second = restored()
    assert (first.status, second.status) == (Status.NOT_ATTEMPTED, Status.APPLIED)
    cluster.partition(FIRST).leader = leader
    change(cluster)
    first, second = restored()
    assert first.status is status
    if status is Status.APPLIED:
        assert second.status is Status.SATISFIED
        assert cluster.groups[GROUP].commits == {FIRST: 50, SECOND: 60}
        again = restored()
        assert {outcome.status for outcome in again} == {Status.SATISFIED}, "as after a run that ended at once"
        assert exit_code(again) == ExitCode.DONE
    else:
        assert [commit.at for commit in cluster.restored] == [SECOND]


def test_what_was_not_to_be_written_stays_so_after_the_confirmation(cluster: FakeCluster, restored: Restored) -> None:
    """Its leader is back by then, but the person has confirmed the other offset only."""
    leader = cluster.partition(FIRST).leader
    cluster.partition(FIRST).leader = None
    unwritable = restore.find_unwritable(removal_of(cluster), cluster)
    cluster.partition(FIRST).leader = leader
    first, second = restored(unwritable=unwritable)
    assert (first.status, second.status) == (Status.NOT_ATTEMPTED, Status.APPLIED)
    assert cluster.groups[GROUP].commits == {SECOND: 60}


def test_an_unknown_topic_id_is_never_written(cluster: FakeCluster, restored: Restored) -> None:
    etl_removal = removal_of(cluster)
    etl_removal = replace(etl_removal, offsets=(replace(etl_removal.offsets[0], topic_id=None), etl_removal.offsets[1]))
    assert restore.find_unwritable(etl_removal, cluster).keys() == {FIRST}
    outcomes = restored(etl_removal)
    assert details(outcomes)[0] == (Status.BLOCKED, "the topic's id at the removal is not known")
    assert exit_code(outcomes) == ExitCode.PARTLY
    assert cluster.groups[GROUP].commits == {SECOND: 60}


@pytest.mark.parametrize("late", [False, True], ids=["before the plan", "after the confirmation"])
@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (lambda c: c.commit(GROUP, {FIRST: 99}), Status.BLOCKED, "exists (classic, EMPTY)"),
        (lambda c: c.join(GROUP, "orders"), Status.BLOCKED, "exists (classic, STABLE)"),
        (lambda c: c.groups.update({GROUP: FakeGroup(hidden=True)}), Status.BLOCKED, "exists (hidden)"),
        (
            lambda c: c.groups.update({GROUP: FakeGroup(type=GroupType.CONSUMER)}),
            Status.BLOCKED,
            "exists (consumer, EMPTY)",
        ),
        (lambda c: setattr(c, "may_describe", False), Status.NOT_ATTEMPTED, "is not known"),
        (lambda c: c.silent.add(1), Status.NOT_ATTEMPTED, "is not known"),
        # Only its coordinator does not answer: the group is neither there nor absent.
        (
            lambda c: setattr(
                c, "read_groups", lambda names: {name: unknown_group(name, facts.LOST) for name in names}
            ),
            Status.NOT_ATTEMPTED,
            f"is not known: {facts.LOST.reason}",
        ),
    ],
    ids=[
        "with commits",
        "with a member",
        "hidden",
        "of the new protocol",
        "no right to list",
        "silent broker",
        "unread",
    ],
)
def test_nothing_is_written_over_a_group_that_may_exist(
    cluster: FakeCluster, restored: Restored, change: Any, status: Status, says: str, *, late: bool
) -> None:
    """In whatever state and type, and also where its absence is not proven."""
    etl_removal = removal_of(cluster)
    unwritable = restore.find_unwritable(etl_removal, cluster)
    change(cluster)
    if not late:
        unwritable = restore.find_unwritable(etl_removal, cluster)
        assert unwritable.keys() == {FIRST, SECOND}
    outcomes = restored(etl_removal, unwritable)
    assert {outcome.status for outcome in outcomes} == {status}
    assert says in outcomes[0].detail
    assert exit_code(outcomes) == (3 if status is Status.BLOCKED else 1)
    assert cluster.restored == []


@pytest.mark.parametrize(
    ("code", "possible", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False, "READ on the group and on the topic"),
        (KafkaError.REQUEST_TIMED_OUT, True, "the group has no commit, and not 50"),
        (KafkaError.NO_ERROR, True, "the group has no commit, and not 50"),
    ],
)
def test_an_offset_that_does_not_read_back_has_failed(
    cluster: FakeCluster, restored: Restored, code: int, words: str, *, possible: bool
) -> None:
    """The others are written; the exit code says that something is not done."""
    cluster.commit_faults[FIRST] = code
    outcomes = restored()
    assert (outcomes[0].status, outcomes[0].possible) == (Status.FAILED, possible)
    assert outcomes[0].read_back == (None if possible else "no commit"), "of a try that ends it"
    assert words in outcomes[0].detail
    assert outcomes[1].status is Status.APPLIED
    assert exit_code(outcomes) == ExitCode.PARTLY


@pytest.mark.parametrize(("offset", "words"), [(50, "written back"), (55, "a consumer has gone on since")])
def test_the_read_back_decides(cluster: FakeCluster, restored: Restored, offset: int, words: str) -> None:
    """A consumer that comes back at once commits further on; that is not a failure."""
    intercept(cluster, "commit_offsets", after=lambda: cluster.commit(GROUP, {FIRST: offset}))
    outcomes = restored()
    assert (outcomes[0].status, outcomes[0].read_back) == (Status.APPLIED, f"offset {offset}")
    assert words in outcomes[0].detail


def test_a_refused_offset_is_not_written_where_the_group_has_it(cluster: FakeCluster, restored: Restored) -> None:
    """A consumer joined right before the request, and happens to stand there."""
    intercept(cluster, "commit_offsets", lambda: (cluster.commit(GROUP, {FIRST: 50}), cluster.join(GROUP, "orders")))
    outcomes = restored()
    assert [(o.status, o.code, o.possible) for o in outcomes] == [(Status.FAILED, "UNKNOWN_MEMBER_ID", False)] * 2


def test_a_stop_sends_nothing(cluster: FakeCluster, restored: Restored) -> None:
    outcomes = restored(stop=lambda: True)
    assert details(outcomes) == [(Status.NOT_ATTEMPTED, "interrupted")] * 2
    assert cluster.restored == []


@pytest.mark.parametrize("stopped", [False, True])
def test_between_two_requests_a_stop_and_a_commit_count(
    cluster: FakeCluster, restored: Restored, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """The second request went out after a stop, and over the offset of a consumer that had committed."""
    monkeypatch.setattr(RestoreOffset, "BATCH_WEIGHT", 1)
    requests = intercept(cluster, "commit_offsets", after=lambda: cluster.commit(GROUP, {SECOND: 9}))
    outcomes = restored(stop=lambda: stopped and bool(requests))
    assert len(requests) == 1
    assert [outcome.status for outcome in outcomes] == [
        Status.APPLIED,
        Status.NOT_ATTEMPTED if stopped else Status.BLOCKED,
    ]
    assert cluster.groups[GROUP].commits[SECOND] == 9


def test_nothing_is_written_without_an_intent(
    cluster: FakeCluster, restored: Restored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_fields: object) -> None:
        raise JournalUnavailable("the disk is full")

    monkeypatch.setattr(ActionJournal, "record", refuse)
    outcomes = restored()
    assert details(outcomes) == [(Status.NOT_ATTEMPTED, "the disk is full")] * 2
    assert cluster.restored == []


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.NOT_COORDINATOR])
def test_a_request_whose_answer_is_lost_is_tried_again(cluster: FakeCluster, restored: Restored, code: int) -> None:
    """The group may exist by then, as this run created it. A commit of another client stays as it is."""
    cluster.commit_faults |= {FIRST: code, SECOND: code}

    def commit_once() -> None:
        if cluster.commit_faults:
            cluster.commit_faults.clear()
            cluster.commit(GROUP, {SECOND: 9})

    intercept(cluster, "commit_offsets", after=commit_once)
    first, second = restored()
    assert (first.status, first.sends) == (Status.APPLIED, 2)
    assert (second.status, second.sends, second.read_back) == (Status.FAILED, 1, "offset 9")
    assert cluster.groups[GROUP].commits == {FIRST: 50, SECOND: 9}


def test_a_large_group_is_written_in_requests_that_a_broker_accepts(cluster: FakeCluster, restored: Restored) -> None:
    """One request is one batch of `__consumer_offsets`, at most a megabyte."""
    cluster.create_topic("wide", 12_000)
    topic_id = cluster.topics["wide"].topic_id
    offsets = tuple(
        CommittedOffset(topic="wide", topic_id=topic_id, partition=number, offset=0) for number in range(12_000)
    )
    calls = intercept(cluster, "commit_offsets")
    outcomes = restored(replace(removal_of(cluster), offsets=offsets))
    assert {outcome.status for outcome in outcomes} == {Status.APPLIED}
    assert len(calls) > 4
    assert max(100 * len(batch) for _group, batch in calls) < 400_000
    assert len(cluster.restored) == len(set(cluster.restored)) == 12_000


@pytest.mark.parametrize(
    ("texts", "note"),
    [
        (["", ""], ""),
        (["YQ==", ""], "; metadata of 1 partition not restored: the client library cannot write that of 1"),
        ([None, ""], "; metadata of 1 partition not restored: that of 1 is not known"),
        (
            ["YQ==", None],
            "; metadata of 2 partitions not restored: the client library cannot write that of 1, that of 1 is not known",
        ),
    ],
    ids=["none", "some", "not known", "both"],
)
def test_metadata_that_is_not_restored_is_said(cluster: FakeCluster, texts: list[str | None], note: str) -> None:
    """Before the question, in the result and in the journal. All offsets are back, so the exit code is 0."""
    etl_removal = removal_of(cluster)
    commits = zip(etl_removal.offsets, texts, strict=True)
    offsets = tuple(replace(commit, metadata_base64=text) for commit, text in commits)
    etl_removal = replace(etl_removal, offsets=offsets)
    unwritable = restore.find_unwritable(etl_removal, cluster)
    outcomes = restore.restore(etl_removal, unwritable, context(cluster))
    assert exit_code(outcomes.values()) == 0
    reasons = {"": "", None: "; without its metadata, which is not known"}
    expected = [
        reasons.get(text, "; without its metadata, which cannot be written by the client library") for text in texts
    ]
    assert [entry.detail for entry in journaled()[2:]] == [f"written back{reason}" for reason in expected]
    for tree, verb in (
        (restore_report(etl_removal, unwritable, "prod", is_planned=True), "can be written back"),
        (restore_report(etl_removal, outcomes, "prod"), "written back"),
    ):
        text = " ".join(line.plain for line in write_lines(tree, width=None))
        assert f"2 of 2 offsets {verb}{note}." in text


def test_metadata_of_a_journal_of_an_earlier_version_is_not_known() -> None:
    """Its text is what the client library read, beyond the end of the metadata: it is never written."""
    line = (
        '{"v":3,"at_ms":1,"event":"intent","run":"r","plan":"p","operation":"delete_group","actions":[{"address":'
        '"GroupRemoval/dead/etl","request":{"group":"etl"},"removed_offsets":[{"topic":"orders","topic_id":"id",'
        '"partition":0,"offset":50,"leader_epoch":0,"metadata":"note\\u0007"},{"topic":"orders","topic_id":"id",'
        '"partition":1,"offset":60}]}]}'
    )
    [commit, other] = find_removal(line, GROUP, name="journal").offsets
    assert (commit.metadata, commit.metadata_base64, other.metadata_base64) == ("note\u0007", None, None)
    assert dump(parse(line.encode(), JournalEntry)[0]).count('"metadata":') == 1


def applied(cluster: FakeCluster) -> tuple[str, str]:
    """Remove the group; return the text of the results and of the journal."""
    cluster.commit(GROUP, {FIRST: 50})
    ended = run(cluster, [removal(cluster, GROUP)])
    return "".join(results.lines(ended.outcomes, HEADER)), "".join(
        f"{dump(entry)}\n" for entry in ended.journal.entries()
    )


def test_a_removal_is_found_in_results_and_journal(cluster: FakeCluster) -> None:
    """Reformatted results are accepted; only results name the cluster."""
    document, lines = applied(cluster)
    offsets = (replace(removal_of(cluster).offsets[0], metadata_base64=None),)
    for text in (document, json.dumps(json.loads(document), indent=4), json.dumps(json.loads(document))):
        of_results = find_removal(text, GROUP, name="results.json")
        assert (of_results.offsets, of_results.cluster_id, of_results.address) == (offsets, HEADER.cluster_id, ADDRESS)
    of_journal = find_removal(lines, GROUP, name="journal.jsonl")
    assert (of_journal.offsets, of_journal.cluster_id, of_journal.address) == (offsets, None, ADDRESS)


def entry(run_id: str, at_ms: int, offset: int, number: int = 0, **fields: Any) -> JournalEntry:
    commit = CommittedOffset(topic="orders", topic_id="id", partition=number, offset=offset)
    intent = JournalEntry(
        at_ms=at_ms,
        event=Event.INTENT,
        run_id=run_id,
        plan_digest="p",
        address=ADDRESS,
        operation="delete_group",
        request={"group": GROUP},
        removed_offsets=(commit,),
    )
    return replace(intent, **fields)


OUTCOME = {"event": Event.OUTCOME, "removed_offsets": None}


@pytest.mark.parametrize(
    ("entries", "offsets"),
    [
        ([entry("a", 1, 5), entry("b", 2, 6)], [(0, 6)]),
        ([entry("a", 1, 5), entry("a", 2, 6), entry("a", 3, 0, **OUTCOME, sends=1)], [(0, 6)]),
        ([entry("a", 1, 5), entry("b", 2, 6), entry("b", 3, 0, **OUTCOME, sends=0)], [(0, 5)]),
        ([entry("a", 1, 5), entry("a", 1, 7, number=1)], [(0, 5), (1, 7)]),
        ([entry("a", 1, 5), entry("r", 2, 9, operation="restore_group")], [(0, 5)]),
    ],
    ids=["newest run", "newest attempt", "never sent", "split", "a restore is not a removal"],
)
def test_the_newest_removal_of_a_journal_counts(entries: list[JournalEntry], offsets: list[tuple[int, int]]) -> None:
    text = "".join(f"{dump(line)}\n" for line in entries)
    commits = find_removal(text, GROUP, name="journal.jsonl").offsets
    assert [(commit.partition, commit.offset) for commit in commits] == offsets


def test_journals_that_were_joined_in_the_wrong_order_are_refused() -> None:
    """The offsets of the older removal were written: a group that had gone back would have skipped records."""
    text = "".join(f"{dump(line)}\n" for line in (entry("b", 2, 6), entry("a", 1, 90)))
    with pytest.raises(PlanUnusable, match=r"of run a .* after .* of run b .*nothing was done; join .*--run ID"):
        find_removal(text, GROUP, name="journal.jsonl")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n", "is empty: the journal that the manifests name now has no entry"),
        ("[]", "not a JSON object of kind Results"),
        ('{"kind": "Plan"}', "not a JSON object of kind Results"),
        ('{"kind": "Results", "format_version": "3.0"}', "this program reads 2.x"),
        ('{"kind": "Results", "format_version": "2.0"}', "it lacks outcomes"),
        ('{"v":2,"at_ms":1}\n', "line 1: no journal entry"),
        ('{"v":2,\ufeff', "byte 8 of the text is not ASCII"),
        ('{"kind": "Results"}\n{}', "no JSON can be read at line 2, column 1"),
        ('{"kind": "Results", "outcomes": [], "outcomes": []}', "'outcomes' is there twice"),
    ],
)
def test_another_file_is_refused(text: str, words: str) -> None:
    with pytest.raises(PlanUnusable, match="apply --results") as error:
        find_removal(text, GROUP, name="file")
    assert words in str(error.value)


def test_a_file_that_an_editor_of_windows_saved_is_read(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """It begins with a byte order mark."""
    document, _ = applied(cluster)
    Path("marked.json").write_text(f"\ufeff{document}", encoding="utf-8")
    assert run_command(["restore-group", "marked.json", "another", "--dry-run"]) == ExitCode.PLAN_UNUSABLE
    assert 'marked.json holds no offsets of group "another"' in capsys.readouterr().err


TWICE = r'more than one offset of group "etl" for orders\[0\].*nothing was done'


@pytest.mark.parametrize(
    ("group", "change", "words"),
    [
        ("elt", lambda _row: None, r'no offsets of group "elt".*did you mean "etl".*journal -o json'),
        (GROUP, lambda row: row.update(removed_offsets=[]), "nothing to restore"),
        (GROUP, lambda row: row.update(unknown=1), "unknown"),
        # The plan promised both of them, and the client refused the request as a whole after the confirmation.
        (GROUP, lambda row: row["removed_offsets"].append({**row["removed_offsets"][0], "offset": 60}), TWICE),
    ],
    ids=["another group", "without commits", "an unknown field", "two offsets of a partition"],
)
def test_results_without_the_offsets_of_the_group_are_refused(
    cluster: FakeCluster, group: str, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    results_of_removal = json.loads(applied(cluster)[0])
    change(results_of_removal["outcomes"][0])
    with pytest.raises(PlanUnusable, match=words):
        find_removal(json.dumps(results_of_removal), group, name="results.json")


def test_the_partitions_of_a_topic_are_one_line(cluster: FakeCluster) -> None:
    """A group of 500 partitions once had 500 lines. What is not written comes first, by its cause."""
    cluster.create_topic("clicks", 40)
    cluster.produce("clicks", dict.fromkeys(range(40), 100))
    for number in range(10):
        cluster.expire(TopicPartition("clicks", number), 30 + number)
    clicks = [
        CommittedOffset(
            topic="clicks",
            topic_id=cluster.topics["clicks"].topic_id,
            partition=number,
            offset=20 + number,
            metadata_base64="",
        )
        for number in range(40)
    ]
    removal = removal_of(cluster)
    removal = replace(removal, offsets=(*removal.offsets, *clicks))
    unwritable = restore.find_unwritable(removal, cluster)

    def body(tree: Report) -> list[str]:
        return [line.plain for line in write_lines(tree, width=None)][2:-2]

    assert body(restore_report(removal, unwritable, "prod", is_planned=True)) == [
        "Do not write: 10 partitions of clicks, such as clicks[0] — offsets 20 to 29: the log starts at 30, above the offset",
        "Write: 2 partitions of orders — offsets 50 to 60",
        "Write: 30 partitions of clicks — offsets 30 to 59",
    ]
    outcomes = restore.restore(removal, unwritable, context(cluster))
    assert body(restore_report(removal, outcomes, "prod")) == [
        "Not written: 10 partitions of clicks, such as clicks[0] — offsets 20 to 29: stale: the log starts at 30, above the offset",
        "Written: 2 partitions of orders — offsets 50 to 60: applied: written back",
        "Written: 30 partitions of clicks — offsets 30 to 59: applied: written back",
    ]


@pytest.mark.parametrize(
    ("policy", "is_named"),
    [
        (facts.removal("e*", envelope={"mode": "continuous"}), True),
        (facts.removal("e*"), False),
        (facts.removal("other", envelope={"mode": "continuous"}), False),
        (facts.floor("etl", keep={"last": 1}, envelope={"mode": "continuous"}), False),
    ],
    ids=["continuous", "merge", "of another group", "of a topic of that name"],
)
def test_who_removes_the_group_again_is_named(cluster: FakeCluster, policy: Policy, is_named: bool) -> None:
    """The next round of `converge` once took the offsets that a person had just written."""
    assert removal_of(cluster).group == "etl"
    tree = restore_report(removal_of(cluster), {}, "prod", [policy], is_planned=True)
    text = "\n".join(line.plain for line in write_lines(tree, width=None))
    assert ("which is continuous" in text) is is_named
    assert (f"{policy.address} ({policy.declared_at})" in text) is is_named


def test_a_topic_name_of_an_edited_file_stays_on_its_line(cluster: FakeCluster) -> None:
    """A name with control characters could hide, or add, a line of the plan that is confirmed."""
    removal = removal_of(cluster)
    hostile = replace(removal.offsets[0], topic="orders\n  + paid[0]   offset 1\x1b[8m")
    removal = replace(removal, offsets=(hostile, removal.offsets[1]))
    unwritable = restore.find_unwritable(removal, cluster)
    outcomes = restore.restore(removal, unwritable, context(cluster, stop=lambda: True))
    for tree in (
        restore_report(removal, unwritable, "prod", is_planned=True),
        restore_report(removal, outcomes, "prod"),
    ):
        text = "\n".join(line.plain for line in write_lines(tree, width=None))
        assert "\x1b" not in text
        assert "\n  + paid" not in text
