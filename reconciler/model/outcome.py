"""What became of each action. Item failures are outcomes, never exceptions."""

from dataclasses import dataclass
from enum import StrEnum

from reconciler.model.action import Action
from reconciler.model.snapshot import CommittedOffset


class Status(StrEnum):
    """How an action ended.

    APPLIED: sent and proven by reading back. SATISFIED: the cluster was as desired already. STALE:
    the cluster changed, nothing was done. WAITING: right, but not now. BLOCKED: the manifests of now
    forbid it, or do not ask for it, or the cluster of now has what is never touched. FAILED: a request
    went out, and the broker refused, or the read-back disagrees.
    NOT_ATTEMPTED: no request went out, since a fact could not be read, its intent could not be
    stored, or the run ended before its turn. DEFERRED: of an operation that this
    run leaves to another one; neither done nor a failure.
    """

    APPLIED = "applied"
    SATISFIED = "satisfied"
    STALE = "stale"
    WAITING = "waiting"
    BLOCKED = "blocked"
    FAILED = "failed"
    NOT_ATTEMPTED = "not_attempted"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one action. `detail` says why; `code`: the name of the broker's error.

    `read_back`: what the cluster showed afterwards (`log start 98213`, `leader 1`, `absent`); None:
    not read. `sends`: how often the request went out; `possible`: one of them may have been carried
    out. `removed_max`: upper bound of the records removed by this run. `intended`: the journal
    holds its intent, which this outcome has to end, also where no request followed.
    `low_watermark`: as in the newest `ItemResult`. `removed_offsets`: the group's commits right before
    the newest request to remove it; None: no such request went out. `held`: it waits for a group or
    a broker and not for a clock, so that somebody may have to act. `also_counted_by`: other runs of
    the plan that may have removed the same records.
    """

    action: Action
    status: Status
    detail: str
    code: str | None = None
    read_back: str | None = None
    sends: int = 0
    possible: bool = False
    removed_max: int = 0
    intended: bool = False
    low_watermark: int | None = None
    removed_offsets: tuple[CommittedOffset, ...] | None = None
    held: bool = False
    also_counted_by: tuple[str, ...] = ()
