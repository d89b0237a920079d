"""Which part of the manifests a plan was narrowed to: addresses of policies, topics, partitions or groups.

Narrowing never changes a decision, only whether it is part of the plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.errors import UsageError
from reconciler.model.names import Address
from reconciler.model.plan import Decision
from reconciler.text.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class Targets:
    """The addresses as typed and as parsed; none: everything is meant."""

    texts: tuple[str, ...]
    addresses: frozenset[Address]
    above: frozenset[Address]
    """Policies and topics that a target lies in: what blocks those blocks the target."""

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "Targets":
        """Raises UsageError for what is no address."""
        ordered = tuple(sorted(set(texts)))
        try:
            addresses = frozenset(Address.parse(text) for text in ordered)
        except ValueError as wrong:
            raise UsageError(f"--target: {wrong}") from wrong
        return cls(ordered, addresses, frozenset(a for address in addresses for a in _and_above(address)))

    def includes_policy(self, policy: Address) -> bool:
        """Whether anything of this policy is meant."""
        return not self.addresses or policy in self.above

    def include(self, address: Address) -> bool:
        """Whether the decision at `address` is part of the plan."""
        return not self.addresses or address in self.above or any(a in self.addresses for a in _and_above(address))

    def check_all_matched(self, decisions: Iterable[Decision], policies: Iterable[Address]) -> None:
        """Raises UsageError where nothing is decided in or above a target: a slip of the pen must not read as "in sync"."""
        if not self.addresses:
            return
        missing = set(self.addresses)
        for decision in decisions:
            missing.difference_update(_and_above(decision.address))
            if decision.address in self.above:
                missing = {address for address in missing if decision.address not in _and_above(address)}
        if missing:
            address = min(missing)
            near = did_you_mean(str(address.policy_address), map(str, policies))
            hint = f"; did you mean {near}?" if near else ""
            raise UsageError(f"--target {address}: nothing is decided about it{hint}")


def _and_above(address: Address) -> tuple[Address, ...]:
    """The address, its topic and its policy."""
    return address, Address(address.kind, address.policy, address.name), address.policy_address
