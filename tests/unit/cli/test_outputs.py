"""Output files, streams and exit codes of the command line, without a cluster."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import pytest

from reconciler import pipeline
from reconciler.apply import results
from reconciler.cli import console, documents
from reconciler.cli.apply import show_applied
from reconciler.cli.settings import OutputFile, Settings
from reconciler.errors import ClusterUnreachable, ExitCode, OutputUnwritten, Refused, UsageError, WrongCluster
from reconciler.model.outcome import Outcome, Status
from reconciler.model.snapshot import CommittedOffset
from reconciler.operations.delete_records import DeleteRecords
from reconciler.plan import plan_file
from reconciler.report.document import JOURNAL, RESULTS, SUGGESTIONS, Document, Format
from reconciler.report.metrics import Metrics
from reconciler.report.results import results_document
from tests import rendering
from tests.command import environment, python, reconciler
from tests.golden.wording import mentions
from tests.strategies.examples import blocked, plan, purge, removal
from tests.unit.apply.test_results import HEADER
from tests.unit.cli.loops import cluster_of


def failing(failure: Exception) -> Callable[..., object]:
    def fail(*_arguments: object, **_options: object) -> object:
        raise failure

    return fail


def to(path: Path, output: Format = Format.MD) -> Settings:
    """The settings of `--output-file OUTPUT=PATH`."""
    return Settings(output_file=[OutputFile(output, path)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(cluster_of(name), encoding="utf-8")
    return tmp_path


def test_a_results_file_is_shown_as_apply_showed_it(tmp_path: Path) -> None:
    """Text, JSON with the same rows, and an error for a file that was cut."""
    outcomes = [
        Outcome(action=purge(), status=Status.APPLIED, detail=DeleteRecords.APPLIED, sends=1, removed_max=97_213),
        Outcome(action=removal(), status=Status.STALE, detail='group "old-etl" is STABLE now'),
    ]
    path = tmp_path / "results.json"
    results.write(path, outcomes, HEADER)
    text = [line.plain for line in rendering.results_text(plan(), outcomes, duration_ms=1_500)]
    assert reconciler(tmp_path, "show", "results.json").stdout.splitlines() == text
    assert 'Stale: "old-etl" — group "old-etl" is STABLE now' in text
    assert json.loads(reconciler(tmp_path, "show", "results.json", "-o", "json").stdout) == json.loads(path.read_text())
    path.write_text(path.read_text()[:-40])
    cut = reconciler(tmp_path, "show", str(path))
    assert cut.returncode == ExitCode.PLAN_UNUSABLE
    assert f"the results {path} are not usable" in cut.stderr


def test_a_scan_that_fails_leaves_no_folder(folder: Path) -> None:
    """The check of the files once created their folders, and a failed scan left them empty."""
    words = ["plan", ".", "--cluster", "one", "--timeout", "1", "--out"]
    failed = reconciler(folder, *words, "new/plan.json", "--output-file", "html=pages/html/plan.html")
    assert failed.returncode == ExitCode.ERROR
    assert not (folder / "new").exists()
    assert not (folder / "pages").exists()
    refused = reconciler(folder, *words, "one.yaml/below/plan.json")
    assert refused.returncode == ExitCode.USAGE
    assert "one.yaml/below/plan.json cannot be written: one.yaml is not a folder" in refused.stderr


def test_a_folder_in_place_of_a_file_is_named_so(tmp_path: Path) -> None:
    """`apply --results manifests` said "Permission denied" to whoever owns the folder."""
    with pytest.raises(UsageError, match="cannot be written: Is a directory; nothing was done"):
        documents.prepare(Settings(), RESULTS, tmp_path)


def test_a_link_that_leads_to_itself_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    """`apply --results` carried out its plan, called it a bug, and its results were in the journal only."""
    link = tmp_path / "results.json"
    link.symlink_to(link.name)
    with pytest.raises(UsageError, match="cannot be written: Too many levels of symbolic links; nothing was done"):
        documents.prepare(Settings(), RESULTS, link)
    link.unlink()
    link.symlink_to("new.json")
    documents.prepare(Settings(), RESULTS, link)


@pytest.mark.parametrize("name", ["results.yaml", "results.YML"])
def test_no_output_but_manifests_ends_like_one(name: str, tmp_path: Path) -> None:
    """Results beside the manifests were read as a manifest: every later command failed, that of the undo, too."""
    with pytest.raises(UsageError, match=f"{name} cannot be written: it ends like a manifest, and would be read"):
        documents.prepare(Settings(), RESULTS, tmp_path / name)
    documents.prepare(Settings(), SUGGESTIONS, tmp_path / name)  # --write
    saved = Path(__file__).parents[2] / "golden" / "01-one-of-each-kind" / "plan.json"
    for words in (("suggest", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1"), ("show", str(saved))):
        assert "ends like a manifest" in reconciler(tmp_path, *words, "--output-file", f"json={name}").stderr
    assert list(tmp_path.iterdir()) == []


def test_an_output_below_a_folder_that_is_gone_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout was replaced below the shell that stands in it."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match=r"d\.json cannot be written: No such file or directory; nothing was done"):
        documents.prepare(Settings(), RESULTS, Path("d.json"))


JOURNAL_LINE = '{"v":3,"at_ms":1,\n'
"""How a journal begins."""


@pytest.mark.parametrize(
    ("words", "name", "reason"),
    [
        # `plan --out policy.yaml` replaced the policy, and every other file that is not a plan.
        *((words, "one.yaml", "one.yaml") for words in ("plan --out", "plan --output-file", "drift --metrics")),
        ("plan --out", "notes.json", "notes.json"),
        # The offsets of a removed group were gone with them.
        *(
            (words, "results.json", "it has results, with which restore-group writes offsets back")
            for words in ("plan --out", "plan --output-file", "drift --metrics")
        ),
        ("converge --metrics", "results.json", "results.json is not a metrics file"),
        # With it, the offsets of every removed group and the release were gone.
        *(
            (words, ".reconciler/one.jsonl", "it is a journal")
            for words in ("plan --output-file", "drift --metrics", "validate --output-file")
        ),
        # They began again at 0, and `increase` over them hid what had been removed.
        ("drift --metrics", "m.prom", "counters of apply, converge or watch"),
    ],
)
def test_no_output_replaces_a_file_of_another_sort(words: str, name: str, reason: str, folder: Path) -> None:
    """A manifest, a file of somebody, results, the journal, and counters."""
    (folder / "notes.json").write_text("mine")
    results.write(folder / "results.json", [Outcome(action=removal(), status=Status.APPLIED, detail="gone")], HEADER)
    (folder / ".reconciler").mkdir()
    (folder / ".reconciler" / "one.jsonl").write_text(JOURNAL_LINE)
    metrics = Metrics()
    with metrics.measure("converge", "one"):
        pass
    metrics.write(folder / "m.prom")
    before, (verb, option) = (folder / name).read_bytes(), words.split()
    value = f"json={name}" if option == "--output-file" else name
    refused = reconciler(folder, verb, ".", "--cluster", "one", option, value)
    assert refused.returncode == (ExitCode.ERROR if verb == "validate" else ExitCode.USAGE)
    assert reason in refused.stderr
    assert ": ;" not in refused.stderr, "the error has a reason"
    assert (folder / name).read_bytes() == before


def test_the_errors_of_a_manifest_never_replace_it(folder: Path) -> None:
    (folder / "one.yaml").write_text("kind: broken\n")
    assert reconciler(folder, "validate", ".", "--output-file", "json=one.yaml").returncode == ExitCode.ERROR
    assert (folder / "one.yaml").read_text() == "kind: broken\n"


def test_an_export_of_the_journal_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    """Nor does an export replace the journal itself."""
    export, journal = tmp_path / "journal.jsonl", tmp_path / ".reconciler" / "one.jsonl"
    for text in ('{"v":2,', '{"v":2,"at_ms":1,'):
        document = Document(kind=JOURNAL, writers={"json": lambda text=text: text})
        documents.write_files(to(export, Format.JSON), document)
    assert export.read_text() == text
    journal.parent.mkdir()
    journal.write_text(JOURNAL_LINE)
    with pytest.raises(OutputUnwritten, match="it is a journal"):
        documents.write_files(to(journal, Format.JSON), document)
    assert journal.read_text() == JOURNAL_LINE


def test_documents_move_results_with_removed_groups_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan of the next `converge` replaced the results of the one that had removed a group."""
    path, offsets = tmp_path / "out.json", (CommittedOffset(topic="orders", topic_id="id", partition=0, offset=5),)
    gone = Outcome(action=removal(), status=Status.APPLIED, detail="gone", removed_offsets=offsets)
    results.write(path, [gone], HEADER)
    before = path.read_text()
    for _round in range(2):
        documents.write_files(to(path, Format.JSON), results_document(HEADER, [], lambda: ["next"]))
    assert path.read_text() == "next"
    assert (tmp_path / f"out-{HEADER.run_id}.json").read_text() == before
    assert f"now in {tmp_path / f'out-{HEADER.run_id}.json'}" in capsys.readouterr().err


