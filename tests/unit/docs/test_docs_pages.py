"""The docs for users: what they show is what the program says, what they tell to type can be typed, what they tell to write is valid."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reconciler import gitops, report
from reconciler.cli import commands as verbs
from reconciler.cli import doctor as doctor_command
from reconciler.cli.app import app
from reconciler.cli.console import styled
from reconciler.gitops.starter_manifests import starter_manifests
from reconciler.kafka.doctor import BrokerVersion, ClockSkew, DoctorReport
from reconciler.kafka.permissions import Permission, RequiredAccess, Role, Selection
from reconciler.manifest.files import load
from reconciler.model.block_codes import REASONS
from reconciler.model.names import Address, SourceLocation
from reconciler.model.outcome import Outcome, Status
from reconciler.model.plan import Plan, Satisfied, Source, sort_decisions
from reconciler.model.scan_request import GroupRequest, ScanRequest, TopicRequest
from reconciler.model.selector import Selector
from reconciler.onboarding import SCHEMA, ClusterCheck
from reconciler.plan import drift
from reconciler.policies.fields import format_instant
from tests.strategies.examples import purge, removal
from tools.generate_docs import filled

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = ("cli.md", "getting-started.md", "github.md", "rights.md", "troubleshooting.md")
NOW_MS = 1_795_250_000_000
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
DAY_MS = 86_400_000


def a_plan() -> Plan:
    clicks = purge(
        "clicks",
        0,
        policy="clicks",
        declared_at=SourceLocation("manifests/prod-eu/clicks.yaml", 1, 1),
        topic_id="6J3kzQ5hTgmPq0T9oYfR1w",
    )
    old_etl = removal(
        declared_at=SourceLocation("manifests/prod-eu/clicks.yaml", 8, 1),
        reason=f"EMPTY, no activity since {format_instant(NOW_MS - 9 * DAY_MS)}",
        fingerprint="f" * 64,
        last_activity_ms=NOW_MS - 9 * DAY_MS,
        newest_record=(3, 4711),
    )
    settled = [Satisfied(Address("LeaderPolicy", "everything-preferred", "payments", number)) for number in range(14)]
    return Plan(
        cluster="prod-eu",
        cluster_id=CLUSTER_ID,
        observed_at_ms=NOW_MS,
        expires_at_ms=NOW_MS + DAY_MS,
        decisions=sort_decisions([clicks, old_etl, *settled]),
        source=Source(commit="4f2c9aa0c1d2e3f405162738495a6b7c8d9e0f10"),
    )


def outcomes(plan: Plan) -> list[Outcome]:
    told = {"GroupRemoval": ("absent", 0), "RetentionFloor": ("log start 98213", 97213)}
    return [
        Outcome(
            action=action,
            status=Status.APPLIED,
            detail="sent and read back",
            read_back=told[action.address.kind][0],
            sends=1,
            removed_max=told[action.address.kind][1],
        )
        for action in plan.actions
    ]


def a_checkup() -> ClusterCheck:
    topics = TopicRequest(
        topics=(Selector("clicks"),), offsets=True, readers=True, instants_ms=(NOW_MS - 7 * DAY_MS,), last_purge=True
    )
    wanted = RequiredAccess(
        needs=ScanRequest(
            topics=(topics, TopicRequest(topics=(Selector("*"),))),
            groups=(GroupRequest(groups=(Selector("old-etl"),), activity=True),),
            cluster_records=True,
        ),
        purges=(Selection(selectors=(Selector("clicks"),)),),
        removals=(Selection(selectors=(Selector("old-etl"),)),),
        elections=True,
        journal_topic="_reconciler.journal",
    )
    spoken = {"DeleteRecords": (0, 2), "DeleteGroups": (0, 2), "ElectLeaders": (0, 2)}
    rights = [
        Permission(purpose=Role.PLAN, operation="DESCRIBE", resource="cluster", total=1, breaks=""),
        Permission(purpose=Role.PLAN, operation="DESCRIBE", resource="topic", total=41, breaks=""),
        Permission(purpose=Role.PLAN, operation="DESCRIBE_CONFIGS", resource="topic", total=1, breaks=""),
        Permission(purpose=Role.PLAN, operation="DESCRIBE", resource="group", total=12, breaks=""),
        Permission(purpose=Role.PLAN, operation="READ", resource="topic", total=2, breaks=""),
        Permission(
            purpose=Role.APPLY,
            operation="DELETE",
            resource="topic",
            total=1,
            missing=("clicks",),
            breaks="apply cannot delete these topics' records",
        ),
        Permission(purpose=Role.APPLY, operation="DELETE", resource="group", total=1, breaks=""),
        Permission(
            purpose=Role.ELECTIONS,
            operation="ALTER",
            resource="cluster",
            total=1,
            missing=("",),
            breaks="apply cannot elect leaders",
        ),
    ]
    found = DoctorReport(
        cluster_id=CLUSTER_ID,
        brokers=(1, 2, 3),
        client="confluent-kafka 2.16.1, librdkafka 2.16.0",
        versions=(BrokerVersion(broker="broker-1:9093", kafka_4=True, operations=spoken),),
        clock=ClockSkew(age_ms=3_000),
        topics=("clicks", "payments", *(f"topic-{number}" for number in range(39))),
        groups=("billing", "old-etl", *(f"group-{number}" for number in range(10))),
        rights=tuple(rights),
        beyond=(),
        unseen=(),
        journal_missing=False,
    )
    return ClusterCheck(
        cluster="prod-eu", bootstrap_servers=("broker-1:9093", "broker-2:9093"), wanted=wanted, found=found
    )


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```\n"


def validated(files: Mapping[str, str], folder: Path) -> str:
    """What `reconciler validate` prints about these files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "reconciler", "validate"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def commands(verb: verbs.Verb) -> Iterator[tuple[str, TyperCommand]]:
    """(what is typed, the command): one, or those of a group."""
    found = verbs.command(verb)
    if isinstance(found, TyperGroup):
        for name, command in found.commands.items():
            yield f"{verb} {name}", command
    else:
        yield verb.replace("-", " "), found


