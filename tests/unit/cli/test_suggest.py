"""`suggest` refuses wrong usage before it connects, and never touches a file that exists."""

from pathlib import Path

import pytest

from tests.command import reconciler

NO_BROKER = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "add --bootstrap-server HOST:PORT"),
        (("manifests", *NO_BROKER), "leave the paths out"),
        (("--bootstrap-server", " , "), "expected host:port"),
        (("--bootstrap-server", "no port"), "no manifest may have these values"),
        ((*NO_BROKER, "--name", "Not_a_name"), "Not_a_name"),
        ((*NO_BROKER, "--client", "sasl.password=literal"), "sasl.password"),
        ((*NO_BROKER, "--idle-for", "0s"), "no evidence"),
        ((*NO_BROKER, "--idle-for", "soon"), "not a duration"),
        ((*NO_BROKER, "--ignore", "missing.txt"), "missing.txt"),
        ((*NO_BROKER, "-o", "sarif"), "sarif"),
        ((*NO_BROKER, "-o", "github"), "-o github: suggest has the formats text, md, html, json"),
        ((*NO_BROKER, "--output-file", "github=new/first.txt"), "suggest has the formats text, md, html, json"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_read(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    refused = reconciler(tmp_path, "suggest", "--write", "first.yaml", *arguments)
    assert refused.returncode == 64, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    """Nor is a dangling link followed."""
    (tmp_path / "first.yaml").write_text("# mine\n")
    (tmp_path / "link.yaml").symlink_to("elsewhere.yaml")
    for name in ("first.yaml", "link.yaml"):
        refused = reconciler(tmp_path, "suggest", *NO_BROKER, "--write", name)
        assert refused.returncode == 64
        assert "overwrites no file" in refused.stderr
    assert (tmp_path / "first.yaml").read_text() == "# mine\n"
    assert not (tmp_path / "elsewhere.yaml").exists()


def test_without_an_answer_nothing_is_suggested(tmp_path: Path) -> None:
    failed = reconciler(tmp_path, "suggest", *NO_BROKER, "--write", "first.yaml")
    assert failed.returncode == 1
    assert failed.stderr.startswith("[   0.0 s] reading the cluster id from 127.0.0.1:1\n"), "it was silent for 30 s"
    assert failed.stdout == ""
    assert list(tmp_path.iterdir()) == []
