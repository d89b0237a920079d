"""Limits of a whole plan, and the waivers that let one policy past one of them.

A limit never removes an action: it refuses the plan. Operations define the limits and how much an
action counts towards each, the Cluster sets their values, and the caller ends the run.
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

_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_CLAUSES_MAX = 3


def verdicts(
    decisions: Iterable[Decision], cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot
) -> tuple[LimitVerdict, ...]:
    """Return one verdict for each limit, in the manifest's order.

    A share whose whole is not known refuses, but only where there are actions that it would bound.
    With a waiver, the actions of its policy keep the waiver's value and all others together keep the
    limit.
    """
    buckets: dict[tuple[str, str], _Bucket] = {}
    places: dict[Address, SourceLocation] = {}
    policies: dict[tuple[str, str], Address] = {}
    for decision in decisions:
        if not isinstance(decision, Operation):
            continue
        key = (decision.address.kind, decision.address.policy)
        if key not in policies:
            policies[key] = decision.address.policy_address
            places[policies[key]] = decision.declared_at
        for limit, amount, name, counted in decision.limit_usage():
            if (limit.id, name) not in buckets:
                whole = None if limit.whole is None else limit.whole(snapshot, name)
                buckets[limit.id, name] = _Bucket(name, whole)
            buckets[limit.id, name].add(policies[key], amount, counted)
    ordered = sorted(waivers, key=lambda waiver: waiver.address)
    return tuple(
        _Check(
            limit,
            cluster.limit(limit),
            [buckets[key] for key in sorted(buckets) if key[0] == limit.id],
            _Waivers.of(limit.id, ordered, snapshot.observed_at_ms),
            places,
        ).verdict()
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
    whole: int | Unknown | None
    amounts: dict[Address, int] = field(default_factory=dict)
    names: dict[Address, set[str]] = field(default_factory=dict)

    def add(self, policy: Address, amount: int, name: str) -> None:
        self.amounts[policy] = self.amounts.get(policy, 0) + amount
        if name:
            self.names.setdefault(policy, set()).add(name)

    def amount(self, policies: Iterable[Address]) -> int:
        """Return the number for the actions of these policies together."""
        if self.names:
            return len(set().union(*(self.names[policy] for policy in policies)))
        return sum(self.amounts[policy] for policy in policies)

    def value(self, policies: Iterable[Address]) -> float:
        """Return `amount`, or its share of the whole in percent."""
        amount = float(self.amount(policies))
        return min(100.0, 100.0 * amount / self.whole) if isinstance(self.whole, int) else amount

    def by_amount(self, policies: Iterable[Address]) -> list[Address]:
        """Return the policies, those that cause most first."""
        return sorted(policies, key=lambda policy: (-self.amount([policy]), policy))


@dataclass(frozen=True, slots=True)
class _Waivers:
    """The waivers of one limit: the most that each policy may reach, and in words those that do not count."""

    valid: Mapping[Address, Waiver]
    ignored: str
    now_ms: int

    @classmethod
    def of(cls, limit: str, waivers: Iterable[Waiver], now_ms: int) -> "_Waivers":
        valid: dict[Address, Waiver] = {}
        ignored: list[str] = []
        for waiver in waivers:
            if waiver.spec.limit != limit:
                continue
            policy = Address.parse(waiver.spec.policy)
            expires = format_instant(waiver.spec.expires)
            if waiver.spec.expires <= now_ms:
                ignored.append(f"; {waiver.address} expired at {expires} and does not count")
            elif waiver.spec.expires > now_ms + waiver.spec.longest_ms:
                ignored.append(f"; {waiver.address} would last until {expires}, too long, and does not count")
            elif policy not in valid or waiver.spec.value > valid[policy].spec.value:
                valid[policy] = waiver
        return cls(valid, _join_first(ignored, "more waivers that do not count"), now_ms)

    def covers(self, policy: Address, value: float) -> bool:
        return policy in self.valid and value <= self.valid[policy].spec.value

    def describe(self, policies: Iterable[Address]) -> str:
        """Return clauses that say what the waivers of these policies allow, and which waivers do not count."""
        used = ((policy, self.valid[policy]) for policy in policies)
        clauses = [
            f"; {waiver.address} allows {policy} {_number(waiver.spec.value)} for "
            f"{_remaining(waiver.spec.expires - self.now_ms)} more"
            for policy, waiver in used
        ]
        return _join_first(clauses, "more waivers that count") + self.ignored

    def used(self, policy: Address) -> UsedWaiver:
        waiver = self.valid[policy]
        return UsedWaiver(
            name=waiver.metadata.name,
            policy=policy,
            limit=waiver.spec.limit,
            value=waiver.spec.value,
            expires_ms=waiver.spec.expires,
            declared_at=waiver.declared_at,
        )


@dataclass(frozen=True, slots=True)
class _Check:
    """One limit, its value in the manifest, and what it bounds; each bucket is bound on its own."""

    limit: Limit
    most: float
    buckets: Sequence[_Bucket]
    waivers: _Waivers
    places: Mapping[Address, SourceLocation]
    """Where each policy that acts was declared."""

    def verdict(self) -> LimitVerdict:
        """Return whether the plan is within the limit, and why, in words."""
        used: set[Address] = set()
        refused: list[tuple[_Bucket, list[Address]]] = []
        observed: float | None = 0.0
        worst = None
        bound = _number(self.most) + (" %" if self.limit.is_percent else "")
        unknown = [(bucket, bucket.whole.reason) for bucket in self.buckets if isinstance(bucket.whole, Unknown)]
        if unknown:
            bucket, reason = unknown[0]
            observed, worst = None, bucket.by_amount(bucket.amounts)[0]
            message = (
                f"{self.limit.words}: not known ({reason}), and the limit is {bound}; most of it would "
                f"be lost by {worst} ({self.places[worst]}): see that everything can be read, then plan again"
            )
        elif not self.buckets:
            message = f"nothing counts towards it, the limit is {bound}"
        else:
            for bucket in self.buckets:
                if bucket.value(bucket.amounts) > self.most:
                    covered = {name for name in bucket.amounts if self.waivers.covers(name, bucket.value([name]))}
                    used |= covered
                    rest = sorted(bucket.amounts.keys() - covered)
                    if bucket.value(rest) > self.most:
                        refused.append((bucket, rest))
            highest = max(self.buckets, key=lambda bucket: bucket.value(bucket.amounts))
            observed = highest.value(highest.amounts)
            cause, policies = highest, list(highest.amounts)
            if refused:
                cause, policies = max(refused, key=lambda pair: pair[0].value(pair[1]))
            worst = cause.by_amount(policies)[0]
            where = f" ({cause.name})" if cause.name else ""
            message = f"{self.limit.words}{where}: {self._format(cause.value(policies))}, the limit is {bound}"
            if refused:
                message += f"; most of it by {worst} ({self.places[worst]}): {self._advice(refused)}"
        return LimitVerdict(
            id=self.limit.id,
            limit=self.most,
            observed=observed,
            passed=observed is not None and not refused,
            message=f"{self.limit.id}: {message}{self.waivers.describe(sorted(used))}",
            worst=worst,
            waivers=tuple(map(self.waivers.used, sorted(used))),
        )

    def _format(self, value: float) -> str:
        """Round up: a share just above a limit must not read as the limit itself."""
        return f"{_number(_ceil(value))} %" if self.limit.is_percent else _number(value)

    def _advice(self, refused: Iterable[tuple[_Bucket, list[Address]]]) -> str:
        """Name the fewest waivers, worst policies first, that would let the plan pass, each with the value it takes."""
        needed: dict[Address, float] = {}
        for bucket, rest in refused:
            ordered = bucket.by_amount(rest)
            for index, policy in enumerate(ordered):
                if bucket.value(ordered[index:]) <= self.most:
                    break
                needed[policy] = max(needed.get(policy, 0.0), _ceil(bucket.value([policy])))
        asked = " and ".join(
            f"{{policy: {policy}, limit: {self.limit.id}, value: {_number(value)}, expires: …}}"
            for policy, value in list(needed.items())[:_CLAUSES_MAX]
        )
        others = f" (and {len(needed) - _CLAUSES_MAX} more)" if len(needed) > _CLAUSES_MAX else ""
        return f"do less at once, or let it pass with a Waiver of spec {asked}{others}"


def _join_first(clauses: Sequence[str], rest: str) -> str:
    """Join the first clauses and count the others: reports cut a sentence that is too long."""
    more = f"; {rest}: {len(clauses) - _CLAUSES_MAX:,}" if len(clauses) > _CLAUSES_MAX else ""
    return "".join(clauses[:_CLAUSES_MAX]) + more


def _number(value: float) -> str:
    """Return all digits: the number, copied into a waiver, has to pass the limit."""
    return f"{value:.15g}"


def _ceil(percent: float) -> float:
    """Round up to a tenth; a count stays as it is."""
    return math.ceil(percent * 10) / 10


def _remaining(ms: int) -> str:
    """Return the largest whole unit: `9d`, `5h`, `12m`."""
    unit_ms = next((unit_ms for unit_ms in (_DAY_MS, _HOUR_MS) if ms >= unit_ms), _MINUTE_MS)
    return format_duration(max(unit_ms, ms // unit_ms * unit_ms))
