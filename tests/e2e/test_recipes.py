"""Runs each recipe of docs/recipes on real brokers: its manifests, its commands and their output.

A page is the script: YAML blocks that begin with `# manifests/…` are files, lines that begin with
`$ ` are commands, and the lines below a command are its output. UPDATE_DOCS=1 writes the output into
the pages. What differs from run to run is replaced: see docs/recipes/README.md.
"""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from reconciler.sandbox import client, tools
from reconciler.sandbox.client import Record, Topic
from reconciler.sandbox.cluster import Cluster, start, stop
from reconciler.text.formatting import format_instant
from tests.command import environment, reconciler

pytestmark = pytest.mark.brokers

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
PAGES = sorted(page for page in RECIPES.glob("*.md") if page.name != "README.md")
MINUTE_MS, DAY_MS = 60_000, 86_400_000
PAGE_NOW_MS = 1_795_255_200_000
"""The time of the pages, 2026-11-21T10:00:00Z: instants of manifests and outputs are relative to it."""
PAGE_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.fixture(scope="module")
def recipe_cluster() -> Iterator[Cluster]:
    """Brokers for these pages only: they use plain names, and shares of everything in the cluster."""
    # As in conftest.py: idle brokers need less of a core.
    properties = {"default.replication.factor": "1", "replica.fetch.wait.max.ms": "2000"}
    cluster = start(2, name="recipes", heap_mib=256, properties=properties)
    try:
        yield cluster
    finally:
        stop(cluster)


