"""The docs for users: their output is real output, their commands are valid, and so are their
manifests.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reconciler.cli.app import COMMANDS, app, load_command
from reconciler.cli.documents import texts
from reconciler.companions.suggest.report import suggest_report
from reconciler.companions.suggest.rules import suggest
from reconciler.companions.suggest.starter import starter_manifests
from reconciler.doctor import ClusterCheck, doctor_report, required_access
from reconciler.kafka.doctor import broker_version
from reconciler.kafka.journal_topic import create_command
from reconciler.kafka.permissions import NameSelection, Permission, Role
from reconciler.manifest.files import load
from reconciler.manifest.schema import schemas
from reconciler.model.selector import Selector
from reconciler.model.snapshot import GroupState
from reconciler.report.terminal import write_lines
from tests.build import policy
from tests.strategies import facts
from tests.strategies.facts import CLUSTER_ID, DAY
from tests.unit.docs.pages import DOCS, ROOT, assert_fresh, code_blocks, fenced, read
from tests.unit.test_doctor import HEALTHY
from tools.generate_docs import code_tables, wrap

MANUAL = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "adr")
"""The pages for users; decisions are for developers."""
LINKING = sorted((*DOCS.rglob("*.md"), *ROOT.glob("*.md")))
GOLDEN = ROOT / "tests" / "golden" / "01-one-of-each-kind"
GENERATED = (
    ROOT / "README.md",
    *(DOCS / f"{name}.md" for name in ("cli", "commands", "plan", "rights", "suggest")),
)
"""Pages with parts that `sections` writes."""
NOW_MS = 1_795_250_000_000


def right(purpose: Role, operation: str, resource: str, name: str = "", **fields: Any) -> Permission:
    """A right on one name, or on as many as `total` says."""
    selections = (NameSelection(selectors=(Selector.literal(name),)),) if name else ()
    defaults = {"total": 1, "breaks": "", "selections": selections}
    return Permission(purpose=purpose, operation=operation, resource=resource, **defaults | fields)


def a_checkup() -> ClusterCheck:
    policies = (facts.floor("clicks", keep={"newerThan": "7d"}, every="30s"), facts.removal("old-etl"), facts.leaders())
    cluster = facts.cluster(journal={"topic": "_reconciler.journal"})
    required = required_access(cluster, policies, observed_at_ms=NOW_MS)
    versions = {1: (4, 18), 2: (1, 11), 3: (0, 13), 9: (1, 10), 10: (0, 6), 15: (0, 6), 16: (0, 5), 32: (1, 4)}
    versions |= {21: (0, 2), 42: (0, 2), 43: (0, 2)}
    rights = [
        right(Role.PLAN, "DESCRIBE", "cluster"),
        right(Role.PLAN, "DESCRIBE", "topic", total=41),
        right(Role.PLAN, "DESCRIBE_CONFIGS", "topic", "clicks"),
        right(Role.PLAN, "DESCRIBE", "group", total=12),
        *(right(Role.PLAN, "READ", "topic", name) for name in ("__consumer_offsets", "_reconciler.journal", "clicks")),
        right(Role.APPLY, "DELETE", "topic", missing=("clicks",), breaks="apply cannot carry out any record deletion"),
        right(Role.APPLY, "DELETE", "group", "old-etl"),
        right(Role.APPLY, "WRITE", "topic", "_reconciler.journal"),
        right(Role.ELECTIONS, "ALTER", "cluster", missing=("",), breaks="apply cannot carry out any election"),
    ]
    report = replace(
        HEALTHY,
        cluster_id=CLUSTER_ID,
        brokers=(1, 2, 3),
        client="confluent-kafka 2.16.1, librdkafka 2.16.0",
        versions=(broker_version("broker-1:9093", versions, required.requests),),
        clock_age_ms=3_000,
        topics=("clicks", "payments", *(f"topic-{number}" for number in range(39))),
        groups=("billing", "old-etl", *(f"group-{number}" for number in range(10))),
        rights=tuple(rights),
        beyond=(),
    )
    return ClusterCheck(
        cluster="prod-eu", bootstrap_servers=("broker-1:9093", "broker-2:9093"), required=required, report=report
    )


def suggested() -> str:
    """Return the first part of a report: a group that holds records back."""
    snapshot = facts.snapshot(
        facts.partition(
            topic="orders", at={DAY: 50}, readers=(facts.reader("billing", 90), facts.reader("old-etl", 20))
        ),
        facts.group("billing", idle=facts.HOUR, state=GroupState.STABLE),
        facts.group("old-etl"),
    )
    lines = shown(write_lines(suggest_report(suggest(snapshot, cluster=facts.cluster())), width=100))
    return "\n\n".join(lines.split("\n\n")[:2])


def shown(lines: Iterable[Text]) -> str:
    return "".join(texts(lines, color=False))


def commands(name: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield (typed words, command) for a command, or for each command of a group."""
    command = load_command(name)
    if isinstance(command, TyperGroup):
        for member, member_command in command.commands.items():
            yield f"{name} {member}", member_command
    else:
        yield name, command


