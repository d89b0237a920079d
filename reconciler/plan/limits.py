"""Bounds on the blast radius of a whole plan, and the waivers that let one policy past one of them.

A limit never removes an action: it refuses the plan. Which limits there are and how much an action
counts is the operation's, what they are set to is the Cluster's, and whether a refusal ends the run
is the caller's business.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Decision, LimitVerdict, Plan, UsedWaiver
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations import Operation
from reconciler.operations.limit import Limit
from reconciler.policies.cluster import LIMITS, Cluster
from reconciler.policies.waiver import Waiver
from reconciler.text.formatting import format_duration, format_instant

_MINUTE_MS = 60_000
_CLAUSES_MAX = 3


def verdicts(
    decisions: Iterable[Decision], cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot
) -> tuple[LimitVerdict, ...]:
    """Return one verdict for each limit, in the manifest's order.

    A share whose whole is not known refuses, but only where there are actions that it would bound.
    With a waiver, the actions of its policy keep the waiver's value and all others together keep the
    limit.
    """
    buckets, places = _count(decisions)
    waivers = sorted(waivers, key=lambda waiver: waiver.address)
    return tuple(
        _verdict(
            _Bound(limit, cluster.limit(limit), _with_wholes(limit, buckets.get(limit.id, {}), snapshot)),
            _Waivers.of(limit.id, waivers, snapshot),
            places,
        )
        for limit in LIMITS
    )


def with_limits(plan: Plan, cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot) -> Plan:
    """Return the plan with the verdict on what it holds now, as after an intersection with a reviewed one."""
    return replace(plan, limits=verdicts(plan.decisions, cluster, waivers, snapshot))


@dataclass(slots=True)
class _Bucket:
    """What one limit bounds as one number: everything, or the records of one topic.

    `whole`: what a share is taken of; None: a count. Two policies that take different partitions of
    one topic are one lost topic, so limits of topics count distinct `names`.
    """

    name: str
    amounts: dict[Address, int] = field(default_factory=dict)
    names: dict[Address, set[str]] = field(default_factory=dict)
    whole: int | Unknown | None = None

    @property
    def policies(self) -> tuple[Address, ...]:
        return tuple(sorted(self.amounts or self.names))

    def add(self, policy: Address, amount: int, name: str) -> None:
        if name:
            self.names.setdefault(policy, set()).add(name)
        else:
            self.amounts[policy] = self.amounts.get(policy, 0) + amount

    def amount(self, policies: Iterable[Address]) -> int:
        """Return the number for the actions of these policies together."""
        if self.names:
            return len(set().union(*(self.names[policy] for policy in policies)))
        return sum(self.amounts[policy] for policy in policies)


def _count(
    decisions: Iterable[Decision],
) -> tuple[dict[str, dict[str, _Bucket]], dict[Address, SourceLocation]]:
    """Return the buckets of each limit by its id, and where each policy that acts was declared."""
    buckets: dict[str, dict[str, _Bucket]] = {}
    places: dict[Address, SourceLocation] = {}
    policies: dict[tuple[str, str], Address] = {}
    for decision in decisions:
        if not isinstance(decision, Operation):
            continue
        key = (decision.address.kind, decision.address.policy)
        if key not in policies:
            policies[key] = decision.address.policy_address
            places[policies[key]] = decision.declared_at
        for limit, amount, bucket, name in decision.limit_usage():
            of_limit = buckets.setdefault(limit.id, {})
            if bucket not in of_limit:
                of_limit[bucket] = _Bucket(bucket)
            of_limit[bucket].add(policies[key], amount, name)
    return buckets, places


def _with_wholes(limit: Limit, buckets: Mapping[str, _Bucket], snapshot: ClusterSnapshot) -> tuple[_Bucket, ...]:
    ordered = tuple(buckets[name] for name in sorted(buckets))
    if limit.whole is not None:
        for bucket in ordered:
            bucket.whole = limit.whole(snapshot, bucket.name)
    return ordered


@dataclass(frozen=True, slots=True)
class _Bound:
    """One limit, its value in the manifest, and what it bounds; each bucket is bound on its own."""

    limit: Limit
    most: float
    buckets: Sequence[_Bucket]

    def value(self, bucket: _Bucket, policies: Iterable[Address]) -> float:
        """Return a bucket's number for the actions of these policies: a count, or a share in percent."""
        amount = bucket.amount(policies)
        if bucket.whole is None:
            return float(amount)
        assert isinstance(bucket.whole, int)
        return min(100.0, 100.0 * amount / bucket.whole)

    def format(self, value: float) -> str:
        """Rounded up: a share just above a limit must not read as the limit itself."""
        return f"{_number(_ceil(value))} %" if self.limit.is_percent else _number(value)

    @property
    def bound(self) -> str:
        """The limit's value as it was written."""
        return _number(self.most) + (" %" if self.limit.is_percent else "")

    def sentence(self, bucket: _Bucket, value: float) -> str:
        where = f" ({bucket.name})" if bucket.name else ""
        return f"{self.limit.words}{where}: {self.format(value)}"


