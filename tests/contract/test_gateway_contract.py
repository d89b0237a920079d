"""The contract of every Gateway. The fake and the real one pass the same tests."""

from dataclasses import replace

import pytest

from reconciler.companions.sandbox.client import wait_until
from reconciler.kafka.consumer_offsets_layout import log_partition
from reconciler.model.names import TopicPartition
from reconciler.model.ports import Election
from reconciler.model.scan_request import ExternalReaderRequest, PositionKind
from reconciler.model.selector import Selector
from reconciler.model.snapshot import (
    Cause,
    ExternalPosition,
    GroupState,
    GroupType,
    PartitionFacts,
    PendingCommit,
    Unknown,
)
from reconciler.operations.error_meanings import ResponseAction
from tests.contract.environments import Environment, unique_name


@pytest.fixture
def topic(environment: Environment) -> str:
    """A topic of two partitions with ten records each."""
    topic = environment.new_topic(2)
    environment.produce(topic, {0: 10, 1: 10})
    return topic


@pytest.fixture
def group() -> str:
    return unique_name()


def read_facts(environment: Environment, partition: TopicPartition) -> PartitionFacts:
    facts = environment.gateway.read_partitions([partition], offsets=True)[partition]
    assert facts is not None
    return facts


def test_contract_empty_requests_have_empty_results(environment: Environment) -> None:
    """An empty request has an empty result: an election on no partitions is not an election on all."""
    assert environment.gateway.read_partitions([], offsets=True) == {}
    assert environment.gateway.read_positions({}) == {}
    assert environment.gateway.read_positions({"missing": []}) == {}
    assert environment.gateway.read_groups([]) == {}
    assert environment.gateway.delete_records({}) == {}
    assert environment.gateway.delete_groups([]) == {}
    assert environment.gateway.elect_leaders(Election.PREFERRED, []) == {}


def test_contract_partition_facts(environment: Environment, topic: str) -> None:
    """A partition has its facts, and its offsets only where they were requested."""
    environment.produce(topic, {1: 3})
    first, second, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)
    facts = environment.gateway.read_partitions([first, second, missing], offsets=True)
    first_facts, second_facts = facts[first], facts[second]
    assert first_facts is not None
    assert second_facts is not None
    assert facts[missing] is None
    assert (first_facts.partition, second_facts.partition) == (first, second)
    assert (first_facts.log_start, first_facts.high_watermark) == (0, 10)
    assert (second_facts.log_start, second_facts.high_watermark) == (0, 13)
    assert first_facts.leader in first_facts.in_sync  # type: ignore[operator]
    assert isinstance(first_facts.topic_id, str)
    assert first_facts.topic_id == second_facts.topic_id
    without_offsets = environment.gateway.read_partitions([first], offsets=False)[first]
    assert without_offsets is not None
    assert isinstance(without_offsets.log_start, Unknown)
    assert without_offsets.leader == first_facts.leader


def test_contract_a_read_creates_no_topic(environment: Environment) -> None:
    """A read of an unknown topic answers None and does not create the topic."""
    partition = TopicPartition(unique_name(), 0)
    assert environment.gateway.read_partitions([partition], offsets=True)[partition] is None
    result = environment.gateway.delete_records({partition: 5})[partition]
    # A client that knows no partition of the call answers itself, with another code.
    assert result.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT")
    assert result.answer is not ResponseAction.DONE
    # A broker may have lost the partition after a deletion; the client sent no request.
    assert result.no_effect is (result.code == "_NOENT")
    assert environment.gateway.read_partitions([partition], offsets=True)[partition] is None


def test_contract_a_recreated_topic_has_another_id(environment: Environment, topic: str) -> None:
    """A topic that was deleted and created again has another id."""
    partition = TopicPartition(topic, 0)
    before = read_facts(environment, partition).topic_id
    environment.delete_topic(topic)
    environment.create_topic(topic, 1)
    after = read_facts(environment, partition).topic_id
    assert isinstance(after, str)
    assert after != before


def test_contract_delete_records_moves_the_log_start(environment: Environment, topic: str) -> None:
    """The target becomes the log start offset, which is the answer: the lowest one of all replicas.

    The same or a lower target succeeds without effect.
    """
    partition = TopicPartition(topic, 0)
    environment.gateway.connect_for_deletions()
    for target in (4, 4, 2):
        result = environment.gateway.delete_records({partition: target})[partition]
        assert (result.answer, result.code, result.low_watermark) == (ResponseAction.DONE, "NONE", 4)
        facts = read_facts(environment, partition)
        assert (facts.log_start, facts.high_watermark) == (4, 10)


