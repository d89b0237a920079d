"""Runs each recipe of docs/recipes on real brokers: its manifests, its commands and their output.

A page is the script: YAML blocks that begin with `# manifests/…` are files, lines that begin with
`$ ` are commands, and the lines below a command are its output. UPDATE_DOCS=1 writes the output into
the pages. What differs from run to run is replaced: see docs/recipes/README.md.
"""

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from reconciler.companions.sandbox import client, tools
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from tests import kafka_client
from tests.command import environment, reconciler, run_process
from tests.e2e.samples import PageText, check_page, wait_until_idle
from tests.e2e.workspace import DAY_MS

RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
# tests/spark runs the queries of the history.
PAGES = sorted(page for page in RECIPES.glob("*.md") if page.stem not in ("README", "history-of-a-cluster"))
BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """Brokers for these pages only: they use plain names, and shares of everything in the cluster."""
    # As in conftest.py: idle brokers need less of a core.
    properties = {"default.replication.factor": "1", "replica.fetch.wait.max.ms": "2000"}
    with stopping(start(2, name="recipes", heap_mib=256, properties=properties)) as cluster:
        yield cluster


def remove_everything(servers: str) -> None:
    """Delete all topics and groups of an earlier recipe, so that each page can run alone."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")]
    groups = [group.group_id for group in admin.list_consumer_groups().result(timeout=30).valid]
    if topics:  # the client refuses empty lists
        kafka_client.delete_topics(servers, topics)
    if groups:
        for future in admin.delete_consumer_groups(groups).values():
            future.result(timeout=30)


THAT_HAVE_READ_ALL = ("billing", "shipping", "search", "console-consumer-17", "console-consumer-4711")
Groups = Mapping[str, int]
"""Group → committed offset of each partition."""
TOPICS: Mapping[str, Sequence[tuple[str, int, int, Groups]]] = {
    "after-a-broker-restart": [],
    "check-for-drift": [("orders", 400, 600, {"billing": 1000})],
    "dead-groups": [
        ("orders", 0, 100, {"old-etl": 40, "invoicing": 90} | dict.fromkeys(THAT_HAVE_READ_ALL, 100)),
    ],
    "decommission-consumers": [
        ("invoices", 0, 100, {"billing": 100, "tax": 95, "archive": 100, "invoice-export": 80, "invoice-mail": 100})
    ],
    "erase-a-persons-records": [("customers", 400, 600, {}), ("visits", 200, 800, {})],
    "erase-after-a-week": [("orders", 400, 600, {"billing": 1000})],
    "keep-what-a-slow-reader-needs": [("clicks", 400, 600, {"dashboard": 1000, "reports": 250})],
    "protect-a-topic": [("payments", 400, 600, {})],
    "raise-a-limit-once": [("clicks", 950, 50, {})],
    "repartition-purge": [("shop-orders-repartition", 0, 500, {"shop": 480})],
}
"""Page → what its cluster holds before the first command: records of 30 days ago, then of now, in two partitions."""


def prepare(page: str, cluster: SandboxCluster) -> None:
    """Create what a page expects."""
    servers, now_ms = cluster.bootstrap_servers, int(time.time() * 1000)
    for name, old, new, groups in TOPICS[page]:
        client.create_topics(servers, [Topic(name, 2)])
        records = [Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS)] * old + [
            Record(b"new", timestamp_ms=now_ms)
        ] * new
        client.produce(servers, name, dict.fromkeys((0, 1), records))
        for group, offset in groups.items():
            client.commit(servers, group, {(name, 0): offset, (name, 1): offset}, had_members=True)
    match page:
        case "after-a-broker-restart":
            orders = Topic("orders", assignment=[(1, 2), (2, 1), (2, 1), (1, 2)])
            client.create_topics(servers, [orders, Topic("payments", assignment=[(2, 1)])])
            tools.change_preferred_leaders(cluster, [("orders", 0), ("orders", 3), ("payments", 0)])
        case "dead-groups":
            wait_until_idle(time.monotonic())
        case "repartition-purge":
            configs = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
            client.create_topics(servers, [Topic("_reconciler.journal", 1, configs=configs)])


class Recipe:
    """One page, its folder and what stands for what on this machine."""

    def __init__(self, page: Path, folder: Path, cluster: SandboxCluster) -> None:
        self.page = page
        self._folder = folder
        self._code = 0
        servers = cluster.bootstrap_servers.split(",")
        self._page_text = PageText(
            cluster, {f"broker-{number}:9092": server for number, server in enumerate(servers, 1)}
        )

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
        """Write a manifest."""
        name = re.match(r"# (manifests/[\w.-]+)\n", text)
        assert name, f"{self.page}: a YAML block begins with the path of its file:\n{text}"
        path = self._folder / name[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(self._page_text.manifest_for_this_machine(text), encoding="utf-8")

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
            done = run_process(self._folder, *words, env=environment(**variables))
        self._code = done.returncode
        return self._page_text.output(done)


def test_every_recipe_has_its_preparation() -> None:
    assert [page.stem for page in PAGES] == sorted(TOPICS)
    assert len(PAGES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_recipe_shows_real_output(page: Path, cluster: SandboxCluster, tmp_path: Path) -> None:
    """Each command prints what the page shows (UPDATE_DOCS=1 writes it into the page)."""
    remove_everything(cluster.bootstrap_servers)
    prepare(page.stem, cluster)
    fresh = Recipe(page, tmp_path, cluster).run()
    check_page(page, fresh, test=__file__)
