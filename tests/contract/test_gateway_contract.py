"""The behaviour of every Gateway. The fake and the real one pass the same tests."""

import pytest

from reconciler.model.election import Election
from reconciler.model.names import TopicPartition
from reconciler.model.snapshot import GroupState, GroupType, PartitionFacts, Unknown
from reconciler.operations.response import ResponseAction
from tests.contract.worlds import World


def answered(world: World, at: TopicPartition, before_offset: int) -> tuple[ResponseAction, str]:
    answer = world.gateway.delete_records({at: before_offset})[at]
    return answer.answer, answer.code


def there(world: World, at: TopicPartition) -> PartitionFacts:
    facts = world.gateway.read_partitions([at], offsets=True)[at]
    assert facts is not None
    return facts


def test_contract_empty_requests_answer_empty(world: World) -> None:
    """An empty request answers empty: an election on no partitions is not an election on all."""
    assert world.gateway.read_partitions([], offsets=True) == {}
    assert world.gateway.read_positions({}) == {}
    assert world.gateway.read_positions({"nobody": []}) == {}
    assert world.gateway.read_groups([]) == {}
    assert world.gateway.delete_records({}) == {}
    assert world.gateway.delete_groups([]) == {}
    assert world.gateway.elect_leaders(Election.PREFERRED, []) == {}


def test_contract_partition_facts(world: World) -> None:
    """A partition has its facts, and its offsets only where they were requested."""
    topic = world.topic(2)
    world.produce(topic, {0: 10, 1: 3})
    first, second, none = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)
    facts = world.gateway.read_partitions([first, second, none], offsets=True)
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
    without = world.gateway.read_partitions([first], offsets=False)[first]
    assert without is not None
    assert isinstance(without.log_start, Unknown)
    assert without.leader == one.leader


def test_contract_unknown_topic_is_gone_and_stays_gone(world: World) -> None:
    """A read of an unknown topic answers None and does not create the topic."""
    at = TopicPartition(world.name(), 0)
    assert world.gateway.read_partitions([at], offsets=True)[at] is None
    answer = world.gateway.delete_records({at: 5})[at]
    # A client that knows no partition of the call says so itself, in its own words.
    assert answer.code in ("UNKNOWN_TOPIC_OR_PARTITION", "_NOENT")
    assert answer.answer is not ResponseAction.DONE
    # A broker that says so may have lost the partition after it had deleted; the client never sent it.
    assert answer.no_effect is (answer.code == "_NOENT")
    assert world.gateway.read_partitions([at], offsets=True)[at] is None


def test_contract_same_name_is_not_the_same_topic(world: World) -> None:
    """A topic that was deleted and created again has another id."""
    topic = world.topic(1)
    at = TopicPartition(topic, 0)
    before = there(world, at).topic_id
    world.drop(topic)
    world.again(topic, 1)
    after = there(world, at).topic_id
    assert isinstance(after, str)
    assert after != before


def test_contract_delete_records_moves_the_log_start(world: World) -> None:
    """The target becomes the log start; sending it again, or a lower one, is done without effect."""
    topic = world.topic(1)
    at = TopicPartition(topic, 0)
    world.produce(topic, {0: 10})
    assert answered(world, at, 4) == (ResponseAction.DONE, "NONE")
    assert there(world, at).log_start == 4
    assert answered(world, at, 4) == (ResponseAction.DONE, "NONE")
    assert answered(world, at, 2) == (ResponseAction.DONE, "NONE")
    now = there(world, at)
    assert (now.log_start, now.high_watermark) == (4, 10)


def test_contract_delete_records_above_the_high_watermark_is_stale(world: World) -> None:
    """A target above the high watermark deletes nothing, and the other partitions of the call are served."""
    topic = world.topic(2)
    world.produce(topic, {0: 10, 1: 10})
    over, fine = TopicPartition(topic, 0), TopicPartition(topic, 1)
    answers = world.gateway.delete_records({over: 11, fine: 10})
    assert (answers[over].answer, answers[over].code) == (ResponseAction.STALE, "OFFSET_OUT_OF_RANGE")
    assert answers[fine].answer is ResponseAction.DONE
    assert (there(world, over).log_start, there(world, fine).log_start) == (0, 10)


@pytest.mark.parametrize("target", [-1, 0, -1001])
def test_contract_minus_one_is_never_sent(world: World, target: int) -> None:
    """To a broker -1 means "all records": the gateway sends no such target, alone or with others."""
    topic = world.topic(2)
    world.produce(topic, {0: 5, 1: 5})
    bad, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with pytest.raises(ValueError, match=r"target"):
        world.gateway.delete_records({good: 3, bad: target})
    assert (there(world, bad).log_start, there(world, good).log_start) == (0, 0)