WRITE = """
import sys
from pathlib import Path
from reconciler.atomic_file import write_bytes
write_bytes(Path(sys.argv[1]), %s, mode=0o644)
"""
AFTER = WRITE % "iter([b'af', b'ter'])"


def with_own_mounts(script: str, mounted: Path, program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a script in a folder, with mounts of its own. $1: the mounted file, $2: Python, $3: a program."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    words = [*unshare, mounted, sys.executable, program]
    ended = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, timeout=60)
    if "unshare" in ended.stderr or "permission denied" in ended.stderr:
        pytest.skip(f"this machine gives no mounts to tests: {ended.stderr}")
    return ended


def test_a_file_that_is_mounted_by_itself_is_written(tmp_path: Path) -> None:
    """Containers mount single files, which nothing can be renamed to: the results of a run were lost."""
    (tmp_path / "host").write_text("before")
    (tmp_path / "folder").mkdir()
    (mounted := tmp_path / "folder" / "results.json").touch()
    script = 'mount --bind host "$1" && "$2" -c "$3" "$1" && mount --bind folder folder'
    script += ' && mount -o remount,bind,ro folder && mount --bind host "$1" && "$2" -c "$3" "$1"'
    ended = with_own_mounts(script, mounted, AFTER, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (tmp_path / "host").read_text() == "after"
    assert list(mounted.parent.iterdir()) == [mounted]


def test_what_a_mounted_file_cannot_take_is_kept(tmp_path: Path) -> None:
    """The file was cut and the draft removed: the offsets of removed groups were in neither."""
    (tmp_path / "small").mkdir()
    (mounted := tmp_path / "results.json").touch()
    script = "mount -t tmpfs -o size=8k tmpfs small && printf before > small/host"
    script += ' && mount --bind small/host "$1" && "$2" -c "$3" "$1"'
    ended = with_own_mounts(script, mounted, WRITE % "[b'x' * 100_000]", tmp_path)
    (draft,) = tmp_path.glob(".results.json.*.part")
    assert draft.read_bytes() == b"x" * 100_000
    assert mentions(ended.stderr, "No space left on device", f"all of it is in {draft}")


def test_a_file_in_a_folder_that_takes_no_other_is_written(tmp_path: Path) -> None:
    """The draft elsewhere was renamed to it, and what renames must write the folder; so must the owner call chmod."""
    (folder := tmp_path / "folder").mkdir()
    (path := folder / "results.json").write_text("before")
    path.chmod(0o666)
    if os.getuid() == 0:
        os.chown(path, 1, -1)
    folder.chmod(0o555)
    unshare = ["unshare", "--user"]  # not even root may write any folder then
    ended = subprocess.run([*unshare, sys.executable, "-c", AFTER, path], check=False, capture_output=True, text=True)
    folder.chmod(0o755)
    if "unshare" in ended.stderr:
        pytest.skip(f"this machine gives no users to tests: {ended.stderr}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert path.read_text() == "after"


def test_an_output_file_is_whole_or_the_earlier_one(tmp_path: Path) -> None:
    """A full disk emptied the report that the next `drift --previous` reads: every date of drift was lost."""

    def cut() -> Iterator[str]:
        yield "{"
        raise OSError(28, "No space left on device")

    path = tmp_path / "drift.json"
    path.write_text("before")
    path.chmod(0o640)
    with pytest.raises(OutputUnwritten, match="No space left"):
        documents.write_files(to(path, Format.JSON), results_document(HEADER, [], cut))
    assert path.read_text() == "before"
    documents.write_files(to(path, Format.JSON), results_document(HEADER, [], lambda: ["after"]))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("after", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_two_outputs_have_two_files(tmp_path: Path) -> None:
    """`--metrics` once replaced the results in the same file, which `restore-group` needs."""
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(UsageError, match="is named for two outputs"):
        documents.prepare(to(tmp_path / "link"), RESULTS, tmp_path / "out", None)
    documents.prepare(Settings(), RESULTS, Path(os.devnull), Path(os.devnull))


def test_a_pipe_that_nothing_reads_is_an_error(tmp_path: Path) -> None:
    """A run that had done its work once waited for a reader, and never said what it did."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        results.write(tmp_path / "pipe", [], HEADER)
    unwritten: set[int] = set()
    # One whose reader goes away was taken for the reader of stdout, and the exit code was 0.
    with console.report_write_errors(unwritten), console.write_errors("results"):
        raise BrokenPipeError
    assert unwritten == {1}
    unwritten.clear()
    show_applied(pipeline.ApplyResult(plan=plan(), outcomes=[], header=HEADER), to(tmp_path / "pipe"), unwritten, [])
    assert unwritten == {1}


@pytest.mark.parametrize("is_writable", [True, False])
def test_results_that_are_not_written_have_an_exit_code(
    is_writable: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was done stays done, and a schedule must still hear that its report is missing: it ended with 0."""
    outcomes = [Outcome(action=purge(), status=Status.APPLIED, detail=DeleteRecords.APPLIED, sends=1)]
    target = tmp_path / "results.md" if is_writable else tmp_path  # a folder cannot be replaced by a file
    unwritten: set[int] = set()
    show_applied(pipeline.ApplyResult(plan=plan(purge()), outcomes=outcomes, header=HEADER), to(target), unwritten, [])
    assert unwritten == (set() if is_writable else {ExitCode.ERROR})
    assert ("reconciler journal" in capsys.readouterr().err) is not is_writable


def test_a_closed_stdout_does_not_stop_the_other_clusters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`converge | head`: the first plan cannot be printed, and the second cluster still converges."""
    parts = []

    def converge_once(run: object, **_options: object) -> object:
        parts.append(run)
        raise BrokenPipeError

    monkeypatch.setattr(pipeline, "converge", converge_once)
    monkeypatch.setattr(console, "discard_stdout", lambda: None)
    assert reconciler(folder, "converge", ".").returncode == 1
    assert len(parts) == 2


@pytest.mark.parametrize(
    ("failure", "code", "reports"),
    [
        # ADR 4: the wrong one needs a person, the other may recover; the report has both.
        (WrongCluster("brokers of another cluster"), 4, 2),
        (ClusterUnreachable("away"), 1, 2),
        # It was taken for a reader of stdout that has gone, and the exit code was 0.
        (BrokenPipeError("a pipe broke in a plan"), 1, 0),
    ],
    ids=["wrong", "away", "pipe"],
)
def test_drift_distinguishes_a_wrong_from_an_unavailable_cluster(
    failure: Exception, code: int, reports: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a report, a cluster is not in sync."""
    monkeypatch.setattr(pipeline, "plan", failing(failure))
    monkeypatch.setattr(console, "discard_stdout", lambda: None)
    done = reconciler(folder, "drift", ".")
    assert (done.returncode, done.stderr.count(str(failure))) == (code, reports)
    assert done.stdout.count("too little could be ") == reports


@pytest.mark.parametrize(("option", "kept"), [("--output-file", "metrics.txt"), ("--metrics", "drift.json")])
def test_drift_says_what_it_found_where_one_output_cannot_be_written(
    option: str, kept: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk below the report took the metrics away, what a person would have read, and then exit code 2."""
    (lost,) = {"metrics.txt", "drift.json"} - {kept}

    def planned(run: object) -> object:
        (folder / lost).mkdir()  # after the check before the scan
        return plan(purge())

    monkeypatch.setattr(pipeline, "plan", planned)
    files = ["md=first.md", "json=drift.json", "md=last.md"]
    outputs = [word for file in files for word in ("--output-file", file)]
    done = reconciler(folder, "drift", ".", "--cluster", "one", "--metrics", "metrics.txt", *outputs)
    assert done.returncode == ExitCode.ACTIONS
    assert mentions(done.stderr, option, "could not be written")
    assert "Drift on" in done.stdout
    assert all("Drift on" in (folder / page).read_text() for page in ("first.md", "last.md"))
    assert (folder / kept).is_file()
    assert (folder / lost).is_dir()


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
def test_errors_of_manifests_are_shown_where_a_file_cannot_be_written(words: list[str], tmp_path: Path) -> None:
    """A full disk below the file of a pull request's annotations hid what is wrong with the manifests."""
    (tmp_path / "a.yaml").write_text("kind: Nothing")
    shown = reconciler(tmp_path, "validate", ".", "--output-file", "github=/dev/full", *words)
    assert shown.returncode == ExitCode.ERROR
    assert mentions(shown.stderr, "--output-file /dev/full could not be written")
    assert "M120" in (shown.stdout if words else shown.stderr)


@pytest.mark.parametrize("name", ["plan.json", "plan.txt", "plan"])
def test_a_saved_plan_has_any_name(name: str, tmp_path: Path) -> None:
    """`apply plan.txt` took it for manifests, and said to run `apply plan.txt`."""
    plan_file.write(plan(), tmp_path / name)
    for words in ([name], [name, "."]):
        refused = reconciler(tmp_path, "apply", *words)
        assert (refused.returncode, "the plan expired" in refused.stderr) == (ExitCode.PLAN_UNUSABLE, True)
    wrong = reconciler(tmp_path, "apply", ".", name)
    assert wrong.returncode == ExitCode.USAGE
    assert mentions(wrong.stderr, "a saved plan, which comes before manifests", f"{name} .")


def test_a_previous_report_of_another_cluster_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a wrong file, each schedule called old drift new, without a word."""
    monkeypatch.setattr(pipeline, "plan", lambda run: plan(purge(), cluster_id=run.manifests.cluster.spec.cluster_id))
    words = ["drift", ".", "-q", "--previous", "drift.json", "--cluster"]
    first = reconciler(folder, *words, "one", "--output-file", "json=drift.json")
    same, other = (reconciler(folder, *words, name) for name in ("one", "two"))
    assert [run.returncode for run in (first, same, other)] == [ExitCode.ACTIONS] * 3
    assert "warning" not in first.stderr, "the first run of a schedule"
    assert "warning" not in same.stderr
    assert mentions(other.stderr, "warning", "drift.json", "two", "id-of-two-0000000000")


def test_doctor_checks_the_other_clusters_of_one_that_is_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It once ended at the first cluster that did not answer. It also works without the extra `spark`."""
    monkeypatch.setattr(metadata, "version", failing(metadata.PackageNotFoundError("pyspark")))
    text, document = (
        reconciler(folder, "doctor", ".", "--timeout", "1", "-q", "-o", output) for output in ("text", "json")
    )
    assert (text.returncode, document.returncode) == (1, 1)
    assert "no PySpark (--engine inline needs none)" in text.stdout
    assert [error.partition(" no broker")[0] for error in text.stderr.splitlines()] == ["error: one:", "error: two:"]
    values = json.loads(document.stdout)
    assert (values["clusters"], list(values["errors"])) == ([], ["one", "two"])


def test_a_code_is_explained_as_text(tmp_path: Path) -> None:
    """In upper and lower case, to files as well, and only in the formats of an explanation."""
    shown = reconciler(tmp_path, "explain", "b204", "--output-file", "text=b204.txt")
    assert (shown.returncode, (tmp_path / "b204.txt").read_text()) == (0, shown.stdout)
    for words in (("-o", "json"), ("--output-file", "json=b204.txt")):
        assert reconciler(tmp_path, "explain", "B204", *words).returncode == ExitCode.USAGE
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
def test_every_sort_of_code_is_explained_with_its_page(word: str, title: str, page: str, tmp_path: Path) -> None:
    """With RECONCILER_DOCS_URL the page is an address of that site."""
    first, *_, last = reconciler(tmp_path, "explain", word).stdout.splitlines()
    assert (first, last) == (title, f"Page: {page}")
    site = "https://docs.example.org/kafka/"
    last = reconciler(tmp_path, "explain", word, RECONCILER_DOCS_URL=site).stdout.splitlines()[-1]
    assert last == f"Page: {site}{page.removesuffix('.md')}/"


def test_a_comment_links_codes_to_the_docs_that_are_served(tmp_path: Path) -> None:
    """By option or variable; what is not an address of a site is refused, since comments link to it."""
    plan_file.write(plan(blocked("RetentionFloor/a/orders[0]", code="B204")), tmp_path / "plan.json")
    words = ["show", "plan.json", "-o", "md"]
    linked = reconciler(tmp_path, *words, "--docs-url", "https://docs.example.org/kafka").stdout
    assert "[`B204`](https://docs.example.org/kafka/docs/codes/B204/)" in linked
    assert "(`B204`)" in reconciler(tmp_path, *words).stdout
    for url in ("docs.example.org", "javascript:alert(1)", "https://docs.example.org/) [click", "https://me:x@docs"):
        refused = reconciler(tmp_path, *words, "--docs-url", url)
        assert refused.returncode == ExitCode.USAGE
        assert "expected an address such as https://docs.example.org/reconciler/" in refused.stderr


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
from reconciler.cli import app, console, documents
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
    assert python(CLOSED).returncode == 3


ABORTING = """
import ctypes, os
from reconciler import __main__ as program
from reconciler.cli import app
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
%s
program.main()
"""
CRASHING = ABORTING % "app.run = lambda _words: print('the result') or 3"
WITHOUT_READER = ABORTING % "reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)"


def test_exit_handlers_of_libraries_do_not_change_the_exit_code() -> None:
    """A plan once ended with signal 11 after its error line, when OpenSSL freed what a thread used."""
    result = python(CRASHING)
    assert (result.returncode, result.stdout, result.stderr) == (3, "the result\n", "")


@pytest.mark.parametrize("words", [["show", "plan.json"], ["help", "plan"], ["--version"]], ids=" ".join)
def test_exit_handlers_of_libraries_do_not_change_the_exit_code_without_a_reader(
    words: list[str], tmp_path: Path
) -> None:
    """The library that parses words ended the process where nothing read its output, as Python ends it."""
    plan_file.write(plan(), tmp_path / "plan.json")
    result = python(WITHOUT_READER, *words, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "")


RECOVERING = """
import os, sys
from reconciler.cli import console, documents
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
    result = python(RECOVERING)
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
