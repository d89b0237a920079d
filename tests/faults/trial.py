"""Runs one fault trial: create content, plan, apply while faults occur, verify and converge.

Witnesses (witness.py) read from before the plan until the end.
"""

import os
import pickle
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import ConsumerGroupState

from reconciler import pipeline
from reconciler.apply.context import Tuning
from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.errors import ReconcilerError
from reconciler.journal.entry import create, dump_batch
from reconciler.journal.journal import ActionJournal
from reconciler.manifest import files
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan
from reconciler.run import Run
from reconciler.scan.engine_choice import Engine
from tests import kafka_client
from tests.command import full_disk
from tests.faults import verification
from tests.faults.fault_types import CLIENT_FAULTS, INJECTIONS, FaultType
from tests.faults.trial_setup import TrialSetup
from tests.strategies import examples

TIMEOUT_S = 6.0
DISK_BYTES = 128 * 1024
INJECTION_TIMES = ("before", "recheck", "sending")


@dataclass
class TrialReport:
    """The result of one trial: without violations, a good one.

    `statuses` counts the outcomes of each operation by their status, and what the witnesses met.
    """

    number: int
    faults: tuple[FaultType, ...]
    violations: list[str] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def actions(self, operation: str) -> int:
        """Return how many actions of an operation have ended."""
        return sum(count for status, count in self.statuses.items() if status.startswith(f"{operation} "))


def choose_faults(number: int, seed: int) -> tuple[FaultType, ...]:
    """Choose the trial's first fault in turn, and up to two others at random."""
    rng = random.Random(f"{seed}/kinds/{number}")
    main_fault = tuple(FaultType)[number % len(FaultType)]
    other_faults = [
        fault
        for fault in FaultType
        if fault is not main_fault and not (main_fault in CLIENT_FAULTS and fault in CLIENT_FAULTS)
    ]
    additional_faults = rng.sample(other_faults, rng.choice([0, 1, 2]))
    client_faults = [fault for fault in additional_faults if fault in CLIENT_FAULTS]
    return (main_fault, *(fault for fault in additional_faults if fault not in client_faults[1:]))


def run_trial(cluster: SandboxCluster, number: int, seed: int, folder: Path, engine: Engine) -> TrialReport:
    """Run one trial. An error is a violation of the trial, not an exception."""
    start = time.monotonic()
    report = TrialReport(number, choose_faults(number, seed))
    setup = TrialSetup(cluster, f"f{seed}-{number}-{os.getpid()}", folder, random.Random(f"{seed}/{number}"))
    try:
        setup.create()
        with setup.witness_threads:
            with setup.traffic(), setup.live_members:
                setup.start_witnesses()
                run = _plan_and_apply(setup, report, engine)
            _wait_until_healthy(setup)
            report.violations += verification.let_witnesses_finish(setup)
            report.violations += verification.violations(setup, run, verification.observe(setup))
            _wait_until_members_have_left(setup)
            _converge(setup, report, engine, run.plan)
    except Exception:  # noqa: BLE001 - an error is a violation, and the next trial runs
        report.violations.append("ERROR " + traceback.format_exc())
    finally:
        _resume_brokers(setup)
        kafka_client.delete_topics(setup.servers, list(setup.topics))
    report.seconds = time.monotonic() - start
    return report