def remove_everything(servers: str) -> None:
    """Delete all topics and groups of an earlier recipe, so that each page can run alone."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")]
    groups = [group.group_id for group in admin.list_consumer_groups().result(timeout=30).valid]
    # The client refuses empty lists.
    futures = [
        *(admin.delete_topics(topics) if topics else {}).values(),
        *(admin.delete_consumer_groups(groups) if groups else {}).values(),
    ]
    for future in futures:
        future.result(timeout=30)
    for server in servers.split(","):
        other = AdminClient({"bootstrap.servers": server})
        client.wait_until(
            lambda other=other: all(name.startswith("__") for name in other.list_topics(timeout=10).topics),
            30,
            f"the deletion of all topics in the metadata of {server}",
        )


def records(old: int, new: int) -> list[Record]:
    """Return records of 30 days ago, then records of now."""
    now_ms = int(time.time() * 1000)
    return [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * old + [Record(b"new", timestamp_ms=now_ms)] * new


def topic(servers: str, name: str, old: int, new: int, *, partitions: int = 2, **groups: int) -> None:
    """Create a topic with records in each partition. `groups`: group → committed offset of each partition."""
    client.create_topics(servers, [Topic(name, partitions)])
    client.produce(servers, name, {partition: records(old, new) for partition in range(partitions)})
    for group, offset in groups.items():
        commit(servers, group.replace("_", "-"), name, offset, partitions)


def commit(servers: str, group: str, name: str, offset: int, partitions: int = 2) -> None:
    client.commit(servers, group, {(name, partition): offset for partition in range(partitions)})


def dead_groups(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    topic(servers, "orders", 0, 100, old_etl=40, billing=100, shipping=100, invoicing=90, search=100)
    for number in (17, 4711):
        commit(servers, f"console-consumer-{number}", "orders", 100)
    committed_s = time.monotonic()
    client.wait_until(lambda: time.monotonic() - committed_s > 1.5, 10, "groups that are idle for idleFor")


def restarted_broker(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    assignment = [(1, 2), (2, 1), (2, 1), (1, 2)]
    client.create_topics(servers, [Topic("orders", assignment=assignment), Topic("payments", assignment=[(2, 1)])])
    tools.change_preferred_leaders(cluster, [("orders", 0), ("orders", 3), ("payments", 0)])


def two_topics(cluster: Cluster) -> None:
    topic(cluster.bootstrap_servers, "customers", 400, 600)
    topic(cluster.bootstrap_servers, "visits", 200, 800)


def repartition_topic(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    topic(servers, "shop-orders-repartition", 0, 500, shop=480)
    client.create_topics(servers, [Topic("_reconciler.journal", 1, configs={"retention.ms": "-1"})])


PREPARATIONS: Mapping[str, Callable[[Cluster], None]] = {
    "after-a-broker-restart": restarted_broker,
    "check-for-drift": lambda cluster: topic(cluster.bootstrap_servers, "orders", 400, 600, billing=1000),
    "dead-groups": dead_groups,
    "decommission-consumers": lambda cluster: topic(
        cluster.bootstrap_servers,
        "invoices",
        0,
        100,
        billing=100,
        tax=95,
        archive=100,
        invoice_export=80,
        invoice_mail=100,
    ),
    "erase-a-persons-records": two_topics,
    "erase-after-a-week": lambda cluster: topic(cluster.bootstrap_servers, "orders", 400, 600, billing=1000),
    "keep-what-a-slow-reader-needs": lambda cluster: topic(
        cluster.bootstrap_servers, "clicks", 400, 600, dashboard=1000, reports=250
    ),
    "protect-a-topic": lambda cluster: topic(cluster.bootstrap_servers, "payments", 400, 600),
    "raise-a-limit-once": lambda cluster: topic(cluster.bootstrap_servers, "clicks", 950, 50),
    "repartition-purge": repartition_topic,
}
"""Page → what its cluster holds before the first command."""


class Recipe:
    """One page, its folder and what stands for what on this machine."""

    def __init__(self, page: Path, folder: Path, cluster: Cluster) -> None:
        self.page = page
        self._folder = folder
        self._start_ms = int(time.time() * 1000)
        self._code = 0
        self._digests: dict[str, str] = {}
        servers = cluster.bootstrap_servers.split(",")
        self._here = {f"broker-{number}:9092": server for number, server in enumerate(servers, 1)}
        self._here[PAGE_CLUSTER_ID] = cluster.cluster_id

    def run(self) -> str:
        """Write the files and run the commands of the page; return it with the real outputs."""
        self._write(next(text for kind, text in BLOCK.findall((RECIPES / "README.md").read_text()) if kind == "yaml"))
        return BLOCK.sub(self._block, self.page.read_text(encoding="utf-8"))

    def _block(self, match: re.Match[str]) -> str:
        kind, text = match.groups()
        if kind == "yaml":
            self._write(text)
            return match[0]
        steps = COMMAND.findall(text)
        assert "".join(f"$ {command}\n{output}" for command, output in steps) == text, f"{self.page}: no command first"
        outputs = []
        for (command, _), (following, _) in zip(steps, [*steps[1:], ("", "")], strict=True):
            outputs.append(f"$ {command}\n{self._output(command)}")
            assert self._code == 0 or following == "echo $?", f"{self.page}: exit code {self._code}:\n{outputs[-1]}"
        return "```console\n" + "\n".join(outputs) + "```\n"

    def _write(self, text: str) -> None:
        """Write a manifest, with instants relative to now and durations that a test can wait for."""
        name = re.match(r"# (manifests/[\w.-]+)\n", text)
        assert name, f"{self.page}: a YAML block begins with the path of its file:\n{text}"
        for page_text, own in self._here.items():
            text = text.replace(page_text, own)
        text = INSTANT.sub(lambda instant: self._shift(instant[0], self._start_ms - PAGE_NOW_MS, 1000), text)
        path = self._folder / name[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("idleFor: 3d", "idleFor: 1s"), encoding="utf-8")

    def _output(self, command: str) -> str:
        """Run a command as a shell does, and return what a terminal shows, normalized."""
        if command == "echo $?":
            code, self._code = self._code, 0
            return f"{code}\n"
        variables = {"RECONCILER_ENGINE": "inline"}
        words = shlex.split(command.replace("\\\n", " "))
        if words[0] == "reconciler":
            done = reconciler(self._folder, *words[1:], **variables)
        else:
            done = subprocess.run(
                words,
                cwd=self._folder,
                env=environment(**variables),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self._code = done.returncode
        messages = [line for line in done.stderr.splitlines() if line.startswith(("error", "warning"))]
        lines = [line.rstrip() for line in (*done.stdout.strip("\n").splitlines(), *messages)]
        return self._normalized("".join(f"{line}\n" for line in lines))

    def _normalized(self, text: str) -> str:
        """Replace what differs from run to run: addresses, instants, ids of runs, digests and durations."""
        for page_text, own in self._here.items():
            text = text.replace(own, page_text)
        text = INSTANT.sub(lambda instant: self._shift(instant[0], PAGE_NOW_MS - self._start_ms, 10 * MINUTE_MS), text)
        text = re.sub(r"[0-9a-f]{64}", lambda digest: self._digest(digest[0]), text)
        text = re.sub(r"\brun [0-9a-f]{12}\b", "run 4f2c9aa0c1d2", text)
        text = re.sub(r"\b\d\.\d+e\+09$", str(PAGE_NOW_MS / 1000), text, flags=re.MULTILINE)
        return re.sub(r"\b(?:\d+ min )?\d+(?:\.\d+)? (?:ms|s)\b", "2 s", text)

    def _shift(self, instant: str, difference_ms: int, step_ms: int) -> str:
        """Return an instant moved by a difference, rounded to a multiple of a step from the time of the page."""
        moved = time_ms(instant) + difference_ms
        base = PAGE_NOW_MS if step_ms > 1000 else 0
        return format_instant(base + round((moved - base) / step_ms) * step_ms)

    def _digest(self, digest: str) -> str:
        """Return the same stand-in for the same digest: 64 times its number on the page."""
        if digest not in self._digests.values():
            self._digests.setdefault(digest, str(len(self._digests) + 1)[-1] * 64)
        return self._digests.get(digest, digest)


def time_ms(instant: str) -> int:
    """Return the epoch milliseconds of `2026-11-21T10:00:00Z`."""
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def test_every_recipe_has_its_preparation() -> None:
    assert [page.stem for page in PAGES] == sorted(PREPARATIONS)
    assert len(PAGES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_shows_real_output(page: Path, recipe_cluster: Cluster, tmp_path: Path) -> None:
    """Each command prints what the page shows (UPDATE_DOCS=1 writes it into the page)."""
    remove_everything(recipe_cluster.bootstrap_servers)
    PREPARATIONS[page.stem](recipe_cluster)
    fresh = Recipe(page, tmp_path, recipe_cluster).run()
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(fresh, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == fresh, f"{page.name} is stale: UPDATE_DOCS=1 pytest {__file__}"
