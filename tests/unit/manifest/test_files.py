"""Which files are read, in which order, and that every unreadable file is reported."""

import hashlib
import os
import re
import socket
from pathlib import Path

import pytest

from reconciler.errors import ManifestsInvalid
from reconciler.manifest.diagnostics import Diagnostic
from reconciler.manifest.files import LARGEST_BYTES, load
from reconciler.report.diagnostics import diagnostics_document
from tests.unit.manifest.broken import CLUSTER, GOOD, NOW_MS, cluster, floor


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def refused(*paths: Path) -> list[Diagnostic]:
    with pytest.raises(ManifestsInvalid) as invalid:
        load(paths, now_ms=NOW_MS)
    return [diagnostic for diagnostic in invalid.value.diagnostics if isinstance(diagnostic, Diagnostic)]


def refused_codes(*paths: Path) -> list[str]:
    return [diagnostic.code for diagnostic in refused(*paths)]


def test_folders_nest_and_are_sorted(tmp_path: Path) -> None:
    """*.yaml and *.yml below a folder, sorted, without hidden ones."""
    write(
        tmp_path,
        {
            "b/orders.yml": floor(GOOD),
            "b/a/clicks.yaml": floor("topics: [clicks]\nkeep: {last: 5}", name="clicks"),
            "a.yaml": CLUSTER,
            ".git/hidden.yaml": "kind: [",
            "b/.hidden.yaml": "kind: [",
            "README.md": "# kind: [",
            "b.yaml": "# nothing\n",
        },
    )
    loaded = load([tmp_path], now_ms=NOW_MS)
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in loaded.files] == [
        "a.yaml",
        "b/a/clicks.yaml",
        "b/orders.yml",
        "b.yaml",
    ]
    assert len(loaded.policies) == 2


def test_files_carry_their_digest(tmp_path: Path) -> None:
    """A plan names each file by path and sha256 of its bytes, with a byte order mark."""
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbf" + CLUSTER.encode())
    (file,) = load([tmp_path / "c.yaml"], now_ms=NOW_MS).files
    assert file.sha256 == hashlib.sha256(b"\xef\xbb\xbf" + CLUSTER.encode()).hexdigest()


def test_a_named_file_needs_no_suffix(tmp_path: Path) -> None:
    """A path on the command line is read with any suffix."""
    write(tmp_path, {"cluster": CLUSTER})
    assert load([tmp_path / "cluster"], now_ms=NOW_MS).clusters[0].metadata.name == "prod-eu"


