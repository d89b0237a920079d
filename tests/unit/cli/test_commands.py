"""The list of commands agrees with the commands, and typing one command imports only that one."""

import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from reconciler.cli.app import COMMANDS, HIDDEN, load_command, run
from reconciler.cli.codes import ALL_CODES
from reconciler.cli.inspect import describe_java
from reconciler.cli.settings import COMMON_PANEL, SPARK, Settings
from reconciler.errors import ExitCode
from reconciler.plan import plan_file
from reconciler.policies.fields import instant_ms
from tests.build import cluster_manifest, head, program
from tests.command import reconciler
from tests.golden.wording import mentions
from tests.unit.cli.loops import cluster_of
from tests.unit.manifest.broken import CLUSTER, floor

GOLDEN = Path(__file__).parents[2] / "golden" / "01-one-of-each-kind" / "plan.json"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_sentence_of_the_command(name: str) -> None:
    """The helps of program and command begin alike; a hidden command is hidden in both."""
    command = load_command(name)
    assert command.help.startswith(COMMANDS[name][1])
    assert command.name == name or name == "sandbox"
    assert command.hidden == (name in HIDDEN)


def help_page(folder: Path, *words: str) -> str:
    shown = reconciler(folder, *words)
    assert shown.returncode == ExitCode.DONE, shown.stderr
    return shown.stdout


def test_the_help_of_plan_diff_says_how_to_type_it(tmp_path: Path) -> None:
    """Its usage line once said `plan-diff`. The help of `plan` mentions it."""
    assert "Usage: reconciler plan diff " in help_page(tmp_path, "plan", "diff", "--help")
    assert "plan diff OLD NEW" in help_page(tmp_path, "plan", "--help")


@pytest.mark.parametrize("words", [[], ["sandbox"]], ids=["alone", "a group"])
def test_without_a_command_the_help_lists_all_commands(words: list[str], tmp_path: Path) -> None:
    """It is a page, not an error with escapes, and no line is truncated."""
    shown = reconciler(tmp_path, *words)
    assert shown.returncode == ExitCode.USAGE
    assert shown.stderr.startswith("Usage: reconciler")
    assert "error:" not in shown.stderr
    assert "\\" not in shown.stderr
    assert "..." not in shown.stderr.split("Commands:")[1]


PYTHON = re.compile(
    r"<(class|list|str|int|float|path|bool|object|function|module)\b|Path\(|\bNone\b|\bTrue\b|\bFalse\b|Traceback"
    r"|[Ii]nput should|Value error|Errno|codec|ordinal|\bdict\b|\btuple\b|Status\.|Address\(|pydantic|Enum|NoneType"
)
"""What only a Python programmer can read."""


def typed_words() -> list[list[str]]:
    """Return how each command is typed, those of groups included."""
    words = [name.split() for name in COMMANDS]
    groups = {name: getattr(load_command(name), "commands", {}) for name in COMMANDS}
    return words + [[name, inner] for name, commands in groups.items() for inner in commands]


@pytest.mark.parametrize("words", typed_words(), ids=" ".join)
def test_a_help_page_shows_no_python_and_its_own_options_first(words: list[str], tmp_path: Path) -> None:
    """`--target <list[str]>` once stood between twenty options that every command has."""
    page = help_page(tmp_path, *words, "--help")
    assert page.startswith(f"Usage: reconciler {' '.join(words)} ")
    assert not PYTHON.search(page), PYTHON.search(page)
    assert "{" not in page.splitlines()[0]
    if COMMON_PANEL in page:
        own, common = page.split(f"{COMMON_PANEL}:")
        assert "--help" in own
        assert 2 <= len(re.findall("^  -", common, re.MULTILINE)) <= 5, "few of twenty, and the page of all is named"
        assert common.endswith("reconciler help options\n")
        assert "-q, --quiet" in common
        assert "-q, --quiet" not in own
        assert "--timeout" not in page


def test_the_common_options_have_a_page_of_their_own(tmp_path: Path) -> None:
    """All of them, and `help COMMAND` is the help of the command."""
    options = {option for field in fields(Settings) if (option := f"--{field.name.replace('_', '-')}")}
    assert options <= set(re.findall(r"--[a-z-]+", help_page(tmp_path, "help", "options")))
    assert help_page(tmp_path, "help", "plan", "diff").startswith("Usage: reconciler plan diff ")
    listed = help_page(tmp_path, "help").split("Commands:")[1]
    assert {line.split()[0] for line in listed.splitlines() if line.strip()} == COMMANDS.keys() - HIDDEN
    assert reconciler(tmp_path, "help", "plam").returncode == ExitCode.USAGE