def common_options() -> list[TyperOption]:
    """The options of every command, taken from `drift`."""
    ((_, command),) = commands("drift")
    own = {"paths", "previous", "metrics"}
    return [param for param in command.params if isinstance(param, TyperOption) and param.name not in own]


def option_rows(options: Sequence[TyperOption]) -> Iterator[str]:
    """Yield the lines of a Markdown table of options."""
    yield "| option | default | variable | |"
    yield "|---|---|---|---|"
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        default = "" if option.default in (None, False) or option.required else f"`{option.default}`"
        variable = f"`{option.envvar}`" if option.envvar else ""
        yield f"| {names} | {default} | {variable} | {(option.help or '').replace('|', ' or ')} |"


def command_pages() -> Iterator[str]:
    """Return a part for each command: its description, its arguments and its own options."""
    common = {option.name for option in common_options()}
    for name in COMMANDS:
        for typed_as, command in commands(name):
            yield f"## `reconciler {typed_as}`\n"
            yield f"{wrap(' '.join((command.help or '').split()))}\n"
            arguments = [param for param in command.params if isinstance(param, TyperArgument)]
            for argument in arguments:
                yield f"- `{argument.metavar or (argument.name or '').upper()}`: {argument.help or ''}"
            if arguments:
                yield ""
            options = (param for param in command.params if isinstance(param, TyperOption) and not param.hidden)
            own = [param for param in options if param.name not in common]
            if own:
                yield from option_rows(own)
                yield ""


def sections() -> dict[str, str]:
    checkup = a_checkup()
    return {
        "golden manifest": fenced((GOLDEN / "manifests" / "policy.yaml").read_text(encoding="utf-8"), "yaml"),
        "golden plan": fenced((GOLDEN / "plan.txt").read_text(encoding="utf-8")),
        "doctor": fenced(shown(write_lines(doctor_report(checkup, Role.APPLY)))),
        "acls": fenced("\n".join(checkup.acl_commands("User:reconciler")), "sh"),
        "suggest": fenced(suggested()),
        "commands": "\n".join(command_pages()),
        "common": "\n".join(option_rows(common_options())) + "\n",
        "exit codes": code_tables()["exit codes"],
    }


def test_generated_parts_of_the_pages_are_up_to_date() -> None:
    """The functions that print also write the generated parts (UPDATE_DOCS=1 rewrites them)."""
    fresh = sections()
    for page in GENERATED:
        assert_fresh(page, fresh)


def typed_commands() -> Iterator[tuple[str, str]]:
    """Yield (page, command line) for every command that the docs show."""
    for page in (*MANUAL, ROOT / "README.md"):
        text = read(page)
        for language, block in re.findall(r"```(console|sh)\n(.*?)```", text, re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.strip().removeprefix("$ ")
                output = language == "console" and not line.startswith("$ ")
                if command.startswith("reconciler ") and not output:
                    yield page.name, command
        if page.parent == ROOT:  # the README shows commands in blocks without a language
            for command in re.findall(r"^    (reconciler .*)$", text, re.MULTILINE):
                yield page.name, command


def parse(words: list[str]) -> None:
    """Parse the words without running the command. Raises the error of wrong usage."""
    if words in (["--version"], ["--install-completion"]):
        return
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup):
        _, command, words = command.resolve_command(typer.Context(command), list(words))
    command.make_context("reconciler", list(words))


def test_every_command_of_the_docs_can_be_typed() -> None:
    """A renamed option makes the test fail."""
    lines = list(typed_commands())
    assert len(lines) > 15
    for page, command in lines:
        words = shlex.split(command, comments=True)[1:]
        try:
            parse(words)
        except Exception as error:
            raise AssertionError(f"{page}: {command}: {error}") from error


GUIDES = [DOCS / f"{name}.md" for name in ("getting-started", "migration", "rights")]
REFERENCE = [DOCS / "manifests.md", *sorted((DOCS / "kinds").glob("*.md"))]


