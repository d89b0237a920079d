"""Subjects that two policies of one kind claim, and groups that a policy waits for.

A subject that two policies claim is acted upon by neither: the manifests do not say which of them is
right. Nor is a group removed while another policy of the same manifests waits for its commits.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from reconciler.model.block_reason import BlockReason, quote_group
from reconciler.policies import Policy
from reconciler.policies.base import Selection


@dataclass(frozen=True, slots=True)
class Conflict:
    """A subject that other policies of the kind claim, too.

    `partitions`: the numbers that they have in common; None: everything that the policy claims.
    """

    partitions: frozenset[int] | None
    block: BlockReason


class ConflictIndex:
    """Every claim of every policy, also of those that a plan leaves out: they, too, may be right."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._claims: defaultdict[tuple[type, str], list[Selection]] = defaultdict(list)
        self._counts: dict[tuple[type, str], tuple[int, Counter[int]]] = {}
        for selection in sorted(selections, key=lambda s: s.policy.address):
            for name in selection.subjects:
                self._claims[type(selection.policy), name].append(selection)

    def conflicts(self, selection: Selection) -> dict[str, Conflict]:
        """Return those subjects of a policy that another one claims, too."""
        shared = (name for name in selection.subjects if len(self._claims[type(selection.policy), name]) > 1)
        found = ((name, self._conflict(selection, name)) for name in shared)
        return {name: conflict for name, conflict in found if conflict is not None}

    def _conflict(self, selection: Selection, name: str) -> Conflict | None:
        policy = selection.policy
        whole_claims, claims_by_number = self._count(type(policy), name)
        claimed = policy.claimed_partitions(name)
        common: frozenset[int] | None
        if claimed is None:
            common = None if whole_claims > 1 else frozenset(claims_by_number)
        else:
            common = None if whole_claims else frozenset(n for n in claimed if claims_by_number[n] > 1)
            if common == claimed:
                common = None
        if common is not None and not common:
            return None
        others = (
            other.policy
            for other in self._claims[type(policy), name]
            if other is not selection and _overlap(claimed, other.policy.claimed_partitions(name))
        )
        return Conflict(common, _conflict_block(policy, name, list(islice(others, 4))))

    def _count(self, kind: type, name: str) -> tuple[int, Counter[int]]:
        """Return how many policies claim all of `name`, and how many each partition number; counted once."""
        if (kind, name) not in self._counts:
            claims = [selection.policy.claimed_partitions(name) for selection in self._claims[kind, name]]
            numbers = Counter(number for claimed in claims if claimed is not None for number in claimed)
            self._counts[kind, name] = (claims.count(None), numbers)
        return self._counts[kind, name]


def _overlap(first: frozenset[int] | None, second: frozenset[int] | None) -> bool:
    return first is None or second is None or not first.isdisjoint(second)


def _conflict_block(policy: Policy, name: str, others: Sequence[Policy]) -> BlockReason:
    more = " and others" if len(others) > 3 else ""
    subject = f"group {quote_group(name)}" if policy.SUBJECTS == "groups" else f"topic {name}"
    claim = "all claim" if len(others) > 1 else "both claim"
    field = f"except{policy.SUBJECTS.capitalize()}"
    return BlockReason(
        code="B105",
        reason=f"{policy.address} ({policy.declared_at}) and {_cited(others[:3])}{more} {claim} {subject}",
        next_step=f"leave it to one of them: name it under {field} of the others",
    )


class UnreadByIndex:
    """The groups whose commits policies wait for, also policies that a plan leaves out."""

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
        more = " and others" if len(waiting) > 3 else ""
        return BlockReason(
            code="B306",
            reason=f"group {quote_group(group)} is named in unreadBy of {_cited(waiting[:3])}{more}: without it nothing "
            "would ever be purged there again",
            next_step="take it out of unreadBy first, or name it in exceptGroups of the removal",
        )


def _cited(policies: Iterable[Policy]) -> str:
    return ", ".join(f"{policy.address} ({policy.declared_at})" for policy in policies)
