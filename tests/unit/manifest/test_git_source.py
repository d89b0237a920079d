"""The commit of the manifests in a plan, and the author in the journal, with a real git."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.manifest import files
from reconciler.manifest import git as manifest_git
from reconciler.model.plan import ManifestFile, Source
from tests.build import cluster_manifest, commit, git, head, program
from tests.golden.wording import mentions

MANIFEST, OTHER = cluster_manifest("127.0.0.1:9092"), f'{head("LeaderPolicy", "leaders")}\nspec: {{topics: ["*"]}}\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository with a manifest, another file, and a manifest that git ignores."""
    folder = tmp_path / "checkout"
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "cluster.yaml").write_text(MANIFEST)
    (folder / "manifests" / "README.md").write_text("hello")
    (folder / ".gitignore").write_text("secret.yaml")
    git(folder, "init", "-q")
    commit(folder)
    return folder


def loaded(*paths: Path) -> tuple[ManifestFile, ...]:
    return files.load(paths, now_ms=0).for_cluster("local").files


def source_of(*paths: Path) -> tuple[str | None, bool]:
    source = manifest_git.git_source(loaded(*paths), paths)
    return source.commit, source.dirty


def is_dirty(checkout: Path, *more: Path) -> bool:
    """Whether manifests of the checkout, and at other paths, differ from its commit, of which the source is."""
    commit, dirty = source_of(checkout / "manifests", *more)
    assert commit == git(checkout, "rev-parse", "HEAD")
    return dirty


