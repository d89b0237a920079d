"""Counts the sequential round trips to the brokers in each step of `plan` and `apply`.

    python -m bench.round_trips [--quick] [--dry]

A proxy delays a second listener of the brokers. The same plan runs without a delay, with 25 ms and
with 200 ms of round trip, in turns. What a step takes longer with 200 ms, divided by 200 ms, is the
number of its round trips that wait for each other. The fastest run of each delay counts, because
other work on the machine can only add time. The engine is `inline`: Spark adds none.
"""

import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import results
from bench.delay_proxy import DelayProxy, delay_proxy
from bench.sizes import FULL, QUICK, RoundTrips
from reconciler import pipeline
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.jars import DEFAULT_VERSION
from reconciler.companions.sandbox.ports import free_addresses
from reconciler.companions.sandbox.tools import change_preferred_leaders
from reconciler.manifest.files import ClusterManifests, load
from reconciler.model.outcome import Status
from reconciler.model.progress import Progress
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine, EngineName
from tests.build import cluster_manifest, policy

TIMEOUT_S, START_TIMEOUT_S = 60.0, 300.0
MAX_TRIPS = 10
SHORT_S = 0.05
TOPICS, PARTITIONS, GROUPS = 5, 6, 20
TOPIC_NAMES = [f"trips-{number}" for number in range(TOPICS)]
RECORDS = 100
COMMITS = {(TOPIC_NAMES[0], number): RECORDS for number in range(PARTITIONS)}
"""On all partitions of the topic: a group without a commit on one counts as standing at its log start."""


@contextmanager
def delayed_cluster(progress: Progress) -> Iterator[tuple[SandboxCluster, DelayProxy, str]]:
    """Run three brokers with a second listener behind a delaying proxy; yields its servers, too.

    The brokers use the first listener among themselves.
    """
    with stopping(start(3, name="bench-trips", heap_mib=384, timeout_s=START_TIMEOUT_S, progress=progress)) as cluster:
        addresses = free_addresses(3, secure=True)
        ports = {address.port: address.secure_port or 0 for address in addresses}
        with delay_proxy(ports) as proxy:
            for broker, (port, target) in zip(cluster.brokers, ports.items(), strict=True):
                path = cluster.dir / f"server-{broker.id}.properties"
                path.write_text(with_listener(path.read_text(encoding="utf-8"), port, target), encoding="utf-8")
                cluster.terminate(broker.id)
                cluster.restart(broker.id, timeout_s=START_TIMEOUT_S)
            yield cluster, proxy, ",".join(f"127.0.0.1:{port}" for port in ports)


def with_listener(properties: str, port: int, target: int) -> str:
    """Add a listener that clients reach through the proxy's port."""
    for name, value in (
        ("listeners", f"DELAYED://127.0.0.1:{target}"),
        ("advertised.listeners", f"DELAYED://127.0.0.1:{port}"),
        ("listener.security.protocol.map", "DELAYED:PLAINTEXT"),
    ):
        properties, count = re.subn(rf"^({re.escape(name)}=.*)$", rf"\1,{value}", properties, flags=re.MULTILINE)
        if count != 1:
            raise RuntimeError(f"the brokers' properties have {count} lines for {name}")
    return properties


