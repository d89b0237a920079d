"""Whether a record deletion may run: what a review allows, and the check right before its request."""

from dataclasses import replace
from typing import Self

from reconciler.model.action import Action
from reconciler.model.block_reason import BlockReason, known
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Status
from reconciler.model.snapshot import ClusterSnapshot, PartitionFacts, Unknown
from reconciler.operations.base import beyond_review
from reconciler.operations.consumers import (
    describe_pending,
    external_positions,
    find_lagging,
    verified_offset,
    verified_positions,
)
from reconciler.operations.delete_records.deletion import Deletion, LagPolicy
from reconciler.operations.observation import Observation, RecheckFailure
from reconciler.text.escape import quoted
from reconciler.text.formatting import format_duration, format_instant


def purge_wait(
    partition: TopicPartition, last_purge: int | Unknown | None, every_ms: int | None, now_ms: int
) -> tuple[str, int] | None:
    """Return why a partition may not be purged yet, and from when on it may; None: it may now.

    More than `every` has to pass, as with the purge interval of Kafka Streams
    (`repartition.purge.interval.ms`). Raises BlockReason where the last purge is not known.
    """
    last_ms = None if every_ms is None else known(last_purge, f"when {partition} was last purged")
    if last_ms is None or every_ms is None or now_ms - last_ms > every_ms:
        return None
    apart = f"purges of a partition are at least {format_duration(every_ms)} apart"
    return f"last purged at {format_instant(last_ms)}, and {apart}", last_ms + every_ms + 1