@dataclass(frozen=True, slots=True)
class _Waivers:
    """The waivers of one limit: the most that each policy may reach, and in words those that do not count."""

    valid: Mapping[Address, Waiver]
    ignored: str
    observed_at_ms: int

    @classmethod
    def of(cls, limit: str, waivers: Iterable[Waiver], snapshot: ClusterSnapshot) -> "_Waivers":
        now = snapshot.observed_at_ms
        valid: dict[Address, Waiver] = {}
        ignored: list[str] = []
        for waiver in waivers:
            if waiver.spec.limit != limit:
                continue
            policy = Address.parse(waiver.spec.policy)
            expires = format_instant(waiver.spec.expires)
            if waiver.spec.expires <= now:
                ignored.append(f"; {waiver.address} expired at {expires} and does not count")
            elif waiver.spec.expires > now + waiver.spec.longest_ms:
                ignored.append(f"; {waiver.address} would last until {expires}, too long, and does not count")
            elif policy not in valid or waiver.spec.value > valid[policy].spec.value:
                valid[policy] = waiver
        return cls(valid, _join_first(ignored, "more waivers that do not count"), now)

    def covers(self, policy: Address, value: float) -> bool:
        return policy in self.valid and value <= self.valid[policy].spec.value

    def described(self, policies: Iterable[Address]) -> str:
        clauses: list[str] = []
        for policy in policies:
            waiver = self.valid[policy]
            remaining_ms = max(_MINUTE_MS, (waiver.spec.expires - self.observed_at_ms) // _MINUTE_MS * _MINUTE_MS)
            clauses.append(
                f"; {waiver.address} allows {policy} {_number(waiver.spec.value)} for {_remaining(remaining_ms)} more"
            )
        return _join_first(clauses, "more waivers that count")


def _join_first(clauses: Sequence[str], rest: str) -> str:
    """A sentence that grows with old waivers would be cut, its number and its reason with it."""
    more = f"; {rest}: {len(clauses) - _CLAUSES_MAX:,}" if len(clauses) > _CLAUSES_MAX else ""
    return "".join(clauses[:_CLAUSES_MAX]) + more


def _verdict(bound: _Bound, waivers: _Waivers, places: Mapping[Address, SourceLocation]) -> LimitVerdict:
    for bucket in bound.buckets:
        if isinstance(bucket.whole, Unknown):
            worst = _by_amount(bucket, bucket.policies)[0]
            message = (
                f"{bound.limit.id}: {bound.limit.words}: not known ({bucket.whole.reason}), and the limit is "
                f"{bound.bound}; most of it would be lost by {_cited(worst, places)}: see that everything can be read, "
                f"then plan again{waivers.ignored}"
            )
            return LimitVerdict(
                id=bound.limit.id, limit=bound.most, observed=None, passed=False, message=message, worst=worst
            )
    if not bound.buckets:
        message = f"{bound.limit.id}: nothing counts towards it, the limit is {bound.bound}{waivers.ignored}"
        return LimitVerdict(id=bound.limit.id, limit=bound.most, observed=0.0, passed=True, message=message)
    used: set[Address] = set()
    refused: list[tuple[_Bucket, list[Address]]] = []
    for bucket in bound.buckets:
        if bound.value(bucket, bucket.policies) > bound.most:
            covered = {policy for policy in bucket.policies if waivers.covers(policy, bound.value(bucket, [policy]))}
            rest = [policy for policy in bucket.policies if policy not in covered]
            used |= covered
            if bound.value(bucket, rest) > bound.most:
                refused.append((bucket, rest))
    highest = max(bound.buckets, key=lambda bucket: bound.value(bucket, bucket.policies))
    observed = bound.value(highest, highest.policies)
    if refused:
        bucket, rest = max(refused, key=lambda pair: bound.value(*pair))
        worst = _by_amount(bucket, rest)[0]
        message = _refusal(bound, bucket, rest, _cited(worst, places), _needed(bound, refused))
    else:
        worst = _by_amount(highest, highest.policies)[0]
        message = f"{bound.limit.id}: {bound.sentence(highest, observed)}, the limit is {bound.bound}"
    return LimitVerdict(
        id=bound.limit.id,
        limit=bound.most,
        observed=observed,
        passed=not refused,
        message=message + waivers.described(sorted(used)) + waivers.ignored,
        worst=worst,
        waivers=tuple(_used(waivers.valid[policy], policy) for policy in sorted(used)),
    )


def _by_amount(bucket: _Bucket, policies: Iterable[Address]) -> list[Address]:
    """Those that cause most first."""
    return sorted(policies, key=lambda policy: (-bucket.amount([policy]), policy))


def _needed(bound: _Bound, refused: Iterable[tuple[_Bucket, list[Address]]]) -> dict[Address, float]:
    """The fewest waivers, worst policies first, that would let the plan pass, each with the value it takes."""
    needed: dict[Address, float] = {}
    for bucket, rest in refused:
        ordered = _by_amount(bucket, rest)
        for index, policy in enumerate(ordered):
            if bound.value(bucket, ordered[index:]) <= bound.most:
                break
            value = bound.value(bucket, [policy])
            needed[policy] = max(needed.get(policy, 0.0), _ceil(value))
    return needed


def _refusal(
    bound: _Bound, bucket: _Bucket, rest: Sequence[Address], worst: str, needed: Mapping[Address, float]
) -> str:
    others = f" (and {len(needed) - 3} more)" if len(needed) > 3 else ""
    asked = " and ".join(
        f"{{policy: {policy}, limit: {bound.limit.id}, value: {_number(value)}, expires: …}}"
        for policy, value in list(needed.items())[:3]
    )
    return (
        f"{bound.limit.id}: {bound.sentence(bucket, bound.value(bucket, rest))}, the limit is {bound.bound}; most of it by "
        f"{worst}: do less at once, or let it pass with a Waiver of spec {asked}{others}"
    )


def _cited(policy: Address, places: Mapping[Address, SourceLocation]) -> str:
    return f"{policy} ({places[policy]})"


def _number(value: float) -> str:
    """All its digits: whoever types it into a waiver has to get past the limit."""
    return f"{value:.15g}"


def _ceil(percent: float) -> float:
    """To a tenth; a count stays as it is."""
    return math.ceil(percent * 10) / 10


def _remaining(ms: int) -> str:
    """The largest whole unit, so that a remaining life reads at a glance: `9d`, `5h`, `12m`."""
    for unit_ms in (86_400_000, 3_600_000):
        if ms >= unit_ms:
            return format_duration(ms // unit_ms * unit_ms)
    return format_duration(ms)


def _used(waiver: Waiver, policy: Address) -> UsedWaiver:
    return UsedWaiver(
        name=waiver.metadata.name,
        policy=policy,
        limit=waiver.spec.limit,
        value=waiver.spec.value,
        expires_ms=waiver.spec.expires,
        declared_at=waiver.declared_at,
    )