def test_contract_delete_records_above_the_high_watermark_is_stale(environment: Environment, topic: str) -> None:
    """A target above the high watermark deletes nothing and tells no log start; the other partitions of the
    request are truncated.
    """
    invalid, valid = TopicPartition(topic, 0), TopicPartition(topic, 1)
    results = environment.gateway.delete_records({invalid: 11, valid: 10})
    assert (results[invalid].answer, results[invalid].code) == (ResponseAction.STALE, "OFFSET_OUT_OF_RANGE")
    assert results[invalid].low_watermark is None
    assert results[valid].answer is ResponseAction.DONE
    assert (read_facts(environment, invalid).log_start, read_facts(environment, valid).log_start) == (0, 10)


@pytest.mark.parametrize("target", [-1, 0, -1001])
def test_contract_minus_one_is_never_sent(environment: Environment, topic: str, target: int) -> None:
    """For a broker -1 means "all records", so the gateway sends no target below 1."""
    invalid, valid = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with pytest.raises(ValueError, match=r"target"):
        environment.gateway.delete_records({valid: 3, invalid: target})
    assert (read_facts(environment, invalid).log_start, read_facts(environment, valid).log_start) == (0, 0)


def test_contract_delete_records_of_a_compacted_topic_fails(environment: Environment) -> None:
    """DeleteRecords on a compact-only topic is a policy violation."""
    partition = TopicPartition(environment.new_topic(1, compacted=True), 0)
    environment.produce(partition.topic, {0: 5})
    result = environment.gateway.delete_records({partition: 3})[partition]
    assert (result.answer, result.code) == (ResponseAction.FAILED, "POLICY_VIOLATION")


def test_contract_commits_are_positions_or_none(environment: Environment, topic: str, group: str) -> None:
    """A committed offset is a number; without a commit the answer is None, never 0 and never -1."""
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    environment.commit(group, {first: 7})
    absent_group = unique_name()
    positions = environment.gateway.read_positions({group: [first, second], absent_group: [first]})
    assert positions == {(group, first): 7, (group, second): None, (absent_group, first): None}


def test_contract_group_facts(environment: Environment, topic: str, group: str) -> None:
    """A listed group has type, state, commits and fingerprint; an absent one is not listed.

    The fingerprint changes with the commits.
    """
    partition, absent_group = TopicPartition(topic, 0), unique_name()
    environment.commit(group, {partition: 7})
    facts = environment.gateway.read_groups([group, absent_group])
    assert (facts[group].listed, facts[group].type, facts[group].state) == (True, GroupType.CLASSIC, GroupState.EMPTY)
    assert (facts[group].commits, facts[group].commit_topics) == (1, 1)
    assert facts[absent_group].listed is False
    repeated = environment.gateway.read_groups([group])[group].fingerprint
    assert repeated == facts[group].fingerprint
    environment.commit(group, {partition: 8})
    assert environment.gateway.read_groups([group])[group].fingerprint != repeated


def test_contract_the_consumer_offsets_shows_a_commit_of_the_same_offset(
    environment: Environment, topic: str, group: str
) -> None:
    """The newest record of each group, from an offset on; the list of commits would look the same."""
    environment.commit(group, {TopicPartition(topic, 0): 7})
    number = log_partition(group, environment.log_partitions())
    (before,) = environment.gateway.read_consumer_offsets({number: 0}).values()
    assert not isinstance(before, Unknown)
    start = before[group] + 1
    assert group not in environment.gateway.read_consumer_offsets({number: start})[number]
    environment.commit(group, {TopicPartition(topic, 0): 7})
    (after,) = environment.gateway.read_consumer_offsets({number: start}).values()
    assert not isinstance(after, Unknown)
    assert after[group] >= start
    assert environment.gateway.read_consumer_offsets({}) == {}