def write(file: Path, text: str = OTHER) -> Path:
    """Write a manifest, in a folder that may be new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_clean_checkout(checkout: Path) -> None:
    """The working directory and files that are not manifests do not matter."""
    (checkout / "manifests" / "README.md").write_text("changed")
    assert not is_dirty(checkout)


@pytest.mark.parametrize(("name", "author"), [(b"Ada", "Ada"), (b"Andr\xe9", "André")], ids=["text", "bytes"])
def test_the_author_of_the_commit_is_part_of_the_source(checkout: Path, name: bytes, author: str) -> None:
    """Whatever encoding a name was typed in, a plan file is UTF-8."""
    words: list[str | bytes] = ["-c", b"user.name=" + name, "-c", "user.email=a@example.org"]
    command = ["git", "-C", checkout, *words, "commit", "-q", "--amend", "--reset-author", "-m", "x"]
    subprocess.run(command, check=True, timeout=30)
    assert manifest_git.git_source(loaded(checkout / "manifests")).author == author


def _edit(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(MANIFEST + "# more\n")


def _add(folder: Path) -> None:
    (folder / "more.yaml").write_text(OTHER)


def _ignored(folder: Path) -> None:
    (folder / "secret.yaml").write_text(OTHER)


def _remove(folder: Path) -> None:
    """Remove a file that the commit has."""
    _add(folder)
    commit(folder)
    (folder / "more.yaml").unlink()


def _edit_unseen(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "cluster.yaml")
    _edit(folder)


def _edit_unwatched(folder: Path) -> None:
    """Let a program that git asks for changes miss one."""
    watcher = program(folder.parent / ".git" / "watcher", "printf 'token\\0'")
    git(folder, "config", "core.fsmonitor", str(watcher))
    git(folder, "update-index", "--fsmonitor")
    git(folder, "status")  # from now on, git asks
    _edit(folder)


def _edit_with_the_same_mtime(folder: Path) -> None:
    """Change a file as a copy with its times does, where git is told to compare sizes and mtimes only."""
    git(folder, "config", "core.trustctime", "false")
    git(folder, "config", "core.checkStat", "minimal")
    file = folder / "cluster.yaml"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    git(folder, "update-index", "--refresh")
    time.sleep(1.1)  # git compares the times of inodes by seconds
    file.write_text(MANIFEST[:-1] + "#")
    os.utime(file, (1_000_000_000, 1_000_000_000))


def _replace_the_commit(folder: Path) -> None:
    """Let git show the files of a later commit under the name of the first, as `git replace` does on one machine."""
    first = git(folder, "rev-parse", "HEAD")
    _edit(folder)
    commit(folder)
    git(folder, "replace", first, "HEAD")
    git(folder, "checkout", "-q", first)


def _leave_out(folder: Path) -> None:
    """Let a sparse checkout leave a file out that the commit has."""
    _remove(folder)
    git(folder, "update-index", "--skip-worktree", "more.yaml")


def _ignored_glob(folder: Path) -> None:
    """Ignore a file whose name, as a glob, names one that git has."""
    (folder.parent / ".git" / "info" / "exclude").write_text("c\\*.yaml")
    (folder / "c*.yaml").write_text(OTHER)


@pytest.mark.parametrize(
    "change",
    [
        _edit,
        _add,
        _ignored,
        _ignored_glob,
        _remove,
        _edit_unseen,
        _edit_unwatched,
        _edit_with_the_same_mtime,
        _replace_the_commit,
        _leave_out,
    ],
)
@pytest.mark.parametrize("name", ["checkout", "check[out]*\\?"])
def test_differences_to_the_commit_are_dirty(checkout: Path, name: str, change: Callable[[Path], None]) -> None:
    """Changed, new, ignored or removed files, and those that git is told not to look at.

    A removed file was not seen in a folder with a bracket in its name.
    """
    checkout = checkout.rename(checkout.with_name(name))
    change(checkout / "manifests")
    assert is_dirty(checkout)


def _stored_in_another_encoding(folder: Path) -> None:
    """Let a checkout have other text than its commit, which git calls the same."""
    write(folder / "more.yaml", OTHER + "# \u00c3\u00a9\n")
    (folder / ".gitattributes").write_text("more.yaml working-tree-encoding=ISO-8859-1\n")
    (folder / "more.yaml").write_bytes((OTHER + "# \u00c3\u00a9\n").encode("latin-1"))


def _filtered(folder: Path) -> None:
    """Let git store other text than the file has."""
    (folder / ".gitattributes").write_text("more.yaml filter=x\n")
    git(folder, "config", "filter.x.clean", "grep -v keep")
    write(folder / "more.yaml", OTHER + "# keep\n")


@pytest.mark.parametrize("change", [_stored_in_another_encoding, _filtered])
def test_what_git_changes_on_its_way_into_a_commit_is_dirty(checkout: Path, change: Callable[[Path], None]) -> None:
    """Git calls these files unchanged, and nobody who reads the commit reads what was planned."""
    change(checkout / "manifests")
    commit(checkout)
    assert git(checkout, "status", "--porcelain") == ""
    assert is_dirty(checkout)


def test_other_line_ends_are_no_change(checkout: Path) -> None:
    """`core.autocrlf` writes them into the checkout, and not into the commit."""
    git(checkout, "config", "core.autocrlf", "true")
    manifest = checkout / "manifests" / "cluster.yaml"
    manifest.unlink()
    git(checkout, "checkout", "-q", "--", ".")
    assert b"\r\n" in manifest.read_bytes()
    assert not is_dirty(checkout)
    manifest.write_bytes(manifest.read_bytes() + b"# more\r\n")
    assert is_dirty(checkout)


def test_manifests_at_the_top_of_a_checkout(tmp_path: Path) -> None:
    manifest = write(tmp_path / "cluster.yaml", MANIFEST)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    assert source_of(tmp_path) == (git(tmp_path, "rev-parse", "HEAD"), False)
    write(manifest, MANIFEST + "# more\n")
    assert source_of(tmp_path)[1]


@pytest.fixture
def trapped(checkout: Path, tmp_path: Path) -> Path:
    """Return a clone of a commit that has a repository of its own among its files, whose settings run a program."""
    folder, ran = checkout / "manifests", tmp_path / "ran"
    for path, text in {
        "HEAD": "ref: refs/heads/main\n",
        "config": f'[core]\nrepositoryformatversion = 0\nworktree = ..\n[filter "x"]\nclean = "touch {ran}; cat"\n',
        ".gitattributes": "*.yaml filter=x\n",
        "objects/kept": "",
        "refs/heads/kept": "",
    }.items():
        write(folder / path, text)
    inner = [f"--git-dir={folder}", f"--work-tree={checkout}"]
    git(checkout, *inner, "add", "manifests/cluster.yaml")
    git(checkout, *inner, "-c", "user.name=forged", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    ran.unlink()
    git(checkout, "add", "-A", "--force")
    commit(checkout)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(checkout), str(clone))
    assert not ran.exists()
    git(clone / "manifests", "status")
    assert ran.exists(), "git itself runs it there"
    ran.unlink()
    return clone


def test_a_repository_among_the_files_of_a_commit_is_not_asked(trapped: Path) -> None:
    """A pull request could run a program with the secrets of the plan, and choose the commit and its author."""
    manifests = trapped / "manifests"
    source = manifest_git.git_source(loaded(manifests), [manifests])
    assert (source.commit, source.dirty) == (git(trapped, "rev-parse", "HEAD"), False)
    assert source.author != "forged"
    assert manifest_git.git_sources(loaded(manifests), [manifests]) == [source]
    assert manifest_git.find_reason_to_wait([manifests], []) == ""
    assert not manifest_git.is_outside_of_git(manifests / "cluster.yaml"), "git has delivered it"
    assert not (trapped.parent / "ran").exists()


def test_no_program_of_the_checkout_runs(checkout: Path, tmp_path: Path) -> None:
    """Its own settings may come with it, as in an archive of the whole folder."""
    ran = tmp_path / "ran"
    (checkout / "manifests" / ".gitattributes").write_text("*.yaml filter=x diff=x\n")
    commit(checkout)
    run = str(program(tmp_path / "trap", f"touch {ran}; cat"))
    for name in (
        "filter.x.clean",
        "filter.x.process",
        "diff.x.textconv",
        "core.fsmonitor",
        "core.pager",
        "gpg.program",
    ):
        git(checkout, "config", name, run)
    git(checkout, "config", "log.showSignature", "true")
    os.utime(checkout / "manifests" / "cluster.yaml", (1_000_000_000, 1_000_000_000))
    assert source_of(checkout / "manifests")[1] is False
    assert manifest_git.find_reason_to_wait([checkout / "manifests"], []) == ""
    assert not ran.exists()


def test_what_a_partial_clone_lacks_is_not_fetched(checkout: Path, tmp_path: Path) -> None:
    """The settings of the checkout name the program that would bring it."""
    ran = tmp_path / "ran"
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(checkout),
        "remote.origin.uploadpack": str(program(tmp_path / "trap", f"touch {ran}")),
    }.items():
        git(checkout, "config", name, value)
    tree = git(checkout, "rev-parse", "HEAD:manifests")
    (checkout / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert source_of(checkout / "manifests")[1]
    assert not ran.exists()


def _hidden(folder: Path) -> Path:
    write(folder / ".more" / "leaders.yaml")
    return folder


def _beside(folder: Path) -> Path:
    write(folder / "leaders.yaml")
    return folder / "cluster.yaml"


@pytest.mark.parametrize("add", [_hidden, _beside])
def test_what_is_not_read_does_not_matter(checkout: Path, add: Callable[[Path], Path]) -> None:
    """A filter of git encrypts it, so that it has other bytes for ever."""
    root = add(checkout / "manifests")
    commit(checkout)
    for file in root.parent.rglob("leaders.yaml"):
        write(file, OTHER + "# decrypted\n")
    assert source_of(root) == (git(checkout, "rev-parse", "HEAD"), False)


def test_a_link_in_place_of_a_folder_is_dirty(checkout: Path) -> None:
    """Both folders hold the same file, and it is read once only."""
    folder = checkout / "manifests"
    for name in "ab":
        write(folder / name / "leaders.yaml")
    commit(checkout)
    shutil.rmtree(folder / "b")
    (folder / "b").symlink_to("a")
    assert is_dirty(checkout)


def test_a_file_of_a_submodule_behind_a_link_is_in_the_submodule(checkout: Path, tmp_path: Path) -> None:
    """The link is of the checkout around it: the question about the submodule was asked again and again."""
    team = write(tmp_path / "team" / "floor.yaml").parent
    git(team, "init", "-q")
    commit(team)
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(team), "team")
    (checkout / "manifests" / "floor.yaml").symlink_to("../team/floor.yaml")
    commit(checkout)
    assert not is_dirty(checkout, checkout / "team")
    write(checkout / "team" / "floor.yaml", OTHER + "# more\n")
    assert is_dirty(checkout, checkout / "team")


def test_manifests_outside_of_the_checkout_have_no_commit(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in a repository says nothing about files outside of it."""
    write(tmp_path / "aside" / "cluster.yaml", MANIFEST)
    monkeypatch.chdir(checkout)
    assert source_of(tmp_path / "aside") == (None, False)