@dataclass(frozen=True)
class _Driver:
    """Plans and applies as the command line does. Batches are small, so that faults occur between them."""

    manifests: Path
    engine: Engine
    tuning: Tuning

    def open(self, stop: Callable[[], bool] = lambda: False) -> Run:
        manifests = files.load([self.manifests], now_ms=pipeline.wall_clock_ms()).for_cluster()
        progress = lambda *_step: None  # noqa: E731
        return Run(manifests=manifests, engine=self.engine, timeout_s=TIMEOUT_S, progress=progress, stop=stop)

    def plan(self) -> Plan:
        with self.open() as run:
            return pipeline.plan(run)

    def apply(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> list[Outcome]:
        with self.open(stop) as run:
            return list(pipeline.apply(plan, run, tuning=self.tuning).outcomes)


def _driver(setup: TrialSetup, engine: Engine) -> _Driver:
    tuning = Tuning(
        batch_max=setup.rng.choice([1, 3, 1000]),
        effect_wait_ms=3_000,
        backoff_ms=300,
        attempts=setup.rng.choice([3, 6]),
    )
    return _Driver(setup.manifests, engine, tuning)


def _apply_killed(setup: TrialSetup, driver: _Driver, plan: Plan) -> None:
    """Apply in a process, and kill it after its first intent or before."""
    code = "import pickle, sys; driver, plan = pickle.load(sys.stdin.buffer); driver.apply(plan)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as pipe:
        pickle.dump((driver, plan), pipe)
    _wait_for_intent(setup, lambda: process.poll() is not None)
    process.kill()
    process.wait()


def _plan_and_apply(setup: TrialSetup, report: TrialReport, engine: Engine) -> verification.TrialRun:
    driver = _driver(setup, engine)
    plan = _full_plan(setup, driver)
    setup.move_witnesses()
    times = {fault: setup.rng.choice(INJECTION_TIMES) for fault in report.faults if fault not in CLIENT_FAULTS}
    for fault, when in times.items():
        if when == "before":
            INJECTIONS[fault](setup)
    stop, finished = threading.Event(), threading.Event()
    thread = threading.Thread(target=_inject, args=(setup, report, times, finished), name="faults", daemon=True)
    start = time.monotonic()
    thread.start()
    try:
        outcomes, was_killed = _apply(setup, driver, plan, report, stop)
    finally:
        finished.set()
        thread.join(300)
    report.statuses.update(f"{o.action.OPERATION} {o.status}" for o in outcomes)
    return verification.TrialRun(plan, outcomes, start, was_killed)


def _full_plan(setup: TrialSetup, driver: _Driver) -> Plan:
    """Plan until all actions are in the plan; brokers of an earlier trial may still be starting."""
    for _ in range(5):
        plan = driver.plan()
        if len(plan.actions) == setup.actions_expected and not plan.refused:
            return plan
        time.sleep(2)
    blocked = [str(decision) for decision in plan.decisions if decision not in plan.actions][:5]
    raise AssertionError(
        f"{len(plan.actions)} actions instead of {setup.actions_expected}: {blocked} {plan.refused} {plan.incomplete}"
    )


def _apply(
    setup: TrialSetup, driver: _Driver, plan: Plan, report: TrialReport, stop: threading.Event
) -> tuple[list[Outcome], bool]:
    was_killed = FaultType.CLIENT_KILLED in report.faults
    try:
        if was_killed:
            _apply_killed(setup, driver, plan)
        if FaultType.DISK_FULL in report.faults:
            _fill(driver.open().journal)
            with full_disk(_size(setup.journal) + setup.rng.randrange(0, 8_000)):
                return driver.apply(plan), False
        if FaultType.CLIENT_INTERRUPTED in report.faults:
            threading.Thread(target=_interrupt, args=(setup, stop), daemon=True).start()
        return driver.apply(plan, stop=stop.is_set), was_killed
    except ReconcilerError as error:
        # The recheck failed, so no request was sent; the command line reports the same.
        detail = f"not attempted: {error}"
        outcomes = [Outcome(action=action, status=Status.NOT_ATTEMPTED, detail=detail) for action in plan.actions]
        return outcomes, was_killed


def _inject(setup: TrialSetup, report: TrialReport, times: Mapping[FaultType, str], finished: threading.Event) -> None:
    try:
        for fault, when in times.items():
            size = _size(setup.journal)
            while when == "sending" and _size(setup.journal) == size and not finished.wait(0.005):
                pass
            if when == "recheck":
                time.sleep(setup.rng.uniform(0.0, 2.0))
            if when != "before":
                INJECTIONS[fault](setup)
    except Exception:  # noqa: BLE001 - the trial reports it
        report.violations.append("ERROR fault: " + traceback.format_exc())


def _interrupt(setup: TrialSetup, stop: threading.Event) -> None:
    _wait_for_intent(setup, stop.is_set)
    stop.set()


def _wait_for_intent(setup: TrialSetup, has_ended: Callable[[], bool]) -> None:
    """Wait for the first intent in the journal, up to a minute, and a little longer."""
    deadline = time.monotonic() + 60
    while not has_ended() and _size(setup.journal) == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(setup.rng.expovariate(4.0))


def _converge(setup: TrialSetup, report: TrialReport, engine: Engine, first_plan: Plan) -> None:
    """Plan and apply again without faults, up to three times, and check that no action remains."""
    driver = _driver(setup, engine)
    plans = [first_plan]
    outcomes: list[Outcome] = []
    for _ in range(3):
        plans.append(driver.plan())
        outcomes = driver.apply(plans[-1])
        next_plan = driver.plan()
        if not next_plan.actions and all(o.status in (*verification.DONE, Status.WAITING) for o in outcomes):
            break
        time.sleep(3)
    state = verification.observe(setup)
    report.violations += verification.convergence_violations(setup, outcomes, next_plan, state)
    changed_topics = setup.changes.topics
    deletions = [action for plan in plans for action in verification.planned_deletions(plan)]
    report.violations += verification.witness_violations(
        setup.witnesses, deletions, state.starts, changed_topics=changed_topics
    )
    for witness in setup.witnesses:
        gaps = [gap for gap in witness.gaps if gap.partition[0] not in changed_topics]
        report.statuses.update({"witness records": witness.records, "witness gaps": len(gaps)})
        report.statuses.update({"witness memberships lost": int(witness.lost), "witness restarts": witness.restarts})


def _wait_until_healthy(setup: TrialSetup) -> None:
    """Wait until all brokers run and all partitions have leaders and are in sync."""
    _resume_brokers(setup)
    broker_ids = {broker.id for broker in setup.cluster.brokers}

    def is_healthy() -> bool:
        if any(client.visible_brokers(f"127.0.0.1:{b.port}") != broker_ids for b in setup.cluster.brokers):
            return False
        states = [s for topic in setup.topics for s in client.partition_states(setup.servers, topic).values()]
        return all(state.leader >= 0 and set(state.in_sync) == set(state.replicas) for state in states)

    client.wait_until(is_healthy, 300, "a healthy cluster", every_s=0.3)


def _wait_until_members_have_left(setup: TrialSetup) -> None:
    """Wait until no dead group has a member, because a plan blocks the removal of a group in use.

    A member whose coordinator restarts while it closes sends no LeaveGroup. It is a member until
    its session times out, after 10 s.
    """
    admin = client.admin_client(setup.servers)

    def have_left() -> bool:
        listing = admin.list_consumer_groups().result(30)
        states = {group.group_id: group.state for group in listing.valid}
        in_use = setup.changes.joined & states.keys()
        return not listing.errors and all(states[group] is ConsumerGroupState.EMPTY for group in in_use)

    client.wait_until(have_left, 120, "groups without members", every_s=0.3)


def _resume_brokers(setup: TrialSetup) -> None:
    for broker in setup.cluster.brokers:
        if not setup.cluster.alive(broker.id):
            setup.cluster.restart(broker.id, timeout_s=240)
        else:
            setup.cluster.resume(broker.id)


def _fill(journal: ActionJournal) -> None:
    """Add lines of another run to the journal.

    So a limit of the file size can stop the journal, while child processes can still write their
    own files.
    """
    action = examples.purge("other-topic")
    intent = create(action, run_id="r", plan_digest="other", at_ms=1)
    [line] = dump_batch([intent] * 100)
    for _ in range(DISK_BYTES // len(line)):
        journal.record([action] * 100, run_id="r", plan_digest="other", at_ms=1)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
