"""Who selects what: selectors resolved against live names, once per policy, and the subjects that two policies of one kind claim.

A subject that two policies claim is acted upon by neither: nobody has said which of them is right. Nor is a group removed while a
floor of the same manifests waits for it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.model.selector import Selector, select
from reconciler.model.snapshot import ClusterSnapshot
from reconciler.policies import GroupRemoval, LeaderPolicy, Policy, RetentionFloor
from reconciler.policies.retention_floor import partitions_of


@dataclass(frozen=True, slots=True)
class Selection:
    """What one policy means on this cluster.

    `subjects`: names in order, each with whether an exact selector named it; `unknown`: those of them that the cluster did not list.
    """

    policy: Policy
    subjects: Mapping[str, bool]
    unknown: frozenset[str]

    @property
    def matched(self) -> int:
        """How many live names it selects: what `expectAtMost` bounds."""
        return len(self.subjects) - len(self.unknown)

    def partitions(self, name: str) -> frozenset[int] | None:
        """The partition numbers it claims of a topic; None: all of them, or a group."""
        match self.policy:
            case RetentionFloor():
                return partitions_of(self.policy.spec)
            case LeaderPolicy():
                listed = self.policy.spec.partitions
                return None if listed is None else frozenset(listed[name])
            case GroupRemoval():
                return None
            case _:
                assert_never(self.policy)


def selection(policy: Policy, snapshot: ClusterSnapshot) -> Selection:
    """Resolves a policy's selectors against the names that the cluster told."""
    match policy:
        case RetentionFloor():
            spec = policy.spec
            return _selection(policy, snapshot.topics.keys(), spec.topics, spec.except_topics, floor=True)
        case LeaderPolicy():
            if policy.spec.partitions is not None:
                exact = tuple(Selector(topic) for topic in policy.spec.partitions)
                return _selection(policy, snapshot.topics.keys(), exact, None)
            return _selection(policy, snapshot.topics.keys(), policy.spec.topics or (), policy.spec.except_topics)
        case GroupRemoval():
            # the group "" exists for clients without one; it has no address, and nothing here ever touches it
            groups = snapshot.groups.keys() - {""}
            return _selection(policy, groups, policy.spec.groups, policy.spec.except_groups)
        case _:
            assert_never(policy)


def _selection(
    policy: Policy,
    known: Collection[str],
    selectors: Sequence[Selector],
    excluding: Sequence[Selector] | None,
    *,
    floor: bool = False,
) -> Selection:
    exact = {selector.text for selector in selectors if not selector.is_pattern}
    # a policy of exact names only does not walk through every name of the cluster
    names = {*known, *exact} if any(selector.is_pattern for selector in selectors) else exact
    subjects = select(names, selectors, excluding=excluding or (), patterns_skip_underscore=floor)
    return Selection(policy, subjects, frozenset(name for name in subjects if name not in known))


@dataclass(frozen=True, slots=True)
class Conflict:
    """A subject that other policies of the kind claim, too. `partitions`: the numbers they meet on; None: everything claimed."""

    partitions: frozenset[int] | None
    objection: BlockReason


class ConflictIndex:
    """Every claim of every policy, also of those that a plan was not asked to carry out: they, too, may be right."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._claiming: defaultdict[tuple[type, str], list[Selection]] = defaultdict(list)
        self._counted: dict[tuple[type, str], tuple[int, Counter[int]]] = {}
        for one in sorted(selections, key=lambda s: s.policy.address):
            for name in one.subjects:
                self._claiming[type(one.policy), name].append(one)

    def contests(self, mine: Selection) -> dict[str, Conflict]:
        """The contested ones of a policy's subjects."""
        found = {}
        for name in mine.subjects:
            if len(self._claiming[type(mine.policy), name]) > 1 and (contest := self._contest(mine, name)):
                found[name] = contest
        return found

    def _contest(self, mine: Selection, name: str) -> Conflict | None:
        whole, numbers = self._count(type(mine.policy), name)
        claimed = mine.partitions(name)
        met: frozenset[int] | None
        if claimed is None:
            met = None if whole > 1 else frozenset(numbers)
        else:
            met = None if whole else frozenset(number for number in claimed if numbers[number] > 1)
            if met == claimed:
                met = None
        if met is not None and not met:
            return None
        meeting = (
            other
            for other in self._claiming[type(mine.policy), name]
            if other is not mine and _meet(claimed, other.partitions(name))
        )
        return Conflict(met, _objection(mine.policy, name, [other.policy for other in islice(meeting, 4)]))

    def _count(self, kind: type, name: str) -> tuple[int, Counter[int]]:
        """(how many claim all of `name`, how many claim each partition number beside those); counted once for all claimants."""
        if (kind, name) not in self._counted:
            claims = [one.partitions(name) for one in self._claiming[kind, name]]
            numbers = Counter(number for claimed in claims if claimed is not None for number in claimed)
            self._counted[kind, name] = (claims.count(None), numbers)
        return self._counted[kind, name]


def _meet(mine: frozenset[int] | None, theirs: frozenset[int] | None) -> bool:
    return mine is None or theirs is None or not mine.isdisjoint(theirs)


def _objection(policy: Policy, name: str, others: Sequence[Policy]) -> BlockReason:
    cited = ", ".join(f"{other.address} ({other.declared_at})" for other in others[:3])
    more = " and others" if len(others) > 3 else ""
    what = f"group {quote_group(name)}" if isinstance(policy, GroupRemoval) else f"topic {name}"
    return BlockReason(
        code="B105",
        reason=f"{policy.address} ({policy.declared_at}) and {cited}{more} all claim {what}"
        if len(others) > 1
        else f"{policy.address} ({policy.declared_at}) and {cited} both claim {what}",
        next_step=f"leave it to one of them: name it under {_except(policy)} of the others",
    )


def _except(policy: Policy) -> str:
    return "exceptGroups" if isinstance(policy, GroupRemoval) else "exceptTopics"


class UnreadByIndex:
    """The groups that floors name under `unreadBy`, also floors that a plan was not asked to carry out: each waits for its commits."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._floors: defaultdict[str, list[RetentionFloor]] = defaultdict(list)
        for policy in sorted(policies, key=lambda p: p.address):
            if isinstance(policy, RetentionFloor):
                for group in policy.spec.keep.unread_by or ():
                    self._floors[group].append(policy)

    def removal(self, group: str) -> BlockReason | None:
        """Why `group` may not be removed; None: no floor waits for it."""
        floors = self._floors.get(group)
        if not floors:
            return None
        cited = ", ".join(f"{floor.address} ({floor.declared_at})" for floor in floors[:3])
        more = " and others" if len(floors) > 3 else ""
        return BlockReason(
            code="B306",
            reason=f"group {quote_group(group)} is named in unreadBy of {cited}{more}: without it nothing would ever be purged there again",
            next_step="take it out of unreadBy first, or name it in exceptGroups of the removal",
        )
