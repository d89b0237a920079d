"""Subjects that two policies of one kind claim, and groups that a policy waits for.

Neither policy acts on a subject that two claim: the manifests do not say which of them is right. No
policy removes a group while another policy of the same manifests waits for its commits.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.policies import Policy
from reconciler.policies.base import Selection

_CITED_MAX = 3


@dataclass(frozen=True, slots=True)
class Conflict:
    """A subject that other policies of the kind claim, too.

    `partitions`: the numbers that they have in common; None: everything that the policy claims.
    """

    partitions: frozenset[int] | None
    block: BlockReason


class ConflictIndex:
    """The claims of all policies, also of those that a plan leaves out."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._claims: defaultdict[tuple[type, str], list[Policy]] = defaultdict(list)
        self._counts: defaultdict[tuple[type, str], Counter[int | None]] = defaultdict(Counter)
        """How many policies claim each partition number; None: all of the name."""
        for selection in sorted(selections, key=lambda s: s.policy.address):
            for name in selection.subjects:
                claimed = selection.policy.claimed_partitions(name)
                self._claims[type(selection.policy), name].append(selection.policy)
                self._counts[type(selection.policy), name].update((None,) if claimed is None else claimed)

    def conflicts(self, selection: Selection) -> dict[str, Conflict]:
        """Return those subjects of a policy that another one claims, too."""
        shared = (name for name in selection.subjects if len(self._claims[type(selection.policy), name]) > 1)
        conflicts = ((name, self._conflict(selection.policy, name)) for name in shared)
        return {name: conflict for name, conflict in conflicts if conflict is not None}

    def _conflict(self, policy: Policy, name: str) -> Conflict | None:
        claimed, counts = policy.claimed_partitions(name), self._counts[type(policy), name]
        common: frozenset[int] | None = None
        if counts[None] <= (claimed is None):
            numbers = counts.keys() if claimed is None else (number for number in claimed if counts[number] > 1)
            common = frozenset(number for number in numbers if number is not None)
            if not common:
                return None
        others = (
            other
            for other in self._claims[type(policy), name]
            if other is not policy and _overlap(claimed, other.claimed_partitions(name))
        )
        cited = list(islice(others, _CITED_MAX + 1))
        subject = f"group {quote_group(name)}" if policy.SUBJECTS == "groups" else f"topic {name}"
        block = BlockReason(
            code="B105",
            reason=f"{_cite([policy])} and {_cite(cited)} {'all' if len(cited) > 1 else 'both'} claim {subject}",
            next_step=f"leave it to one of them: name it under except{policy.SUBJECTS.capitalize()} of the others",
        )
        return Conflict(None if common == claimed else common, block)


def _overlap(first: frozenset[int] | None, second: frozenset[int] | None) -> bool:
    return first is None or second is None or not first.isdisjoint(second)


class UnreadByIndex:
    """The groups whose commits policies wait for, also those that a plan leaves out."""

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._waiting: defaultdict[str, list[Policy]] = defaultdict(list)
        for policy in sorted(policies, key=lambda p: p.address):
            for group in policy.awaited_groups:
                self._waiting[group].append(policy)

    def block_removal(self, group: str) -> BlockReason | None:
        """Return why `group` may not be removed; None: no policy waits for it."""
        waiting = self._waiting.get(group)
        if not waiting:
            return None
        return BlockReason(
            code="B306",
            reason=f"group {quote_group(group)} is named in unreadBy of {_cite(waiting)}: without it nothing "
            "would ever be purged there again",
            next_step="take it out of unreadBy first, or name it in exceptGroups of the removal",
        )


def _cite(policies: Sequence[Policy]) -> str:
    cited = ", ".join(f"{policy.address} ({policy.declared_at})" for policy in policies[:_CITED_MAX])
    return f"{cited} and others" if len(policies) > _CITED_MAX else cited
