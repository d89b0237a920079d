"""What groups consume, from answers of a client: the order of the requests, and unsettled members."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState

from reconciler.kafka import coordinators, groups
from reconciler.kafka.connect import Connection
from reconciler.kafka.coordinators import Consumption, read_consumption
from reconciler.kafka.session import KafkaSession
from reconciler.kafka.topics import consumer_offsets_missing
from reconciler.model.snapshot import NO_COMMIT_YET, REBALANCING, Cause, GroupFacts, GroupType, Unknown

ORDERS = SimpleNamespace(topic="orders", partition=0, offset=50, error=None)


class StubClient:
    """A client of one group. Its answers are as of the next poll, as with brokers.

    `leaves`: when offsets are requested, the only member commits and leaves.
    """

    def __init__(self, state: ConsumerGroupState, assigned: Sequence[Any], *, leaves: bool = False) -> None:
        self.state, self.assigned, self.leaves = state, assigned, leaves
        self.targets: Sequence[Any] = [None]
        self.pending: list[Callable[[], None]] = []

    def poll(self, _timeout_s: float) -> None:
        for answer in self.pending:
            answer()
        self.pending = []

    def describe_consumer_groups(self, names: Sequence[str], **_options: Any) -> dict[str, Future[Any]]:
        return self._answer(names[0], self._description)

    def list_consumer_group_offsets(self, requests: Sequence[Any], **_options: Any) -> dict[str, Future[Any]]:
        committed = SimpleNamespace(topic_partitions=[])
        if self.leaves:
            self.state, self.assigned = ConsumerGroupState.EMPTY, []
        return self._answer(requests[0].group_id, lambda: committed)

    def _description(self) -> Any:
        assignment = SimpleNamespace(topic_partitions=self.assigned)
        members = [SimpleNamespace(assignment=assignment, target_assignment=target) for target in self.targets]
        return SimpleNamespace(state=self.state, members=members)

    def _answer(self, group: str, content: Callable[[], Any]) -> dict[str, Future[Any]]:
        future = Future[Any]()
        self.pending.append(lambda: future.set_result(content()))
        return {group: future}


def session_of(client: StubClient) -> KafkaSession:
    """A session that calls the client at once, in this process."""
    session = KafkaSession(Connection(("127.0.0.1:9",), timeout_s=1.0), isolates=False)
    session._clients["reads"] = client  # type: ignore[assignment]
    return session


def read(client: StubClient) -> Consumption:
    (part,) = read_consumption(session_of(client), ["billing"], with_members=["billing"])
    return part["billing"]


def test_members_are_read_before_commits() -> None:
    """A member left between the two requests: its group read no topic, and lost records."""
    client = StubClient(ConsumerGroupState.STABLE, [ORDERS], leaves=True)
    assert read(client).by_topic({"orders", "other"}).keys() == {"orders"}


class LateClient(StubClient):
    """Descriptions are answered only once commits are requested."""

    def __init__(self) -> None:
        super().__init__(ConsumerGroupState.STABLE, [ORDERS], leaves=True)
        self.late: list[Callable[[], None]] = []

    def describe_consumer_groups(self, names: Sequence[str], **options: Any) -> dict[str, Future[Any]]:
        answer = super().describe_consumer_groups(names, **options)
        self.late += self.pending
        self.pending = []
        return answer

    def list_consumer_group_offsets(self, requests: Sequence[Any], **options: Any) -> dict[str, Future[Any]]:
        answer = super().list_consumer_group_offsets(requests, **options)
        self.pending += self.late
        self.late = []
        return answer


def test_a_description_that_comes_after_the_commits_says_nothing() -> None:
    """A member may commit first and leave in between: the group then seemed to read nothing."""
    assert isinstance(read(LateClient()).member_topics, Unknown)


@pytest.mark.parametrize(
    ("state", "unread"),
    [
        (ConsumerGroupState.STABLE, None),
        (ConsumerGroupState.EMPTY, None),
        (ConsumerGroupState.DEAD, None),
        (ConsumerGroupState.PREPARING_REBALANCING, REBALANCING),
        (ConsumerGroupState.COMPLETING_REBALANCING, REBALANCING),
        # ASSIGNING and RECONCILING, where a new member has no partitions yet.
        (ConsumerGroupState.UNKNOWN, REBALANCING),
    ],
)
def test_members_without_partitions_consume_nothing_only_in_a_settled_group(
    monkeypatch: pytest.MonkeyPatch, state: ConsumerGroupState, unread: object
) -> None:
    """A group of the new protocol that had not assigned yet counted as one that reads nothing."""
    monkeypatch.setattr(coordinators, "_REBALANCE_S", 0)
    assert read(StubClient(state, [])).unread == unread


@pytest.mark.parametrize(
    ("state", "targets", "expected"),
    [
        (ConsumerGroupState.UNKNOWN, [["new"]], {"orders", "new"}),
        (ConsumerGroupState.UNKNOWN, [["new"], []], REBALANCING),  # a new member, or one without work
        (ConsumerGroupState.UNKNOWN, [], REBALANCING),
        (ConsumerGroupState.PREPARING_REBALANCING, [["new"]], REBALANCING),
    ],
)
def test_a_group_that_hands_partitions_over_reads_those_that_its_members_have_and_get(
    monkeypatch: pytest.MonkeyPatch, state: ConsumerGroupState, targets: Sequence[Sequence[str]], expected: object
) -> None:
    """RECONCILING lasts as long as its slowest member, and each floor of the cluster was blocked until then."""
    monkeypatch.setattr(coordinators, "_REBALANCE_S", 0)
    client = StubClient(state, [ORDERS])
    client.targets = [
        SimpleNamespace(topic_partitions=[SimpleNamespace(topic=topic, partition=0) for topic in target])
        for target in targets
    ]
    assert read(client).member_topics == expected


@pytest.mark.parametrize(
    ("commits", "unread"), [((), NO_COMMIT_YET), (Unknown("no broker answered"), Unknown("no broker answered"))]
)
def test_a_hidden_group_without_a_commit_is_not_read(
    monkeypatch: pytest.MonkeyPatch, commits: Any, unread: Unknown
) -> None:
    """It may be of Streams, whose members cannot be described: the scan said so, the check before a request did not.

    Nor did the check survive commits that no broker told: it ended the run.
    """
    read = {"billing": Consumption(commits)}
    monkeypatch.setattr(groups, "read_consumption", lambda *_arguments, **_options: iter([read]))
    hidden = GroupFacts(group="billing", listed=False, type=GroupType.HIDDEN, state=Unknown("hidden"))
    monkeypatch.setattr(groups, "list_all_groups", lambda *_arguments, **_options: ({"billing": hidden}, None))
    monkeypatch.setattr(groups, "describe", lambda _session, names: dict.fromkeys(names))
    session = session_of(StubClient(ConsumerGroupState.EMPTY, []))
    consumers = groups.read_consumers(session, ["orders"], log_starts={}, without_log=True)
    assert consumers.groups["billing"].consumption_unread == unread


NO_RIGHT, NO_ANSWER = Unknown("no right"), Unknown("no answer", Cause.NO_ANSWER)
MISSING: dict[str, tuple[Unknown | None, list[str], bool, str | None]] = {
    "a new cluster": (None, [], False, None),
    "some servers do not know it: it was said not to exist yet": (None, ["billing"], False, "is hidden or absent"),
    "declared": (None, ["billing"], True, None),
    "refused": (NO_RIGHT, [], False, "no right"),
    "refused and declared": (NO_RIGHT, ["billing"], True, None),
    "a broker that does not answer hides nothing": (NO_ANSWER, ["billing"], True, "no answer"),
}


@pytest.mark.parametrize(("failure", "listed", "hidden", "expected"), MISSING.values(), ids=MISSING)
def test_why_consumer_offsets_is_missing(
    failure: Unknown | None, listed: list[str], hidden: bool, expected: str | None
) -> None:
    """It is absent only where no group is listed. None: nothing has to be read there."""
    missing = consumer_offsets_missing(failure, listed, hidden=hidden)
    assert (missing is None) if expected is None else (missing is not None and expected in missing.reason)


def test_commits_are_divided_by_topic_in_one_pass() -> None:
    """A group of 200,000 partitions once took its commits once more for each of its topics."""
    commits = [(f"t{number % 3}", number, 10 * number, None) for number in range(6)]
    by_topic = Consumption(commits, frozenset({"joined", "other"})).by_topic({"t0", "t1", "joined"})
    assert by_topic == {"t0": {0: 0, 3: 30}, "t1": {1: 10, 4: 40}, "joined": {}}
    assert Consumption(Unknown("no answer"), frozenset({"t0"})).by_topic({"t0"}) == {"t0": {}}
