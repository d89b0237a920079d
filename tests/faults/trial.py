"""One trial: a world, a plan, faults before and during its apply, and what may be said of the result from outside."""

import os
import pickle
import random
import resource
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reconciler import pipeline
from reconciler.apply.executor import apply
from reconciler.apply.tuning import BatchLimits
from reconciler.errors import ReconcilerError
from reconciler.journal import entry
from reconciler.journal.file import FileJournal
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.manifest.files import ClusterManifests
from reconciler.model.action import Action
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.plan import document, recheck
from reconciler.sandbox import client
from reconciler.sandbox.cluster import Cluster
from reconciler.scan import scan
from reconciler.scan.session import SparkTarget
from tests import kafka_client
from tests.fakes.cluster import FakeCluster
from tests.fakes.runs import purge
from tests.faults import witness
from tests.faults.kinds import OWN, STRIKES, Kind
from tests.faults.world import World
from tests.toolbox import Toolbox

TIMEOUT_S = 6.0
DISK = 128 * 1024
MOMENTS = ("before", "recheck", "sending")


@dataclass
class Report:
    """What one trial showed. `cells`: actions of each operation that lived through each fault."""

    number: int
    kinds: tuple[Kind, ...]
    violations: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0


def chosen(number: int, seed: int) -> tuple[Kind, ...]:
    """Every kind in turn, with up to two others."""
    rng = random.Random(f"{seed}/kinds/{number}")
    first = tuple(Kind)[number % len(Kind)]
    others = [kind for kind in Kind if kind is not first and not (first in OWN and kind in OWN)]
    more = rng.sample(others, rng.choice([0, 1, 2]))
    own = [kind for kind in more if kind in OWN]
    return (first, *(kind for kind in more if kind not in own[1:]))


def run_trial(cluster: Cluster, toolbox: Toolbox, number: int, seed: int, folder: Path, engine: SparkTarget) -> Report:
    """Never raises for what the reconciler does wrong: that is a violation."""
    began = time.monotonic()
    report = Report(number, chosen(number, seed))
    world = World(cluster, f"f{seed}-{number}-{os.getpid()}", folder, random.Random(f"{seed}/{number}"), toolbox)
    try:
        world.make()
        with world.at_work(), world.alive:
            trial = _plan_and_apply(world, report, engine)
        _settle(world)
        report.violations += witness.violations(world, trial, witness.look(world))
        _converge(world, report, engine)
    except Exception:  # noqa: BLE001 - a trial that breaks is a violation of its own, and the next one runs
        report.violations.append("BROKEN " + traceback.format_exc())
    finally:
        _restore(world)
        kafka_client.delete_topics(world.servers, list(world.topics))
    report.seconds = time.monotonic() - began
    return report


