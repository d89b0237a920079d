"""A folder with manifests of one cluster, and the commands that a test runs in it.

Kafka's own tools show what is left.
"""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import pytest

from reconciler.companions.sandbox import client
from reconciler.companions.sandbox.client import Record, Topic
from reconciler.companions.sandbox.cluster import SandboxCluster
from reconciler.kafka import journal_topic
from reconciler.kafka.connect import Connection
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.session import KafkaSession
from tests.build import policy, write_manifests
from tests.command import reconciler
from tests.toolbox import list_groups, log_start_offsets

RECORDS = 100
"""Records of a topic that a test creates without a number."""
DAY_MS = 86_400_000
OPEN_LIMITS = "groups: 10000, groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder and its cluster. A command runs in the folder and fails with its output unless it ends with `code`."""

    cluster: SandboxCluster
    folder: Path

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    @property
    def manifest(self) -> Path:
        """The file that `write` writes."""
        return self.folder / "manifests" / "all.yaml"

    def create_topic(self, records: int = RECORDS, *, name: str = "", age_ms: int = 0, **settings: Any) -> str:
        """Create a topic with records in each partition, and return its name, by default a unique one."""
        topic = Topic(name or f"t{uuid4().hex[:10]}", **settings)
        client.create_topics(self.servers, [topic])
        if records:
            self.produce(topic.name, records, age_ms=age_ms, partitions=len(topic.assignment or ()) or topic.partitions)
        return topic.name

    def produce(self, topic: str, records: int = RECORDS, *, age_ms: int = 0, partitions: int = 1) -> None:
        stamp = time.time_ns() // 1_000_000 - age_ms if age_ms else 0
        client.produce(self.servers, topic, dict.fromkeys(range(partitions), [Record(b"x", b"key", stamp)] * records))

    def commit(self, group: str, topic: str, offset: int = RECORDS) -> str:
        """Commit an offset of partition 0, wait until the brokers list the group, and return its name."""
        client.commit(self.servers, group, {(topic, 0): offset})
        client.wait_until(lambda: group in self.groups(), 30, f"{group} in the list")
        return group

    def log_start(self, topic: str) -> int:
        """Return the log start offset of partition 0."""
        return log_start_offsets(self.cluster, topic)[0]

    def groups(self) -> set[str]:
        return list_groups(self.cluster)

    def write(self, *policies: str, limits: str = OPEN_LIMITS, more: str = "") -> None:
        """Write the Cluster `local` and these policies. `more`: a line of the Cluster's spec."""
        write_manifests(self.folder, self.servers, "---\n".join(policies), limits=limits, more=more)

    def edit(self, before: str, after: str) -> None:
        """Replace a text in the manifests, which have it."""
        text = self.manifest.read_text()
        assert before in text
        self.manifest.write_text(text.replace(before, after))

    def run(self, *words: str, code: int = 0, **variables: str) -> str:
        """Run a command, and return its stdout and stderr."""
        answer = reconciler(self.folder, *words, **variables)
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    def plan(self, *policies: str, limits: str = OPEN_LIMITS, code: int = 0, **variables: str) -> dict[str, Any]:
        """Plan these policies, or those of before, into plan.json, and return what that has, and the output."""
        if policies:
            self.write(*policies, limits=limits)
        output = self.run("plan", "--out", "plan.json", "--full", code=code, **variables)
        return self.read("plan.json") | {"output": output}

    def plan_once_idle(self) -> dict[str, Any]:
        """Return the first plan in which no group was active too recently (B304)."""
        plans: list[dict[str, Any]] = []

        def is_idle() -> bool:
            plans.append(self.plan())
            return not any(block["code"] == "B304" for block in blocks(plans[-1]).values())

        client.wait_until(is_idle, 60, "the groups are idle for idleFor", every_s=1.0)
        return plans[-1]

    def apply(self, *words: str, code: int = 0, **variables: str) -> str:
        """Apply plan.json, and return the output."""
        return self.run("apply", "plan.json", *words, code=code, **variables)

    def apply_during(
        self,
        method: str,
        change: Callable[[], AbstractContextManager[Any]],
        *words: str,
        code: int = 4,
        pause_s: float = 0,
    ) -> str:
        """Apply the plan, with a change of the cluster before the first call of a method, and return the output."""
        original, once, done = getattr(KafkaGateway, method), Lock(), []
        with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

            def change_first(gateway: KafkaGateway, *arguments: Any, **more: Any) -> Any:
                with once:
                    if not done:
                        stack.enter_context(change())
                        done.append(method)
                        time.sleep(pause_s)
                return original(gateway, *arguments, **more)

            patch.setattr(KafkaGateway, method, change_first)
            answer = self.apply(*words, code=code)
        assert done
        return answer

    @property
    def journal_file(self) -> Path:
        """The journal of a Cluster without a topic for it."""
        return self.folder / "manifests" / ".reconciler" / "local.jsonl"

    def journal(self, *words: str) -> list[dict[str, Any]]:
        """Return the entries of the journal."""
        answer = reconciler(self.folder, "journal", "-o", "json", "-q", *words)
        assert answer.returncode == 0, answer.stderr
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def restore(self, group: str, *words: str, source: str = "results.json", code: int = 0) -> str:
        """Restore a group from a file, and return the output."""
        return self.run("restore-group", source, group, "--confirm", group, *words, code=code)

    def read(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / name).read_text())
        return document


def create_journal(cluster: SandboxCluster) -> str:
    """Create a topic as the program does for a journal, and return its name."""
    name = f"_journal.{uuid4().hex[:10]}"
    with closing(KafkaSession(Connection(tuple(cluster.bootstrap_servers.split(","))))) as session:
        journal_topic.create_topic(session, name)
    return name


def floor(topics: str, rule: str, *, name: str = "floor", mode: str = "") -> str:
    return policy("RetentionFloor", name, f"topics: [{topics}], {rule}", mode=mode)


def removal(groups: str, rule: str = "idleFor: 0s", *, name: str = "dead") -> str:
    return policy("GroupRemoval", name, f"groups: [{groups}], {rule}")


def leaders(topics: str, *, name: str = "leaders") -> str:
    return policy("LeaderPolicy", name, f"topics: [{topics}]")


def blocks(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Map the addresses of what is blocked, or could not be read, to its rows."""
    return {row["address"]: row for row in (*plan["blocked"], *plan["unread"])}


def observed(plan: dict[str, Any], limit: str) -> float:
    """Return what a plan counts towards a limit."""
    return float(next(row["observed"] for row in plan["limits"] if row["id"] == limit))


def targets(plan: dict[str, Any]) -> list[int]:
    """Return the first offset that each deletion keeps."""
    return [row["request"]["before_offset"] for row in plan["actions"] if row["operation"] == "delete_records"]
