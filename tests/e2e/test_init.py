"""`init` with real brokers: it reads the cluster id, writes valid manifests, and overwrites
nothing.
"""

from pathlib import Path

import pytest

from reconciler import gitops
from reconciler.sandbox.cluster import CLUSTER_ID, Cluster
from tests.command import reconciler

pytestmark = pytest.mark.brokers

ACTION = f"acme/reconciler@{'0123456789' * 4}"


def test_init_writes_manifests_that_validate_accepts(cluster: Cluster, tmp_path: Path) -> None:
    """The first manifests name the cluster of the brokers; `validate` accepts them without a
    warning.

    A second `init` changes nothing, and adds the files of another cluster. Files of the user stay.
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--name", "local", "--action", ACTION)
    first_init = reconciler(tmp_path, *arguments)
    assert first_init.returncode == 0, first_init.stderr
    assert "reconciler suggest" in first_init.stderr
    text = "".join(path.read_text() for path in sorted((tmp_path / "manifests").rglob("*.yaml")))
    assert CLUSTER_ID in text
    workflow = (tmp_path / ".github" / "workflows" / "plan.yml").read_text()
    assert f"uses: {ACTION} #" in workflow
    assert (tmp_path / gitops.DEPENDABOT).exists()
    validation = reconciler(tmp_path, "validate")
    assert validation.returncode == 0, validation.stderr + validation.stdout
    assert "warning" not in validation.stdout
    files_before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    second_init = reconciler(tmp_path, *arguments)
    assert second_init.returncode == 0, second_init.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files_before
    other_cluster_init = reconciler(tmp_path, *arguments, "--name", "other")
    assert other_cluster_init.returncode == 0, other_cluster_init.stderr
    files_after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path).parts[:2] for path in files_after.keys() - files_before.keys()} == {
        ("manifests", "other")
    }
    (tmp_path / "manifests" / "local" / "cluster.yaml").write_text("# edited by the user\n")
    refused = reconciler(tmp_path, *arguments)
    assert refused.returncode == 64
    assert "cluster.yaml exists with other content, and init overwrites no file" in refused.stderr
    assert (tmp_path / "manifests" / "local" / "cluster.yaml").read_text() == "# edited by the user\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bootstrap-server", " , "), "host:port"),
        (("--journal-topic", "a b"), "a b"),
        (("--name", "Not_a_name"), "Not_a_name"),
    ],
)
def test_init_writes_nothing_for_invalid_arguments(
    arguments: tuple[str, ...], message: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Invalid arguments are found before the command connects, writes a file or creates a topic."""
    refused = reconciler(
        tmp_path, "init", "--bootstrap-server", cluster.bootstrap_servers, "--no-workflows", *arguments
    )
    assert refused.returncode == 64, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_dependabot_stays(cluster: Cluster, tmp_path: Path) -> None:
    """Many repositories have one, for packages of their own: init says what it should have, and
    writes all other files.
    """
    (tmp_path / ".github").mkdir()
    (tmp_path / gitops.DEPENDABOT).write_text("version: 2\nupdates: []\n")
    done = reconciler(tmp_path, "init", "--bootstrap-server", cluster.bootstrap_servers, "--action", ACTION)
    assert done.returncode == 0, done.stderr
    assert "dependabot.yml exists and stays" in done.stderr
    assert (tmp_path / gitops.DEPENDABOT).read_text() == "version: 2\nupdates: []\n"
    assert (tmp_path / ".github" / "workflows" / "apply.yml").exists()


def test_init_writes_nothing_if_the_source_of_the_workflows_is_unknown(cluster: Cluster, tmp_path: Path) -> None:
    """A branch instead of a commit is wrong usage, and init writes nothing.

    With --no-workflows init needs no source.
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers)
    refused = reconciler(tmp_path, *arguments, "--action", "acme/reconciler@main")
    assert refused.returncode == 64
    assert "OWNER/NAME@COMMIT" in refused.stderr
    assert list(tmp_path.iterdir()) == []
    without_workflows = reconciler(tmp_path, *arguments, "--no-workflows")
    assert without_workflows.returncode == 0, without_workflows.stderr
    assert not (tmp_path / ".github").exists()
