"""`reconciler observe` without a cluster: when there is nothing to record, and what fails."""

from pathlib import Path

import pytest

from tests.build import cluster_manifest, head
from tests.command import reconciler

REMOVAL = f"---\n{head('GroupRemoval', 'dead')}\nspec: {{groups: [etl], idleFor: %s}}\n"
HIDDEN = "  consumerOffsets: hidden\n"


@pytest.mark.parametrize(
    ("field", "idle_for", "code"),
    [("", "3d", 0), (HIDDEN, "0s", 0), (HIDDEN, "3d", 1)],
    ids=["__consumer_offsets is read", "no evidence is asked for", "no broker answers"],
)
def test_only_clusters_that_need_observations_are_asked(tmp_path: Path, field: str, idle_for: str, code: int) -> None:
    """A command in a schedule ends with 0 where nothing is to be done, and never without a word where it failed."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.yaml").write_text(cluster_manifest("127.0.0.1:1") + field + REMOVAL % idle_for)
    result = reconciler(tmp_path, "observe", "--timeout", "2")
    assert (result.returncode, result.stdout) == (code, "")
    assert ("local: nothing to observe" in result.stderr) is (code == 0), result.stderr
    assert not (tmp_path / "manifests" / ".reconciler").exists()
