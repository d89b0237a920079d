"""The contract of every Gateway. The fake and the real one pass the same tests."""

import pytest

from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.ports import ResponseAction
from reconciler.model.snapshot import GroupState, GroupType, PartitionFacts, Unknown
from tests.contract.environments import Environment


def delete_records_before(
    environment: Environment, at: TopicPartition, before_offset: int
) -> tuple[ResponseAction, str]:
    answer = environment.gateway.delete_records({at: before_offset})[at]
    return answer.answer, answer.code


def read_facts(environment: Environment, at: TopicPartition) -> PartitionFacts:
    facts = environment.gateway.read_partitions([at], offsets=True)[at]
    assert facts is not None
    return facts


def test_contract_empty_requests_answer_empty(environment: Environment) -> None:
    """An empty request answers empty: an election on no partitions is not an election on all."""
    assert environment.gateway.read_partitions([], offsets=True) == {}
    assert environment.gateway.read_positions({}) == {}
    assert environment.gateway.read_positions({"nobody": []}) == {}
    assert environment.gateway.read_groups([]) == {}
    assert environment.gateway.delete_records({}) == {}
    assert environment.gateway.delete_groups([]) == {}
    assert environment.gateway.elect_leaders(Election.PREFERRED, []) == {}


def test_contract_partition_facts(environment: Environment) -> None:
    """A partition has its facts, and its offsets only where they were requested."""
    topic = environment.topic(2)
    environment.produce(topic, {0: 10, 1: 3})
    first, second, none = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)
    facts = environment.gateway.read_partitions([first, second, none], offsets=True)
    one, other = facts[first], facts[second]
    assert one is not None
    assert other is not None
    assert facts[none] is None
    assert (one.partition, other.partition) == (first, second)
    assert (one.log_start, one.high_watermark) == (0, 10)
    assert (other.log_start, other.high_watermark) == (0, 3)
    assert one.leader in one.in_sync  # type: ignore[operator]
    assert isinstance(one.topic_id, str)
    assert one.topic_id == other.topic_id
    without = environment.gateway.read_partitions([first], offsets=False)[first]
    assert without is not None
    assert isinstance(without.log_start, Unknown)
    assert without.leader == one.leader


def test_contract_a_read_creates_no_topic(environment: Environment) -> None:
    """A read of an unknown topic answers None and does not create the topic."""
    at = TopicPartition(environment.name(), 0)
    assert environment.gateway.read_partitions([at], offsets=True)[at] is None
    answer = environment.gateway.delete_records({at: 5})[at]
    # A client that knows no partition of the call says so itself, in its own words.
    assert answer.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT")
    assert answer.answer is not ResponseAction.DONE
    # A broker that says so may have lost the partition after it had deleted; the client never sent it.
    assert answer.no_effect is (answer.code == "_NOENT")
    assert environment.gateway.read_partitions([at], offsets=True)[at] is None


def test_contract_a_recreated_topic_has_another_id(environment: Environment) -> None:
    """A topic that was deleted and created again has another id."""
    topic = environment.topic(1)
    at = TopicPartition(topic, 0)
    before = read_facts(environment, at).topic_id
    environment.delete_topic(topic)
    environment.recreate(topic, 1)
    after = read_facts(environment, at).topic_id
    assert isinstance(after, str)
    assert after != before


def test_contract_delete_records_moves_the_log_start(environment: Environment) -> None:
    """The target becomes the log start offset.

    The same or a lower target succeeds without effect.
    """
    topic = environment.topic(1)
    at = TopicPartition(topic, 0)
    environment.produce(topic, {0: 10})
    assert delete_records_before(environment, at, 4) == (ResponseAction.DONE, "NONE")
    assert read_facts(environment, at).log_start == 4
    assert delete_records_before(environment, at, 4) == (ResponseAction.DONE, "NONE")
    assert delete_records_before(environment, at, 2) == (ResponseAction.DONE, "NONE")
    now = read_facts(environment, at)
    assert (now.log_start, now.high_watermark) == (4, 10)


def test_contract_delete_records_above_the_high_watermark_is_stale(environment: Environment) -> None:
    """A target above the high watermark deletes nothing; the other partitions of the request are
    truncated.
    """
    topic = environment.topic(2)
    environment.produce(topic, {0: 10, 1: 10})
    over, fine = TopicPartition(topic, 0), TopicPartition(topic, 1)
    answers = environment.gateway.delete_records({over: 11, fine: 10})
    assert (answers[over].answer, answers[over].code) == (ResponseAction.STALE, "OFFSET_OUT_OF_RANGE")
    assert answers[fine].answer is ResponseAction.DONE
    assert (read_facts(environment, over).log_start, read_facts(environment, fine).log_start) == (0, 10)


@pytest.mark.parametrize("target", [-1, 0, -1001])
def test_contract_minus_one_is_never_sent(environment: Environment, target: int) -> None:
    """For a broker -1 means "all records", so the gateway sends no target below 1."""
    topic = environment.topic(2)
    environment.produce(topic, {0: 5, 1: 5})
    bad, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with pytest.raises(ValueError, match=r"target"):
        environment.gateway.delete_records({good: 3, bad: target})
    assert (read_facts(environment, bad).log_start, read_facts(environment, good).log_start) == (0, 0)


