"""`init` with real brokers: it reads the cluster id, writes valid manifests, and overwrites nothing."""

from pathlib import Path

import pytest

from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from tests.command import reconciler

pytestmark = pytest.mark.brokers

ACTION = f"acme/reconciler@{'0123456789' * 4}"


def test_init_writes_a_first_set_on_which_validate_passes(cluster: Cluster, tmp_path: Path) -> None:
    """The first manifests name the cluster of the brokers; `validate` accepts them without a warning.

    A second `init` changes nothing, and adds the files of another cluster. Files of the user stay.
    """
    words = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--name", "local", "--action", ACTION)
    first = reconciler(tmp_path, *words)
    assert first.returncode == 0, first.stderr
    text = "".join(path.read_text() for path in sorted((tmp_path / "manifests").rglob("*.yaml")))
    assert CLUSTER_ID in text
    workflow = (tmp_path / ".github" / "workflows" / "plan.yml").read_text()
    assert f"uses: {ACTION.replace('@', '/.github/actions/reconciler@')} #" in workflow
    valid = reconciler(tmp_path, "validate")
    assert valid.returncode == 0, valid.stderr + valid.stdout
    assert "warning" not in valid.stdout
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    again = reconciler(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    other = reconciler(tmp_path, *words, "--name", "other")
    assert other.returncode == 0, other.stderr
    added = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path).parts[:2] for path in added.keys() - before.keys()} == {("manifests", "other")}
    (tmp_path / "manifests" / "local" / "cluster.yaml").write_text("# mine\n")
    refused = reconciler(tmp_path, *words)
    assert refused.returncode == 64
    assert "cluster.yaml exists with other content, and init overwrites no file" in refused.stderr
    assert (tmp_path / "manifests" / "local" / "cluster.yaml").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--bootstrap-server", " , "), "host:port"),
        (("--journal-topic", "a b"), "a b"),
        (("--name", "Not_a_name"), "Not_a_name"),
    ],
)
def test_init_writes_nothing_that_validate_would_refuse(
    words: tuple[str, ...], message: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Invalid arguments are found before the command connects, writes a file or creates a topic."""
    refused = reconciler(tmp_path, "init", "--bootstrap-server", cluster.bootstrap_servers, "--no-workflows", *words)
    assert refused.returncode == 64, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_init_writes_nothing_if_the_source_of_the_workflows_is_unknown(cluster: Cluster, tmp_path: Path) -> None:
    """A branch instead of a commit is wrong usage, found before anything happens; --no-workflows needs no source."""
    words = ("init", "--bootstrap-server", cluster.bootstrap_servers)
    refused = reconciler(tmp_path, *words, "--action", "acme/reconciler@main")
    assert refused.returncode == 64
    assert "OWNER/NAME@COMMIT" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    done = reconciler(tmp_path, *words, "--no-workflows")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".github").exists()
