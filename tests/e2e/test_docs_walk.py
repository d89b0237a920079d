"""Runs every command of the documentation as a new user would, on real brokers.

The commands run in their order, in an empty folder with an empty HOME. Their output is the sample
below them; UPDATE_DOCS=1 writes it into the page.
"""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import platformdirs
import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster, start, stopping
from reconciler.companions.sandbox.java import find_java
from tests.build import git, write_manifests
from tests.command import reconciler, run_process
from tests.e2e.samples import PageText, check_page, wait_until_idle
from tests.e2e.workspace import DAY_MS, Workspace, floor
from tests.unit.docs.pages import DOCS, code_blocks, fenced
from tools.generate_docs import fill_sections

pytestmark = pytest.mark.spark

ACTION = f"OWNER/NAME@{'0123456789' * 4}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SandboxCluster]:
    """A broker for these pages only, because they use arbitrary names of topics and groups."""
    with stopping(start(1, name="docs", heap_mib=256)) as cluster:
        yield cluster


def binaries() -> str:
    """Return the folders of this program and of Java, for PATH."""
    return f"{Path(sys.executable).parent}:{find_java().parent}"


def commands(page: Path) -> list[str]:
    """Each command of a page's console blocks, with its continued lines joined."""
    text = "".join(code_blocks(page, "console")).replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def samples_of_github(folder: Path, page_text: PageText) -> dict[str, str]:
    """Return the comment on a pull request and the issue about drift, as the workflows write them."""
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=user", "commit", "--quiet", "--message=clicks are for a week")
    comment = reconciler(folder, "plan", "-o", "md")
    issue = reconciler(folder, "drift", "-o", "md", "--previous", "drift.json")
    assert (comment.returncode, issue.returncode) == (0, 2), comment.stderr + issue.stderr
    texts = {"comment": comment, "issue": issue}
    return {name: fenced(page_text.output(result), "markdown") for name, result in texts.items()}


def test_five_minutes_to_the_first_plan(cluster: SandboxCluster, tmp_path: Path) -> None:
    """getting-started.md from `init` to `apply`: the page shows what each command prints, github.md
    shows the same plan and its drift, apply deletes the old records and the dead group, and no
    action remains.
    """
    servers = cluster.bootstrap_servers
    now_ms = int(time.time() * 1000)
    client.create_topics(servers, [Topic("clicks"), Topic("orders", 3)])
    old_record, new_record = Record(b"old", timestamp_ms=now_ms - 30 * DAY_MS), Record(b"new", timestamp_ms=now_ms)
    client.produce(servers, "clicks", {0: [*[old_record] * 40, *[new_record] * 60]})
    client.produce(servers, "orders", {partition: [new_record] * 100 for partition in range(3)})
    for group in ("billing", "old-etl", "search"):
        client.commit(servers, group, {("orders", partition): 100 for partition in range(3)}, had_members=True)
    committed_s = time.monotonic()
    page, page_text = DOCS / "getting-started.md", PageText(cluster, {"broker-1:9093": servers})
    folder, home = tmp_path / "repository", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    variables = {
        "PATH": f"{binaries()}:/usr/bin:/bin",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(platformdirs.user_cache_path()),  # with the archives of `make setup`
        "LANG": "C.UTF-8",
    }
    # No file of a user's shell counts, because it is not interactive.
    shell = partial(run_process, folder, "bash", "-c", env=variables)
    outputs, github_samples = dict[str, str](), dict[str, str]()
    for command in commands(page):
        if not command.startswith("reconciler ") or "completion" in command:
            continue  # tests/e2e/test_packaging.py tests the installation and the completion
        arguments = shlex.split(command)
        if arguments[1] == "init":
            # The sandbox has a plain listener, and this checkout belongs to no GitHub repository.
            init_arguments = [
                word for at, word in enumerate(arguments) if word != "--client" and arguments[at - 1] != "--client"
            ]
            command = shlex.join([*init_arguments, "--action", ACTION])
        if arguments[1] == "plan":
            wait_until_idle(committed_s)
            clicks = page_text.manifest_for_this_machine("".join(code_blocks(page, "yaml")))
            (folder / "manifests/prod-eu/clicks.yaml").write_text(clicks)
        if arguments[1] == "apply":
            github_samples = samples_of_github(folder, page_text)
        result = shell(page_text.for_this_machine(command))
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        outputs[arguments[1]] = page_text.output(result)
        if arguments[1] == "init":
            assert CLUSTER_ID in (folder / "manifests/prod-eu/cluster.yaml").read_text()
        if arguments[1] == "plan":
            assert "clicks[0] (clicks): at most 40 records (40.0 %), log start from 0 to 40" in result.stdout
            assert '"old-etl" (dead-etl): 3 committed offsets on 1 topic' in result.stdout
            assert "Waiting" not in result.stdout
    assert list(outputs) == ["--version", "init", "validate", "doctor", "plan", "apply"]
    assert client.watermarks(servers, "clicks", 0) == (40, 100)
    assert shell("reconciler apply plan.json").returncode == 0
    assert client.watermarks(servers, "clicks", 0) == (40, 100)
    samples = {command: fenced(output) for command, output in outputs.items()}
    for path, sections in ((page, samples), (DOCS / "github.md", github_samples)):
        check_page(path, fill_sections(path.read_text(encoding="utf-8"), sections), test=__file__)


