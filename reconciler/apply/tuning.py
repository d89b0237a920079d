"""How hard and in what portions to try. Starting points that were measured; none of them changes what may be done."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Sizes of requests, how many leaders at once, and how often and how long to try again."""

    records_per_call: int = 1_000
    """Partitions in one DeleteRecords; the client library merges answers quadratically above that."""
    leaders_at_once: int = 4
    calls_per_leader: int = 2
    """Requests to one leader side by side, on connections of their own: each mostly waits for the followers' next fetch."""
    groups_per_call: int = 500
    group_calls_at_once: int = 2
    """The last look of one batch goes on while coordinators carry out the other."""
    elections_per_call: int = 5_000
    """A broker refuses a request that would change more than 10,000 leaders. Until all of a batch are seen takes as long for one as for five."""
    window: int = 20_000
    """Actions under way at once, which bounds memory; the plan itself is the caller's."""
    attempts: int = 6
    """Rounds of recheck and send for one action, the first included."""
    backoff_ms: int = 250
    backoff_max_ms: int = 8_000
    look_ages_ms: int = 10_000
    """From the beginning of the last look until its request; where looking and storing the intent took longer, there is another look."""
    recheck_ages_ms: int = 30 * 60_000
    """How long the recheck of the whole plan is good for: who reads, protections and limits are not looked at again before each request."""
    leader_seen_ms: int = 10_000
    """How long to wait until the metadata shows the leaders of a batch before the next one is sent."""

    @property
    def lanes_at_once(self) -> int:
        return self.leaders_at_once * self.calls_per_leader

    def no_larger_than(self, batch: int) -> "BatchLimits":
        """The same, with at most `batch` subjects in one request: less is under way when a run is stopped."""
        return replace(
            self,
            records_per_call=min(batch, self.records_per_call),
            groups_per_call=min(batch, self.groups_per_call),
            elections_per_call=min(batch, self.elections_per_call),
        )
