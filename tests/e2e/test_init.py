"""`init` with real brokers: it reads the cluster id, writes valid manifests, overwrites nothing, and
leaves all files or none.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.companions.github import workflows
from reconciler.companions.sandbox.cluster import CLUSTER_ID, SandboxCluster
from tests.command import reconciler

pytestmark = pytest.mark.brokers

ACTION = f"acme/reconciler@{'0123456789' * 4}"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_init_writes_manifests_that_validate_accepts(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The first manifests name the cluster of the brokers; `validate` accepts them without a
    warning.

    A second `init` adds the files of another cluster, and changes none of the first.
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--action", ACTION)
    first_init = reconciler(tmp_path, *arguments, "--name", "local")
    assert first_init.returncode == 0, first_init.stderr
    assert "reconciler suggest" in first_init.stderr
    text = "".join(path.read_text() for path in sorted((tmp_path / "manifests").rglob("*.yaml")))
    assert CLUSTER_ID in text
    workflow = (tmp_path / ".github" / "workflows" / "plan.yml").read_text()
    assert f"uses: {ACTION} #" in workflow
    assert (tmp_path / workflows.DEPENDABOT).exists()
    assert "/plan.json" in (tmp_path / ".gitignore").read_text().splitlines()
    validation = reconciler(tmp_path, "validate")
    assert validation.returncode == 0, validation.stderr + validation.stdout
    assert "warning" not in validation.stdout
    path = tmp_path / "manifests" / "local" / "cluster.yaml"
    path.write_text(path.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    files_before = contents(tmp_path)
    other_cluster_init = reconciler(tmp_path, *arguments, "--name", "other")
    assert other_cluster_init.returncode == 0, other_cluster_init.stderr
    files_after = contents(tmp_path)
    assert files_before.items() <= files_after.items()
    assert {path.parts[:2] for path in files_after.keys() - files_before.keys()} == {("manifests", "other")}
    assert reconciler(tmp_path, "validate").returncode == 0


def test_init_refuses_a_cluster_that_the_manifests_declare(cluster: SandboxCluster, tmp_path: Path) -> None:
    """The same name, or the cluster id under another name. Two of one id were once written, and
    `validate` refused both (M307).
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--action", ACTION)
    assert reconciler(tmp_path, *arguments, "--name", "local").returncode == 0
    (tmp_path / "manifests" / "local").rename(tmp_path / "manifests" / "moved")
    files_before = contents(tmp_path)
    same_name = reconciler(tmp_path, *arguments, "--name", "local")
    assert same_name.returncode == 64
    declared = "error: manifests/moved/cluster.yaml:2 declares"
    assert f"{declared} Cluster/local already, so nothing was written: edit that file" in same_name.stderr
    same_id = reconciler(tmp_path, *arguments, "--name", "other")
    assert same_id.returncode == 64
    servers = cluster.bootstrap_servers.replace(",", ", ")
    assert f"{declared} the cluster of {servers} (cluster id {CLUSTER_ID}) as Cluster/local already" in same_id.stderr
    assert contents(tmp_path) == files_before


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let this process write no larger file, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_init_removes_what_it_wrote_if_a_file_cannot_be_written(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A file in place of a folder, and a disk that is full in the middle of a file: once, the first
    files stayed, and the next `init` was refused because of them.
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--action", ACTION)
    (tmp_path / ".github").write_text("not a folder\n")
    failed = reconciler(tmp_path, *arguments)
    assert failed.returncode == 1
    assert "error: .github/" in failed.stderr
    assert "could not be written: " in failed.stderr
    assert "init has removed again what it wrote" in failed.stderr
    assert failed.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == [".github"]
    (tmp_path / ".github").unlink()
    with largest_file(10_000):
        failed = reconciler(tmp_path, *arguments)
    assert failed.returncode == 1
    assert "error: schemas/manifest.json could not be written: File too large" in failed.stderr
    assert list(tmp_path.iterdir()) == []


def test_init_leaves_no_folder_that_validate_refuses(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A policy that names no cluster is valid beside one cluster, and invalid beside two (M304)."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "own.yaml").write_text(
        """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {name: own}
spec: {clusterId: AAAAAAAAAAAAAAAAAAAAAA, bootstrapServers: ["b:1"]}
---
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {name: all}
spec: {topics: ["*"]}
"""
    )
    files_before = contents(tmp_path)
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--no-workflows", "--name", "second")
    refused = reconciler(tmp_path, *arguments)
    assert refused.returncode == 1
    assert "M304" in refused.stderr
    assert "with the new files, `reconciler validate` refuses manifests: " in refused.stderr
    assert "init has removed again what it wrote" in refused.stderr
    assert contents(tmp_path) == files_before
    assert [path.name for path in tmp_path.iterdir()] == ["manifests"]
    assert reconciler(tmp_path, "validate").returncode == 0


def test_a_file_of_the_user_stays(cluster: SandboxCluster, tmp_path: Path) -> None:
    """A manifest with other content is refused before anything is written. A .gitignore stays, and
    the lines that it lacks are named.
    """
    arguments = ("init", "--bootstrap-server", cluster.bootstrap_servers, "--no-workflows")
    path = tmp_path / "manifests" / "my-cluster" / "cluster.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# edited by the user\n")
    refused = reconciler(tmp_path, *arguments)
    assert refused.returncode == 64
    assert "cluster.yaml exists with other content, and init overwrites no file" in refused.stderr
    assert contents(tmp_path) == {path.relative_to(tmp_path): b"# edited by the user\n"}
    (tmp_path / ".gitignore").write_text("plan.json\n.reconciler\n")
    done = reconciler(tmp_path, *arguments, "--name", "other")
    assert done.returncode == 0, done.stderr
    assert ".gitignore exists and stays: add the lines /plan.html /results.json /drift.json to it" in done.stderr
    assert (tmp_path / ".gitignore").read_text() == "plan.json\n.reconciler\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bootstrap-server", " , "), "host:port"),
        (("--journal-topic", "a b"), "a b"),
        (("--name", "Not_a_name"), "Not_a_name"),
    ],
)
def test_init_writes_nothing_for_invalid_arguments(
    arguments: tuple[str, ...], message: str, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Invalid arguments are found before the command connects, writes a file or creates a topic."""
    refused = reconciler(
        tmp_path, "init", "--bootstrap-server", cluster.bootstrap_servers, "--no-workflows", *arguments
    )
    assert refused.returncode == 64, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_dependabot_stays(cluster: SandboxCluster, tmp_path: Path) -> None:
    """Many repositories have one, for packages of their own: init says what it should have, and
    writes all other files.
    """
    (tmp_path / ".github").mkdir()
    (tmp_path / workflows.DEPENDABOT).write_text("version: 2\nupdates: []\n")
    done = reconciler(tmp_path, "init", "--bootstrap-server", cluster.bootstrap_servers, "--action", ACTION)
    assert done.returncode == 0, done.stderr
    assert "dependabot.yml exists and stays" in done.stderr
    assert (tmp_path / workflows.DEPENDABOT).read_text() == "version: 2\nupdates: []\n"
    assert (tmp_path / ".github" / "workflows" / "apply.yml").exists()


def test_init_writes_nothing_if_the_source_of_the_workflows_is_unknown(cluster: SandboxCluster, tmp_path: Path) -> None:
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
