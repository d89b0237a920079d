"""Limits of a whole plan, and the waivers that let one policy past one of them.

A limit never removes an action: it refuses the plan. Operations define the limits and how much an
action counts towards each, the Cluster sets their values, and the caller ends the run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.model.names import Address, SourceLocation, format_location
from reconciler.model.plan import Decision, LimitVerdict, UsedWaiver
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.operations import Operation
from reconciler.operations.base import Limit
from reconciler.plan.rules import RuleSet
from reconciler.policies.cluster import CONNECTION, LIMITS
from reconciler.policies.waiver import Waiver
from reconciler.text.escape import NEXT
from reconciler.text.formatting import approximate_duration, format_instant, round_up

_CLAUSES_MAX = 3
_WAIVER_NAME_MAX = 38
"""Characters of a policy's name in the name of its waiver: a name has 63, and the longest limit 24."""
_READ_ALL = "see with `reconciler doctor` that everything can be read"
_HOUR_MS = 3_600_000
_WAIVER_MS = 7 * 24 * _HOUR_MS
"""How long a waiver lasts that a message proposes, if its limit allows as much."""


def verdicts(decisions: Iterable[Decision], rules: RuleSet, snapshot: ClusterSnapshot) -> tuple[LimitVerdict, ...]:
    """Return one verdict for each limit, in the manifest's order, after that of a changed connection.

    A share of an unknown total refuses, but only where there are actions that it would bound.
    With a waiver, the actions of its policy keep the waiver's value, all others together keep the
    limit, and all together keep the larger of the limit and what the waivers add up to.
    """
    buckets: defaultdict[str, dict[str, _Bucket]] = defaultdict(dict)
    places: dict[Address, SourceLocation] = {}
    for decision in decisions:
        if isinstance(decision, Operation):
            policy = decision.address.policy_address
            places.setdefault(policy, decision.declared_at)
            for limit, amount, name, counted in decision.limit_usage():
                if name not in buckets[limit.id]:
                    total = None if limit.total is None else limit.total(snapshot, name)
                    buckets[limit.id][name] = _Bucket(name, total)
                buckets[limit.id][name].amounts[policy][counted] += amount
    now_ms = snapshot.observed_at_ms
    changed = [connection_verdict(rules, now_ms=now_ms)] if rules.connection_changes else []
    by_name = {limit: [bucket for _name, bucket in sorted(buckets[limit.id].items())] for limit in LIMITS}
    missed = {limit: snapshot.listed(limit.of_list)[1] if limit.of_list else None for limit in LIMITS}
    return (
        *changed,
        *(_verdict(limit, rules, by_name[limit], places, missed[limit], now_ms=now_ms) for limit in LIMITS),
    )


def connection_verdict(rules: RuleSet, *, now_ms: int) -> LimitVerdict:
    """Return whether a waiver allows that the manifests connect elsewhere."""
    cluster, changes = rules.cluster, rules.connection_changes
    limit = replace(CONNECTION, words=f"{CONNECTION.words} ({', '.join(changes)})")
    bucket = _Bucket("", None)
    bucket.amounts[cluster.address].update(changes)
    return _verdict(limit, rules, [bucket], {cluster.address: cluster.declared_at}, now_ms=now_ms)


