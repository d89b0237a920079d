"""What a merge allows later runs to do without another review, and how that differs from a base.

The base are the manifests of the default branch. Nothing here decides an action.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reconciler.model.action import Mode
from reconciler.model.plan import Change, Rule, Setting
from reconciler.model.selector import may_share_name
from reconciler.policies import Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.external_reader import ExternalReader
from reconciler.policies.waiver import Waiver
from reconciler.text.formatting import format_duration, format_instant

_Settings = Mapping[str, tuple[str, ...]]
_Manifest = Cluster | Policy | Waiver | ExternalReader
_M = TypeVar("_M", Policy, Waiver, ExternalReader)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The manifests of one cluster.

    `connection_changes`: fields of the connection that they change, and that are not followed.
    """

    cluster: Cluster
    policies: Sequence[Policy] = ()
    waivers: Sequence[Waiver] = ()
    readers: Sequence[ExternalReader] = ()
    connection_changes: Sequence[str] = ()


def continuous_policies(rules: RuleSet, base: RuleSet | None = None) -> tuple[Rule, ...]:
    """Return the policies that later runs carry out without a review; also those that only the base
    has.
    """

    def rule(policy: Policy | None, before: Policy | None) -> Rule:
        if policy is None:
            return _rule(before, Change.REMOVED, ())
        settings, changes = _settings_of(policy, rules), tuple[Setting, ...]()
        if before is not None and base is not None:
            changes = _changes(settings, _settings_of(before, base))
        if policy.mode is not Mode.CONTINUOUS:
            return _rule(policy, Change.REMOVED, changes)
        change = None
        if base is not None:
            is_new = before is None or before.mode is not policy.mode
            change = Change.NEW if is_new else Change.CHANGED if changes else Change.UNCHANGED
        shown = policy.spec.settings(explicit=True).keys() | settings.keys() - policy.spec.settings().keys() | {"every"}
        known = {"mode", *(setting.name for setting in changes)}
        return _rule(policy, change, (*changes, *_select(settings, shown - known)))

    pairs = _pairs(rules.policies, () if base is None else base.policies)
    return tuple(rule(*pair) for pair in pairs if any(of and of.mode is Mode.CONTINUOUS for of in pair))


def rule_changes(rules: RuleSet, base: RuleSet) -> tuple[Rule, ...]:
    """Return the Cluster, the waivers, the readers and the policies that hold a continuous one back, where
    they differ from the base, each with the fields that do.

    Without continuous policies, which `continuous_policies` returns.
    """
    continuous = [*_continuous(rules), *_continuous(base)]
    pairs: list[tuple[_Manifest | None, _Manifest | None]] = [(rules.cluster, base.cluster)]
    pairs += _pairs(rules.waivers, base.waivers)
    pairs += _pairs(rules.readers, base.readers)
    pairs += [
        pair
        for pair in _pairs(rules.policies, base.policies)
        if not any(policy is version for policy in continuous for version in pair)
        and any(_may_hold_back(version, policy) for version in filter(None, pair) for policy in continuous)
    ]
    return tuple(rule for pair in pairs if (rule := _difference(*pair)) is not None)


def _pairs(present: Iterable[_M], before: Iterable[_M]) -> list[tuple[_M | None, _M | None]]:
    """Return the manifests of each address: the present one, and the one of the base."""
    now, then = ({manifest.address: manifest for manifest in of} for of in (present, before))
    return [(now.get(address), then.get(address)) for address in sorted(now.keys() | then.keys())]


def _may_hold_back(policy: Policy, continuous: Policy) -> bool:
    """Whether a policy keeps a continuous one from a subject: it claims it, too, or awaits it as a group.

    In doubt True: two patterns may match a name that the cluster does not have yet.
    """
    if continuous.SUBJECTS == "groups" and continuous.select_among(frozenset(policy.awaited_groups)):
        return True
    if policy.OPERATION is not continuous.OPERATION:  # other policies never conflict
        return False
    both = (policy, continuous)
    names = frozenset(selector.name for of in both for selector in of.selectors if selector.name is not None)
    if policy.select_among(names).keys() & continuous.select_among(names).keys():
        return True
    ours, theirs = ([selector for selector in of.selectors if selector.is_pattern] for of in both)
    excluded = {selector.text for of in both for selector in of.excluding}
    return any(
        may_share_name(first, second)
        for first in ours
        for second in theirs
        if excluded.isdisjoint((first.text, second.text))
    )


def _difference(present: _Manifest | None, before: _Manifest | None) -> Rule | None:
    if present is not None and before is not None:
        changes = _changes(_fields(present), _fields(before))
        return _rule(present, Change.CHANGED, changes) if changes else None
    manifest = present or before
    settings = {} if manifest is None else _fields(manifest)
    return _rule(manifest, Change.REMOVED if present is None else Change.NEW, _select(settings, settings))


def _continuous(rules: RuleSet) -> list[Policy]:
    return [policy for policy in rules.policies if policy.mode is Mode.CONTINUOUS]


def _settings_of(policy: Policy, rules: RuleSet) -> _Settings:
    """Return the mode and the fields of a policy, the limits that bound it, and its waivers."""
    every = {} if policy.every_ms is None else {"every": (format_duration(policy.every_ms),)}
    limits = {f"limits.{limit.id}": (f"{rules.cluster.limit(limit):.15g}",) for limit in policy.OPERATION.LIMITS}
    waivers = {
        str(waiver.address): (f"{spec.limit} up to {spec.value:.15g} until {format_instant(spec.expires)}",)
        for waiver in rules.waivers
        if (spec := waiver.spec).policy == str(policy.address)
    }
    return {"mode": (policy.mode,), **_fields(policy), **every, **limits, **waivers}


def _fields(manifest: _Manifest) -> _Settings:
    """Return the fields that decide, and `expectNone`, which takes warnings away."""
    expected = manifest.metadata.expect_none
    return {**manifest.spec.settings(), **({"expectNone": expected} if expected else {})}


def _select(settings: _Settings, names: Collection[str]) -> tuple[Setting, ...]:
    return tuple(Setting(name=name, values=values) for name, values in settings.items() if name in names)


def _changes(settings: _Settings, before: _Settings) -> tuple[Setting, ...]:
    """Return the settings that differ, those that are not set any more at the end."""
    names = dict.fromkeys((*settings, *before))
    return tuple(
        Setting(name=name, values=settings.get(name, ()), before=before.get(name, ()))
        for name in names
        if settings.get(name) != before.get(name)
    )


def _rule(manifest: _Manifest | None, change: Change | None, settings: tuple[Setting, ...]) -> Rule:
    assert manifest is not None, "a pair has one"
    return Rule(address=manifest.address, declared_at=manifest.declared_at, change=change, settings=settings)