def test_contract_delete_records_of_a_compacted_topic_fails(environment: Environment) -> None:
    """DeleteRecords on a compact-only topic is a policy violation."""
    topic = environment.topic(1, compacted=True)
    environment.produce(topic, {0: 5})
    assert delete_records_before(environment, TopicPartition(topic, 0), 3) == (
        ResponseAction.FAILED,
        "POLICY_VIOLATION",
    )


def test_contract_commits_are_positions_or_none(environment: Environment) -> None:
    """A committed offset is a number; without a commit the answer is None, never 0 and never -1."""
    topic, group = environment.topic(2), environment.name()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    environment.produce(topic, {0: 10})
    environment.commit(group, {first: 7})
    absent_group = environment.name()
    positions = environment.gateway.read_positions({group: [first, second], absent_group: [first]})
    assert positions == {(group, first): 7, (group, second): None, (absent_group, first): None}


def test_contract_group_facts(environment: Environment) -> None:
    """A listed group has type, state, commits and fingerprint; an absent one is not listed.

    The fingerprint changes with the commits.
    """
    topic, group, absent_group = environment.topic(2), environment.name(), environment.name()
    at = TopicPartition(topic, 0)
    environment.produce(topic, {0: 10})
    environment.commit(group, {at: 7})
    facts = environment.gateway.read_groups([group, absent_group])
    assert (facts[group].listed, facts[group].type, facts[group].state) == (True, GroupType.CLASSIC, GroupState.EMPTY)
    assert (facts[group].commits, facts[group].commit_topics) == (1, 1)
    assert facts[absent_group].listed is False
    repeated = environment.gateway.read_groups([group])[group].fingerprint
    assert repeated == facts[group].fingerprint
    environment.commit(group, {at: 8})
    assert environment.gateway.read_groups([group])[group].fingerprint != repeated


def test_contract_groups_with_members_are_not_removed(environment: Environment) -> None:
    """A group with a member is not EMPTY and its removal is stale; after the member left, the
    removal succeeds.
    """
    topic, group = environment.topic(1), environment.name()
    environment.produce(topic, {0: 5})
    environment.commit(group, {TopicPartition(topic, 0): 2})
    with environment.member(group, topic):
        assert environment.gateway.read_groups([group])[group].state is GroupState.STABLE
        answer = environment.gateway.delete_groups([group])[group]
        assert (answer.answer, answer.code) == (ResponseAction.STALE, "NON_EMPTY_GROUP")
    assert environment.gateway.read_groups([group])[group].state is GroupState.EMPTY
    assert environment.gateway.delete_groups([group])[group].code == "NONE"
    assert environment.gateway.read_groups([group])[group].listed is False


def test_contract_a_removed_group_has_no_commits(environment: Environment) -> None:
    """A removed group has no commits, a second removal succeeds, and a duplicate name is sent once."""
    topic, group = environment.topic(1), environment.name()
    at = TopicPartition(topic, 0)
    environment.produce(topic, {0: 5})
    environment.commit(group, {at: 2})
    answers = environment.gateway.delete_groups([group, group])
    assert [answer.code for answer in answers.values()] == ["NONE"]
    assert environment.gateway.read_positions({group: [at]})[group, at] is None
    again = environment.gateway.delete_groups([group])[group]
    assert (again.answer, again.code) == (ResponseAction.DONE, "GROUP_ID_NOT_FOUND")


def test_contract_elections(environment: Environment) -> None:
    """A preferred election moves the leader to the first replica.

    Each partition has its own answer.
    """
    topic = environment.topic(2)
    away, home, none = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)
    environment.change_preferred_leader(away)
    before = read_facts(environment, away)
    assert before.leader != before.replicas[0]  # type: ignore[index]
    answers = environment.gateway.elect_leaders(Election.PREFERRED, [away, home, none])
    assert (answers[away].answer, answers[away].code) == (ResponseAction.DONE, "NONE")
    assert (answers[home].answer, answers[home].code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert (answers[none].answer, answers[none].code) == (ResponseAction.STALE, "UNKNOWN_TOPIC_OR_PARTITION")


def test_contract_a_partition_with_a_leader_needs_no_unclean_election(environment: Environment) -> None:
    """An unclean election of a partition with a leader changes nothing."""
    at = TopicPartition(environment.topic(1), 0)
    leader = read_facts(environment, at).leader
    answer = environment.gateway.elect_leaders(Election.UNCLEAN, [at])[at]
    assert (answer.answer, answer.code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert read_facts(environment, at).leader == leader


def test_contract_refresh_changes_no_answer(environment: Environment) -> None:
    """After `refresh` the gateway reads leaders and coordinators again, with the same answers."""
    topic = environment.topic(1)
    at = TopicPartition(topic, 0)
    environment.produce(topic, {0: 4})
    before = environment.gateway.read_partitions([at], offsets=True)
    environment.gateway.refresh()
    assert environment.gateway.read_partitions([at], offsets=True) == before


def test_contract_cluster_id_is_stable(environment: Environment) -> None:
    """The cluster has an id, which stays the same."""
    assert environment.gateway.cluster_id() == environment.gateway.cluster_id() != ""
