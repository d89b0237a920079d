"""Builds the text of manifests, and commits of git, for tests that run the program on files."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reconciler.companions.sandbox.cluster import CLUSTER_ID

LIMITS = "groupsPercent: 100, recordsPercentPerTopic: 100, recordsPercent: 100"


def head(kind: str, name: str) -> str:
    """Return the lines of a manifest before those of its spec, without the last newline."""
    return f"apiVersion: reconciler/v1\nkind: {kind}\nmetadata: {{name: {name}}}"


def policy(kind: str, name: str, spec: str, *, mode: str = "") -> str:
    """Return a whole manifest. `spec`: its fields, in YAML between braces."""
    mode_line = f"mode: {mode}\n" if mode else ""
    return f"{head(kind, name)}\n{mode_line}spec: {{{spec}}}\n"


def cluster_manifest(servers: str, *, limits: str = LIMITS, cluster_id: str = CLUSTER_ID, name: str = "local") -> str:
    """Return a Cluster with an open spec: further lines of it may follow. `servers`: separated by commas."""
    addresses = json.dumps(servers.split(","))
    limit = f"  limits: {{{limits}}}\n" if limits else ""
    return f"{head('Cluster', name)}\nspec:\n  clusterId: {cluster_id}\n  bootstrapServers: {addresses}\n{limit}"


def waiver(policy_name: str, limit: str, value: float, *, name: str = "waiver", **duration: float) -> str:
    """Return a Waiver of a limit for a time from now."""
    expires = f"{datetime.now(UTC) + timedelta(**duration):%Y-%m-%dT%H:%M:%SZ}"
    return policy("Waiver", name, f"policy: {policy_name}, limit: {limit}, value: {value}, expires: {expires}")


def write_manifests(folder: Path, servers: str, policies: str, *, more: str = "", **of_cluster: str) -> None:
    """Write a Cluster and policies into the folder's manifests.

    `more`: a line of the Cluster's spec. `of_cluster`: as `cluster_manifest` has them.
    """
    (folder / "manifests").mkdir(exist_ok=True)
    cluster = cluster_manifest(servers, **of_cluster) + (f"  {more}\n" if more else "")
    (folder / "manifests" / "all.yaml").write_text(f"{cluster}---\n{policies}")


def program(path: Path, *lines: str) -> Path:
    """Write a program for the shell, into a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def git(folder: Path, *words: str) -> str:
    """Run git in the folder, as an author of tests, and return its output without the last newline."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command: list[str | Path] = ["git", "-C", folder, *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def commit(folder: Path) -> None:
    """Commit all files of the checkout."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
