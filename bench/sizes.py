"""How large each bench is: in full, at about a tenth (`--quick`), and as a toy for the tests that keep the benches running."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """Files of a folder, and the manifests in each of them."""

    files: int
    per_file: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """How large the cluster gets, step by step, and how often everything is run: ours `repeat` times, Kafka's tools `tools` times."""

    partitions: int
    groups: int
    more_groups: int
    more_partitions: int
    records: int
    repeat: int
    tools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """What is applied. `repetitions`: turns of each contender; `commands`: runs of the whole command; `memory`: actions of each plan."""

    topics: int
    partitions: int
    groups: int
    elections: int
    repetitions: int
    commands: int
    memory: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HundredScans:
    """Scans in a row of topics at work."""

    scans: int
    topics: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """One size of every bench. `plan_file`: actions of the plan."""

    manifests: Manifests
    plan_file: int
    scan: Scan
    apply: Apply
    hundred_scans: HundredScans


FULL = Sizes(
    manifests=Manifests(files=1_000, per_file=10),
    plan_file=1_000_000,
    scan=Scan(
        partitions=5_000,
        groups=1_000,
        more_groups=5_000,
        more_partitions=30_000,
        records=5_000_000,
        repeat=5,
        tools=3,
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
    hundred_scans=HundredScans(scans=100, topics=10, partitions=20),
)
QUICK = Sizes(
    manifests=FULL.manifests,  # a minute at most
    plan_file=100_000,
    scan=Scan(partitions=500, groups=100, more_groups=500, more_partitions=3_000, records=250_000, repeat=3, tools=2),
    apply=Apply(
        topics=60,
        partitions=10,
        groups=300,
        elections=300,
        repetitions=1,
        commands=1,
        memory=(1_000, 10_000),
    ),
    hundred_scans=HundredScans(scans=10, topics=10, partitions=20),
)
TOY = Sizes(
    manifests=Manifests(files=3, per_file=2),
    plan_file=200,
    scan=Scan(partitions=50, groups=2, more_groups=4, more_partitions=100, records=300, repeat=1, tools=1),
    apply=Apply(topics=2, partitions=3, groups=4, elections=6, repetitions=1, commands=0, memory=(100,)),
    hundred_scans=HundredScans(scans=1, topics=6, partitions=2),
)