def common_options() -> list[TyperOption]:
    """What every command takes, as `drift` has it."""
    ((_, command),) = commands("drift")
    own = {"paths", "previous", "metrics"}
    return [each for each in command.params if isinstance(each, TyperOption) and each.name not in own]


def option_rows(options: Sequence[TyperOption], head: str) -> Iterator[str]:
    """A Markdown table of them."""
    yield f"| {head} | default | variable | |"
    yield "|---|---|---|---|"
    for each in options:
        names = ", ".join(f"`{name}`" for name in (*each.opts, *each.secondary_opts))
        default = "" if each.default in (None, False) or each.required else f"`{each.default}`"
        variable = f"`{each.envvar}`" if each.envvar else ""
        yield f"| {names} | {default} | {variable} | {(each.help or '').replace('|', ' or ')} |"


def verb_pages() -> Iterator[str]:
    """A part for each verb: its sentence, its words, and the options that are its own."""
    common = {each.name for each in common_options()}
    for verb in verbs.TOLD:
        for typed_as, command in commands(verb):
            yield f"### `reconciler {typed_as}`\n"
            yield f"{' '.join((command.help or '').split())}\n"
            words = [each for each in command.params if isinstance(each, TyperArgument)]
            for word in words:
                name = word.metavar or (word.name or "").upper()
                yield f"- `{name}`: {word.help or ''}"
            if words:
                yield ""
            own = [each for each in command.params if isinstance(each, TyperOption) and each.name not in common]
            if own:
                yield from option_rows(own, "option")
                yield ""


def sections(folder: Path) -> dict[str, str]:
    plan, checkup = a_plan(), a_checkup()
    written = starter_manifests(CLUSTER_ID, ["broker-1:9093"], "prod-eu")
    paths = [*written, SCHEMA, *map(str, gitops.github(None, version="0"))]
    reasons = (f"**{code}** {told.title}. {told.explanation}\n" for code, told in REASONS.items())
    return {
        "comment": fenced(report.markdown(plan), "markdown"),
        "issue": fenced(report.drift_markdown(drift.report(plan)), "markdown"),
        "doctor": fenced(styled(doctor_command._text(checkup, Role.APPLY), colour=False)),
        "acls": fenced("\n".join(doctor_command._commands(checkup, "User:reconciler")), "sh"),
        "init": fenced("\n".join(paths)),
        "validate": fenced(validated(written, folder)),
        "plan": fenced(styled(report.text(plan, saved_to="plan.json"), colour=False)),
        "apply": fenced(styled(report.results_text(plan, outcomes(plan)), colour=False)),
        "reasons": "\n".join(reasons),
        "verbs": "\n".join(verb_pages()),
        "common": "\n".join(option_rows(common_options(), "option")) + "\n",
    }