@pytest.mark.parametrize("page", [*GUIDES, *REFERENCE], ids=lambda page: page.stem)
def test_every_manifest_of_the_docs_is_valid(page: Path, tmp_path: Path) -> None:
    """Beside the Cluster and the policy that it needs. The YAML blocks of a guide load together."""
    blocks = code_blocks(page, "yaml")
    assert blocks
    starter = starter_manifests(CLUSTER_ID, ["broker-1:9093"], "prod-eu")
    for loaded in [blocks] if page in GUIDES else [[block] for block in blocks]:
        shown = "".join(loaded)
        if "kind: Cluster" not in shown:
            loaded.append(starter["manifests/prod-eu/cluster.yaml"])
        if page.name == "rights.md":
            loaded.append(starter["manifests/prod-eu/leaders.yaml"])
        if page in REFERENCE and "kind: Waiver" in shown:
            loaded.append(policy("RetentionFloor", "clicks", "topics: [clicks], keep: {last: 1}"))
        (tmp_path / "all.yaml").write_text("---\n".join(loaded), encoding="utf-8")
        load([tmp_path], now_ms=NOW_MS)


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link leads to a file, and its fragment to a heading of this file."""
    headings = {page: re.findall(r"^#+ (.*)$", read(page), re.MULTILINE) for page in LINKING}
    broken = []
    for page in LINKING:
        for target, fragment in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", read(page)):
            file = (page.parent / target).resolve() if target else page
            slugs = (re.sub(r"[^\w -]", "", heading).strip().lower() for heading in headings.get(file, ()))
            if not file.exists() or (fragment and fragment not in {slug.replace(" ", "-") for slug in slugs}):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{fragment}")
    assert broken == []


def test_every_kind_has_a_page() -> None:
    """docs/kinds has one page per kind, and the guide links to each of them."""
    names = {name.removesuffix(".json") for name in schemas() if name != "manifest.json"}
    guide = read("docs/manifests.md")
    assert {page.stem for page in (DOCS / "kinds").iterdir()} == names
    assert set(re.findall(r"\(kinds/([a-z-]+)\.md\)", guide)) == names


def test_the_table_of_commands_is_complete() -> None:
    """The first table of cli.md names every command of the program and no other."""
    table = read("docs/cli.md").partition("## Exit codes")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {word.partition(" ")[0] for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    assert named == {name for name in COMMANDS if " " not in name}


def test_messages_that_the_pages_quote_exist() -> None:
    """Each message that troubleshooting.md quotes is a text of the program; `…` stands for a value."""
    sources = "".join(read(path) for path in (ROOT / "reconciler").rglob("*.py"))
    page = read("docs/troubleshooting.md")
    quoted = {
        text for text in re.findall(r"`([a-z][^`]* [^`]*)`", page) if not text.startswith(("reconciler ", "plan "))
    }
    assert len(quoted) >= 9
    for text in quoted:
        for part in re.split("…|KAFKA_PASSWORD|30", text):
            assert part.strip() in sources, text


def test_the_page_about_clusters_creates_the_journal_topic_as_init_does() -> None:
    """A user who follows the page must end with a topic that `converge` accepts."""
    page = read("docs/kinds/cluster.md")
    assert f"\n{create_command('_reconciler.journal')}\n" in page


def test_every_file_that_a_page_names_exists() -> None:
    """In the repository, below `reconciler/`, or a test by its name alone. Manifests are the reader's own.

    A guarantee whose test was renamed or removed has no test.
    """
    path = re.compile(r"`(tests/[^`]+|(?:[\w.-]+/)+[\w.-]+\.(?:py|toml|yaml|yml|md)|test_\w+\.py)`")
    found = ((page.name, name) for page in LINKING for words in path.findall(read(page)) for name in words.split())
    named = {(page, name) for page, name in found if "manifests/" not in name}
    assert len(named) > 150
    tests = {test.name for test in (ROOT / "tests").rglob("test_*.py")}
    exist = {
        name for _, name in named if name in tests or any((at / name).exists() for at in (ROOT, ROOT / "reconciler"))
    }
    assert {at for at in named if at[1] not in exist} == set()


def test_every_threat_has_a_test_or_rests_on_github() -> None:
    text = read("docs/threat-model.md")
    rows = [
        line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| way", "| principal"))
    ]
    assert len(rows) > 25
    assert [row for row in rows if "`tests/" not in row.rpartition(" | ")[2]] == []


def test_every_make_target_that_the_pages_name_exists() -> None:
    """`make X` in any page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = {
        target for page in LINKING for target in re.findall(r"(?:`|^    )make ([a-z-]+)", read(page), re.MULTILINE)
    }
    assert {"demo", "test", "check"} <= named
    assert named <= targets, named - targets
