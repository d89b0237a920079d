"""Bounds on the blast radius of a whole plan, and the waivers that let one policy past one of them.

A limit never removes an action: it refuses the plan. How much an action counts is in tally.py, what the limits are set to is the
Cluster's, and whether a refusal ends the run is the caller's business.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Decision, LimitVerdict, Plan, UsedWaiver
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.plan.tally import LimitUsage, Tally
from reconciler.policies import Cluster, Waiver
from reconciler.text.formatting import format_duration, format_instant

_MINUTE_MS = 60_000
_CLAUSES_MAX = 3


def verdicts(
    decisions: Iterable[Decision], cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot
) -> tuple[LimitVerdict, ...]:
    """One verdict for each limit, in the manifest's order. Records that an `unreadBy` rule vouches for count for no record limit.

    A share whose whole is not known refuses, but only where there are actions that it would bound. With a waiver, its policy's
    actions keep the waiver's value and all others together keep the limit.
    """
    tally = Tally.of(decisions)
    bounds = cluster.spec.limits
    per_topic = tally.records_by_topic(snapshot)
    limits = (
        _Limit("topics", bounds.topics, "topics that lose records", tally.topics()),
        _Limit(
            "recordsPercentPerTopic",
            bounds.records_percent_per_topic,
            "records lost, of those of one topic",
            per_topic,
            True,
        ),
        _Limit(
            "recordsPercent",
            bounds.records_percent,
            "records lost, of those of the cluster",
            tally.records(snapshot),
            True,
        ),
        _Limit("groups", bounds.groups, "groups removed", tally.groups()),
        _Limit(
            "groupsPercent",
            bounds.groups_percent,
            "groups removed, of those of the cluster",
            tally.groups_of(snapshot),
            True,
        ),
        _Limit("elections", bounds.elections, "leaders elected", tally.elections()),
        _Limit("uncleanElections", bounds.unclean_elections, "leaders elected out of sync", tally.unclean()),
    )
    waivers = sorted(waivers, key=lambda waiver: waiver.address)
    return tuple(_verdict(limit, _Waivers.of(limit.id, waivers, snapshot), tally.places) for limit in limits)


def with_limits(plan: Plan, cluster: Cluster, waivers: Iterable[Waiver], snapshot: ClusterSnapshot) -> Plan:
    """The plan with the limits' verdict on what it holds now, as after an intersection with a reviewed one."""
    return replace(plan, limits=verdicts(plan.decisions, cluster, waivers, snapshot))


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit and what it bounds; each bucket is bound on its own. `words` complete "…: 3" or "…: 95.2 %"."""

    id: str
    most: float
    words: str
    buckets: Sequence[LimitUsage]
    percent: bool = False

    def value(self, bucket: LimitUsage, policies: Iterable[Address]) -> float:
        """A bucket's number for the actions of these policies: a count, or a share in percent."""
        amount = bucket.amount(policies)
        if bucket.whole is None:
            return float(amount)
        assert isinstance(bucket.whole, int)
        return min(100.0, 100.0 * amount / bucket.whole)

    def shown(self, value: float) -> str:
        """Rounded up: a share just above a limit must not read as the limit itself."""
        return f"{_number(_ceil(value))} %" if self.percent else _number(value)

    @property
    def bound(self) -> str:
        """The limit itself, as it was written."""
        return _number(self.most) + (" %" if self.percent else "")

    def sentence(self, bucket: LimitUsage, value: float) -> str:
        where = f" ({bucket.topic})" if bucket.topic else ""
        return f"{self.words}{where}: {self.shown(value)}"


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
        words: list[str] = []
        for policy in policies:
            waiver = self.valid[policy]
            left = max(_MINUTE_MS, (waiver.spec.expires - self.observed_at_ms) // _MINUTE_MS * _MINUTE_MS)
            words.append(f"; {waiver.address} allows {policy} {_number(waiver.spec.value)} for {_remaining(left)} more")
        return _join_first(words, "more waivers that count")


def _join_first(clauses: Sequence[str], rest: str) -> str:
    """A sentence that grows with old waivers would be cut, its number and its reason with it."""
    more = f"; {rest}: {len(clauses) - _CLAUSES_MAX:,}" if len(clauses) > _CLAUSES_MAX else ""
    return "".join(clauses[:_CLAUSES_MAX]) + more


def _verdict(limit: _Limit, waivers: _Waivers, places: Mapping[Address, SourceLocation]) -> LimitVerdict:
    for bucket in limit.buckets:
        if isinstance(bucket.whole, Unknown):
            worst = _by_amount(bucket, bucket.policies)[0]
            message = (
                f"{limit.id}: {limit.words}: not known ({bucket.whole.reason}), and the limit is "
                f"{limit.bound}; most of it would be lost by {_cited(worst, places)}: see that everything can be read, "
                f"then plan again{waivers.ignored}"
            )
            return LimitVerdict(
                id=limit.id, limit=limit.most, observed=None, passed=False, message=message, worst=worst
            )
    if not limit.buckets:
        message = f"{limit.id}: nothing counts towards it, the limit is {limit.bound}{waivers.ignored}"
        return LimitVerdict(id=limit.id, limit=limit.most, observed=0.0, passed=True, message=message)
    used: set[Address] = set()
    refused: list[tuple[LimitUsage, list[Address]]] = []
    for bucket in limit.buckets:
        if limit.value(bucket, bucket.policies) > limit.most:
            covered = {policy for policy in bucket.policies if waivers.covers(policy, limit.value(bucket, [policy]))}
            rest = [policy for policy in bucket.policies if policy not in covered]
            used |= covered
            if limit.value(bucket, rest) > limit.most:
                refused.append((bucket, rest))
    highest = max(limit.buckets, key=lambda bucket: limit.value(bucket, bucket.policies))
    observed = limit.value(highest, highest.policies)
    if refused:
        bucket, rest = max(refused, key=lambda pair: limit.value(*pair))
        worst = _by_amount(bucket, rest)[0]
        message = _refusal(limit, bucket, rest, _cited(worst, places), _needed(limit, refused))
    else:
        worst = _by_amount(highest, highest.policies)[0]
        message = f"{limit.id}: {limit.sentence(highest, observed)}, the limit is {limit.bound}"
    return LimitVerdict(
        id=limit.id,
        limit=limit.most,
        observed=observed,
        passed=not refused,
        message=message + waivers.described(sorted(used)) + waivers.ignored,
        worst=worst,
        waivers=tuple(_used(waivers.valid[policy], policy) for policy in sorted(used)),
    )


def _by_amount(bucket: LimitUsage, policies: Iterable[Address]) -> list[Address]:
    """Those that cause most first."""
    return sorted(policies, key=lambda policy: (-bucket.amount([policy]), policy))


def _needed(limit: _Limit, refused: Iterable[tuple[LimitUsage, list[Address]]]) -> dict[Address, float]:
    """The fewest waivers, worst policies first, that would let the plan pass, each with the value it takes."""
    needed: dict[Address, float] = {}
    for bucket, rest in refused:
        ordered = _by_amount(bucket, rest)
        for index, policy in enumerate(ordered):
            if limit.value(bucket, ordered[index:]) <= limit.most:
                break
            value = limit.value(bucket, [policy])
            needed[policy] = max(needed.get(policy, 0.0), _ceil(value))
    return needed


def _refusal(
    limit: _Limit, bucket: LimitUsage, rest: Sequence[Address], worst: str, needed: Mapping[Address, float]
) -> str:
    others = f" (and {len(needed) - 3} more)" if len(needed) > 3 else ""
    asked = " and ".join(
        f"{{policy: {policy}, limit: {limit.id}, value: {_number(value)}, expires: …}}"
        for policy, value in list(needed.items())[:3]
    )
    return (
        f"{limit.id}: {limit.sentence(bucket, limit.value(bucket, rest))}, the limit is {limit.bound}; most of it by "
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
