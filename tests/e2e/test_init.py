"""`init` with real brokers: it reads the cluster id, writes valid manifests, overwrites nothing, and
leaves all files or none.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from reconciler.companions.github import workflows
from reconciler.companions.sandbox.cluster import CLUSTER_ID
from reconciler.kafka import journal_topic
from tests.build import write_manifests
from tests.command import full_disk, reconciler
from tests.e2e.workspace import Workspace, leaders

ACTION = f"acme/reconciler@{'0123456789' * 4}"


def contents(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def init(space: Workspace, *options: str, code: int = 0) -> str:
    """Run `init` with the brokers, and with workflows unless an option leaves them out."""
    action = () if "--no-workflows" in options or "--action" in options else ("--action", ACTION)
    answer = reconciler(space.folder, "init", "--bootstrap-server", space.servers, *action, *options)
    assert answer.returncode == code, answer.stderr
    assert code == 0 or answer.stdout == ""
    return answer.stdout + answer.stderr


def test_init_writes_manifests_that_validate_accepts(space: Workspace) -> None:
    """The first manifests name the cluster of the brokers; `validate` accepts them without a
    warning.

    A second `init` adds the files of another cluster, and changes none of the first.
    """
    folder = space.folder
    assert "reconciler suggest" in init(space, "--name", "local")
    text = "".join(path.read_text() for path in sorted((folder / "manifests").rglob("*.yaml")))
    assert CLUSTER_ID in text
    assert f"uses: {ACTION} #" in (folder / ".github" / "workflows" / "plan.yml").read_text()
    assert (folder / workflows.DEPENDABOT).exists()
    assert "/plan.json" in (folder / ".gitignore").read_text().splitlines()
    assert "warning" not in space.run("validate")
    path = folder / "manifests" / "local" / "cluster.yaml"
    path.write_text(path.read_text().replace(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA"))
    files_before = contents(folder)
    init(space, "--name", "other")
    files_after = contents(folder)
    assert files_before.items() <= files_after.items()
    assert {path.parts[:2] for path in files_after.keys() - files_before.keys()} == {("manifests", "other")}
    space.run("validate")


def test_init_refuses_a_cluster_that_the_manifests_declare(space: Workspace) -> None:
    """The same name, or the cluster id under another name. Two of one id were once written, and
    `validate` refused both (M307).
    """
    init(space, "--name", "local")
    (space.folder / "manifests" / "local").rename(space.folder / "manifests" / "moved")
    files_before = contents(space.folder)
    declared, servers = "error: manifests/moved/cluster.yaml:2 declares", space.servers.replace(",", ", ")
    same_name = init(space, "--name", "local", code=64)
    assert f"{declared} Cluster/local already, so nothing was written: edit that file" in same_name
    same_id = init(space, "--name", "other", code=64)
    assert f"{declared} the cluster of {servers} (cluster id {CLUSTER_ID}) as Cluster/local already" in same_id
    assert contents(space.folder) == files_before


def test_init_removes_what_it_wrote_if_a_file_cannot_be_written(space: Workspace) -> None:
    """A file in place of a folder, and a disk that is full in the middle of a file: once, the first
    files stayed, and the next `init` was refused because of them.
    """
    (space.folder / ".github").write_text("not a folder\n")
    failed = init(space, code=1)
    assert "error: .github/" in failed
    assert "could not be written: " in failed
    assert "init has removed again what it wrote" in failed
    assert [path.name for path in space.folder.iterdir()] == [".github"]
    (space.folder / ".github").unlink()
    with full_disk(10_000):
        failed = init(space, code=1)
    assert "error: schemas/manifest.json could not be written: File too large" in failed
    assert list(space.folder.iterdir()) == []


def test_an_interrupted_init_names_the_topic_that_may_stay(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it left the topic with the words that nothing was written."""
    create = journal_topic.create_topic

    def create_interrupted(*arguments: Any) -> bool:
        is_new = create(*arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return is_new

    monkeypatch.setattr(journal_topic, "create_topic", create_interrupted)
    topic = f"_journal.{space.folder.name}"
    words = "--no-workflows", "--name", "local", "--journal-topic", topic
    answer = init(space, *words, code=130)
    assert f"the topic {topic} may have been created, and stays" in answer
    assert list(space.folder.iterdir()) == []
    monkeypatch.undo()
    init(space, *words)
    space.run("journal")


def test_init_leaves_no_folder_that_validate_refuses(space: Workspace) -> None:
    """A policy that names no cluster is valid beside one cluster, and invalid beside two (M304)."""
    write_manifests(space.folder, "b:1", leaders("'*'"), limits="")
    space.edit(CLUSTER_ID, "AAAAAAAAAAAAAAAAAAAAAA")
    files_before = contents(space.folder)
    refused = init(space, "--no-workflows", "--name", "second", code=1)
    assert "M304" in refused
    assert "with the new files, `reconciler validate` refuses manifests: " in refused
    assert "init has removed again what it wrote" in refused
    assert contents(space.folder) == files_before
    assert [path.name for path in space.folder.iterdir()] == ["manifests"]
    space.run("validate")


def test_files_of_the_user_stay(space: Workspace) -> None:
    """A manifest with other content is refused before anything is written.

    A .gitignore stays, and the lines that it lacks are named. Many repositories have a file of Dependabot,
    for packages of their own: init says what it should have, and writes all other files.
    """
    path = space.folder / "manifests" / "my-cluster" / "cluster.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("# edited by the user\n")
    refused = init(space, code=64)
    assert "cluster.yaml exists with other content, and init overwrites no file" in refused
    assert contents(space.folder) == {path.relative_to(space.folder): b"# edited by the user\n"}
    dependabot, ignored = space.folder / workflows.DEPENDABOT, space.folder / ".gitignore"
    dependabot.parent.mkdir()
    dependabot.write_text("version: 2\nupdates: []\n")
    ignored.write_text("plan.json\n.reconciler\n")
    done = init(space, "--name", "other")
    assert ".gitignore exists and stays: add the lines /plan.html /results.json /drift.json to it" in done
    assert "dependabot.yml exists and stays" in done
    assert ignored.read_text() == "plan.json\n.reconciler\n"
    assert dependabot.read_text() == "version: 2\nupdates: []\n"
    assert (space.folder / ".github" / "workflows" / "apply.yml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bootstrap-server", " , ", "--no-workflows"), "host:port"),
        (("--journal-topic", "a b", "--no-workflows"), "a b"),
        (("--name", "Not_a_name", "--no-workflows"), "Not_a_name"),
        (("--action", "acme/reconciler@main"), "OWNER/NAME@COMMIT"),
    ],
)
def test_init_writes_nothing_for_invalid_arguments(arguments: tuple[str, ...], message: str, space: Workspace) -> None:
    """Invalid arguments are found before the command connects, writes a file or creates a topic.

    A branch instead of a commit is one: the source of the workflows would change.
    """
    assert message in init(space, *arguments, code=64)
    assert list(space.folder.iterdir()) == []


def test_without_workflows_init_needs_no_source(space: Workspace) -> None:
    init(space, "--no-workflows")
    assert not (space.folder / ".github").exists()
