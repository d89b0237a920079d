"""The first manifests that `init` writes."""

from pathlib import Path

import pytest

from reconciler.cli.app import run
from reconciler.companions.suggest.starter import IGNORED, ignore_file, missing_ignores, starter_manifests
from reconciler.errors import ExitCode
from reconciler.manifest.files import load
from reconciler.policies import POLICIES
from tests.unit.manifest.broken import NOW_MS


def written(folder: Path, *, name: str = "prod-eu", servers: tuple[str, ...] = ("broker-1:9093",)) -> Path:
    for path, text in starter_manifests("5L6g3nShT-eMCtK--X86sw", servers, name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder / "manifests"


def test_validate_passes_on_it(tmp_path: Path) -> None:
    """Without a warning; the set has an example of each policy, and the limits that it shows are the defaults.

    The example of a LeaderPolicy once made each plan say that it selects nothing.
    """
    loaded = load([written(tmp_path, servers=("a:1", "[::1]:2"))], now_ms=NOW_MS)
    assert loaded.warnings == ()
    part = loaded.for_cluster("prod-eu")
    assert part.cluster.spec.cluster_id == "5L6g3nShT-eMCtK--X86sw"
    assert part.cluster.spec.bootstrap_servers == ("a:1", "[::1]:2")
    assert part.cluster.spec.limits == type(part.cluster.spec.limits)()
    assert [policy.address.kind for policy in part.policies] == sorted(kind.__name__ for kind in POLICIES)
    assert [policy.expect_at_most for policy in part.policies] == [0, 0, 0]


def test_modelines_lead_to_the_schemas(tmp_path: Path) -> None:
    """Each file's first line points an editor at schemas/manifest.json of the same repository."""
    for path in written(tmp_path).rglob("*.yaml"):
        prefix, _, target = path.read_text(encoding="utf-8").splitlines()[0].partition("=")
        assert prefix == "# yaml-language-server: $schema"
        assert (path.parent / target).resolve() == tmp_path / "schemas" / "manifest.json"


def test_commented_examples_are_right_when_uncommented(tmp_path: Path) -> None:
    """The Cluster stays valid if a user removes the # signs."""
    path = written(tmp_path) / "prod-eu" / "cluster.yaml"
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    freed = [line.replace("  # ", "  ", 1) if line.startswith("  # ") else line for line in lines]
    path.write_text("\n".join([head, *freed]) + "\n", encoding="utf-8")
    spec = load([tmp_path / "manifests"], now_ms=NOW_MS).for_cluster().cluster.spec
    assert spec.client["sasl.password"] == "${env:KAFKA_PASSWORD}"
    assert spec.journal.topic == "_reconciler.journal"
    assert spec.protect.groups is not None


@pytest.mark.parametrize("name", ["../up", "Prod", "a b", "", "a\nb", "a/b"])
def test_names_that_no_manifest_can_have(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The name becomes a folder, so an invalid one is refused before anything is read or written."""
    words = ("init", str(tmp_path), "--bootstrap-server", "127.0.0.1:1", "--no-workflows", "--name", name)
    assert run(words) == ExitCode.USAGE
    assert ", metadata" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_declared_is_refused_before_connecting(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing listens at the address. The Cluster counts although another manifest is invalid."""
    written(tmp_path)
    (tmp_path / "manifests" / "invalid.yaml").write_text("kind: Nothing\n", encoding="utf-8")
    words = ("init", str(tmp_path), "--bootstrap-server", "127.0.0.1:1", "--no-workflows", "--name", "prod-eu")
    assert run(words) == ExitCode.USAGE
    path = tmp_path / "manifests" / "prod-eu" / "cluster.yaml"
    assert f"{path}:2 declares Cluster/prod-eu already, so nothing was written" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", IGNORED),
        (ignore_file(), ()),
        ("plan.json\n  /results.json \n.reconciler\n!x\n", ("/plan.html", "/drift.json")),
        ("# /plan.json\nplan.json.old\n", IGNORED),
    ],
)
def test_lines_that_a_gitignore_lacks(text: str, missing: tuple[str, ...]) -> None:
    """A slash at either end does not matter; comments and other names do not count."""
    assert missing_ignores(text) == list(missing)


def test_any_cluster_id_is_written_as_text(tmp_path: Path) -> None:
    """Also one that looks like a number, or holds quotes, controls or a placeholder."""
    for cluster_id in ("12345", 'a"b\\c', "x: y", "$name", "\x07bell\u202e"):
        (path,) = [p for p in starter_manifests(cluster_id, ["a:1"], "c") if p.endswith("cluster.yaml")]
        (tmp_path / "c.yaml").write_text(starter_manifests(cluster_id, ["a:1"], "c")[path], encoding="utf-8")
        assert load([tmp_path], now_ms=NOW_MS).for_cluster().cluster.spec.cluster_id == cluster_id


def test_connection_and_journal_of_the_user(tmp_path: Path) -> None:
    """They replace the comments that show how; references stay references."""
    client = {
        "security.protocol": "SASL_SSL",
        "client.id": "$name$unknown",
        "sasl.password": "${env:KAFKA_PASSWORD}",
    }
    files = starter_manifests("x", ["a:1"], "prod-eu", client=client, journal_topic="_reconciler.journal")
    for path, text in files.items():
        (tmp_path / Path(path).name).write_text(text, encoding="utf-8")
    spec = load([tmp_path], now_ms=NOW_MS).for_cluster().cluster.spec
    assert spec.client == client
    assert spec.journal.topic == "_reconciler.journal"