class StepTimes:
    """Seconds of each step of a run. Its progress messages say when a step starts."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._step, self._start_s = "start", time.perf_counter()

    def note(self, step: str, state: str = "", *_count: int) -> None:
        if re.fullmatch(r"\d+ of \d+", state):  # of an operation, at the end of its step
            self._switch(step, "end")
        else:
            self._switch(self._step, " ".join(step.split()[:1]))

    def end(self) -> None:
        self._switch(self._step, "")

    def _switch(self, step: str, following: str) -> None:
        now_s = time.perf_counter()
        self.seconds[step] += now_s - self._start_s
        self._step, self._start_s = following, now_s


def manifests(cluster_id: str, servers: str, floor: int) -> str:
    """Render the manifests that delete the records of each partition below this offset."""
    limits = "topics: 1000, recordsPercent: 100, recordsPercentPerTopic: 100, groups: 1000, groupsPercent: 100, elections: 1000"
    floors = ", ".join(f"{number}: {floor}" for number in range(PARTITIONS))
    documents = (
        cluster_manifest(servers, limits=limits, cluster_id=cluster_id, name="delayed"),
        policy("RetentionFloor", "trips", f"topics: {json.dumps(TOPIC_NAMES)}, keep: {{fromOffset: {{{floors}}}}}"),
        policy("GroupRemoval", "idle", 'groups: ["trips-dead-*"], expectAtMost: 1000, idleFor: 1s'),
        policy("LeaderPolicy", "preferred", 'topics: ["trips-*"]'),
    )
    return "---\n".join(documents)


class Workload:
    """The same plan in each turn: some record deletions, group removals and elections."""

    def __init__(self, cluster: SandboxCluster, servers: str, folder: Path) -> None:
        self.cluster, self.servers, self.folder = cluster, servers, folder
        self.floor = 0

    def create(self) -> None:
        bootstrap = self.cluster.bootstrap_servers
        client.create_topics(bootstrap, [Topic(name, PARTITIONS) for name in TOPIC_NAMES])
        for name in TOPIC_NAMES:
            client.produce(bootstrap, name, {number: [Record(b"x")] * RECORDS for number in range(PARTITIONS)})
        for number in range(GROUPS):
            client.commit(bootstrap, f"trips-live-{number}", COMMITS)

    def prepare(self) -> ClusterManifests:
        """Make the work of a turn: idle groups, misplaced leaders, one more record to delete."""
        self.floor += 1
        for number in range(GROUPS):
            client.commit(self.cluster.bootstrap_servers, f"trips-dead-{number}", COMMITS)
        change_preferred_leaders(self.cluster, [(name, 0) for name in TOPIC_NAMES])
        time.sleep(1.5)  # the policy has idleFor: 1s
        path = self.folder / "all.yaml"
        path.write_text(manifests(self.cluster.cluster_id, self.servers, self.floor), encoding="utf-8")
        return load([path], now_ms=time.time_ns() // 1_000_000).for_cluster()

    def run(self) -> dict[str, dict[str, float]]:
        """Plan and apply, and return the seconds of the steps of each command."""
        loaded = self.prepare()
        seconds: dict[str, dict[str, float]] = {}
        times = StepTimes()
        with self._open(loaded, times) as run:
            planned = pipeline.plan(run)
        times.end()
        seconds["plan"] = dict(times.seconds)
        times = StepTimes()
        with self._open(loaded, times) as run:
            outcomes = pipeline.apply(planned, run).outcomes
        times.end()
        seconds["apply"] = dict(times.seconds)
        expected = TOPICS * PARTITIONS + GROUPS + TOPICS
        applied = sum(outcome.status is Status.APPLIED for outcome in outcomes)
        if applied != expected:
            others = [f"{decision.address}" for decision in planned.decisions if decision not in planned.actions]
            details = {f"{outcome.status}: {outcome.detail}" for outcome in outcomes}
            raise RuntimeError(
                f"{applied} of {expected} actions applied: {'; '.join(sorted(details))}; not planned: {', '.join(others)}"
            )
        return seconds

    @staticmethod
    def _open(manifests: ClusterManifests, times: StepTimes) -> Run:
        engine = Engine(name=EngineName.INLINE)
        return Run(manifests=manifests, engine=engine, timeout_s=TIMEOUT_S, progress=times.note)


def measure(workload: Workload, proxy: DelayProxy, sizes: RoundTrips, progress: Progress) -> list[list[str]]:
    """Run with each delay in turns, and return the rows of the table."""
    runs: dict[int, list[Mapping[str, Mapping[str, float]]]] = {delay: [] for delay in sizes.delays_ms}
    workload.run()  # the first run imports modules
    for turn in range(sizes.runs):
        for delay in sizes.delays_ms:
            proxy.set_round_trip(delay)
            runs[delay].append(workload.run())
            proxy.set_round_trip(0)
            totals = {name: sum(seconds.values()) for name, seconds in runs[delay][-1].items()}
            progress(
                f"{turn + 1} of {sizes.runs}, {delay} ms: " + ", ".join(f"{n} {s:.2f} s" for n, s in totals.items())
            )
    return [
        row
        for command in ("plan", "apply")
        for row in rows(command, {delay: [run[command] for run in of_delay] for delay, of_delay in runs.items()})
    ]


def rows(command: str, runs: Mapping[int, Sequence[Mapping[str, float]]]) -> Iterator[list[str]]:
    """Render a row per step of a command. `runs`: seconds of each step, by the delay in milliseconds."""
    first, *_delays, last = runs
    steps = [step for step in runs[first][0] if max(run.get(step, 0.0) for run in runs[last]) > SHORT_S]
    fastest = {delay: {step: min(run.get(step, 0.0) for run in runs[delay]) for step in steps} for delay in runs}
    for step in steps:
        trips = (fastest[last][step] - fastest[first][step]) * 1_000 / last
        seconds = [f"{fastest[delay][step]:.2f} s" for delay in runs]
        yield [f"`{command}`: {step}", *seconds, f"{trips:.1f}", f"≤ {MAX_TRIPS}"]
    totals = {delay: sum(of_steps.values()) for delay, of_steps in fastest.items()}
    trips = (totals[last] - totals[first]) * 1_000 / last
    yield [f"`{command}` in all", *(f"{total:.2f} s" for total in totals.values()), f"{trips:.1f}", ""]


def main() -> None:
    options = results.parser("Count the sequential round trips of each step.").parse_args()
    sizes, progress = (QUICK if options.quick else FULL).round_trips, results.timed_progress()
    with (
        tempfile.TemporaryDirectory(prefix="reconciler-bench-trips-") as folder,
        delayed_cluster(progress) as (cluster, proxy, servers),
    ):
        workload = Workload(cluster, servers, Path(folder))
        workload.create()
        rows = measure(workload, proxy, sizes, progress)
    head = ("step", *(f"{delay} ms" for delay in sizes.delays_ms), "round trips in a row", "goal")
    lines = [
        results.machine(DEFAULT_VERSION),
        "",
        (
            f"{TOPICS * PARTITIONS} partitions and {2 * GROUPS} groups on three brokers behind a proxy that delays their answers; "
            f"the plan has {TOPICS * PARTITIONS} record deletions, {GROUPS} group removals and {TOPICS} elections. The journal is a "
            "file. Engine: `inline`. Columns: seconds with this round trip, the fastest of "
            f"{sizes.runs} runs in turns. Round trips: how much longer the step takes with {sizes.delays_ms[-1]} ms than without, "
            f"divided by {sizes.delays_ms[-1]} ms. A step starts with its progress message."
        ),
        "",
        *results.table(head, rows),
    ]
    results.publish(options, "round-trips", "Round trips", lines)


if __name__ == "__main__":
    main()
