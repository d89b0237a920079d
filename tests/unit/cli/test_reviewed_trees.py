"""`converge --tree` acts on reviewed manifests only; a pause and `--operations` are understood
before any connection.
"""

import dataclasses
import subprocess
from pathlib import Path

import pytest

from reconciler import pipeline
from reconciler.cli.app import run
from reconciler.cli.apply import parse_operations
from reconciler.errors import ExitCode, JournalUnavailable
from reconciler.journal.file import JournalFile
from reconciler.journal.journal import ActionJournal
from reconciler.manifest import files
from reconciler.model.plan import ManifestFile, Source
from reconciler.operations import OPERATIONS, DeleteGroup, DeleteRecords, ElectLeader
from reconciler.pipeline import Run
from reconciler.scan.engine import Engine
from tests.golden.wording import mentions
from tests.strategies.examples import blocked, election, plan, plan_text, purge, removal

CLUSTER = """\
apiVersion: reconciler/v1
kind: Cluster
metadata: {name: prod}
spec: {clusterId: id-of-prod-000000000, bootstrapServers: ["127.0.0.1:1"]}
"""
POLICY = """\
apiVersion: reconciler/v1
kind: LeaderPolicy
metadata: {name: all}
mode: continuous
spec: {topics: ["*"]}
"""
UNREACHABLE = ("--timeout", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the manifests in a checkout with a commit."""
    folder = tmp_path / "manifests"
    (folder / "prod").mkdir(parents=True)
    (folder / "prod" / "cluster.yaml").write_text(CLUSTER)
    (folder / "prod" / "policy.yaml").write_text(POLICY)
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / ".gitignore").write_text(".reconciler/")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return folder


def git(folder: Path, *words: str) -> str:
    result = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True, timeout=30)
    return result.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x")


def tree_of(folder: Path) -> str:
    return git(folder.parent, "rev-parse", f"HEAD:{folder.name}")


def record(folder: Path, tree: str) -> None:
    """Record a tree as `apply --reviewed-tree` does before its first request."""
    manifests = files.load([folder], now_ms=0).for_cluster("prod")
    run = Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=lambda _line: None)
    run.open_journal().record_review(tree, run_id="run-1", at_ms=pipeline.wall_clock_ms())


def converge(folder: Path, tree: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run(["converge", str(folder), "--tree", tree, *UNREACHABLE])
    return code, capsys.readouterr().err


def test_a_tree_that_no_apply_recorded_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the tree, the journal and what records it. Nothing connects."""
    tree = tree_of(folder)
    code, error = converge(folder, tree, capsys)
    assert code == ExitCode.PLAN_UNUSABLE
    assert mentions(error, "never reviewed", tree, "Cluster/prod", f"apply --reviewed-tree {tree}", "a file")
    assert "connecting" not in error


def test_a_recorded_tree_goes_on_to_the_brokers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The test above could otherwise pass for another reason."""
    tree = tree_of(folder)
    record(folder, tree)
    code, error = converge(folder, tree, capsys)
    assert code == ExitCode.ERROR
    assert "never reviewed" not in error
    assert "127.0.0.1:1" in error


def test_a_merge_needs_its_own_review(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any change of any manifest is another tree.

    The former tree stays reviewed, as after a revert.
    """
    before = tree_of(folder)
    record(folder, before)
    (folder / "prod" / "policy.yaml").write_text(POLICY.replace('"*"', '"a*"'))
    commit(folder.parent)
    assert converge(folder, tree_of(folder), capsys)[0] == ExitCode.PLAN_UNUSABLE
    git(folder.parent, "checkout", "-q", "HEAD~", "--", "manifests")
    commit(folder.parent)
    assert converge(folder, tree_of(folder), capsys)[0] == ExitCode.ERROR
    assert tree_of(folder) == before


def changed(folder: Path) -> str:
    (folder / "prod" / "policy.yaml").write_text(POLICY + "# more\n")
    return "policy.yaml differs"


def hidden_change(folder: Path) -> str:
    """git status shows no change of such a file."""
    git(folder, "update-index", "--assume-unchanged", "prod/policy.yaml")
    return changed(folder)


def added(folder: Path) -> str:
    (folder / "prod" / "more.yml").write_text(POLICY.replace("all", "more"))
    return "more.yml differs"


def ignored(folder: Path) -> str:
    (folder.parent / ".git" / "info").mkdir(exist_ok=True)
    (folder.parent / ".git" / "info" / "exclude").write_text("*.yml\n")
    return added(folder)


def removed(folder: Path) -> str:
    (folder / "prod" / "policy.yaml").unlink()
    return "prod/policy.yaml of it is missing"


@pytest.mark.parametrize("change", [changed, hidden_change, added, ignored, removed], ids=lambda c: c.__name__)
@pytest.mark.parametrize("command", ["converge", "apply"])
def test_manifests_that_are_not_the_tree_are_refused(
    folder: Path, command: str, change: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone with uncommitted changes names its HEAD, and would act on what no review has shown.

    `apply` would record a tree that it has not loaded.
    """
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    tree = tree_of(folder)
    record(folder, tree)
    words = change(folder)  # type: ignore[operator]
    option = {"converge": "--tree", "apply": "--reviewed-tree"}[command]
    assert run([command, str(folder), option, tree, *UNREACHABLE]) == ExitCode.PLAN_UNUSABLE
    assert mentions(capsys.readouterr().err, tree, words, "nothing was done")


@pytest.mark.parametrize("difference", ["content", "one file less", "one file more"])
def test_the_review_of_a_plan_is_none_of_another_tree(
    folder: Path, difference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan of one tree would otherwise record another one, which `converge` then acts on."""
    cluster_file, policy_file = files.load([folder], now_ms=0).for_cluster("prod").files
    then = {
        "content": (cluster_file, dataclasses.replace(policy_file, sha256="0" * 64)),
        "one file less": (cluster_file,),
        "one file more": (cluster_file, policy_file, ManifestFile(path="old/policy.yaml", sha256="0" * 64)),
    }[difference]

    def apply(*manifests: ManifestFile) -> tuple[int, str]:
        saved = plan(
            cluster_id="id-of-prod-000000000", expires_at_ms=253_000_000_000_000, source=Source(manifests=manifests)
        )
        (tmp_path / "plan.json").write_text(plan_text(saved))
        words = [str(tmp_path / "plan.json"), str(folder), "--reviewed-tree", tree_of(folder), *UNREACHABLE]
        return run(["apply", *words]), capsys.readouterr().err

    code, error = apply(*then)
    assert code == ExitCode.PLAN_UNUSABLE
    assert mentions(error, "policy.yaml", "not what the plan was calculated from", "nothing was done")
    code, error = apply(cluster_file, policy_file)
    assert code == ExitCode.ERROR
    assert "127.0.0.1:1" in error


@pytest.mark.parametrize(("command", "option"), [("converge", "--tree"), ("apply", "--reviewed-tree")])
def test_a_link_out_of_the_tree_is_read_by_nothing(
    folder: Path, command: str, option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git tracks the link and not what it leads to, so no review has seen that."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    (folder.parent / "other.yaml").write_text(POLICY.replace("all", "more"))
    (folder / "more.yaml").symlink_to("../other.yaml")
    commit(folder.parent)
    assert run([command, str(folder), option, tree_of(folder), *UNREACHABLE]) == ExitCode.ERROR
    assert "M007" in capsys.readouterr().err


def test_other_files_of_the_checkout_do_not_matter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The journal of the Cluster lies in the folder of the manifests."""
    tree = tree_of(folder)
    record(folder, tree)
    (folder / "notes.txt").write_text("hello")
    (folder.parent / "README.md").write_text("changed")
    assert (folder / "prod" / ".reconciler" / "prod.jsonl").exists()
    assert converge(folder, tree, capsys)[0] == ExitCode.ERROR


@pytest.mark.parametrize("paths", [["prod/cluster.yaml"], ["prod", "prod"]])
def test_a_tree_is_that_of_one_folder(folder: Path, paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(folder / path) for path in paths]
    assert run(["converge", *words, "--tree", "a" * 40, *UNREACHABLE]) == ExitCode.USAGE
    assert "one folder" in capsys.readouterr().err


def test_a_folder_outside_of_git_has_no_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    code, error = converge(tmp_path, "a" * 40, capsys)
    assert code == ExitCode.PLAN_UNUSABLE
    assert "in no git checkout that holds this tree" in error


@pytest.fixture(params=["1", "true"])
def paused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RECONCILER_PAUSED", request.param)
    return request.param


@pytest.mark.parametrize("words", [["converge"], ["converge", "-q", "--tree", "a" * 40], ["watch"]])
def test_a_pause_stops_everything_without_a_review(
    words: list[str], paused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the manifests are read: they may be the reason for the pause."""
    (tmp_path / "broken.yaml").write_text("{")
    assert run([*words, str(tmp_path)]) == ExitCode.DONE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert mentions(shown.err, "paused", "RECONCILER_PAUSED", words[0], "does nothing")


@pytest.mark.parametrize("value", ["", "0"])
def test_without_a_pause_the_manifests_are_read(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_PAUSED", value)
    (tmp_path / "broken.yaml").write_text("{")
    for command in ("converge", "watch"):
        assert run([command, str(tmp_path)]) == ExitCode.ERROR


def test_a_pause_does_not_stop_a_reviewed_apply(paused: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The way out of an incident may be a reviewed plan."""
    assert run(["apply", "missing.json"]) == ExitCode.PLAN_UNUSABLE
    assert "missing.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "word"),
    [
        ("", "empty"),
        ("delete_records", "delete_records"),
        ("DeleteRecords,", "an empty name"),
        ("DeleteRecords;ElectLeaders", "DeleteRecords;ElectLeaders"),
        ("CreateTopics", "CreateTopics"),
    ],
)
def test_an_unknown_operation_is_refused_with_the_list(
    names: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty list, from an unset variable, would otherwise mean all of them, or none."""
    assert run(["apply", "missing.json", "--operations", names]) == ExitCode.USAGE
    assert mentions(capsys.readouterr().err, word, "DeleteRecords", "DeleteGroups", "ElectLeaders")


def test_operations_have_the_names_of_kafkas_protocol() -> None:
    assert parse_operations("DeleteRecords, DeleteGroups,DeleteRecords") == (DeleteRecords, DeleteGroup)
    assert set(parse_operations(",".join(operation.API[0] for operation in OPERATIONS))) == set(OPERATIONS)


def test_deletions_are_checked_with_the_removals_of_their_plan() -> None:
    """A purge that accepts a group must know that the plan has removed it, and no other client.

    An election asks for no group, so its job needs neither Spark nor the right to read groups.
    """
    reviewed = plan(purge(), removal(), election(), blocked())
    part = pipeline._rechecked_part(reviewed, (DeleteRecords,))
    assert [type(action) for action in part.actions] == [DeleteGroup, DeleteRecords]
    assert [type(action) for action in pipeline._rechecked_part(reviewed, (ElectLeader,)).actions] == [ElectLeader]
    assert pipeline._rechecked_part(reviewed, OPERATIONS).actions == reviewed.actions


@pytest.mark.parametrize("names", ["ElectLeaders", "DeleteRecords,ElectLeaders", "DeleteGroups"])
def test_a_review_of_a_part_records_no_tree(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The approvers of elections would otherwise release the deletions of continuous policies."""
    assert run(["apply", "missing.json", "--operations", names, "--reviewed-tree", "0" * 40]) == ExitCode.USAGE
    assert mentions(capsys.readouterr().err, "--reviewed-tree", "--operations leaves out", "continuous")


@pytest.mark.parametrize("linked", [".reconciler", ".reconciler/prod.jsonl"])
def test_a_repository_holds_no_review(linked: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link in the tree to a journal beside it: the tree's id does not depend on that journal."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    link = folder / "prod" / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere if linked == ".reconciler" else elsewhere / "prod.jsonl")
    (folder.parent / ".gitignore").write_text("")
    commit(folder.parent)
    tree = tree_of(folder)
    manifests = files.load([folder], now_ms=0).for_cluster("prod")
    store = ActionJournal(JournalFile(elsewhere / "prod.jsonl"), who="a")
    store.record_review(tree, run_id="run-1", at_ms=pipeline.wall_clock_ms())
    code, error = converge(folder, tree, capsys)
    assert code == JournalUnavailable.exit_code
    assert mentions(error, str(link), "is a link")
    with pytest.raises(JournalUnavailable, match="is a link"):
        Run(manifests=manifests, engine=Engine(), timeout_s=1, progress=print).open_journal().record_review(
            tree, run_id="run-2", at_ms=pipeline.wall_clock_ms()
        )