def test_what_the_pages_show_is_what_the_program_says(tmp_path: Path) -> None:
    """The generated parts of the pages are made by the very functions that print (UPDATE_DOCS=1 rewrites them)."""
    made = sections(tmp_path)
    for name in PAGES:
        page = DOCS / name
        fresh = filled(page.read_text(encoding="utf-8"), made)
        if os.environ.get("UPDATE_DOCS"):
            page.write_text(fresh, encoding="utf-8")
        assert page.read_text(encoding="utf-8") == fresh, f"{name} is stale: UPDATE_DOCS=1 pytest {__file__}"


def typed() -> Iterator[tuple[str, str]]:
    """(page, command line) of everything that the docs tell to type."""
    for page in sorted((*DOCS.glob("*.md"), ROOT / "README.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```(?:console|sh)\n(.*?)```", text, re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.strip().removeprefix("$ ")
                if command.startswith("reconciler "):
                    yield page.name, command
        if page.parent == ROOT:  # there commands stand in blocks without a language
            for command in re.findall(r"^    (reconciler .*)$", text, re.MULTILINE):
                yield page.name, command


def parsed(words: list[str]) -> None:
    """Let the command line take these words apart, running nothing. Raises what it raises for wrong usage."""
    if words in (["--version"], ["--install-completion"]):
        return
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        _, command, words = command.resolve_command(typer.Context(command), list(words))
    command.make_context("reconciler", list(words))


def test_every_command_of_the_docs_can_be_typed() -> None:
    """Each command exists with the options that it is shown with; a renamed option makes its page fail."""
    found = list(typed())
    assert len(found) > 15
    for page, command in found:
        words = shlex.split(command, comments=True)[1:]
        if words[:2] == ["plan", "diff"]:
            words = ["plan-diff", *words[2:]]
        try:
            parsed(words)
        except Exception as wrong:
            raise AssertionError(f"{page}: {command}: {wrong}") from wrong


@pytest.mark.parametrize("name", ["getting-started.md", "migration.md", "rights.md"])
def test_every_manifest_of_the_docs_is_valid(name: str, tmp_path: Path) -> None:
    """Each YAML block loads, all of a page together, beside a Cluster."""
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    if not any("kind: Cluster" in block for block in blocks):
        blocks.append(starter_manifests(CLUSTER_ID, ["broker-1:9093"], "prod-eu")["manifests/prod-eu/cluster.yaml"])
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block, encoding="utf-8")
    if name == "rights.md":
        leaders = starter_manifests(CLUSTER_ID, ["b:1"], "prod-eu")["manifests/prod-eu/leaders.yaml"]
        (tmp_path / "leaders.yaml").write_text(leaders, encoding="utf-8")
    load([tmp_path], now_ms=NOW_MS)


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link of the docs is a file, and its fragment a heading there."""
    for page in DOCS.glob("*.md"):
        for target, fragment in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8")):
            file = page if not target else (page.parent / target)
            assert file.exists(), f"{page.name}: {target}"
            if fragment:
                headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
                assert fragment in slugs, f"{page.name}: {target}#{fragment}"


def test_every_test_that_the_guarantees_name_is_there() -> None:
    """A promise whose test was renamed or removed is a promise without a test."""
    text = (DOCS / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[^`]+)`", text)) | {
        f"tests/properties/{name}" for name in re.findall(r"`(test_[^`/]+)`", text)
    }
    assert len(named) > 30
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_metrics_are_all_told_and_all_there(tmp_path: Path) -> None:
    """The table of metrics names those that are written, each of them."""
    drift.write_metrics([drift.report(a_plan())], tmp_path / "drift.prom")
    written = set(re.findall(r"^# TYPE (\w+) ", (tmp_path / "drift.prom").read_text(), re.MULTILINE))
    told = set(re.findall(r"^\| `(reconciler_\w+)`", (DOCS / "cron.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert written == told


def test_every_verb_that_the_pages_tell_to_make_is_there() -> None:
    """`make X` in any page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md"))
    told = {
        verb
        for page in pages
        for verb in re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"demo", "test", "check"} <= told
    assert told <= targets, told - targets