def test_manifests_of_two_places_have_no_common_commit(checkout: Path, tmp_path: Path) -> None:
    for name in ("aside", "zoo"):  # named before the checkout, or after it
        write(tmp_path / name / "policy.yaml")
        commit, dirty = source_of(checkout / "manifests", tmp_path / name)
        assert commit is None or dirty


def test_a_link_is_dirty_if_its_target_is(checkout: Path) -> None:
    """Git stores the path of a link; the target must be in the commit, too."""
    target = write(checkout / "shared" / "leaders.yaml")
    (checkout / "manifests" / "leaders.yaml").symlink_to("../shared/leaders.yaml")
    commit(checkout)
    assert not is_dirty(checkout, target)
    write(target, OTHER + "# more\n")
    assert is_dirty(checkout, target)


def test_a_chain_of_links_is_dirty_if_one_link_is(checkout: Path) -> None:
    """`cur` leads elsewhere than in the commit; a target outside of the checkout is in none."""
    folder = checkout / "manifests"
    link, current = folder / "leaders.yaml", folder / ".cur"
    link.symlink_to(".cur/leaders.yaml")
    for version in (".v1", ".v2"):
        write(folder / version / "leaders.yaml")
    current.symlink_to(".v1")
    commit(checkout)
    for version, differs in ((".v2", True), (".v1", False)):
        current.unlink()
        current.symlink_to(version)
        assert is_dirty(checkout) is differs
    outside = write(checkout.parent / "leaders.yaml")
    link.unlink()
    link.symlink_to(outside)
    commit(checkout)
    assert is_dirty(checkout, outside)


