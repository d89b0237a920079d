"""A blocked subject for each B code, as reports show it: of a golden case, or of a plan that is built here.

The pages of the codes show them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.kafka.silence import silence_of
from reconciler.model.plan import Blocked, Plan, Skipped
from reconciler.model.snapshot import KeptForever, LookupKind, RecordLookup, RecordStamp
from reconciler.plan import plan_file
from reconciler.plan.review import restrict_to
from reconciler.report.plan import notice_items
from reconciler.report.terminal import write_lines
from reconciler.report.tree import Report, Section
from tests.strategies import examples
from tests.strategies.facts import (
    DAY,
    NOW_MS,
    OldRecords,
    floor,
    group,
    leaders,
    partition,
    planned,
    removal,
    snapshot,
    topic,
)

_GOLDEN = Path(__file__).parents[2] / "golden"
_WEEK = {"newerThan": "7d"}
_WIDTH = 100


def _built() -> Iterator[Plan]:
    """Yield plans with the codes that no golden case has."""
    silent = silence_of(3, "kafka-3:9092", 10.0)
    unstamped = OldRecords({RecordLookup(LookupKind.LAST, 0, 50): RecordStamp(0, -1)})
    later = {NOW_MS - age: NOW_MS + DAY for age in (7 * DAY, 8 * DAY)}
    yield planned(leaders(partitions={"orders": [3]}, election="unclean"), snapshot(topic(partitions=3), partition(0)))
    yield planned(floor(keep={"last": 10}), snapshot(topic(), partition(log_start=-1001)))
    yield restrict_to(examples.plan(examples.purge()), examples.plan())
    yield planned(floor(keep={"last": 10}), snapshot(topic(), partition(log_start=silent)))
    internal = topic("kafka-internal", internal=True)
    yield planned(floor(internal.name, keep={"last": 10}), snapshot(internal, partition(topic=internal.name)))
    yield planned(floor(keep={"since": "2026-11-22T00:00:00Z"}), snapshot(topic(), partition()))
    yield planned(floor(keep={"last": 60}), snapshot(topic(), partition(at={DAY: 100}, readers_below=39)))
    audit = topic("orders-audit", kept_forever=KeptForever.TOPIC)
    yield planned(floor("orders-*", keep={"last": 10}), snapshot(audit, partition(topic=audit.name)))
    yield planned(floor(keep=_WEEK), snapshot(topic(), partition(at={7 * DAY: 50, 8 * DAY: 40}, lookups=unstamped)))
    held = partition(at={7 * DAY: 5, 8 * DAY: 5}, log_start=5, future_stamps=later)
    yield planned(floor(keep=_WEEK), snapshot(topic(), held))
    # Validation refuses it in a manifest; the decision refuses it once more.
    pattern = removal("old-*")
    spec = pattern.spec.model_copy(update={"idle_for": 0})
    yield planned(pattern.model_copy(update={"spec": spec}), snapshot(group()))


def blocked_examples() -> Mapping[str, tuple[str, str]]:
    """Return for each B code the kind of a policy, and what a plan says of a subject: blocked, rather than skipped."""
    golden = (plan_file.read(path) for path in sorted(_GOLDEN.glob("*/plan.json")))
    plans = [*golden, *_built()]
    shown: dict[str, tuple[str, str]] = {}
    for sort in (Blocked, Skipped):
        for plan in plans:
            for decision in plan.decisions:
                if isinstance(decision, sort) and decision.code not in shown:
                    shown[decision.code] = decision.address.kind, _line(decision, plan.observed_at_ms)
    return shown


def _line(decision: Blocked | Skipped, now_ms: int) -> str:
    label = "Skipped" if isinstance(decision, Skipped) else "Unread" if decision.unread else "Blocked"
    items = notice_items([decision], label, now_ms)
    return "\n".join(line.plain for line in write_lines(Report(sections=(Section(items=items),)), width=_WIDTH))