def test_the_crontab_prints_nothing_without_drift(cluster: SandboxCluster, tmp_path: Path) -> None:
    """`sh` runs the lines of cron.md: converge deletes, later runs print nothing, and drift writes
    report and metrics.

    After a pause of converge for longer than `driftAfter`, drift prints a report.
    """
    folder, metrics = tmp_path / "srv", tmp_path / "node_exporter"
    folder.mkdir()
    metrics.mkdir()
    space = Workspace(cluster, folder)
    topic = space.create_topic()
    (folder / "credentials").write_text(f"export KAFKA_BOOTSTRAP_SERVERS={cluster.bootstrap_servers}\n")
    write_manifests(
        folder, "${env:KAFKA_BOOTSTRAP_SERVERS}", floor(topic, "keep: {last: 10}, driftAfter: 1s", mode="continuous")
    )
    [crontab] = code_blocks(DOCS / "cron.md", "cron")
    variables = dict(re.findall(r"^(\w+)=(.*)$", crontab, re.MULTILINE))
    jobs = re.findall(r"^(?:[-*/\d]+ ){5}(.*)$", crontab, re.MULTILINE)
    converge, drift = (next(job for job in jobs if f"reconciler {verb}" in job) for verb in ("converge", "drift"))

    def run(line: str) -> subprocess.CompletedProcess[str]:
        local_line = line.replace("/srv/kafka", str(folder)).replace("/var/lib/node_exporter", str(metrics))
        path = variables["PATH"].replace("/opt/reconciler/bin", binaries())
        local = {**variables, "PATH": path, "HOME": str(tmp_path), "RECONCILER_ENGINE": "auto"}
        return run_process(tmp_path, "/bin/sh", "-c", local_line, env=local)

    first_converge = run(converge)
    assert first_converge.returncode == 0, first_converge.stderr
    assert topic in first_converge.stdout, "converge prints its deletions"
    assert space.log_start(topic) == 90
    for line in (converge, drift):
        silent_run = run(line)
        assert (silent_run.returncode, silent_run.stdout, silent_run.stderr) == (0, "", "")
    assert (folder / "drift.json").is_file()
    assert 'reconciler_in_sync{cluster="local"} 1.0' in (metrics / "reconciler.prom").read_text()
    space.produce(topic, 5)
    time.sleep(1.5)  # driftAfter: 1s
    drift_run = run(drift)
    assert drift_run.returncode == 2, drift_run.stdout + drift_run.stderr
    assert topic in drift_run.stdout
    assert 'reconciler_in_sync{cluster="local"} 0.0' in (metrics / "reconciler.prom").read_text()
