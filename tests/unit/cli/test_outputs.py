"""Output files, streams and exit codes of the command line, without a cluster."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import pytest

from reconciler import pipeline
from reconciler.apply import results
from reconciler.cli import console, converge
from reconciler.cli.app import run
from reconciler.cli.apply import show_applied
from reconciler.cli.settings import OutputFile, Settings
from reconciler.errors import ClusterUnreachable, ExitCode, OutputUnwritten, Refused, UsageError, WrongCluster
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import plan_file
from reconciler.report.document import JOURNAL, RESULTS, Document, Format
from reconciler.report.metrics import Metrics
from reconciler.report.results import results_document
from tests import rendering
from tests.command import environment
from tests.golden.wording import mentions
from tests.strategies.examples import blocked, plan, purge, removal
from tests.unit.apply.test_results import HEADER
from tests.unit.cli.loops import CLUSTER_OF


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Manifests of two clusters."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(CLUSTER_OF.format(name=name), encoding="utf-8")
    return tmp_path


def test_a_results_file_is_shown_as_apply_showed_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON with the same rows, and an error for a file that was cut."""
    outcomes = [
        Outcome(action=purge(), status=Status.APPLIED, detail=DeleteRecords.APPLIED, sends=1, removed_max=97_213),
        Outcome(action=removal(), status=Status.STALE, detail='group "old-etl" is STABLE now'),
    ]
    path = tmp_path / "results.json"
    results.write(path, outcomes, HEADER)
    assert run(["show", str(path)]) == 0
    text = [line.plain for line in rendering.results_text(plan(), outcomes, duration_ms=1_500)]
    assert capsys.readouterr().out.splitlines() == text
    assert 'Stale: "old-etl" — group "old-etl" is STABLE now' in text
    assert run(["show", str(path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(path.read_text())
    path.write_text(path.read_text()[:-40])
    assert run(["show", str(path)]) == ExitCode.PLAN_UNUSABLE
    assert f"the results {path} are not usable" in capsys.readouterr().err


def test_a_scan_that_fails_leaves_no_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check of the files once created their folders, and a failed scan left them empty."""
    out, page = tmp_path / "new" / "plan.json", tmp_path / "pages" / "html" / "plan.html"
    words = ["plan", str(folder), "--cluster", "one", "--timeout", "1"]
    assert run([*words, "--out", str(out), "--output-file", f"html={page}"]) == ExitCode.ERROR
    assert not out.parent.exists()
    assert not page.parent.parent.exists()
    below_a_file = next(path for path in folder.iterdir() if path.is_file()) / "below" / "plan.json"
    capsys.readouterr()
    assert run([*words, "--out", str(below_a_file)]) == ExitCode.USAGE
    assert f"{below_a_file} cannot be written: {below_a_file.parents[1]} is not a folder" in capsys.readouterr().err


def test_a_folder_in_place_of_a_file_is_named_so(tmp_path: Path) -> None:
    """`apply --results manifests` said "Permission denied" to whoever owns the folder."""
    with pytest.raises(UsageError, match="cannot be written: Is a directory; nothing was done"):
        console.prepare(Settings(), RESULTS, tmp_path)


def test_an_output_below_a_folder_that_is_gone_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout was replaced below the shell that stands in it."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match=r"d\.json cannot be written: No such file or directory; nothing was done"):
        console.prepare(Settings(), RESULTS, Path("d.json"))


@pytest.mark.parametrize("option", ["--out", "--output-file", "--metrics"])
def test_an_output_never_replaces_a_manifest(option: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan --out policy.yaml` replaced the policy, and every other file that is not a plan."""
    manifest, notes = folder / "one.yaml", folder / "notes.json"
    notes.write_text("mine")
    verb = "drift" if option == "--metrics" else "plan"
    for path in (manifest, notes) if option == "--out" else (manifest,):
        before = path.read_bytes()
        value = f"md={path}" if option == "--output-file" else str(path)
        assert run([verb, str(folder), "--cluster", "one", option, value]) == ExitCode.USAGE
        assert path.name in capsys.readouterr().err
        assert path.read_bytes() == before
    manifest.write_text("kind: broken\n")
    assert run(["validate", str(folder), "--output-file", f"json={manifest}"]) == ExitCode.ERROR
    assert manifest.read_text() == "kind: broken\n", "the errors of a manifest replaced it"


@pytest.mark.parametrize("words", ["plan --out", "plan --output-file", "drift --metrics", "converge --metrics"])
def test_an_output_of_another_command_never_replaces_results(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The offsets of a removed group were gone with them. The error has a reason."""
    path = folder / "results.json"
    results.write(path, [Outcome(action=removal(), status=Status.APPLIED, detail="gone")], HEADER)
    before, (verb, option) = path.read_bytes(), words.split()
    value = f"json={path}" if option == "--output-file" else str(path)
    assert run([verb, str(folder), "--cluster", "one", option, value]) == ExitCode.USAGE
    assert path.read_bytes() == before
    assert ": ;" not in capsys.readouterr().err


@pytest.mark.parametrize("words", ["plan --output-file", "drift --metrics", "validate --output-file"])
def test_no_output_replaces_the_journal(words: str, folder: Path) -> None:
    """Each command once replaced it: with it, the offsets of every removed group and the release were gone."""
    path = folder / ".reconciler" / "one.jsonl"
    path.parent.mkdir()
    path.write_text('{"v":3,"at_ms":1,\n')
    verb, option = words.split()
    value = f"json={path}" if option == "--output-file" else str(path)
    assert run([verb, str(folder), "--cluster", "one", option, value]) != ExitCode.DONE
    assert path.read_text() == '{"v":3,"at_ms":1,\n'
    export = [OutputFile(Format.JSON, folder / "journal.jsonl")]
    for text in ('{"v":2,', '{"v":2,"at_ms":1,'):
        console.write_files(
            Settings(output_file=export), Document(kind=JOURNAL, writers={"json": lambda text=text: text})
        )
    assert export[0].path.read_text() == text, "an export of the journal is replaced by the next one"


def test_documents_move_results_with_removed_groups_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of the next `converge` replaced the results of the one that had removed a group."""
    path, offsets = tmp_path / "out.json", (CommittedOffset(topic="orders", topic_id="id", partition=0, offset=5),)
    gone = Outcome(action=removal(), status=Status.APPLIED, detail="gone", removed_offsets=offsets)
    results.write(path, [gone], HEADER)
    before, settings = path.read_text(), Settings(output_file=[OutputFile(Format.JSON, path)])
    for _round in range(2):
        console.write_files(settings, results_document(HEADER, [], lambda: ["next"]))
    assert path.read_text() == "next"
    assert (tmp_path / f"out-{HEADER.run_id}.json").read_text() == before
    assert f"now in {tmp_path / f'out-{HEADER.run_id}.json'}" in capsys.readouterr().err


def test_drift_leaves_the_counters_of_runs_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They began again at 0, and `increase` over them hid what had been removed."""
    metrics = Metrics()
    with metrics.measure("converge", "one"):
        pass
    metrics.write(path := folder / "m.prom")
    before = path.read_bytes()
    assert run(["drift", str(folder), "--cluster", "one", "--metrics", str(path)]) == ExitCode.USAGE
    assert "counters of apply, converge or watch" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_file_that_is_mounted_by_itself_is_written(tmp_path: Path) -> None:
    """Containers mount single files, which nothing can be renamed to: the results of a run were lost."""
    (tmp_path / "host").write_text("before")
    (tmp_path / "folder").mkdir()
    (mounted := tmp_path / "folder" / "results.json").touch()
    write = "import sys; from pathlib import Path; from reconciler.atomic_file import write_bytes\n"
    write += "write_bytes(Path(sys.argv[1]), iter([b'af', b'ter']), mode=0o644)"
    script = 'mount --bind host "$1" && "$2" -c "$3" "$1" && mount --bind folder folder'
    script += ' && mount -o remount,bind,ro folder && mount --bind host "$1" && "$2" -c "$3" "$1"'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    words = [*unshare, mounted, sys.executable, write]
    ended = subprocess.run(words, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    if "unshare" in ended.stderr or "permission denied" in ended.stderr:
        pytest.skip(f"this machine gives no mounts to tests: {ended.stderr}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "host").read_text() == "after"
    assert list(mounted.parent.iterdir()) == [mounted]


def test_an_output_file_is_whole_or_the_earlier_one(tmp_path: Path) -> None:
    """A full disk emptied the report that the next `drift --previous` reads: every date of drift was lost."""

    def cut() -> Iterator[str]:
        yield "{"
        raise OSError(28, "No space left on device")

    path = tmp_path / "drift.json"
    path.write_text("before")
    path.chmod(0o640)
    settings = Settings(output_file=[OutputFile(Format.JSON, path)])
    with pytest.raises(OutputUnwritten, match="No space left"):
        console.write_files(settings, results_document(HEADER, [], cut))
    assert path.read_text() == "before"
    console.write_files(settings, results_document(HEADER, [], lambda: ["after"]))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_two_outputs_have_two_files(tmp_path: Path) -> None:
    """`--metrics` once replaced the results in the same file, which `restore-group` needs."""
    (tmp_path / "link").symlink_to(tmp_path / "out")
    settings = Settings(output_file=[OutputFile(Format.MD, tmp_path / "link")])
    with pytest.raises(UsageError, match="is named for two outputs"):
        console.prepare(settings, RESULTS, tmp_path / "out", None)
    console.prepare(Settings(), RESULTS, Path(os.devnull), Path(os.devnull))


def test_a_pipe_that_nothing_reads_is_an_error(tmp_path: Path) -> None:
    """A run that had done its work once waited for a reader, and never said what it did."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        results.write(tmp_path / "pipe", [], HEADER)
    settings = Settings(output_file=[OutputFile(Format.MD, tmp_path / "pipe")])
    unwritten: set[int] = set()
    # One whose reader goes away was taken for the reader of stdout, and the exit code was 0.
    with console.report_write_errors(unwritten), console.write_errors("results"):
        raise BrokenPipeError
    assert unwritten == {1}
    unwritten.clear()
    show_applied(pipeline.ApplyResult(plan=plan(), outcomes=[], header=HEADER), settings, unwritten, [])
    assert unwritten == {1}


@pytest.mark.parametrize("is_writable", [True, False])
def test_results_that_are_not_written_have_an_exit_code(
    is_writable: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was done stays done, and a schedule must still hear that its report is missing: it ended with 0."""
    outcomes = [Outcome(action=purge(), status=Status.APPLIED, detail=DeleteRecords.APPLIED, sends=1)]
    target = tmp_path / "results.md" if is_writable else tmp_path  # a folder cannot be replaced by a file
    settings = Settings(output_file=[OutputFile(Format.MD, target)])
    unwritten: set[int] = set()
    show_applied(pipeline.ApplyResult(plan=plan(purge()), outcomes=outcomes, header=HEADER), settings, unwritten, [])
    assert unwritten == (set() if is_writable else {ExitCode.ERROR})
    assert ("reconciler journal" in capsys.readouterr().err) is not is_writable


def test_a_closed_stdout_does_not_stop_the_other_clusters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`converge | head`: the first plan cannot be printed, and the second cluster still converges."""
    parts = []

    def converge_once(run: object, **_options: object) -> object:
        parts.append(run)
        raise BrokenPipeError

    monkeypatch.setattr(pipeline, "converge", converge_once)
    monkeypatch.setattr(converge.console, "discard_stdout", lambda: None)
    assert run(["converge", str(folder)]) == 1
    assert len(parts) == 2


@pytest.mark.parametrize(
    ("failure", "code"), [(WrongCluster("brokers of another cluster"), 4), (ClusterUnreachable("away"), 1)]
)
def test_drift_distinguishes_a_wrong_from_an_unavailable_cluster(
    failure: Exception, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ADR 4: the wrong one needs a person, the other may recover; the report has both."""

    def plan(*_arguments: object, **_options: object) -> object:
        raise failure

    monkeypatch.setattr(pipeline, "plan", plan)
    assert run(["drift", str(folder)]) == code
    captured = capsys.readouterr()
    assert captured.err.count(str(failure)) == 2
    assert captured.out.count("too little could be ") == 2


@pytest.mark.parametrize("option", ["--output-file", "--metrics"])
def test_drift_says_what_it_found_where_one_output_cannot_be_written(
    option: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk below the report took the metrics away, what a person would have read, and then exit code 2."""
    words = {"--metrics": folder / "metrics.txt", "--output-file": f"json={folder / 'drift.json'}"}

    def planned(run: object) -> object:
        (folder / str(words[option]).removeprefix("json=")).mkdir()  # after the check before the scan
        return plan(purge())

    monkeypatch.setattr(pipeline, "plan", planned)
    pages = [folder / "first.md", folder / "last.md"]
    first, last = (("--output-file", f"md={page}") for page in pages)
    arguments = [str(word) for pair in words.items() for word in pair]
    assert run(["drift", str(folder), "--cluster", "one", *first, *arguments, *last]) == ExitCode.ACTIONS
    captured = capsys.readouterr()
    assert mentions(captured.err, option, "could not be written")
    assert "Drift on" in captured.out
    assert all("Drift on" in page.read_text() for page in pages)
    assert [path.is_file() for path in (folder / "metrics.txt", folder / "drift.json")] == [
        option != "--metrics",
        option != "--output-file",
    ]


@pytest.mark.parametrize("stdout", ["full", "without a reader", "read"])
def test_each_file_that_cannot_be_written_is_named(stdout: str, tmp_path: Path) -> None:
    """Of two files one was named, and where stdout failed, too, none."""
    plan_file.write(plan(), tmp_path / "plan.json")
    (tmp_path / "full").symlink_to("/dev/full")
    words = [sys.executable, "-m", "reconciler", "show", str(tmp_path / "plan.json")]
    words += ["--output-file", "md=/dev/full", "--output-file", f"json={tmp_path / 'full'}"]
    reader, writer = os.pipe()
    if stdout == "without a reader":
        os.close(reader)
    with os.fdopen(writer, "w") as pipe, Path("/dev/full").open("w") as full:
        stream = full if stdout == "full" else pipe
        done = subprocess.run(words, stdout=stream, stderr=subprocess.PIPE, text=True, env=environment(), check=False)
    if stdout != "without a reader":
        os.close(reader)
    assert done.returncode == ExitCode.ERROR
    assert mentions(done.stderr, "--output-file /dev/full could not", f"{tmp_path / 'full'} could not")


@pytest.mark.parametrize("words", [["-o", "json"], []], ids=["json", "text"])
def test_errors_of_manifests_are_shown_where_a_file_cannot_be_written(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A full disk below the file of a pull request's annotations hid what is wrong with the manifests."""
    (tmp_path / "a.yaml").write_text("kind: Nothing")
    assert run(["validate", str(tmp_path), "--output-file", "github=/dev/full", *words]) == ExitCode.ERROR
    shown = capfd.readouterr()
    assert mentions(shown.err, "--output-file /dev/full could not be written")
    assert "M120" in (shown.out if words else shown.err)


@pytest.mark.parametrize("name", ["plan.json", "plan.txt", "plan"])
def test_a_saved_plan_has_any_name(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`apply plan.txt` took it for manifests, and said to run `apply plan.txt`."""
    path = tmp_path / name
    plan_file.write(plan(), path)
    for words in ([str(path)], [str(path), str(tmp_path)]):
        assert run(["apply", *words]) == ExitCode.PLAN_UNUSABLE
        assert "the plan expired" in capsys.readouterr().err
    assert run(["apply", str(tmp_path), str(path)]) == ExitCode.USAGE
    assert mentions(capsys.readouterr().err, "a saved plan, which comes before manifests", f"{path} {tmp_path}")


def test_a_previous_report_of_another_cluster_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a wrong file, each schedule called old drift new, without a word."""
    previous = folder / "drift.json"
    monkeypatch.setattr(pipeline, "plan", lambda run: plan(purge(), cluster_id=run.manifests.cluster.spec.cluster_id))
    words = ["drift", str(folder), "-q", "--previous", str(previous), "--cluster"]
    assert run([*words, "one", "--output-file", f"json={previous}"]) == ExitCode.ACTIONS
    assert "warning" not in capsys.readouterr().err, "the first run of a schedule"
    assert run([*words, "one"]) == ExitCode.ACTIONS
    assert "warning" not in capsys.readouterr().err
    assert run([*words, "two"]) == ExitCode.ACTIONS
    assert mentions(capsys.readouterr().err, "warning", str(previous), "two", "id-of-two-0000000000")


def test_a_cluster_without_a_report_is_not_in_sync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that broke in a plan was taken for a reader of stdout that has gone, and the exit code was 0."""

    def plan(*_arguments: object, **_options: object) -> object:
        raise BrokenPipeError

    monkeypatch.setattr(pipeline, "plan", plan)
    monkeypatch.setattr(console, "discard_stdout", lambda: None)
    assert run(["drift", str(folder)]) == ExitCode.ERROR


def test_doctor_checks_the_other_clusters_of_one_that_is_away(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It once ended at the first cluster that did not answer. It also works without the extra `spark`."""

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert run(["doctor", str(folder), "--timeout", "1", "-q"]) == 1
    captured = capsys.readouterr()
    assert "no PySpark (--engine inline needs none)" in captured.out
    errors = captured.err.splitlines()
    assert [error.partition(" no broker")[0] for error in errors] == ["error: one:", "error: two:"]
    assert run(["doctor", str(folder), "--timeout", "1", "-q", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["clusters"], list(document["errors"])) == ([], ["one", "two"])


def test_a_code_is_explained_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In upper and lower case, to files as well, and only in the formats of an explanation."""
    assert run(["explain", "b204", "--output-file", f"text={tmp_path / 'b204.txt'}"]) == 0
    assert (tmp_path / "b204.txt").read_text() == capsys.readouterr().out
    assert run(["explain", "B204", "-o", "json"]) == ExitCode.USAGE
    assert run(["explain", "B204", "--output-file", f"json={tmp_path / 'b204.txt'}"]) == ExitCode.USAGE
    assert (tmp_path / "b204.txt").read_text(), "the file is not truncated for an unsupported format"


@pytest.mark.parametrize(
    ("word", "title", "page"),
    [
        ("m112", "M112: unknown field", "docs/codes/M112.md"),
        ("RECORDSPERCENT", "recordsPercent: share of the cluster's records removed", "docs/codes/recordsPercent.md"),
        ("exit-3", "exit-3: refused", "docs/codes/exit-3.md"),
        ("3", "exit-3: refused", "docs/codes/exit-3.md"),
    ],
)
def test_every_sort_of_code_is_explained_with_its_page(
    word: str, title: str, page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With RECONCILER_DOCS_URL the page is an address of that site."""
    monkeypatch.delenv("RECONCILER_DOCS_URL", raising=False)
    assert run(["explain", word]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == (title, f"Page: {page}")
    monkeypatch.setenv("RECONCILER_DOCS_URL", "https://docs.example.org/kafka/")
    assert run(["explain", word]) == 0
    url = f"https://docs.example.org/kafka/{page.removesuffix('.md')}/"
    assert capsys.readouterr().out.splitlines()[-1] == f"Page: {url}"


def test_a_comment_links_codes_to_the_docs_that_are_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By option or variable; what is not an address of a site is refused, since comments link to it."""
    saved = tmp_path / "plan.json"
    plan_file.write(plan(blocked("RetentionFloor/a/orders[0]", code="B204")), saved)
    assert run(["show", str(saved), "-o", "md", "--docs-url", "https://docs.example.org/kafka"]) == 0
    assert "[`B204`](https://docs.example.org/kafka/docs/codes/B204/)" in capsys.readouterr().out
    assert run(["show", str(saved), "-o", "md"]) == 0
    assert "(`B204`)" in capsys.readouterr().out
    for url in ("docs.example.org", "javascript:alert(1)", "https://docs.example.org/) [click", "https://me:x@docs"):
        assert run(["show", str(saved), "--docs-url", url]) == ExitCode.USAGE
        assert "expected an address such as https://docs.example.org/reconciler/" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_acts_like_dev_null(closed: int, folder: Path) -> None:
    """Some schedulers start jobs with `>&-`."""
    result = subprocess.run(
        [sys.executable, "-m", "reconciler", "clusters", str(folder)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: os.close(closed),
    )
    assert result.returncode == 0
    assert result.stdout.split() == ([] if closed == 1 else ["one", "two"])
    assert result.stderr == ""


CLOSED = """
import os, sys
from reconciler import __main__ as program
from reconciler.cli import app, console
def run(_words):
    numbers = [os.open(os.devnull, os.O_WRONLY) for _ in range(3)]
    console.print_error("an error line")
    assert min(numbers) > 2, numbers
    assert all(os.fstat(number).st_rdev == os.stat(os.devnull).st_rdev for number in (0, 1, 2))
    return 3
app.run = run
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = sys.__stdin__ = sys.__stdout__ = sys.__stderr__ = None
program.main()
"""


def test_no_file_gets_the_number_of_a_closed_stream() -> None:
    """With stderr closed, error lines once went into the next file that was opened."""
    assert subprocess.run([sys.executable, "-c", CLOSED], timeout=60, check=False).returncode == 3


CRASHING = """
import ctypes, sys
from reconciler import __main__ as program
from reconciler.cli import app
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
def run(_words):
    print("the result")
    return 3
app.run = run
program.main()
"""


def test_exit_handlers_of_libraries_do_not_change_the_exit_code() -> None:
    """A plan once ended with signal 11 after its error line, when OpenSSL freed what a thread used."""
    result = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (3, "the result\n", "")


WITHOUT_READER = """
import ctypes, os, sys
from reconciler import __main__ as program
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
program.main()
"""


@pytest.mark.parametrize("words", [["show", "plan.json"], ["help", "plan"], ["--version"]], ids=" ".join)
def test_exit_handlers_of_libraries_do_not_change_the_exit_code_without_a_reader(
    words: list[str], tmp_path: Path
) -> None:
    """The library that parses words ended the process where nothing read its output, as Python ends it."""
    plan_file.write(plan(), tmp_path / "plan.json")
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_READER, *words],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, "")


RECOVERING = """
import os, sys
from reconciler.cli import console
from reconciler.errors import OutputUnwritten
before = os.dup(1)
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
try:
    console.write("lost?")
except OutputUnwritten as error:
    console.print_error(str(error))
os.dup2(before, 1)
console.write(" written")
"""


def test_output_goes_on_once_the_disk_has_room_again() -> None:
    """`watch` runs for weeks: one error once redirected its standard output to /dev/null for ever."""
    result = subprocess.run(
        [sys.executable, "-c", RECOVERING], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout == "lost? written"
    assert result.stderr.startswith("error: standard output could not be written")


@pytest.mark.parametrize(
    ("name", "answer", "is_confirmed"),
    [("old", " old ", True), ("old ", "old ", True), (" old", "old", False), ("old", "Old", False), ("old", "", False)],
)
def test_a_name_with_blanks_can_be_typed(
    name: str, answer: str, is_confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets of such a group could not be written back at a terminal: no answer was its name."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    with nullcontext() if is_confirmed else pytest.raises(Refused):
        console.confirm("Type the name:", name)