def test_a_checkout_behind_a_link_is_clean(checkout: Path, tmp_path: Path) -> None:
    """The path to the folder does not matter."""
    (tmp_path / "link").symlink_to(checkout)
    assert source_of(tmp_path / "link" / "manifests")[1] is False


def test_a_refusal_of_git_is_passed_on(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan of a checkout that another user owns had no commit, and nothing said why."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert source_of(checkout / "manifests") == (None, False)
    (record,) = caplog.records
    assert "dubious ownership" in record.getMessage()
    assert str(checkout) in record.getMessage()


@pytest.mark.parametrize("words", [(), ("init", "-q")], ids=["no repository", "no commit yet"])
def test_without_a_commit_git_refuses_nothing(
    tmp_path: Path, words: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Manifests outside of git, and a new repository, are not reasons for a warning."""
    (tmp_path / "cluster.yaml").write_text(MANIFEST)
    if words:
        git(tmp_path, *words)
    assert source_of(tmp_path) == (None, False)
    assert caplog.records == []


def test_a_git_file_of_null_characters_is_a_refusal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A crash of the machine leaves such files; in a submodule or a worktree, `.git` is one."""
    (tmp_path / "cluster.yaml").write_text(MANIFEST)
    (tmp_path / ".git").write_bytes(bytes(40))
    assert source_of(tmp_path) == (None, False)
    assert mentions(caplog.text, "invalid gitfile format", "see git status")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_ICASE_PATHSPECS"])
def test_variables_of_a_hook_name_no_other_repository(
    checkout: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan in a hook of another repository once named the commit of that one."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "other")
    expected = git(checkout, "rev-parse", "HEAD"), False
    places = {"GIT_DIR": other / ".git", "GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / ".git" / "index"}
    monkeypatch.setenv(name, str(places.get(name, 1)))
    assert source_of(checkout / "manifests") == expected


def test_a_removed_folder_of_manifests_is_a_change(checkout: Path) -> None:
    """A loop once took a checkout without a folder that its commit has for that commit."""
    guards = write(checkout / "manifests" / "guards" / "floor.yaml").parent
    commit(checkout)
    assert not is_dirty(checkout)
    shutil.rmtree(guards)
    assert is_dirty(checkout)


@pytest.mark.parametrize("is_deeper", [False, True])
def test_the_commit_is_of_the_checkout_around_a_submodule(is_deeper: bool, checkout: Path, tmp_path: Path) -> None:
    """The first file by name was in the submodule, and plans named its commit."""
    team = write(tmp_path / "team" / "floor.yaml").parent
    git(team, "init", "-q")
    commit(team)
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(team), "manifests/a-team")
    if is_deeper:
        (checkout / "manifests" / "prod" / "eu").mkdir(parents=True)
        git(checkout, "mv", "manifests/cluster.yaml", "manifests/prod/eu")
    commit(checkout)
    assert not is_dirty(checkout)  # and of this commit


def test_a_submodule_beside_the_manifests_does_not_matter(checkout: Path, tmp_path: Path) -> None:
    """A link at the top of the checkout leads to the manifests, and to nothing else of it."""
    library = write(tmp_path / "library" / "floor.yaml").parent
    git(library, "init", "-q")
    commit(library)
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "library")
    (checkout / "current").symlink_to("manifests")
    commit(checkout)
    _absent(checkout / "library")
    assert source_of(checkout / "current") == (git(checkout, "rev-parse", "HEAD"), False)


def _absent(submodule: Path) -> None:
    """Take a submodule away, as a clone without submodules leaves it out."""
    git(submodule.parent, "submodule", "deinit", "-q", "--force", submodule.name)


def _behind(submodule: Path) -> None:
    """Leave a submodule at the commit before, as a pull does."""
    git(submodule, "-c", "user.name=a", "commit", "-q", "--allow-empty", "-m", "x")


def _staged(submodule: Path) -> None:
    """Put a later commit of a submodule into the index, and not into a commit."""
    _behind(submodule)
    git(submodule.parent, "add", submodule.name)


def _removed(submodule: Path) -> None:
    git(submodule.parent, "rm", "-q", "--force", submodule.name)


def _emptied(submodule: Path) -> None:
    (submodule / "floor.yaml").unlink()


@pytest.mark.parametrize("change", [_absent, _behind, _staged, _removed, _emptied])
def test_a_submodule_is_as_the_commit_around_it_says(
    change: Callable[[Path], None], checkout: Path, tmp_path: Path
) -> None:
    """A plan without the guards of a submodule named the commit that has them, and no change."""
    team = write(tmp_path / "team" / "floor.yaml").parent
    git(team, "init", "-q")
    commit(team)
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(team), "manifests/team")
    commit(checkout)
    change(checkout / "manifests" / "team")
    assert is_dirty(checkout)


def test_the_author_is_the_name_alone(checkout: Path, tmp_path: Path) -> None:
    """`git log` may be configured to check signatures, and the author began with `No signature`."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    for setting in ("gpg.format=ssh", f"user.signingkey={key}.pub", "log.showSignature=true"):
        git(checkout, "config", *setting.split("="))
    git(checkout, "commit", "-q", "--allow-empty", "-S", "-m", "x")
    assert manifest_git.git_source(loaded(checkout / "manifests")).author == "a"


def test_the_last_manifest_of_a_root_is_a_change(checkout: Path) -> None:
    """No file of the folder is left to tell where it was."""
    last = write(checkout / "more" / "leaders.yaml")
    commit(checkout)
    last.unlink()
    manifests = loaded(checkout / "manifests")
    assert not manifest_git.git_source(manifests).dirty
    assert manifest_git.git_source(manifests, [checkout / "manifests", last.parent]).dirty
    assert [source.dirty for source in manifest_git.git_sources(manifests, [last.parent])] == [True]


def test_a_checkout_is_one_source_also_through_a_link(checkout: Path, tmp_path: Path) -> None:
    """Its commit settles what is in force; time settles what is of several checkouts."""
    link = tmp_path / "link"
    link.symlink_to(checkout)
    sources = manifest_git.git_sources(loaded(link / "manifests"), [checkout / "manifests"])
    assert [source.commit for source in sources] == [git(checkout, "rev-parse", "HEAD")]


def test_a_root_without_a_manifest_is_a_source_where_git_does_not_answer(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No file tells which folder it is about."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert manifest_git.git_sources([], [checkout]) == [Source(manifests=())]
    assert mentions(caplog.text, str(checkout), "git does not run", "see git status")


def test_a_file_that_a_link_leads_to_is_in_its_checkout(checkout: Path, tmp_path: Path) -> None:
    """A journal that a commit delivers, reached through a link, once released manifests."""
    link = tmp_path / "link"
    link.symlink_to(checkout / "manifests")
    journal = write(link / ".reconciler" / "local.jsonl", "")
    assert manifest_git.is_outside_of_git(journal)
    git(checkout, "add", "-A")
    assert not manifest_git.is_outside_of_git(journal)
    assert not manifest_git.is_outside_of_git(journal.resolve())
