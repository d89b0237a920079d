"""Commands that read no cluster, or little of it: imports, observed waits, wrong usage of `suggest`."""

from pathlib import Path

import pytest

from tests.build import cluster_manifest, head
from tests.command import python, reconciler

EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples"
SAVED = Path(__file__).parents[2] / "golden" / "01-one-of-each-kind" / "plan.json"
PROGRAM = """\
import sys
from reconciler.cli.app import run
code = run(sys.argv[1:])
print("modules:", *sorted(sys.modules))
sys.exit(code)
"""
HEAVY = {
    "confluent_kafka",
    "deepdiff",
    "jinja2",
    "markupsafe",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pydantic",
    "pyspark",
    "reconciler.companions.html.page",
    "reconciler.kafka",
    "reconciler.pipeline",
    "reconciler.scan",
    "rich.console",
}


@pytest.mark.parametrize(
    ("words", "module", "needed"),
    [
        # Each costs more to import than the rest of the start: `--version` once took 1.5 s.
        ("--version", "app", set()),
        ("--help", "app", set()),
        (f"validate {EXAMPLES}", "validate", {"pydantic"}),
        (f"clusters {EXAMPLES}", "validate", {"pydantic"}),
        # The template engine of the page costs a tenth of a second.
        *((f"show {SAVED} -o {output}", "show", {"pydantic", "rich.console"}) for output in ("text", "json")),
        (f"show {SAVED} -o md", "show", {"pydantic"}),
    ],
    ids=["version", "help", "validate", "clusters", "text", "json", "md"],
)
def test_commands_without_a_cluster_import_neither_the_client_nor_the_scan(
    words: str, module: str, needed: set[str]
) -> None:
    """They once imported the Kafka client, the pipeline and the reports of plans: up to a second for nothing."""
    *output, modules = python(PROGRAM, *words.split()).stdout.splitlines()
    assert output
    assert f"reconciler.cli.{module}" in modules.split()
    assert HEAVY.intersection(modules.split()) == needed


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
        ((*NO_BROKER, "-o", "github"), "github: expected one of text, md, html, json"),
        ((*NO_BROKER, "--output-file", "github=new/first.txt"), "github: expected one of text, md, html, json"),
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
