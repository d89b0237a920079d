"""`init` against real brokers: the cluster id is found by connecting, the set is valid as it stands, nothing is overwritten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.sandbox.cluster import CLUSTER_ID, Cluster

pytestmark = pytest.mark.brokers


def reconciler(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reconciler", *words],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("RECONCILER_")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_init_writes_a_first_set_on_which_validate_passes(cluster: Cluster, tmp_path: Path) -> None:
    """The first set names the cluster that answered; `validate` accepts it without a warning; a second `init` changes nothing."""
    words = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--name", "local")
    made = reconciler(tmp_path, *words)
    assert made.returncode == 0, made.stderr
    text = "".join(path.read_text() for path in sorted((tmp_path / "manifests").rglob("*.yaml")))
    assert CLUSTER_ID in text
    assert (tmp_path / ".github" / "workflows" / "plan.yml").is_file()
    valid = reconciler(tmp_path, "validate")
    assert valid.returncode == 0, valid.stderr + valid.stdout
    assert "warning" not in valid.stdout
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = reconciler(tmp_path, *words)
    assert again.returncode != 0
    assert "overwrite" in again.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