class DeletionRule(Deletion):
    """A record deletion that decides whether it may run."""

    __slots__ = ()

    def restrict_to(self, reviewed: Action | None) -> Self | BlockReason:
        if not isinstance(reviewed, Deletion) or reviewed.partition != self.partition:
            return beyond_review("new: the reviewed plan removes nothing of it")
        before, now = reviewed.seen, self.seen
        before_offset = min(self.before_offset, reviewed.before_offset)
        positions = {reader.group: reader.committed for reader in reviewed.guard.watched}
        accepted = tuple(reader for reader in self.guard.accepted if reader.committed < before_offset)
        # Groups of exceptGroups bind nothing.
        binding = (reader for reader in self.guard.watched if reader.committed < before_offset)
        further_behind = next((r for r in binding if r.committed < positions.get(r.group, before_offset)), None)
        if before.topic_id != now.topic_id:
            reason = f"the reviewed plan is about topic id {before.topic_id}, the topic is {now.topic_id} now"
        elif self.guard.conditions != reviewed.guard.conditions:
            reason = self.guard.describe_change(reviewed.guard)
        elif before_offset <= now.log_start:
            reason = f"the review covers offsets below {before_offset}, which are already deleted; {self.before_offset} needs a new review"
        elif now.log_start < before.log_start:
            reason = f"larger: the log starts at {now.log_start}, it was {before.log_start} in the reviewed plan"
        elif now.high_watermark < before.high_watermark:
            ends = f"it ends at {now.high_watermark}, it ended at {before.high_watermark} in the reviewed plan"
            reason = f"the log was cut: {ends}, so its offsets may mean other records"
        elif further_behind is not None:
            skipped = f"group {quoted(further_behind.group)} skip records from {further_behind.committed}"
            reason = f"larger: the reviewed plan does not let {skipped}"
        elif before_offset == self.before_offset and accepted == self.guard.accepted:
            return self
        else:
            lower = f"; reviewed up to {before_offset} only" if before_offset < self.before_offset else ""
            guard = replace(self.guard, accepted=accepted)
            lowered_by = self.before_offset - before_offset
            return replace(
                self,
                before_offset=before_offset,
                gaps_above=self.gaps_above + lowered_by if self.may_have_gaps else 0,
                reason=self.reason + lower,
                guard=guard,
            )
        return beyond_review(reason)

    def done_reason(self, snapshot: ClusterSnapshot) -> str | None:
        facts = snapshot.partitions.get(self.partition)
        if facts is None or facts.topic_id != self.seen.topic_id or isinstance(facts.log_start, Unknown):
            return None
        return f"the log start is {facts.log_start} already" if facts.log_start >= self.before_offset else None

    def within(self, saved: Self) -> Self:
        """Keep the log start, the high watermark and the positions of groups that the review saw.

        A group that has no commit yet was not seen to catch up, so the check right before the request
        still looks for it.
        """
        is_same = (saved.seen.log_start, saved.seen.high_watermark) == (self.seen.log_start, self.seen.high_watermark)
        if is_same and not saved.guard.accepted and not self.guard.accepted:
            return self
        watched = tuple(reader for reader in saved.guard.watched if reader.committed < self.before_offset)
        seen = replace(self.seen, log_start=saved.seen.log_start, high_watermark=saved.seen.high_watermark)
        by_named = self.consumed_by_named and not watched
        return replace(self, seen=seen, guard=replace(self.guard, accepted=watched), consumed_by_named=by_named)

    def check(self, observation: Observation) -> None:
        """Test that topic and log are the same, and that every reader is where it may be."""
        facts = observation.partition(self.partition, self.seen.topic_id)
        log_start = known(facts.log_start, "the log start")
        if log_start >= self.before_offset:
            raise RecheckFailure(Status.SATISFIED, f"the log start is {log_start} already")
        high_watermark = known(facts.high_watermark, "the high watermark")
        if not isinstance(facts.leader, int):
            raise RecheckFailure(Status.FAILED, "the partition has no leader")
        if log_start < self.seen.log_start:
            # An unclean election can bring records back, and the review did not see that those go.
            raise _lower("log start", log_start, self.seen.log_start)
        if high_watermark < self.seen.high_watermark:
            # The log was cut and perhaps filled again: below the target there may be other records.
            raise _lower("high watermark", high_watermark, self.seen.high_watermark)
        self._check_readers(facts, log_start, high_watermark, observation)

    def _check_readers(
        self, facts: PartitionFacts, log_start: int, high_watermark: int, observation: Observation
    ) -> None:
        """Test that below the target there are only readers that the plan accepted there."""
        is_excluded, unknown = observation.excluder(self.guard.except_groups)
        if (blind_spot := unknown.of(self.partition.topic)) is not None:
            raise blind_spot.with_traceback(None)  # raised for many partitions
        readers = known(facts.readers, "the consumers of", self.partition)
        by_group = {reader.group: reader for reader in readers}
        target = f"below the target {self.before_offset}"
        for group in self.guard.named:
            position = verified_offset(group, by_group.get(group), facts, self.seen.topic_id, high_watermark)
            _check_position(group, position, self.before_offset, target)
        if self.guard.consumers is not LagPolicy.IGNORE:
            for reader in external_positions(observation, self.partition, log_start, high_watermark):
                if reader.committed < self.before_offset:
                    raise RecheckFailure(Status.STALE, f"{reader.group} is at {reader.committed}, {target}")
        accepted = {reader.group: reader.committed for reader in self.guard.accepted}
        positions = verified_positions(readers, self.seen.topic_id, log_start, high_watermark)
        for reader in find_lagging(positions, self.before_offset, self.guard.named):
            if is_excluded(reader.group) or reader.group in observation.removed_groups:
                continue
            if reader.group not in accepted:
                transaction = describe_pending(reader)
                raise _moved(
                    reader.group, f"is at {reader.committed}, and the plan does not know it there{transaction}"
                )
            least = accepted[reader.group]
            _check_position(reader.group, reader.committed, least, f"behind the {least} that the plan accepted")

        for lag in self.guard.watched:
            # No reader is below the log start, and a group that this run removed reads nothing.
            may_vanish = lag.committed <= self.seen.log_start or lag.group in observation.removed_groups
            if lag.group not in by_group and not may_vanish:
                raise _moved(lag.group, f"has no commit any more, and the plan accepted it at {lag.committed}")


def _check_position(group: str, position: int, least: int, words: str) -> None:
    """Raise RecheckFailure for a group that is below the offset `least`, which `words` name."""
    if position < least:
        raise _moved(group, f"is at {position} now, {words}")


def _lower(what: str, offset: int, planned: int) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"the {what} is {offset}, below the {planned} of the plan")


def _moved(group: str, change: str) -> RecheckFailure:
    return RecheckFailure(Status.STALE, f"group {quoted(group)} {change}")
