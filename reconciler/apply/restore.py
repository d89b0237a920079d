"""Writes the offsets of a removed group back: finds them, says which may be written, and applies that.

Decided here: from which removal the offsets are. `RestoreOffset` decides what may be written.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from reconciler.apply import results
from reconciler.apply.context import ApplyContext
from reconciler.apply.executor import apply
from reconciler.clock import wall_clock_ms
from reconciler.errors import PlanUnusable
from reconciler.journal.entry import Event, JournalEntry, parse
from reconciler.model.action import Mode
from reconciler.model.names import NOWHERE, Address, TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.ports import Gateway
from reconciler.model.snapshot import CommittedOffset
from reconciler.operations.attempt import Attempt
from reconciler.operations.restore_offset import RestoreOffset, observe_restore
from reconciler.text.escape import display_name, quoted
from reconciler.text.formatting import count, format_time
from reconciler.text.suggest import suggestion
from reconciler.text.validation import error_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The removal of a group, from a results file or the journal.

    `address`: of the action that removed it, which names the group. `plan_digest`: of its plan. `source`: for people.
    `cluster_id` None: a journal does not name it; topic ids tell clusters apart, too. `total`: how many
    offsets the removal took, where the journal holds them in several entries. `at_ms`: of its last intent.
    """

    address: Address
    offsets: tuple[CommittedOffset, ...]
    plan_digest: str
    source: str
    cluster_id: str | None = None
    total: int | None = None
    at_ms: int = 0

    @property
    def group(self) -> str:
        return self.address.name

    @property
    def actions(self) -> tuple[RestoreOffset, ...]:
        """One action for each offset, in their order."""
        return tuple(
            RestoreOffset(
                address=self.address,
                declared_at=NOWHERE,
                reason=self.source,
                mode=Mode.MERGE,
                group=self.group,
                commit=commit,
                removal=self.offsets,
            )
            for commit in self.offsets
        )


Unwritable = Mapping[TopicPartition, Outcome]
"""The offsets of a removal that may not be written now, and what becomes of each, with the reason."""


def find_removal(text: str, group: str, *, name: str) -> Removal:
    """Return the newest removal of a group in a results file, or in lines of `journal -o json`.

    `name`: of the file, for messages. Raises PlanUnusable.
    """
    if not text.strip():
        raise PlanUnusable(
            f"{name} is empty: the journal that the manifests name now has no entry; pass that of the removal, which may be "
            "another topic of spec.journal, or .reconciler/NAME.jsonl with the name that the Cluster had, or the file of "
            "`apply --results`"
        )
    try:
        removals = list(_of_journal(text) if text.lstrip().startswith('{"v":') else _of_results(text))
    except ValueError as error:
        raise PlanUnusable(
            f"{name} is neither a results file nor the output of `reconciler journal -o json`: {error_reason(error)}; pass the file of "
            "`apply --results`"
        ) from None
    same = [removal for removal in removals if removal.group == group]
    if not same:
        hint = suggestion(group, {removal.group for removal in removals}, before="; ", quote=quoted)
        number = count(len(removals), "removed group")
        raise PlanUnusable(
            f"{name} holds no offsets of group {quoted(group)}, but those of {number}{hint}; "
            "`reconciler journal -o json` prints those of a run that was killed, too"
        )
    if later := next((removal for removal in same if removal.at_ms > same[-1].at_ms), None):
        raise PlanUnusable(
            f"{name} holds {same[-1].source}, after {later.source}: which of them removed group {quoted(group)} last is not "
            "known: nothing was done; join the journals in the order of their times, or pass `reconciler journal --run ID "
            "-o json` of one run"
        )
    if not same[-1].offsets:
        raise PlanUnusable(
            f"group {quoted(group)} had no committed offset when it was removed: there is nothing to restore"
        )
    if (total := same[-1].total) is not None and len(same[-1].offsets) < total:
        raise PlanUnusable(
            f"{name} holds {len(same[-1].offsets):,} of the {count(total, 'offset')} that group {quoted(group)} had: entries of "
            "its removal are missing: nothing was done; pass the file of `apply --results`, or the whole output of "
            "`reconciler journal -o json`"
        )
    twice = next((at for at, number in Counter(commit.at for commit in same[-1].offsets).items() if number > 1), None)
    if twice is not None:
        raise PlanUnusable(
            f"{name} holds more than one offset of group {quoted(group)} for {display_name(str(twice))}, as no run writes "
            "it: nothing was done; pass the file as `apply --results` wrote it"
        )
    return same[-1]