def test_contract_compact_only_topics_refuse(world: World) -> None:
    """DeleteRecords on a compact-only topic is a policy violation."""
    topic = world.topic(1, compacted=True)
    world.produce(topic, {0: 5})
    assert answered(world, TopicPartition(topic, 0), 3) == (ResponseAction.FAILED, "POLICY_VIOLATION")


def test_contract_commits_are_positions_or_none(world: World) -> None:
    """A commit is its number; no commit is None, for a known group and an unknown one; never 0 and never -1."""
    topic, group = world.topic(2), world.name()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    world.produce(topic, {0: 10})
    world.commit(group, {first: 7})
    stranger = world.name()
    found = world.gateway.read_positions({group: [first, second], stranger: [first]})
    assert found == {(group, first): 7, (group, second): None, (stranger, first): None}


def test_contract_group_facts(world: World) -> None:
    """A listed group has type, state, commits and fingerprint; an absent one is absent; the fingerprint follows the commits."""
    topic, group, stranger = world.topic(2), world.name(), world.name()
    at = TopicPartition(topic, 0)
    world.produce(topic, {0: 10})
    world.commit(group, {at: 7})
    facts = world.gateway.read_groups([group, stranger])
    assert (facts[group].listed, facts[group].type, facts[group].state) == (True, GroupType.CLASSIC, GroupState.EMPTY)
    assert (facts[group].commits, facts[group].commit_topics) == (1, 1)
    assert facts[stranger].listed is False
    same = world.gateway.read_groups([group])[group].fingerprint
    assert same == facts[group].fingerprint
    world.commit(group, {at: 8})
    assert world.gateway.read_groups([group])[group].fingerprint != same


def test_contract_live_groups_stay(world: World) -> None:
    """A group with a member is not EMPTY and its removal is stale; after the member left, the group is removed."""
    topic, group = world.topic(1), world.name()
    world.produce(topic, {0: 5})
    world.commit(group, {TopicPartition(topic, 0): 2})
    with world.member(group, topic):
        assert world.gateway.read_groups([group])[group].state is GroupState.STABLE
        answer = world.gateway.delete_groups([group])[group]
        assert (answer.answer, answer.code) == (ResponseAction.STALE, "NON_EMPTY_GROUP")
    assert world.gateway.read_groups([group])[group].state is GroupState.EMPTY
    assert world.gateway.delete_groups([group])[group].code == "NONE"
    assert world.gateway.read_groups([group])[group].listed is False


def test_contract_removing_a_group_takes_its_commits(world: World) -> None:
    """A removed group has no commits; a second removal is done, too; a duplicate name is sent once."""
    topic, group = world.topic(1), world.name()
    at = TopicPartition(topic, 0)
    world.produce(topic, {0: 5})
    world.commit(group, {at: 2})
    answers = world.gateway.delete_groups([group, group])
    assert [answer.code for answer in answers.values()] == ["NONE"]
    assert world.gateway.read_positions({group: [at]})[group, at] is None
    again = world.gateway.delete_groups([group])[group]
    assert (again.answer, again.code) == (ResponseAction.DONE, "GROUP_ID_NOT_FOUND")


def test_contract_elections(world: World) -> None:
    """A preferred election moves the leader to the first replica, is not needed there, and has one answer per partition."""
    topic = world.topic(2)
    away, home, none = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)
    world.turn(away)
    before = there(world, away)
    assert before.leader != before.replicas[0]  # type: ignore[index]
    answers = world.gateway.elect_leaders(Election.PREFERRED, [away, home, none])
    assert (answers[away].answer, answers[away].code) == (ResponseAction.DONE, "NONE")
    assert (answers[home].answer, answers[home].code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert (answers[none].answer, answers[none].code) == (ResponseAction.STALE, "UNKNOWN_TOPIC_OR_PARTITION")


def test_contract_a_led_partition_needs_no_unclean_election(world: World) -> None:
    """An unclean election of a partition with a leader changes nothing."""
    at = TopicPartition(world.topic(1), 0)
    leader = there(world, at).leader
    answer = world.gateway.elect_leaders(Election.UNCLEAN, [at])[at]
    assert (answer.answer, answer.code) == (ResponseAction.DONE, "ELECTION_NOT_NEEDED")
    assert there(world, at).leader == leader


def test_contract_refresh_changes_no_answer(world: World) -> None:
    """Forgetting leaders and coordinators is harmless."""
    topic = world.topic(1)
    at = TopicPartition(topic, 0)
    world.produce(topic, {0: 4})
    before = world.gateway.read_partitions([at], offsets=True)
    world.gateway.refresh()
    assert world.gateway.read_partitions([at], offsets=True) == before