def test_contract_a_member_without_commits_is_a_consumer(environment: Environment, topic: str, group: str) -> None:
    """Of the topics of which a member has partitions, and of those on which the group has commits."""
    other, committed = environment.new_topic(1), unique_name()
    environment.commit(committed, {TopicPartition(topic, 0): 3})
    with environment.member(group, topic):
        consumers = environment.gateway.read_consumers([topic, other], {})
        assert consumers.incomplete is None
        assert consumers.commits == {topic: {group: {}, committed: {0: 3}}, other: {}}
        assert consumers.groups[group].consumption_unread is None
        assert consumers.groups[group].state is GroupState.STABLE


def test_contract_readers_outside_of_groups_are_read_with_the_groups(environment: Environment, topic: str) -> None:
    """Each reading has their positions of that moment, unknown ones as such."""
    reader = ExternalReaderRequest(
        name="ExternalReader/lake", topics=(Selector(topic),), kind=PositionKind.TABLE, at="/data/x.csv"
    )
    for position in (ExternalPosition({TopicPartition(topic, 0): 3}, 1), Unknown("it is garbled")):
        environment.external[reader] = position
        assert environment.gateway.read_consumers([topic], {}).external == {reader: position}


def test_contract_a_pending_commit_is_told_until_the_end_of_its_transaction(
    environment: Environment, topic: str, group: str
) -> None:
    """Beside the visible commit, and without one; an aborted one counts for nothing."""
    other, first, both = environment.new_topic(1), group, unique_name()
    at = TopicPartition(topic, 0)
    environment.commit(both, {at: 3})
    number = log_partition(first, environment.log_partitions())
    with environment.pending_commit(first, topic, 1), environment.pending_commit(both, topic, 2):
        consumers = environment.gateway.read_consumers([topic, other], {})
        assert consumers.incomplete is None
        assert consumers.commits == {topic: {first: {}, both: {0: 3}}, other: {}}
        assert consumers.pending[first, at] == PendingCommit(1, number)
        assert consumers.pending[both, at].committed == 2
        # What was read before does not hide it: its transaction is still open.
        assert (first, at) in environment.gateway.read_consumers([topic], consumers.log_ends).pending
        # A group that is about to be removed has no commits that the transaction may replace.
        fingerprint = environment.gateway.read_groups([both])[both].fingerprint
        assert isinstance(fingerprint, Unknown)
        assert fingerprint.cause is Cause.OPEN_TRANSACTION
    wait_until(lambda: not environment.gateway.read_consumers([topic], {}).pending, 30, "the end of the transactions")
    assert environment.gateway.read_consumers([topic], {}).commits == {topic: {both: {0: 3}}}


def test_contract_new_records_tell_what_a_share_group_reads(environment: Environment, topic: str, group: str) -> None:
    """No list call tells its type; records before `log_starts` are not news."""
    environment.commit(unique_name(), {TopicPartition(topic, 0): 0})
    before = environment.gateway.read_consumers([topic], {})
    assert group not in before.groups
    if not environment.has_new_groups:
        return
    with environment.share_member(group, topic):
        consumers = environment.gateway.read_consumers([topic], before.log_ends)
        assert consumers.subscriptions[group] == {topic}
        facts = consumers.groups[group]
        assert (facts.listed, facts.type, facts.may_read) == (False, GroupType.HIDDEN, None)
        assert group not in consumers.commits[topic]
        assert environment.gateway.read_groups([group])[group].listed is False, "no removal may find it"
        later = environment.gateway.read_consumers([topic], consumers.log_ends)
        assert group in later.groups
        assert later.subscriptions.get(group, {topic}) == {topic}


def test_contract_groups_with_members_are_not_removed(environment: Environment, topic: str, group: str) -> None:
    """A group with a member is not EMPTY and its removal is stale; after the member left, the
    removal succeeds.
    """
    environment.commit(group, {TopicPartition(topic, 0): 2})
    with environment.member(group, topic):
        assert environment.gateway.read_groups([group])[group].state is GroupState.STABLE
        result = environment.gateway.delete_groups([group])[group]
        assert (result.answer, result.code) == (ResponseAction.STALE, "NON_EMPTY_GROUP")
    assert environment.gateway.read_groups([group])[group].state is GroupState.EMPTY
    assert environment.gateway.delete_groups([group])[group].code == "NONE"
    assert environment.gateway.read_groups([group])[group].listed is False