def _of_results(text: str) -> Iterator[Removal]:
    header, rows = results.parse(text)
    for row in rows:
        if row.removed_offsets is not None:
            yield Removal(
                address=row.address,
                offsets=row.removed_offsets,
                plan_digest=header.plan_digest,
                source=f"the results of run {header.run_id}, {format_time(header.finished_at_ms)}",
                cluster_id=header.cluster_id,
            )


def _of_journal(text: str) -> Iterator[Removal]:
    """The removals of each group, in the order of their intents, without those that were never sent.

    Many offsets are in several entries, and the intent of each try has all of them.
    """
    removals: dict[tuple[Address, str], Removal] = {}
    for entry in chain.from_iterable(_parse_lines(text)):
        if entry.operation == RestoreOffset.OPERATION:
            continue  # an earlier version stored the offsets that it wrote back
        key = entry.address, entry.run_id
        if entry.event is Event.OUTCOME and entry.sends == 0:
            removals.pop(key, None)
        elif entry.event is Event.INTENT and entry.removed_offsets is not None:
            earlier = removals.pop(key).offsets if key in removals else ()
            offsets = {commit.at: commit for commit in (*earlier, *entry.removed_offsets)}
            removals[key] = Removal(
                address=entry.address,
                offsets=tuple(offsets.values()),
                plan_digest=entry.plan_digest,
                source=f"the intent of run {entry.run_id} in the journal, {format_time(entry.at_ms)}",
                total=entry.removed_offsets_total,
                at_ms=entry.at_ms,
            )
    yield from removals.values()


def _parse_lines(text: str) -> Iterator[Sequence[JournalEntry]]:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.strip():
                yield parse(line.encode(), JournalEntry)
        except ValueError as error:
            raise ValueError(f"line {number}: {error_reason(error)}") from None


def find_unwritable(removal: Removal, gateway: Gateway) -> Unwritable:
    """Check the group and every partition on the cluster as it is now."""
    observation = observe_restore(removal.actions, gateway, wall_clock_ms)
    failures = ((action, action.recheck(observation)) for action in removal.actions)
    return {
        action.subject: Attempt(action=action).outcome(failure.status, failure.detail)
        for action, failure in failures
        if failure is not None
    }


def restore(removal: Removal, unwritable: Unwritable, context: ApplyContext) -> dict[TopicPartition, Outcome]:
    """Write what is not unwritable and still holds, and return what became of each offset, in their order."""
    writable = [action for action in removal.actions if action.subject not in unwritable]
    written = {outcome.action.subject: outcome for outcome in apply(writable, context)}
    return {commit.at: unwritable.get(commit.at) or written[commit.at] for commit in removal.offsets}


def note_metadata(commits: Iterable[CommittedOffset]) -> str:
    """Return a part of a sentence about the metadata that restored commits lack; empty: they lack none.

    The client library cannot write metadata without a NUL byte behind it.
    """
    lost = [commit.metadata_base64 for commit in commits if commit.metadata_base64 != ""]
    if not lost:
        return ""
    unknown = lost.count(None)
    reasons = [f"the client library cannot write that of {len(lost) - unknown}"] if unknown < len(lost) else []
    reasons += [f"that of {unknown} is not known"] if unknown else []
    return f"; metadata of {count(len(lost), 'partition')} not restored: {', '.join(reasons)}"
