"""How much each policy's actions count towards each limit. Counting only: what is too much is decided in limits.py."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from reconciler.model.action import Action
from reconciler.model.election import Election
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Decision
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, Unknown
from reconciler.operations.delete_group import DeleteGroup
from reconciler.operations.delete_records import DeleteRecords
from reconciler.operations.elect_leader import ElectLeader


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """What one limit bounds as one number: everything, or the records of one topic.

    `whole`: what a share is taken of; None: a count. Two policies that take different partitions of one topic are one lost topic,
    so counts of topics go by `names`.
    """

    amounts: Mapping[Address, int]
    names: Mapping[Address, set[str]] | None = None
    whole: int | Unknown | None = None
    topic: str = ""

    @property
    def policies(self) -> tuple[Address, ...]:
        return tuple(sorted(self.amounts))

    def amount(self, policies: Iterable[Address]) -> int:
        """The number for the actions of these policies together."""
        if self.names is None:
            return sum(self.amounts[policy] for policy in policies)
        return len(set().union(*(self.names[policy] for policy in policies)))


@dataclass(slots=True)
class Tally:
    """The actions of a plan, counted once. `places`: where each policy that acts was declared."""

    places: dict[Address, SourceLocation] = field(default_factory=dict)
    _topics: defaultdict[Address, set[str]] = field(default_factory=lambda: defaultdict(set))
    _records: defaultdict[str, Counter[Address]] = field(default_factory=lambda: defaultdict(Counter))
    _groups: Counter[Address] = field(default_factory=Counter)
    _elections: Counter[Address] = field(default_factory=Counter)
    _unclean: Counter[Address] = field(default_factory=Counter)

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> "Tally":
        tally = cls()
        policies: dict[tuple[str, str], Address] = {}
        for decision in decisions:
            if not isinstance(decision, Action):
                continue
            key = (decision.address.kind, decision.address.policy)
            if key not in policies:
                policies[key] = decision.address.policy_address
                tally.places[policies[key]] = decision.declared_at
            policy = policies[key]
            match decision:
                case DeleteRecords():
                    tally._topics[policy].add(decision.partition.topic)
                    if not decision.vouched:
                        tally._records[decision.partition.topic][policy] += decision.records_max
                case DeleteGroup():
                    tally._groups[policy] += 1
                case ElectLeader():
                    tally._elections[policy] += 1
                    tally._unclean[policy] += decision.election is Election.UNCLEAN
                case _:
                    assert_never(decision)
        return tally

    def topics(self) -> list[LimitUsage]:
        """Topics that lose records, vouched for or not."""
        amounts = {policy: len(names) for policy, names in self._topics.items()}
        return [LimitUsage(amounts, names=self._topics)] if amounts else []

    def records_by_topic(self, snapshot: ClusterSnapshot) -> list[LimitUsage]:
        """Records of each topic that loses some which nobody vouches for, of all that it holds."""
        buckets = []
        for topic, amounts in sorted(self._records.items()):
            facts = snapshot.topics.get(topic)
            whole = NOT_ASKED if facts is None else facts.records
            buckets.append(LimitUsage(amounts, whole=_whole(whole, f"the records of {topic}"), topic=topic))
        return buckets

    def records(self, snapshot: ClusterSnapshot) -> list[LimitUsage]:
        """The same records, of all that the cluster holds."""
        amounts: Counter[Address] = Counter()
        for of_topic in self._records.values():
            amounts.update(of_topic)
        return [LimitUsage(amounts, whole=_whole(snapshot.cluster_records, "the cluster's records"))] if amounts else []

    def groups(self) -> list[LimitUsage]:
        """Groups removed."""
        return [LimitUsage(self._groups)] if self._groups else []

    def groups_of(self, snapshot: ClusterSnapshot) -> list[LimitUsage]:
        """The same, of all that are listed. An incomplete list makes the share look larger, which is the safe side."""
        listed = sum(group.listed is True for group in snapshot.groups.values())
        return [LimitUsage(self._groups, whole=_whole(listed, "the cluster's groups"))] if self._groups else []

    def elections(self) -> list[LimitUsage]:
        """Leaders elected, in sync or not."""
        return [LimitUsage(self._elections)] if self._elections else []

    def unclean(self) -> list[LimitUsage]:
        """Leaders elected out of sync."""
        return [LimitUsage(+self._unclean)] if +self._unclean else []


def _whole(number: int | Unknown, what: str) -> int | Unknown:
    """Something is to be lost, so a whole of nothing is a contradiction and no number to divide by."""
    if isinstance(number, Unknown):
        return Unknown(f"{what} could not be counted: {number.reason}")
    return number if number > 0 else Unknown(f"{what} count {number}, which cannot be when some are to be lost")