def test_locations_show_paths_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A location names a file as the command line does."""
    write(tmp_path, {"m/c.yaml": CLUSTER, "m/a.yaml": "kind: ["})
    monkeypatch.chdir(tmp_path)
    assert [str(diagnostic.location) for diagnostic in refused(Path("m"))] == ["m/a.yaml:1"]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """Overlapping paths and links to one file do not make two manifests of one name."""
    write(tmp_path, {"c.yaml": CLUSTER, "a.yaml": floor(GOOD)})
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a.yaml")
    os.link(tmp_path / "a.yaml", tmp_path / "hard.yaml")
    assert len(load([tmp_path, tmp_path / "a.yaml", tmp_path], now_ms=NOW_MS).policies) == 1


def test_links_to_a_parent_folder_end(tmp_path: Path) -> None:
    """A symbolic link to a parent folder does not loop; a link to another folder is followed."""
    write(tmp_path, {"m/c.yaml": CLUSTER, "m/.other/a.yaml": floor(GOOD)})
    (tmp_path / "m" / "up").symlink_to(tmp_path / "m")
    (tmp_path / "m" / "self.yaml").symlink_to(tmp_path / "m" / "self.yaml")
    (tmp_path / "m" / "beside").symlink_to(tmp_path / "m" / ".other")
    assert refused_codes(tmp_path / "m") == ["M002"]
    (tmp_path / "m" / "self.yaml").unlink()
    assert len(load([tmp_path / "m"], now_ms=NOW_MS).policies) == 1


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("m/orders.yaml", "../secret.yaml"),
        ("m/orders.yaml", "/proc/self/environ"),
        ("m/more", ".."),
        ("m/more", "../beside"),
        ("m/orders.yaml", ".hop"),
    ],
)
def test_no_link_leaves_the_folder(tmp_path: Path, link: str, target: str) -> None:
    """A link in a pull request could show the lines of any file of the machine in an error."""
    planted = "kind: planted-4f2c9aa-hunter2"
    write(tmp_path, {"m/c.yaml": CLUSTER, "secret.yaml": planted, "beside/secret.yaml": planted})
    (tmp_path / "m" / ".hop").symlink_to("../secret.yaml")
    (tmp_path / link).symlink_to(target)
    (only,) = refused(tmp_path / "m")
    assert (only.code, only.location.path) == ("M007", str(tmp_path / link))
    assert "planted" not in repr(only)


def test_a_path_that_is_a_link_stays_in_its_folder(tmp_path: Path) -> None:
    """A pull request replaces the folder `manifests` itself; a release folder behind a link is fine."""
    write(tmp_path, {"v1/c.yaml": CLUSTER, "elsewhere/c.yaml": CLUSTER})
    (tmp_path / "current").symlink_to("v1")
    assert load([tmp_path / "current"], now_ms=NOW_MS).clusters
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "manifests").symlink_to("../elsewhere")
    assert refused_codes(tmp_path / "checkout" / "manifests") == ["M007"]


def test_a_link_to_another_path_of_the_command_line_is_followed(tmp_path: Path) -> None:
    """An overlay links to the manifests of a base."""
    write(tmp_path, {"base/c.yaml": CLUSTER, "overlay/a.yaml": floor(GOOD)})
    (tmp_path / "overlay" / "c.yaml").symlink_to("../base/c.yaml")
    assert refused_codes(tmp_path / "overlay") == ["M007"]
    assert len(load([tmp_path / "overlay", tmp_path / "base"], now_ms=NOW_MS).policies) == 1


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    """A mistyped path is an error that suggests the closest path; so is a dangling link."""
    write(tmp_path, {"manifests/c.yaml": CLUSTER})
    for path, similar in (("manifest", f"`{tmp_path / 'manifests'}`"), ("nowhere/at-all", "")):
        (only,) = refused(tmp_path / path)
        assert (only.code, "`" in only.hint, similar in only.hint) == ("M001", bool(similar), True)
    (tmp_path / "manifests" / "gone.yaml").symlink_to(tmp_path / "gone")
    assert refused_codes(tmp_path / "manifests") == ["M001"]


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    """ "an empty set of manifests (never "nothing desired")": also one folder of several."""
    write(tmp_path, {"m/c.yaml": CLUSTER, "empty/README.md": ""})
    (only,) = refused(tmp_path / "empty", tmp_path / "m")
    assert (only.code, only.location.path) == ("M005", str(tmp_path / "empty"))
    assert f"the folder {tmp_path / 'empty'} holds no manifests" in only.message
    assert refused_codes() == ["M005"]


def test_files_of_comments_are_no_manifests(tmp_path: Path) -> None:
    """The message names the files that were read: it once said "the paths"."""
    write(tmp_path, {"m/a.yaml": "# later\n", "m/b.yaml": "# and this\n"})
    (only,) = refused(tmp_path / "m")
    assert only.code == "M005"
    assert all(str(tmp_path / "m" / name) in only.message for name in ("a.yaml", "b.yaml"))


def test_a_file_of_no_bytes_may_be_half_of_one(tmp_path: Path) -> None:
    """A full disk left a floor so, which awaited a group: `converge` removed the group."""
    write(tmp_path, {"m/c.yaml": CLUSTER, "m/floor.yaml": "", "m/later.yaml": "# later\n"})
    (only,) = refused(tmp_path / "m")
    assert (only.code, only.location.path) == ("M005", str(tmp_path / "m" / "floor.yaml"))


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    """A pipe without a writer, for which the reader does not wait, a device or a socket, a path that no system
    accepts, and a file used as a folder.
    """
    write(tmp_path, {"c.yaml": CLUSTER})
    (tmp_path / "m").mkdir()
    os.mkfifo(tmp_path / "m" / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.yaml"))
        below = (tmp_path / name for name in ("m", "s.yaml", "c.yaml/d"))
        for path in (*below, Path("/dev/null"), Path("a\0b"), Path("x" * 5000)):
            assert refused_codes(path) == ["M002"], path


def test_not_utf_8(tmp_path: Path) -> None:
    """A file in another encoding is reported with the line, and the other files are still read."""
    write(tmp_path, {"c.yaml": CLUSTER, "a.yaml": floor("topics: []\nkeep: {last: 5}")})
    (tmp_path / "b.yaml").write_bytes("# one\nowner: Zoë\n".encode("latin-1"))
    empty, encoding = refused(tmp_path)
    assert (empty.code, encoding.code) == ("M116", "M003")
    assert re.findall(r"line (\d+)", encoding.message) == ["2"]
    (tmp_path / "b.yaml").write_text(CLUSTER, encoding="utf-16")
    assert refused_codes(tmp_path) == ["M116", "M003"]


def test_a_file_name_that_is_not_utf_8(tmp_path: Path) -> None:
    """It is an error: `validate` once accepted it, and `plan` scanned and could not save a plan that names it."""
    write(tmp_path, {"c.yaml": CLUSTER})
    (tmp_path / os.fsdecode(b"a\xff.yaml")).write_text(floor(GOOD))
    (only,) = refused(tmp_path)
    assert (only.code, only.hint) == ("M003", "rename it")
    for write_document in diagnostics_document([only]).writers.values():  # as UTF-8
        str(write_document()).encode()


def test_the_size_of_a_file_is_bounded(tmp_path: Path) -> None:
    """A file of 1 MiB is read, a file with one byte more is not."""
    (tmp_path / "c.yaml").write_text(CLUSTER + "#" * (LARGEST_BYTES - len(CLUSTER)))
    load([tmp_path], now_ms=NOW_MS)
    (tmp_path / "c.yaml").write_text(CLUSTER + "#" * (LARGEST_BYTES - len(CLUSTER) + 1))
    assert refused_codes(tmp_path) == ["M004"]


def test_deep_folders(tmp_path: Path) -> None:
    """Folders may nest as deep as the system lets them: reading them does not recurse."""
    folders = [tmp_path]
    for _ in range(1200):
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    deepest = folders[-1] / "c.yaml"
    deepest.write_text(CLUSTER)
    try:
        assert load([tmp_path], now_ms=NOW_MS).files[0].path == str(deepest)
    finally:  # pytest removes folders recursively
        deepest.unlink()
        for folder in reversed(folders[1:]):
            folder.rmdir()


def test_same_set_whatever_the_order(tmp_path: Path) -> None:
    """Manifest order changes nothing of what one cluster's plan is made from."""
    write(
        tmp_path, {"c.yaml": CLUSTER, "a.yaml": floor(GOOD), "b.yaml": floor("topics: [b]\nkeep: {last: 5}", name="b")}
    )
    names = ["a.yaml", "b.yaml", "c.yaml"]
    forwards = load([tmp_path / name for name in names], now_ms=NOW_MS)
    backwards = load([tmp_path / name for name in reversed(names)], now_ms=NOW_MS)
    assert forwards.for_cluster() == backwards.for_cluster()


def test_the_case_of_the_suffix_does_not_matter(tmp_path: Path) -> None:
    """A protection in second.YAML was once ignored silently."""
    for name in ("first.yaml", "second.YAML", "third.Yml"):
        (tmp_path / name).write_text(
            cluster(name=name.partition(".")[0], cluster_id=f"id-of-{name:>18}".replace(" ", "-"))
        )
    manifests = load([tmp_path], now_ms=NOW_MS)
    assert [entry.metadata.name for entry in manifests.clusters] == ["first", "second", "third"]