@dataclass(slots=True)
class _Bucket:
    """What one limit bounds as one number: everything, or the records of one topic.

    `total`: what a share is taken of; None: a count. `amounts`: by policy and by name, where a limit
    counts distinct names: two policies that take partitions of one topic lose one topic.
    """

    name: str
    total: int | Unknown | None
    amounts: defaultdict[Address, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def amount(self, policies: Iterable[Address]) -> int:
        """Return the number for the actions of these policies together."""
        totals = Counter[str]()
        for policy in policies:
            totals.update(self.amounts[policy])
        return totals[""] if "" in totals else len(totals)

    def value(self, policies: Iterable[Address]) -> float:
        """Return `amount`, or its share of the total in percent. Of a smaller total it is all."""
        amount = float(self.amount(policies))
        if not amount or not isinstance(self.total, int):
            return amount
        return 100.0 * amount / max(self.total, amount)

    def by_amount(self, policies: Iterable[Address]) -> list[Address]:
        """Return the policies, those that cause most first."""
        return sorted(policies, key=lambda policy: (-self.amount([policy]), policy))


def _verdict(
    limit: Limit,
    rules: RuleSet,
    buckets: Sequence[_Bucket],
    places: Mapping[Address, SourceLocation],
    missed: Unknown | None = None,
    *,
    now_ms: int,
) -> LimitVerdict:
    """Return whether each bucket is within the limit of the cluster, and why. `places`: of declarations.

    `missed`: why the totals may be larger than what was counted.
    """
    most = rules.cluster.limit(limit)
    valid, ignored = _sort_out((waiver for waiver in rules.waivers if waiver.spec.limit == limit.id), now_ms)
    used: dict[Address, UsedWaiver] = {}
    refused: list[tuple[_Bucket, list[Address]]] = []
    observed: float | None = 0.0
    worst, advice = None, ""
    unit = " %" if limit.is_percent else ""
    bound = _number(most) + unit
    unknown = [(bucket, bucket.total.reason) for bucket in buckets if isinstance(bucket.total, Unknown)]
    if unknown:
        bucket, reason = unknown[0]
        observed, worst = None, bucket.by_amount(bucket.amounts)[0]
        message = (
            f"{limit.words}: not known ({reason}), and the limit is {bound}; most of it would "
            f"be lost by {worst} ({format_location(places[worst])}){NEXT}{_READ_ALL}"
        )
    elif not buckets:
        message = f"nothing counts towards it, the limit is {bound}"
    else:
        for bucket in buckets:
            if bucket.value(bucket.amounts) > most:
                covered = {p: valid[p] for p in bucket.amounts if p in valid and bucket.value([p]) <= valid[p].value}
                used |= covered
                remaining = sorted(bucket.amounts.keys() - covered)
                if bucket.value(remaining) > most:
                    refused.append((bucket, remaining))
                elif bucket.value(bucket.amounts) > max(most, sum(waiver.value for waiver in covered.values())):
                    refused.append((bucket, sorted(bucket.amounts)))
        highest = max(buckets, key=lambda bucket: bucket.value(bucket.amounts))
        observed = highest.value(highest.amounts)
        cause, policies = max(refused or [(highest, list(highest.amounts))], key=lambda pair: pair[0].value(pair[1]))
        worst = cause.by_amount(policies)[0]
        place = f" ({cause.name})" if cause.name else ""
        share = _number(round_up(cause.value(policies), most))
        removed = cause.amount(policies)
        of = f" ({removed:,} of {max(cause.total, removed):,})" if refused and isinstance(cause.total, int) else ""
        message = f"{limit.words}{place}: {share}{unit}{of}, the limit is {bound}"
        if refused:
            message += f"; most of it by {worst} ({format_location(places[worst])})"
            if missed is not None:
                message += f"; the list of {limit.of_list} is incomplete, so the share looks larger: {missed.reason}"
            # A waiver for a share of what one broker hides would outlast the broker's silence.
            steps = [] if missed is None else [_READ_ALL]
            if missed is None or not missed.silent:
                steps.append(_advice(limit, most, refused, rules, now_ms))
            advice = f"{NEXT}{'; else '.join(steps)}"
    used_waivers = tuple(used[policy] for policy in sorted(used))
    left = {waiver: approximate_duration(waiver.expires_ms - now_ms) for waiver in used_waivers}
    clauses = [f"; Waiver/{w.name} allows {w.policy} {_number(w.value)} for {time} more" for w, time in left.items()]
    return LimitVerdict(
        id=limit.id,
        limit=most,
        observed=observed,
        passed=observed is not None and not refused,
        message=f"{limit.id}: {message}{_join_first(clauses, 'more waivers that count')}{ignored}{advice}",
        worst=worst,
        waivers=used_waivers,
    )


def refusal(refused: Iterable[LimitVerdict]) -> str:
    """Return why limits refuse a plan, then what to do next about each."""
    causes, _, steps = zip(*(verdict.message.partition(NEXT) for verdict in refused), strict=True)
    return f"{'; '.join(causes)}{NEXT}{'; '.join(dict.fromkeys(filter(None, steps)))}".removesuffix(NEXT)


def _sort_out(waivers: Iterable[Waiver], now_ms: int) -> tuple[dict[Address, UsedWaiver], str]:
    """Return the highest waiver of each policy, and in words those that do not count."""
    valid: dict[Address, UsedWaiver] = {}
    ignored: list[str] = []
    for waiver in sorted(waivers, key=lambda waiver: waiver.address):
        spec, policy = waiver.spec, Address.parse(waiver.spec.policy)
        if spec.expires <= now_ms:
            ignored.append(f"; {waiver.address} expired at {format_instant(spec.expires)} and does not count")
        elif spec.expires > now_ms + spec.longest_ms:
            until = format_instant(spec.expires)
            ignored.append(f"; {waiver.address} would last until {until}, too long, and does not count")
        elif policy not in valid or spec.value > valid[policy].value:
            valid[policy] = UsedWaiver(
                name=waiver.metadata.name,
                policy=policy,
                limit=spec.limit,
                value=spec.value,
                expires_ms=spec.expires,
                declared_at=waiver.declared_at,
            )
    return valid, _join_first(ignored, "more waivers that do not count")


def _advice(
    limit: Limit, most: float, refused: Iterable[tuple[_Bucket, list[Address]]], rules: RuleSet, now_ms: int
) -> str:
    """Return the fewest waivers that the plan needs, each a manifest to paste; worst policies first.

    One of the same name is to be replaced: it has expired, or allows too little.
    """
    needed: dict[Address, float] = {}
    for bucket, policies in refused:
        ordered = bucket.by_amount(policies)
        count = next(n for n in range(len(ordered) + 1) if bucket.value(ordered[n:]) <= most)
        for policy in ordered[: max(1, count)]:
            # The first waiver has to leave room for the policies without one.
            amount = bucket.value([policy, *ordered[max(1, count) :]] if policy == ordered[0] else [policy])
            needed[policy] = max(needed.get(policy, 0.0), round_up(amount))
    expires_ms = now_ms + min(limit.waiver_max_ms, _WAIVER_MS)
    expires = format_instant(expires_ms - expires_ms % _HOUR_MS)
    present = {
        waiver.metadata.name: f" in place of that in {format_location(waiver.declared_at)}" for waiver in rules.waivers
    }
    waivers = " and ".join(
        f"{{apiVersion: reconciler/v1, kind: Waiver, metadata: {{name: {name}, cluster: {rules.cluster.metadata.name}}}, "
        f"spec: {{policy: {policy}, limit: {limit.id}, value: {_number(value)}, expires: {expires}}}}}{present.get(name, '')}"
        for policy, value in list(needed.items())[:_CLAUSES_MAX]
        for name in [f"{policy.policy[:_WAIVER_NAME_MAX]}-{limit.id.lower()}"]
    )
    more = f" (and {len(needed) - _CLAUSES_MAX} more)" if len(needed) > _CLAUSES_MAX else ""
    return f"{limit.remedy}, or let a review add the manifest {waivers}{more}"


def _join_first(clauses: Sequence[str], noun: str) -> str:
    """Join the first clauses and count the others: reports cut a sentence that is too long."""
    more = f"; {noun}: {len(clauses) - _CLAUSES_MAX:,}" if len(clauses) > _CLAUSES_MAX else ""
    return "".join(clauses[:_CLAUSES_MAX]) + more


def _number(value: float) -> str:
    """Return all digits: the number, copied into a waiver, has to pass the limit."""
    return f"{value:.15g}"
