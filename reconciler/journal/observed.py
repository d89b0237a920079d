"""Observations of groups: what scans saw of them, where the server hides `__consumer_offsets`.

Each is one line of the journal, so nothing less protected than releases makes a group look idle.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from reconciler.model.bounds import EpochMs, NonEmpty
from reconciler.model.outcome import Status
from reconciler.model.snapshot import GroupObservation, GroupState, GroupType, ObservedCommit


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationLine:
    """A line of the journal of format 6: one group in one scan. `run_id` tells the scans apart."""

    v: Literal[6] = 6
    at_ms: EpochMs
    cluster_id: NonEmpty
    run_id: str = field(metadata={"name": "run"})
    group: NonEmpty
    type: GroupType
    state: GroupState
    commits: tuple[ObservedCommit, ...] = ()


_SEEN = tuple(part.name for part in fields(GroupObservation))


def of_scan(seen: GroupObservation, *, cluster_id: str, run_id: str) -> ObservationLine:
    """Return what the journal holds of an observation."""
    return ObservationLine(cluster_id=cluster_id, run_id=run_id, **{name: getattr(seen, name) for name in _SEEN})


def by_group(
    records: Iterable[Any], groups: Collection[str], cluster_id: str
) -> Mapping[str, tuple[GroupObservation, ...]]:
    """Return the observations of each group in their order, one for each scan of the cluster.

    `records`: observations and entries of actions. What was seen of a group before a run removed or
    restored it shows nothing of the present one. A group without a line in a scan was absent.
    """
    scans: defaultdict[str, dict[str, GroupObservation]] = defaultdict(dict)
    at_ms: dict[str, int] = {}
    begins = dict.fromkeys(groups, 0)
    for record in records:
        if not isinstance(record, ObservationLine):
            if record.address.is_of_group and record.status in (Status.APPLIED, Status.SATISFIED):
                begins[record.address.name] = len(scans)
        elif record.cluster_id == cluster_id:
            at_ms[record.run_id] = record.at_ms
            in_scan = scans[record.run_id]
            if record.group in begins:
                in_scan[record.group] = GroupObservation(**{name: getattr(record, name) for name in _SEEN})

    def seen(run_id: str, group: str) -> GroupObservation:
        absent = GroupObservation(at_ms=at_ms[run_id], group=group, type=GroupType.HIDDEN, state=GroupState.DEAD)
        return scans[run_id].get(group, absent)

    runs = list(scans)
    return {group: tuple(seen(run_id, group) for run_id in runs[begins[group] :]) for group in groups}
