"""What applying costs, against Kafka's own tools and against the bare calls of the client library, on one cluster in one run.

    python -m bench.apply [--quick] [--topics 1000] [--groups 5000] [--elections 5000] [--repetitions 3] [--only records …] [--dry]

Contenders of each operation, in rotating order, the same state made again for each: Kafka's tool (a process, JVM included), the bare
calls (new client, everything pipelined, no check at all), the recheck (the applier's reads before a send, alone), and the applier
with all it promises: last look before each request, intents on disk before, proof by reading back after, outcomes on disk. The
snapshot that the command takes before its first write is the scan's bench. After each turn the effect is counted, untimed.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from bench import apply_command, apply_memory, results
from bench.apply_world import COMMITS_PER_GROUP, DEAD, STAYS, At, World, batches, leaders, log_starts, world
from bench.sizes import FULL, QUICK, Apply
from reconciler.apply.executor import apply
from reconciler.apply.tuning import BatchLimits
from reconciler.journal.file import FileJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.model import action as actions
from reconciler.model import names
from reconciler.model.outcome import Status
from reconciler.model.snapshot import GroupState, GroupType
from reconciler.sandbox.jars import DEFAULT_VERSION
from reconciler.sandbox.tools import run_tool

TIMEOUT_S = 120.0
TOOL, BARE, RECHECK, APPLIER, COMMAND = "Kafka's tool", "bare calls", "recheck", "applier", "the command"
CONTENDERS = (TOOL, BARE, RECHECK, APPLIER)
STARTED = time.monotonic()

Seconds = dict[str, list[float]]


def say(line: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f} s] {line}", file=sys.stderr, flush=True)


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def connection(made: World) -> Connection:
    return Connection(tuple(made.servers.split(",")), timeout_s=TIMEOUT_S)


def tool(made: World, name: str, *words: str) -> None:
    answer = run_tool(made.cluster, name, *words, timeout_s=900)
    assert answer.returncode == 0, (answer.stdout[-500:], answer.stderr[-500:])


def send(made: World, planned: Sequence[actions.Action], folder: Path) -> None:
    gateway = KafkaGateway(connection(made))
    journal = FileJournal(folder / f"{time.monotonic_ns()}.jsonl")
    try:
        ended = [
            outcome.status
            for outcome in apply(
                planned,
                gateway=gateway,
                journal=journal,
                run_id="bench",
                plan_digest="bench",
                clock=lambda: time.time_ns() // 1_000_000,
                sleep=time.sleep,
            )
        ]
    finally:
        gateway.close()
    assert ended == [Status.APPLIED] * len(planned), {status: ended.count(status) for status in set(ended)}


def rounds(name: str, sizes: Apply, turn: Callable[[str], float]) -> Seconds:
    """Seconds of each contender in its turns, another one first each time; at the end those of the whole command."""
    found: Seconds = {contender: [] for contender in CONTENDERS}
    for number in range(sizes.repetitions):
        first = number % len(CONTENDERS)
        for contender in CONTENDERS[first:] + CONTENDERS[:first]:
            seconds = turn(contender)
            found[contender].append(seconds)
            say(f"{name}, {number + 1} of {sizes.repetitions}: {contender} {seconds:.2f} s")
    found[COMMAND] = [turn(COMMAND) for _ in range(sizes.commands)]
    say(" | ".join(row(name, found)))
    return found


def records(made: World, sizes: Apply, folder: Path) -> Seconds:
    """One more record of every partition."""
    led = leaders(made.servers.split(",", maxsplit=1)[0])
    settings = BatchLimits()

    def turn(contender: str) -> float:
        if contender != RECHECK:
            made.turns += 1
        before = made.turns
        wanted = made.all
        match contender:
            case name if name == TOOL:
                rows = [{"topic": topic, "partition": number, "offset": before} for topic, number in wanted]
                path = folder / "records.json"
                path.write_text(json.dumps({"version": 1, "partitions": rows}))
                seconds = timed(lambda: tool(made, "kafka-delete-records", "--offset-json-file", str(path)))
            case name if name == BARE:
                seconds = timed(lambda: bare_records(made, led, before))
            case name if name == RECHECK:
                return timed(lambda: look_at_partitions(made, led, settings.records_per_call, offsets=True))
            case name if name == COMMAND:
                seconds = apply_command.timed(made, apply_command.records(made, before), len(wanted))
            case _:
                planned = purges(made, wanted, before)
                seconds = timed(lambda: send(made, planned, folder))
        starts = log_starts(made.servers, wanted)
        assert all(starts[at] == before for at in wanted), contender
        return seconds

    return rounds("records", sizes, turn)


def bare_records(made: World, led: dict[At, int], before: int) -> None:
    client = AdminClient({"bootstrap.servers": made.servers})
    futures: list[Any] = []
    for broker in sorted(set(led.values())):
        mine = [TopicPartition(*at, before) for at in made.all if led[at] == broker]
        for batch in batches(mine, 1_000):
            futures += client.delete_records(batch, request_timeout=TIMEOUT_S, operation_timeout=60).values()
    for future in futures:
        future.result()


def look_at_partitions(made: World, led: dict[At, int], size: int, *, offsets: bool) -> None:
    gateway = KafkaGateway(connection(made))
    for broker in sorted(set(led.values())):
        mine = [names.TopicPartition(*at) for at in made.all if led[at] == broker]
        for batch in batches(mine, size):
            gateway.partitions_now(batch, offsets=offsets)
    gateway.close()


def purges(made: World, wanted: Sequence[At], before: int) -> list[actions.Action]:
    gateway = KafkaGateway(connection(made))
    now = gateway.partitions_now([names.TopicPartition(*at) for at in wanted], offsets=True)
    gateway.close()
    planned: list[actions.Action] = []
    for at in wanted:
        found = now[names.TopicPartition(*at)]
        facts: Any = found
        planned.append(
            actions.DeleteRecords(
                address=names.Address("RetentionFloor", "bench", *at),
                declared_at=names.NOWHERE,
                reason="bench",
                mode=actions.Mode.MERGE,
                partition=names.TopicPartition(*at),
                before_offset=before,
                seen=actions.ObservedPartition(
                    topic_id=facts.topic_id,
                    log_start=facts.log_start,
                    stable_end=facts.high_watermark,
                    high_watermark=facts.high_watermark,
                    leader=facts.leader,
                    replicas=facts.replicas,
                    in_sync=facts.in_sync,
                ),
                guard=actions.Preconditions(consumers=actions.LagPolicy.BLOCK),
                vouched=False,
                drift=True,
            )
        )
    return planned


def groups(made: World, sizes: Apply, folder: Path) -> Seconds:
    """Groups of ten commits each, made anew for each contender, beside as many that stay."""
    count = sizes.groups
    made.dead_groups([f"{STAYS}{number:05}" for number in range(count)])
    known = [f"{DEAD}{number:05}" for number in range(count)]

    def turn(contender: str) -> float:
        made.dead_groups(known)
        match contender:
            case name if name == TOOL:
                words = [word for group in known for word in ("--group", group)]
                seconds = timed(lambda: tool(made, "kafka-consumer-groups", "--delete", *words, "--timeout", "600000"))
            case name if name == BARE:
                seconds = timed(lambda: bare_groups(made, known))
            case name if name == RECHECK:
                return timed(lambda: look_at_groups(made, known))
            case name if name == COMMAND:
                seconds = apply_command.timed(made, apply_command.groups(count), count)
            case _:
                planned = removals(made, known)
                seconds = timed(lambda: send(made, planned, folder))
        admin = AdminClient({"bootstrap.servers": made.servers})  # held: a client that is collected fails its futures
        listed = admin.list_consumer_groups(request_timeout=60).result()
        assert not listed.errors, listed.errors
        left = {each.group_id for each in listed.valid}
        assert not left & set(known), contender
        stayed = sum(each.startswith(STAYS) for each in left)
        assert stayed == count, (contender, stayed)
        return seconds

    return rounds("groups", sizes, turn)


def bare_groups(made: World, known: Sequence[str]) -> None:
    client = AdminClient({"bootstrap.servers": made.servers})
    for future in client.delete_consumer_groups(list(known), request_timeout=TIMEOUT_S).values():
        future.result()


def look_at_groups(made: World, known: Sequence[str]) -> None:
    gateway = KafkaGateway(connection(made))
    for batch in batches(known, BatchLimits().groups_per_call):
        gateway.groups_now(batch)
    gateway.close()


def removals(made: World, known: Sequence[str]) -> list[actions.Action]:
    gateway = KafkaGateway(connection(made))
    planned: list[actions.Action] = []
    for batch in batches(known, BatchLimits().groups_per_call):
        for group, now in gateway.groups_now(batch).items():
            facts: Any = now
            assert facts.state is GroupState.EMPTY
            planned.append(
                actions.DeleteGroup(
                    address=names.Address("GroupRemoval", "bench", group),
                    declared_at=names.NOWHERE,
                    reason="bench",
                    mode=actions.Mode.MERGE,
                    group=group,
                    idle_for_ms=0,
                    seen=actions.ObservedGroup(
                        type=GroupType.CLASSIC,
                        state=GroupState.EMPTY,
                        commits=COMMITS_PER_GROUP,
                        commit_topics=1,
                        fingerprint=facts.fingerprint,
                        last_activity_ms=None,
                        newest_record=None,
                    ),
                )
            )
    gateway.close()
    return planned


def elections(made: World, sizes: Apply, folder: Path) -> Seconds:
    """Partitions whose preferred replica does not lead, turned again for each contender."""
    wanted = made.all[: sizes.elections]
    count = len(wanted)
    path = folder / "elections.json"
    path.write_text(json.dumps({"partitions": [{"topic": topic, "partition": number} for topic, number in wanted]}))

    def turn(contender: str) -> float:
        if made.non_preferred(wanted) < count:
            made.mislead(wanted)
        match contender:
            case name if name == TOOL:
                seconds = timed(
                    lambda: tool(
                        made,
                        "kafka-leader-election",
                        "--election-type",
                        "preferred",
                        "--path-to-json-file",
                        str(path),
                    )
                )
            case name if name == BARE:
                seconds = timed(lambda: bare_elections(made, wanted))
            case name if name == RECHECK:
                one = dict.fromkeys(wanted, 1)
                return timed(lambda: look_at_led(made, list(one)))
            case name if name == COMMAND:
                seconds = apply_command.timed(made, apply_command.elections(wanted), count)
            case _:
                planned = choices(made, wanted)
                seconds = timed(lambda: send(made, planned, folder))
        shown = leaders(made.servers.split(",", maxsplit=1)[0])
        assert all(shown[at] == made.preferred[at][0] for at in wanted), contender
        return seconds

    return rounds("elections", sizes, turn)


def bare_elections(made: World, wanted: Sequence[At]) -> None:
    client = AdminClient({"bootstrap.servers": made.servers, "socket.timeout.ms": int(TIMEOUT_S * 1000)})
    answer = client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(*at) for at in wanted]).result()
    assert all(error is None for error in answer.values())


def look_at_led(made: World, wanted: Sequence[At]) -> None:
    gateway = KafkaGateway(connection(made))
    for batch in batches([names.TopicPartition(*at) for at in wanted], BatchLimits().elections_per_call):
        gateway.partitions_now(batch, offsets=False)
    gateway.close()


def choices(made: World, wanted: Sequence[At]) -> list[actions.Action]:
    gateway = KafkaGateway(connection(made))
    now = gateway.partitions_now([names.TopicPartition(*at) for at in wanted], offsets=False)
    gateway.close()
    planned: list[actions.Action] = []
    for at in wanted:
        facts: Any = now[names.TopicPartition(*at)]
        planned.append(
            actions.ElectLeader(
                address=names.Address("LeaderPolicy", "bench", *at),
                declared_at=names.NOWHERE,
                reason="bench",
                mode=actions.Mode.MERGE,
                partition=names.TopicPartition(*at),
                election=actions.Election.PREFERRED,
                leader_wanted=facts.replicas[0],
                seen=actions.ObservedLeadership(
                    topic_id=facts.topic_id, leader=facts.leader, replicas=facts.replicas, in_sync=facts.in_sync
                ),
            )
        )
    return planned


def row(what: str, seconds: Seconds) -> list[str]:
    middle = {contender: median(seconds[contender]) for contender in CONTENDERS}
    return [
        what,
        *(results.told(seconds[contender], " s", digits=2) for contender in (APPLIER, TOOL, BARE, RECHECK, COMMAND)),
        f"{middle[APPLIER] / middle[TOOL]:.2f} ×",
        f"{middle[APPLIER] / (middle[BARE] + middle[RECHECK]):.2f} ×",
    ]


def main() -> None:
    given = arguments()
    sizes = sizes_of(given)
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-apply-") as scratch:
        folder = Path(scratch)
        if set(given.only) - {"memory"}:
            with world(sizes.topics, sizes.partitions, records_each(sizes), heap_mib=given.heap, say=say) as made:
                rows = list(network_rows(made, sizes, folder, given.only))
        memory = apply_memory.rows(sizes.memory, say) if "memory" in given.only else []
    head = (
        "work",
        "apply",
        "Kafka's tool",
        "bare calls",
        "recheck",
        "`reconciler apply`",
        "apply ÷ tool",
        "apply ÷ (bare + recheck)",
    )
    lines = [results.machine(DEFAULT_VERSION), ""]
    if rows:
        lines += [*results.table(head, rows), ""]
    if memory:
        lines += [*results.table(apply_memory.HEAD, memory), ""]
    lines.append(
        "Three brokers, two replicas of each partition, three of the commit log; groups are measured before the topics are made. Tool: a process, its JVM included. Bare calls: a new client, all requests pipelined, no check. "
        "Recheck: the applier's reads before a send, alone. Apply: the applier, with the last look before each request, intents and "
        "outcomes flushed to disk, and every effect read back. `reconciler apply`: the command as a process, cold Spark session and the "
        "snapshot before the first write included. Goals: ÷ tool at most 1, ÷ (bare + recheck) at most 1.5. "
        f"Repeat: `python -m bench.apply{' --quick' if given.quick else ''}`."
    )
    print("\n".join(lines))
    if not given.dry:
        results.write("apply", "Apply", lines)


def records_each(sizes: Apply) -> int:
    """Records of a partition: one for each turn of a contender that deletes, and some that stay."""
    return (len(CONTENDERS) - 1) * sizes.repetitions + sizes.commands + 2


def network_rows(made: World, sizes: Apply, folder: Path, only: Collection[str]) -> Iterator[list[str]]:
    """The rows of all that is done with brokers."""
    # Groups before there are thousands of partitions: followers that fetch them all answer every commit more slowly, and making the
    # groups anew for each contender would take most of the time.
    if "groups" in only:
        yield row(f"{sizes.groups:,} group removals, {COMMITS_PER_GROUP} commits each", groups(made, sizes, folder))
    if {"elections", "records"} & set(only):
        made.make()
    if "elections" in only:
        count = min(sizes.elections, len(made.all))
        yield row(f"{count:,} elections", elections(made, sizes, folder))
    if "records" in only:
        work = f"{len(made.all):,} record deletions on {sizes.topics:,} topics"
        yield row(work, records(made, sizes, folder))


def sizes_of(given: argparse.Namespace) -> Apply:
    """Those of a preset, and what the command line says instead."""
    sizes = (QUICK if given.quick else FULL).apply
    said = {field.name: getattr(given, field.name, None) for field in fields(Apply)}
    return replace(sizes, **{name: size for name, size in said.items() if size is not None})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--topics", type=int)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--elections", type=int)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--memory", type=int, nargs="+")
    parser.add_argument("--heap", type=int, default=1024, help="MiB of each broker")
    parser.add_argument("--only", nargs="+", default=["elections", "groups", "records", "memory"])
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    given = parser.parse_args()
    # Sizes of a tenth are for seeing that it works: they are never the results.
    given.dry = given.dry or given.quick
    return given


if __name__ == "__main__":
    main()
