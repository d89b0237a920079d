"""The Python library: what it promises without a cluster; tests/e2e/test_library.py has the brokers."""

import dataclasses
import inspect
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from reconciler import api
from tests.command import python
from tests.strategies.examples import blocked, plan, purge, removal
from tests.unit.cli.loops import CLUSTER

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER % "billing")
    return tmp_path


def test_the_page_names_every_name_and_every_argument() -> None:
    """What is documented as stable is what there is, and nothing is public by accident."""
    assert [name for name in api.__all__ if f"`{name}" not in PAGE] == []
    calls = dict(re.findall(r"^\| `\.?(\w+)\((.*?)\)` \|", PAGE, re.MULTILINE))
    functions = {name: getattr(api.Reconciler, name, None) or getattr(api, name) for name in calls}
    methods = {name for name, value in vars(api.Reconciler).items() if callable(value) and not name.startswith("_")}
    lower = {name for name in api.__all__ if name.islower()}
    assert set(calls) == methods | lower
    for name, function in functions.items():
        parameters = [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
        assert calls[name].split(", ") == parameters


def test_the_fields_that_the_page_promises_exist() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (`.*) \|$", PAGE.partition("## What comes back")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert len(rows) == 6
    for name, text in rows:
        promised, _, of_header = text.partition("; of the header:")
        assert dataclasses.is_dataclass(getattr(api, name))
        for owner, names in ((getattr(api, name), promised), (api.ApplyResult.__annotations__["header"], of_header)):
            known = {field.name for field in dataclasses.fields(owner)} | set(dir(owner))
            assert set(re.findall(r"`(\w+)`", names)) <= known


def test_all_arguments_behind_the_first_are_named() -> None:
    """So a new argument breaks no call."""
    for function in (
        api.load,
        *(getattr(api.Reconciler, name) for name in ("plan", "apply", "drift", "suggest", "scan")),
    ):
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [p.name for p in positional] in ([], ["paths"], ["plan"])


def test_an_import_starts_nothing_and_leaves_signals_and_streams_alone() -> None:
    """Schedulers import a module in a process that they fork later: a thread would be lost."""
    program = (
        "import signal, sys, threading; before = [signal.getsignal(n) for n in (2, 15)], sys.stderr; "
        "from reconciler import api; "
        "assert before == ([signal.getsignal(n) for n in (2, 15)], sys.stderr); "
        "assert threading.active_count() == 1; assert 'reconciler.cli' not in sys.modules; "
        "import logging; logging.getLogger('reconciler.x').warning('not shown')"
    )
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_single_path_may_be_a_text(folder: Path) -> None:
    """A text is a sequence of letters, too, and each letter would be a path."""
    assert api.load(str(folder)).cluster == "prod"
    assert api.load([folder]).paths == (folder,)


def test_relative_paths_stay_those_of_the_time_of_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook that changes its folder must not act on the manifests of another one."""
    monkeypatch.chdir(folder.parent)
    kafka = api.load(folder.name)
    monkeypatch.chdir("/")
    (folder / "cluster.yaml").write_text("kind: Cluster\n")
    with pytest.raises(api.ManifestsInvalid, match=r"cluster\.yaml"):
        kafka.plan()


def test_each_call_reads_the_manifests_again(folder: Path) -> None:
    """An object that was loaded before a protection was merged would act without it."""
    kafka = api.load(folder)
    (folder / "cluster.yaml").unlink()
    with pytest.raises(api.ManifestsInvalid):
        kafka.drift()


def test_invalid_manifests_carry_all_diagnostics_and_say_the_first(folder: Path) -> None:
    (folder / "cluster.yaml").write_text(CLUSTER.replace("topics", "topisc") % "billing")
    """The text once counted warnings, too, and had no next step."""
    with pytest.raises(api.ManifestsInvalid, match=r"^1 error in .*`topisc`; did you mean `topics`") as caught:
        api.load(folder)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert caught.value.exit_code == 1


def test_apply_needs_the_digest_and_refuses_another_plan(folder: Path) -> None:
    planned = plan(purge())
    kafka = api.load(folder)
    with pytest.raises(TypeError, match="expect_digest"):
        kafka.apply(planned)  # type: ignore[call-arg]
    for wrong in ("", api.digest(plan(removal()))):
        with pytest.raises(api.PlanUnusable, match="apply the plan that was approved"):
            kafka.apply(planned, expect_digest=wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda kafka: kafka.plan(engine="inlin"), "there is no engine inlin: expected one of spark, inline, auto"),
        (lambda kafka: kafka.plan(expires_after=timedelta(0)), "expected more than 0"),
        (lambda kafka: kafka.suggest(idle_for=timedelta(0)), "no evidence"),
    ],
    ids=["engine", "expiry", "idle"],
)
def test_wrong_arguments_are_errors_before_anything_is_read(folder: Path, call: object, message: str) -> None:
    with pytest.raises(api.UsageError, match=message):
        call(api.load(folder))  # type: ignore[operator]


def test_the_connection_of_the_machine_holds_for_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second front door must not be a way around RECONCILER_CONNECTION."""
    trusted = folder / "trusted"
    trusted.mkdir()
    (trusted / "cluster.yaml").write_text((CLUSTER % "billing").replace("127.0.0.1:1", "127.0.0.1:2"))
    monkeypatch.setenv("RECONCILER_CONNECTION", str(trusted))
    with pytest.raises(api.Refused, match="connects elsewhere"):
        api.load(folder / "cluster.yaml").plan(engine="inline")


def test_a_table_has_a_row_for_each_decision_and_no_zero_for_what_is_not_bounded() -> None:
    pytest.importorskip("pyarrow")
    rows = api.table(plan(purge(), removal(), blocked())).to_pylist()
    by_section = {row["section"]: row for row in rows if row["kind"] == "RetentionFloor"}
    assert {row["section"] for row in rows} == {"actions", "blocked"}
    assert by_section["actions"]["records_removed_max"] == 97_213
    assert by_section["blocked"]["records_removed_max"] is None
    assert [row["partition"] for row in rows if row["kind"] == "GroupRemoval"] == [None]


def test_a_plan_is_saved_and_opened_again(tmp_path: Path) -> None:
    planned = plan(purge())
    assert api.open_plan(api.save(planned, tmp_path / "plan.json")) == planned


def test_the_examples_have_about_ten_lines(tmp_path: Path) -> None:
    """Without imports, docstrings and empty lines; the notebook with all its cells."""
    for file in sorted((ROOT / "examples" / "library").iterdir()):
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        code = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
        assert len([line for line in code.splitlines() if line.strip() and "import" not in line]) <= 10, file.name