class _Driver:
    """Plans and applies as the command line does, with smaller batches, so that faults fall between them."""

    def __init__(self, world: World, engine: SparkTarget) -> None:
        self.world = world
        self.engine = engine
        self.run = pipeline.RunOptions(
            engine=engine, timeout_s=TIMEOUT_S, progress=lambda _line: None, clock=pipeline.wall_clock_ms
        )
        self.settings = BatchLimits(
            records_per_call=world.rng.choice([1, 3, 1000]),
            groups_per_call=world.rng.choice([1, 3, 500]),
            elections_per_call=world.rng.choice([1, 2, 1000]),
            leader_seen_ms=3_000,
            backoff_ms=300,
            attempts=world.rng.choice([3, 6]),
        )
        self.journal = FileJournal(world.folder / "journal.jsonl")
        self.connection = Connection(tuple(world.servers.split(",")), timeout_s=TIMEOUT_S)

    def manifests(self) -> ClusterManifests:
        return pipeline.load([self.world.manifests], now_ms=self.run.clock()).for_cluster("faulty")

    def plan(self) -> Plan:
        return pipeline.plan(self.manifests(), self.run)

    def rechecked(self, planned: Plan) -> recheck.Recheck:
        manifests, now_ms = self.manifests(), self.run.clock()
        snapshot = scan.scan(
            recheck.needs(planned),
            self.connection,
            observed_at_ms=now_ms,
            last_purges=self.journal.last_purges(),
            engine=self.engine,
            progress=lambda _line: None,
            timeout_s=TIMEOUT_S,
        )
        return recheck.recheck(planned, manifests.cluster, manifests.waivers, snapshot, now_ms=now_ms)

    def send(self, actions: Sequence[Action], digest: str, stop: Callable[[], bool]) -> Iterator[Outcome]:
        gateway = KafkaGateway(self.connection)
        try:
            yield from apply(
                actions,
                gateway=gateway,
                journal=self.journal,
                run_id=f"run-{time.monotonic_ns()}",
                plan_digest=digest,
                clock=self.run.clock,
                sleep=time.sleep,
                stop=stop,
                settings=self.settings,
            )
        finally:
            gateway.close()

    def apply(self, planned: Plan, stop: Callable[[], bool] = lambda: False) -> list[Outcome]:
        checked = self.rechecked(planned)
        outcomes = list(checked.outcomes)
        if all(verdict.passed for verdict in checked.limits):
            return [*outcomes, *self.send(checked.remaining, document.digest(planned), stop)]
        refused = [Outcome(action=each, status=Status.NOT_ATTEMPTED, detail="refused") for each in checked.remaining]
        return [*outcomes, *refused]

    def apply_killed(self, planned: Plan) -> None:
        """The sending part in a process that is killed somewhere after its first intent, or before."""
        checked = self.rechecked(planned)
        actions, settings = self.world.folder / "actions.pickle", self.world.folder / "settings.pickle"
        actions.write_bytes(pickle.dumps(checked.remaining))
        settings.write_bytes(pickle.dumps(self.settings))
        path = str(self.world.folder / "journal.jsonl")
        words = [str(actions), path, self.world.servers, str(TIMEOUT_S), str(settings)]
        child = subprocess.Popen([sys.executable, "-m", "tests.faults.child", *words], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while child.poll() is None and _size(Path(path)) == 0 and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(self.world.rng.expovariate(4.0))
        child.kill()
        child.wait()


def _plan_and_apply(world: World, report: Report, engine: SparkTarget) -> witness.Trial:
    driver = _Driver(world, engine)
    planned = _planned(driver)
    moments = {kind: world.rng.choice(MOMENTS) for kind in report.kinds if kind not in OWN}
    for kind in report.kinds:
        if moments.get(kind) == "before":
            STRIKES[kind](world)
    sending = threading.Event()
    later = [kind for kind in report.kinds if moments.get(kind) in ("recheck", "sending")]
    over = threading.Event()
    broken: list[str] = []
    thread = threading.Thread(
        target=_strike, args=(world, driver, later, moments, over, broken), name="faults", daemon=True
    )
    began = time.monotonic()
    thread.start()
    try:
        outcomes, dirty = _apply(world, driver, planned, report, sending)
    finally:
        over.set()
        thread.join(300)
    report.violations += broken
    report.statuses.update(f"{o.action.OPERATION} {o.status}" for o in outcomes)
    for kind in report.kinds:
        report.cells.update((kind.value, outcome.action.OPERATION) for outcome in outcomes)
    return witness.Trial(planned, outcomes, began, dirty)


def _planned(driver: _Driver) -> Plan:
    """A whole plan; brokers of an earlier trial may still be coming back."""
    for _ in range(5):
        planned = driver.plan()
        if len(planned.actions) == 28 and not planned.refused:
            return planned
        time.sleep(2)
    blocked = [str(decision) for decision in planned.decisions if decision not in planned.actions][:5]
    raise AssertionError(
        f"{len(planned.actions)} actions instead of 28: {blocked} {planned.refused} {planned.incomplete}"
    )


def _apply(
    world: World, driver: _Driver, planned: Plan, report: Report, asked: threading.Event
) -> tuple[list[Outcome], bool]:
    if Kind.CLIENT_KILLED in report.kinds:
        driver.apply_killed(planned)
        return driver.apply(planned), True
    if Kind.DISK_FULL in report.kinds:
        _fill(driver.journal)
        with _full_disk(_size(world.folder / "journal.jsonl") + world.rng.randrange(0, 8_000)):
            return driver.apply(planned), False
    if Kind.CLIENT_STOPPED in report.kinds:
        threading.Thread(target=_interrupt, args=(world, asked), daemon=True).start()
    try:
        return driver.apply(planned, stop=asked.is_set), False
    except ReconcilerError as error:
        # The recheck could not be made at all: nothing was done, and that is what the command line says.
        detail = f"not attempted: {error}"
        return [Outcome(action=each, status=Status.NOT_ATTEMPTED, detail=detail) for each in planned.actions], False


def _strike(
    world: World,
    driver: _Driver,
    kinds: Sequence[Kind],
    moments: dict[Kind, str],
    over: threading.Event,
    broken: list[str],
) -> None:
    journal = world.folder / "journal.jsonl"
    try:
        for kind in kinds:
            size = _size(journal)
            while moments[kind] == "sending" and _size(journal) == size and not over.wait(0.005):
                pass
            if moments[kind] == "recheck":
                time.sleep(world.rng.uniform(0.0, 2.0))
            STRIKES[kind](world)
    except Exception:  # noqa: BLE001 - said by the trial
        broken.append("BROKEN fault: " + traceback.format_exc())


def _interrupt(world: World, asked: threading.Event) -> None:
    journal = world.folder / "journal.jsonl"
    until = time.monotonic() + 60
    while _size(journal) == 0 and time.monotonic() < until:
        time.sleep(0.005)
    time.sleep(world.rng.expovariate(4.0))
    asked.set()


def _converge(world: World, report: Report, engine: SparkTarget) -> None:
    """A second plan and apply without faults, as often as a busy cluster needs, then a third plan."""
    driver = _Driver(world, engine)
    outcomes: list[Outcome] = []
    for _ in range(3):
        outcomes = driver.apply(driver.plan())
        left = driver.plan()
        if not left.actions and all(o.status in (*witness.DONE, Status.WAITING) for o in outcomes):
            break
        time.sleep(3)
    report.violations += witness.not_converged(world, outcomes, left, witness.look(world))


def _settle(world: World) -> None:
    """All brokers up, all partitions led and in sync."""
    _restore(world)
    everyone = {broker.id for broker in world.cluster.brokers}

    def whole() -> bool:
        if any(client.visible_brokers(f"127.0.0.1:{b.port}") != everyone for b in world.cluster.brokers):
            return False
        states = [s for topic in world.topics for s in client.partition_states(world.servers, topic).values()]
        return all(state.leader >= 0 and set(state.in_sync) == set(state.replicas) for state in states)

    client.wait_until(whole, 300, "the cluster to be whole again", every_s=0.3)


def _restore(world: World) -> None:
    for broker in world.cluster.brokers:
        if not world.cluster.alive(broker.id):
            world.cluster.restart(broker.id, timeout_s=240)
        else:
            world.cluster.resume(broker.id)


def _fill(journal: FileJournal) -> None:
    """Lines of other runs, so that the disk is nearly full and children of this process still have room for their own files."""
    made = FakeCluster()
    made.create_topic("elsewhere", 1)
    made.produce("elsewhere", {0: 10})
    action = purge(made, TopicPartition("elsewhere", 0), 5)
    line = (
        len(entry.dump(entry.intents([action], run_id="r", plan_digest="other", at_ms=1, author=entry.Author())[0])) + 1
    )
    journal.record_intents([action] * (DISK // line), run_id="r", plan_digest="other", at_ms=1)


@contextmanager
def _full_disk(room: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
