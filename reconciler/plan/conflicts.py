"""Subjects of which two policies ask for the same operation, and groups that a policy waits for.

Neither policy acts on a subject that two claim: the manifests do not say which of them is right. No
policy removes a group while another policy of the same manifests waits for its commits.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.model.block_reason import BlockReason
from reconciler.operations import Operation
from reconciler.policies import Policy
from reconciler.policies.base import Selection
from reconciler.text.escape import quoted

_CITED_MAX = 3


@dataclass(frozen=True, slots=True)
class Conflict:
    """A subject claimed twice. `partitions`: the numbers in common; None: all of the policy."""

    partitions: frozenset[int] | None
    block: BlockReason


class ConflictIndex:
    """The claims of all policies, and the groups whose commits they wait for."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._claims: defaultdict[tuple[type[Operation], str], list[Policy]] = defaultdict(list)
        self._waiting: defaultdict[str, list[Policy]] = defaultdict(list)
        for selection in sorted(selections, key=lambda s: s.policy.address):
            policy = selection.policy
            for name in selection.subjects:
                self._claims[policy.OPERATION, name].append(policy)
            for group in policy.awaited_groups:
                self._waiting[group].append(policy)

    def conflicts(self, selection: Selection) -> dict[str, Conflict]:
        """Return those subjects of a policy that another one claims, too."""
        policy = selection.policy
        return {name: conflict for name in selection.subjects if (conflict := self._conflict(policy, name))}

    def _conflict(self, policy: Policy, name: str) -> Conflict | None:
        claimed, common = policy.claimed_partitions(name), frozenset[int]()
        rivals, all_of_it = list[Policy](), False
        for other in self._claims[policy.OPERATION, name]:
            theirs = other.claimed_partitions(name)
            if other is policy or not (claimed is None or theirs is None or not claimed.isdisjoint(theirs)):
                continue
            rivals.append(other)
            all_of_it = all_of_it or theirs is None
            both = claimed if theirs is None else theirs if claimed is None else claimed & theirs
            common |= both or frozenset()
            if all_of_it and len(rivals) > _CITED_MAX:  # no further rival changes what is said
                break
        if not rivals:
            return None
        subject = f"group {quoted(name)}" if policy.SUBJECTS == "groups" else f"topic {name}"
        block = BlockReason(
            code="B105",
            reason=f"{_cite([policy])} and {_cite(rivals)} {'all' if len(rivals) > 1 else 'both'} claim {subject}",
            next_step=f"leave it to one of them: name it under except{policy.SUBJECTS.capitalize()} of the others",
        )
        return Conflict(None if all_of_it or common == claimed else common, block)

    def block_removal(self, group: str | None) -> BlockReason | None:
        """Return why `group` may not be removed; None: no policy waits for it."""
        if group is None or group not in self._waiting:
            return None
        return BlockReason(
            code="B306",
            reason=f"group {quoted(group)} is named in unreadBy of {_cite(self._waiting[group])}: without it nothing "
            "would ever be purged there again",
            next_step="remove it from unreadBy first, or name it in exceptGroups of the removal",
        )


def _cite(policies: Sequence[Policy]) -> str:
    cited = ", ".join(f"{policy.address} ({policy.declared_at})" for policy in policies[:_CITED_MAX])
    return f"{cited} and others" if len(policies) > _CITED_MAX else cited