def test_contract_a_streams_group_is_shown_by_the_old_list_call(
    environment: Environment, topic: str, group: str
) -> None:
    """With its commits; its type and state stay unknown. A removal takes it out of that list, too."""
    if not environment.has_new_groups:
        return
    environment.streams_group(group, TopicPartition(topic, 0), 2)
    assert environment.gateway.read_groups([group])[group].listed is False, "the current list call hides it"
    facts = environment.gateway.read_groups([group, topic], hidden=True)
    assert facts[topic].listed is False
    assert facts[group].listed is True
    assert isinstance(facts[group].type, Unknown)
    assert isinstance(facts[group].state, Unknown)
    assert [(commit.partition, commit.offset) for commit in facts[group].offsets] == [(0, 2)]
    assert environment.gateway.delete_groups([group])[group].code == "NONE"
    assert environment.gateway.read_groups([group], removed=[group], hidden=True)[group].listed is False


def test_contract_a_removed_group_has_no_commits(environment: Environment, topic: str, group: str) -> None:
    """A removed group has no commits, a second removal succeeds, and a duplicate name is sent once."""
    partition = TopicPartition(topic, 0)
    environment.commit(group, {partition: 2})
    results = environment.gateway.delete_groups([group, group])
    assert [result.code for result in results.values()] == ["NONE"]
    assert environment.gateway.read_positions({group: [partition]})[group, partition] is None
    second_result = environment.gateway.delete_groups([group])[group]
    assert (second_result.answer, second_result.code) == (ResponseAction.DONE, "GROUP_ID_NOT_FOUND")


def test_contract_committed_offsets_can_be_written_back(environment: Environment, topic: str, group: str) -> None:
    """The commits of a removed group, with the topic's id, create the same group again.

    A topic that does not exist fails alone, and a group with members takes no offset.
    """
    environment.commit(group, {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 0})
    facts = environment.gateway.read_groups([group])[group]
    topic_id = read_facts(environment, TopicPartition(topic, 0)).topic_id
    assert [(c.at, c.offset, c.topic_id) for c in facts.offsets] == [
        (TopicPartition(topic, 0), 7, topic_id),
        (TopicPartition(topic, 1), 0, topic_id),
    ]
    assert environment.gateway.list_groups()[group].listed is True
    environment.gateway.delete_groups([group])
    assert group not in environment.gateway.list_groups()
    absent_topic = replace(facts.offsets[0], topic=unique_name())
    results = environment.gateway.commit_offsets(group, [*facts.offsets, absent_topic])
    assert [result.code for result in results.values()] == ["NONE", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    restored = environment.gateway.read_groups([group])[group]
    assert (restored.offsets, restored.fingerprint, restored.state) == (
        facts.offsets,
        facts.fingerprint,
        GroupState.EMPTY,
    )
    with environment.member(group, topic):
        (result,) = environment.gateway.commit_offsets(group, facts.offsets[:1]).values()
        assert result.code == "UNKNOWN_MEMBER_ID"
    assert environment.gateway.commit_offsets(group, []) == {}


def test_contract_elections(environment: Environment, topic: str) -> None:
    """A preferred election moves the leader to the first replica. Each partition has its own answer.

    An unclean election of a partition with a leader changes nothing.
    """
    moved, preferred, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)
    environment.change_preferred_leader(moved)
    facts_before = read_facts(environment, moved)
    assert facts_before.leader != facts_before.replicas[0]  # type: ignore[index]
    results = environment.gateway.elect_leaders(Election.PREFERRED, [moved, preferred, missing])
    assert (results[moved].answer, results[moved].code) == (ResponseAction.DONE, "NONE")
    assert (results[preferred].answer, results[preferred].code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert (results[missing].answer, results[missing].code) == (ResponseAction.STALE, "UNKNOWN_TOPIC_OR_PARTITION")
    leader = read_facts(environment, preferred).leader
    result = environment.gateway.elect_leaders(Election.UNCLEAN, [preferred])[preferred]
    assert (result.answer, result.code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert read_facts(environment, preferred).leader == leader


def test_contract_refresh_changes_no_result(environment: Environment, topic: str) -> None:
    """After `refresh` the gateway reads leaders and coordinators again, with the same answers."""
    partition = TopicPartition(topic, 0)
    before = environment.gateway.read_partitions([partition], offsets=True)
    environment.gateway.refresh()
    assert environment.gateway.read_partitions([partition], offsets=True) == before
