"""Sizes of each bench: full, about a tenth (`--quick`), and tiny for the tests of the benches."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """Number of files, and of manifests in each file."""

    files: int
    per_file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Sizes of the growing cluster, and the numbers of runs of the scan and of Kafka's tools."""

    partitions: int
    groups: int
    more_groups: int
    more_partitions: int
    records: int
    scan_runs: int
    tool_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Sizes of the applied work.

    `repetitions` are the turns of each contender, `commands` the runs of the whole command, and
    `memory` the numbers of actions of the plans whose memory is measured.
    """

    topics: int
    partitions: int
    groups: int
    elections: int
    repetitions: int
    commands: int
    memory: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """Numbers of runs on the demo's cluster: of each command, of plans for their tail, and of clients."""

    runs: int
    tail: int
    clients: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """Number of runs with each delay, and the delays in milliseconds."""

    runs: int
    delays_ms: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Sizes of simulated clusters: partitions, groups and commits. Each runs as often as `runs` says."""

    clusters: tuple[tuple[int, int, int], ...]
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HundredScans:
    """Number of scans, the rest after them in seconds, and sizes of the topics with traffic."""

    scans: int
    rest_s: float
    topics: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of every bench. `plan_file` is the number of actions."""

    manifests: Manifests
    plan_file: int
    scan: Scan
    apply: Apply
    hundred_scans: HundredScans
    demo: Demo
    round_trips: RoundTrips
    simulated: Simulated


FULL = Sizes(
    manifests=Manifests(files=1_000, per_file=10),
    plan_file=1_000_000,
    scan=Scan(
        partitions=5_000,
        groups=1_000,
        more_groups=5_000,
        more_partitions=30_000,
        records=5_000_000,
        scan_runs=5,
        tool_runs=3,
    ),
    apply=Apply(
        topics=1_000,
        partitions=10,
        groups=5_000,
        elections=5_000,
        repetitions=3,
        commands=1,
        memory=(10_000, 100_000),
    ),
    hundred_scans=HundredScans(scans=100, rest_s=70, topics=10, partitions=20),
    demo=Demo(runs=5, tail=30, clients=300),
    round_trips=RoundTrips(runs=5, delays_ms=(0, 25, 200)),
    simulated=Simulated(
        clusters=((20_000, 2_000, 100_000), (100_000, 10_000, 500_000), (200_000, 20_000, 1_000_000)), runs=3
    ),
)
QUICK = Sizes(
    manifests=FULL.manifests,  # takes a minute at most
    plan_file=100_000,
    scan=Scan(
        partitions=500, groups=100, more_groups=500, more_partitions=3_000, records=250_000, scan_runs=3, tool_runs=2
    ),
    apply=Apply(
        topics=60,
        partitions=10,
        groups=300,
        elections=300,
        repetitions=1,
        commands=1,
        memory=(1_000, 10_000),
    ),
    hundred_scans=HundredScans(scans=10, rest_s=5, topics=10, partitions=20),
    demo=Demo(runs=2, tail=3, clients=30),
    round_trips=RoundTrips(runs=2, delays_ms=(0, 25, 200)),
    simulated=Simulated(clusters=((2_000, 200, 10_000), (20_000, 2_000, 100_000)), runs=1),
)
TOY = Sizes(
    manifests=Manifests(files=3, per_file=2),
    plan_file=200,
    scan=Scan(partitions=50, groups=2, more_groups=4, more_partitions=100, records=300, scan_runs=1, tool_runs=1),
    apply=Apply(topics=2, partitions=3, groups=4, elections=6, repetitions=1, commands=0, memory=(100,)),
    hundred_scans=HundredScans(scans=1, rest_s=0, topics=6, partitions=2),
    demo=Demo(runs=1, tail=1, clients=1),
    round_trips=RoundTrips(runs=1, delays_ms=(0, 25)),
    simulated=Simulated(clusters=((100, 10, 500), (200, 20, 1_000)), runs=1),
)