@pytest.mark.parametrize(
    ("command", "formats"),
    [("journal", "text|json|cloudevents"), ("plan", "text|md|html|json|github"), ("explain", "text|md")],
)
def test_the_help_shows_the_formats_that_a_command_takes(command: str, formats: str, tmp_path: Path) -> None:
    """Each command once listed `sarif`, which one of them writes."""
    assert f"--output <{formats}>" in help_page(tmp_path, command, "--help")


@pytest.mark.parametrize("words", ["validate", "journal", "explain", "sandbox up", "plan diff"])
def test_options_of_a_scan_are_taken_and_not_shown_where_nothing_is_scanned(words: str) -> None:
    """Scripts write them for every command; the help of `sandbox` once explained Spark."""
    name, _, inner = words.partition(" ") if words != "plan diff" else (words, "", "")
    command = load_command(name)
    options = {param.name: param for param in (command.commands[inner] if inner else command).params}
    assert all(options[spark].hidden for spark in SPARK)
    assert not any(param.hidden for param in load_command("plan").params if param.name in SPARK)


Complete = Callable[[str], list[str]]
WEEK = "topics: [orders]\nkeep: {newerThan: 7d}"


@pytest.fixture
def complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Returns what bash is offered for the last word, in a folder that is empty at first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("_RECONCILER_COMPLETE", "complete_bash")

    def run_completion(words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", f"reconciler {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert run([]) == 0
        output = capsys.readouterr()
        assert output.err == ""
        return output.out.split()

    return run_completion


def test_a_shell_completes_codes_clusters_addresses_and_sandboxes(complete: Complete, tmp_path: Path) -> None:
    """From the manifests of the folder; broken ones and an empty folder complete nothing."""
    assert complete("plan --cluster p") == []
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    (manifests / "set.yaml").write_text(f"{CLUSTER}---\n{floor(WEEK, name='week')}")
    assert complete("plan --cluster p") == ["prod-eu"]
    assert complete("plan --target o") == ["orders"]
    assert complete("journal --address RetentionF") == ["RetentionFloor/week"]
    assert complete("explain B30") == [code for code in ALL_CODES if code.startswith("B30")]
    assert complete("sandbox status --name n") == []
    (manifests / "broken.yaml").write_text("{")
    assert complete("plan --target o") == []
    assert complete("plan --cluster p") == ["prod-eu"]


def test_a_shell_shows_no_traceback_of_an_installation_that_is_broken(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of the line that somebody types."""
    monkeypatch.setitem(sys.modules, "reconciler.manifest", None)
    assert complete("plan --cluster p") == complete("plan --target o") == []


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder of files that are not what a command wants, of a plan, and of two clusters."""
    plan = GOLDEN.read_text()
    (tmp_path / "plan.json").write_text(plan)
    (tmp_path / "cut.json").write_text(plan[:300])
    (tmp_path / "list.json").write_text("[1, null, true]\n")
    (tmp_path / "wrong.json").write_text(plan.replace('"before_offset":98213', '"before_offset":null'))
    (tmp_path / "umlaut.json").write_text(plan.replace("prod-eu", "pröd"), encoding="latin-1")
    (tmp_path / "wrong.yaml").write_text(f"{head('Cluster', 'x').replace('{name: x}', '7')}\nspec: {{clusterId: ~}}\n")
    (tmp_path / "hello.txt").write_text("hello\n")
    (tmp_path / "results.json").write_text('{\n"format_version": "2.0",\n"kind": "Results",\n"run_id": "r"\n}\n')
    (tmp_path / "drift.json").write_text(
        '{\n  "format_version": "1.2",\n  "kind": "DriftReport",\n  "clusters": []\n}\n'
    )
    (tmp_path / "journal.json").write_text('{"v":1}\n')
    (tmp_path / "two").mkdir()
    for name in ("one", "two"):
        (tmp_path / "two" / f"{name}.yaml").write_text(cluster_of(name))
    return tmp_path


WRONG = [
    "plan --timeout abc",
    "plan --timeout 0",
    "plan --engine foo",
    "plan -o foo",
    "plan --output-file foo",
    "plan --spark-conf a",
    "plan --nope",
    "plan --expires-after 3x",
    "plan --expires-after 9999d",
    "plan none.yaml",
    "plan --within none.json",
    "plan --connect-as none.yaml",
    "plan diff a",
    "plan diff cut.json cut.json",
    "watch --rounds x",
    "watch --rounds 0",
    "watch --every 1",
    "apply",
    "apply --batch x",
    "apply --operations None",
    "apply cut.json",
    "apply --reviewed-tree x",
    "converge --tree None",
    "show",
    "show none.json",
    "show cut.json",
    "show list.json",
    "show wrong.json",
    "show umlaut.json",
    "drift --previous umlaut.json none",
    "restore-group umlaut.json g",
    "show .",
    "explain",
    "explain X999",
    "explain nothing plan.json",
    "explain RetentionFloor/nothing plan.json",
    "restore-group none.json g",
    "restore-group cut.json g",
    "drift --previous",
    "doctor --for x",
    "doctor --environment x",
    "init",
    "init --bootstrap-server x --no-workflows",
    "scan",
    "sandbox up --nodes x",
    "validate none",
    "validate wrong.yaml",
    "nope",
    "plam",
]


@pytest.mark.parametrize("typed", WRONG)
def test_a_message_about_wrong_words_shows_no_python(typed: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of the libraries that parse words and files once came through as they were."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    shown = reconciler(files, *typed.split())
    assert shown.returncode != 0
    page, wrong = shown.stderr + shown.stdout, typed.split()[-1]
    assert not PYTHON.search(page.replace(wrong, "") if wrong == "None" else page), page
    assert page.strip()


@pytest.mark.parametrize(("expires", "says"), [("2026-11-21T10:00:01Z", True), ("9000-01-01T00:00:00Z", False)])
def test_show_says_since_when_a_plan_has_expired(expires: str, says: bool, tmp_path: Path) -> None:
    """Only `apply` once said so, after the plan had been reviewed."""
    plan_file.write(replace(plan_file.read(GOLDEN), expires_at_ms=instant_ms(expires)), tmp_path / "p")
    shown = reconciler(tmp_path, "show", "p")
    assert (shown.returncode, f"this plan expired at {expires}, " in shown.stderr) == (0, says)
    assert ("reconciler apply" not in shown.stdout) is says, "it was the next step of a plan that apply refuses"


def test_a_comparison_says_that_limits_refuse_one_of_the_plans(tmp_path: Path) -> None:
    """A refused plan and one with a waiver were once the same: nothing differs but the verdict."""
    cases = [str(GOLDEN.parents[1] / case / "plan.json") for case in ("43-a-limit-refuses", "44-a-waiver-allows")]
    shown = reconciler(tmp_path, "plan", "diff", *cases, COLUMNS="200")
    headline, _blank, old, new = shown.stdout.splitlines()
    assert (shown.returncode, "refused by 1 limit" in old, "refused" in new) == (0, True, False)
    assert headline == "No differences in the actions, but limits refuse one of the plans."


UNDECIDED = "LeaderPolicy/al/orders[0]: nothing is decided about it"


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("plan wrong.yaml -o html", 1, "error[M114]: expected a mapping"),
        ("validate", 1, "`reconciler init` writes the first manifests"),
        ("plan --expires-after 0s", 64, "--expires-after 0s: expected more than 0s"),
        ("watch --every 0s", 64, "--every 0s: expected more than 0s"),
        # A plan in the place of manifests once gave an error for each of its lines.
        (
            "apply wrong.yaml plan.json",
            64,
            "plan.json is a saved plan, which comes before manifests: write plan.json wrong.yaml",
        ),
        ("explain orders[3] wrong.yaml plan.json", 64, "write plan.json wrong.yaml"),
        ("explain plan.json orders[3]", 64, "what to explain comes first: reconciler explain ADDRESS plan.json"),
        ("plan plan.json", 64, "`reconciler apply plan.json` carries it out"),
        *(
            (
                f"{verb} plan.json",
                64,
                "plan.json is a saved plan … `reconciler apply plan.json` … `reconciler show plan.json`",
            )
            for verb in ("plan", "validate", "drift", "converge", "clusters")
        ),
        ("plan dif plan.json plan.json", 64, "dif: there is no such file or folder; did you mean `plan diff`?"),
        ("plan -o json Diff plan.json plan.json", 64, "did you mean `plan diff`?"),
        ("apply none.json", 4, "`reconciler plan --out none.json` saves a plan"),
        ("show hello.txt", 4, "line 1 is 'hello'; a plan file begins with its header"),
        (
            "apply results.json",
            4,
            "results.json is a results file of `apply`, not a plan: `reconciler show results.json`",
        ),
        ("plan --within results.json", 4, "results.json is a results file of `apply`, not a plan"),
        ("plan diff plan.json results.json", 4, "results.json is a results file of `apply`, not a plan"),
        ("explain clicks[0] drift.json", 4, "drift.json is a drift report, not a plan: `reconciler show drift.json`"),
        ("show journal.json", 4, "journal.json is the JSON of `journal`, not a plan"),
        ("validate results.json", 64, "not a manifest: `reconciler show results.json` prints it"),
        ("restore-group results.json g -o json", 64, "json: expected one of text, md, html ("),
        ("plan --out", 64, "'--out' requires an argument (see reconciler plan --help)"),
        *((f"explain {word}", 64, f"no such code: {word}") for word in ("exit-9", "B999", "M000", "9")),
        ("explain 9", 64, "the exit codes are 0, 1, 2, 3, 4, 5, 64, 130\n"),
        # On a terminal, too: the reason once was that standard input is no terminal.
        *(
            (f"{words} --no-input", 64, "RECONCILER_NO_INPUT, forbids the question")
            for words in ("apply two --cluster one", "restore-group results.json g")
        ),
        ("explain recordPercent plan.json", 64, "or the code recordsPercent"),
        # An output file holds one cluster: the second one once overwrote the first.
        *((f"{verb} two --output-file md=shown.md", 64, "--output-file") for verb in ("plan", "converge")),
        # What cannot be written is found before the scan, which may take minutes, and is no bug.
        *(
            (f"{verb} two --cluster one --output-file text=two", 64, "two cannot be written")
            for verb in ("plan", "drift", "converge", "doctor", "journal")
        ),
        ("clusters two --output-file text=two", 1, "error: --output-file two could not be written: Is a directory\n"),
        # Nothing answers at the address of the cluster: a later check would end with exit code 1.
        *(
            (f"{words} two --cluster one --timeout 1", 64, f"expected one of {formats} (")
            for words, formats in (
                ("doctor -o html", "text, json"),
                ("journal -o html", "text, json, cloudevents"),
                ("explain LeaderPolicy/all -o html", "text, md"),
                ("plan -o sarif", "text, md, html, json, github"),
            )
        ),
        ("explain LeaderPolicy/al/orders[0] two --cluster one", 64, f"{UNDECIDED}; did you mean LeaderPolicy/all?"),
        # Another word, too, once got the formats of all commands.
        ("journal -o yaml two", 64, "expected one of text, json, cloudevents ("),
        ("plan --output-file yaml=x two", 64, "expected one of text, md, html, json, github ("),
        # An empty path is not the current folder: a script may pass an unset variable.
        *(
            (f"{words} ", 64, "an empty path")
            for words in (
                *("plan", "converge", "clusters", "validate", "watch", "drift", "doctor", "journal", "apply"),
                *("scan --out parquet", "apply plan.json", "explain RetentionFloor/a/b[0]"),
            )
        ),
        ("converge --rounds 2", 64, "--rounds 2 … --every"),
        # An empty list of operations would mean all of them, or none.
        *(
            (f"apply none.json --operations {names}", 64, f"{word} … DeleteRecords … DeleteGroups … ElectLeaders")
            for names, word in (
                ("", "empty"),
                ("delete_records", "delete_records"),
                ("DeleteRecords,", "an empty name"),
                ("DeleteRecords;ElectLeaders", "DeleteRecords;ElectLeaders"),
                ("CreateTopics", "CreateTopics"),
            )
        ),
        # The approvers of elections would otherwise release the deletions of continuous policies.
        *(
            (f"apply none.json --operations {names} --release", 64, "--release … --operations leaves out … continuous")
            for names in ("ElectLeaders", "DeleteRecords,ElectLeaders", "DeleteGroups")
        ),
    ],
)
def test_a_message_names_the_subject_and_the_next_step(typed: str, code: int, message: str, files: Path) -> None:
    """`-o html` of invalid manifests was once a bug, and an interval of 0 s meant the default."""
    shown, parts = reconciler(files, *typed.split(" ")), message.split(" … ")
    assert shown.returncode == code
    assert not PYTHON.search(shown.stderr)
    assert mentions(shown.stderr, *parts) if len(parts) > 1 else message in shown.stderr
    assert not (files / "shown.md").exists()


def test_one_manifest_is_no_plural(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(cluster_manifest("127.0.0.1:1", name="one"))
    valid, unknown = (reconciler(tmp_path, "validate", ".", "--cluster", name) for name in ("one", "once"))
    assert valid.returncode == 0
    assert valid.stdout.endswith("\nvalid: 0 policies for one in 1 file\n")
    assert unknown.returncode == ExitCode.USAGE, "it is not one of them"
    assert mentions(unknown.stderr, "once", "did you mean `one`?")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("21.0.2", "Java 21"),
        ("11.0.9", "Java 11, and Spark needs 17 or newer (--engine inline needs none)"),
        ("", "a Java that prints no version (--engine inline needs none)"),
    ],
)
def test_doctor_names_the_java_of_a_scan(
    version: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a wrong JAVA_HOME it once named the Java on PATH, and the scan then found none."""
    java = program(tmp_path / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert describe_java() == text
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert describe_java() == f"no Java in JAVA_HOME, {tmp_path}/gone (--engine inline needs none)"
