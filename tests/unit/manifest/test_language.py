"""What the manifest language refuses and accepts, across kinds.

Docstrings quote sentences of docs/manifests.md or of the design.
"""

import re

import pytest

from reconciler.manifest.parse import example, model_issue
from reconciler.manifest.yaml import Node, TextRange
from reconciler.model.action import Mode
from reconciler.policies import RetentionFloor
from reconciler.report.diagnostics import diagnostics_document, write_diagnostics
from tests.unit.manifest.broken import CLUSTER, GOOD, NOW_MS, WAIVED, cluster, floor, manifest, waiver
from tests.unit.manifest.checking import accepted, codes, diagnostics_of, outcome


def test_the_example_of_the_design_is_rendered_exactly() -> None:
    """With a stable code, the place and the source line: to the letter."""
    text = (
        "# yaml-language-server: $schema=../schemas/manifest.json\napiVersion: reconciler/v1\nkind: RetentionFloor\n"
        "metadata:\n  name: orders-gdpr\nspec:\n  topics: [orders]\n  keep: {newerThan: 7d}\n  partitons: [0, 1]\n"
    )
    assert write_diagnostics(diagnostics_of(text)) == (
        "error[M112]: unknown field `partitons`\n"
        "  --> it.yaml:9:3\n"
        "   |\n"
        " 9 |   partitons: [0, 1]\n"
        "   |   ^^^^^^^^^ did you mean `partitions`?\n"
        "   = in RetentionFloor/orders-gdpr, spec\n"
    )


def test_all_errors_at_once_in_file_order() -> None:
    """ "All errors of a run are reported at once, in file order"."""
    broken = floor("topics: []\nkeep: {newerThan: 7, lst: 5}\nconsumers: nobody\npartitons: [0]")
    _, diagnostics = outcome({"b.yaml": broken, "c.yaml": CLUSTER, "a.yaml": "kind: [\n"})
    assert [
        (diagnostic.location.path, diagnostic.location.line, diagnostic.code)
        for diagnostic in diagnostics
        if diagnostic.code != "M403"
    ] == [
        ("b.yaml", 5, "M116"),
        ("b.yaml", 6, "M121"),
        ("b.yaml", 6, "M112"),
        ("b.yaml", 7, "M118"),
        ("b.yaml", 8, "M112"),
        ("a.yaml", 2, "M101"),
    ]


def test_every_diagnostic_has_all_its_parts() -> None:
    """Code, file, line, column, source line with span, place in the manifest, and a hint."""
    for diagnostic in diagnostics_of(
        floor("topics: [2024]\nkeep: {newerThan: 7d, last: -1}\nevery: 5\nexceptGroups:\n<<: {a: 1}")
    ):
        location = diagnostic.location
        assert location.path == "it.yaml"
        assert location.line > 0
        assert diagnostic.end_column > location.column > 0
        assert diagnostic.source_line is not None
        assert diagnostic.context.startswith("in RetentionFloor/orders, spec")
        assert diagnostic.hint


def test_several_documents_and_files() -> None:
    """ "Several documents per file, several files per folder, folders nest"."""
    manifests, _ = outcome(
        {
            "cluster.yaml": CLUSTER + "---\n" + floor(GOOD),
            "team/clicks.yaml": floor("topics: [clicks]\nkeep: {last: 5}", name="clicks"),
        }
    )
    assert manifests is not None
    assert [policy.metadata.name for policy in manifests.for_cluster().policies] == ["clicks", "orders"]


@pytest.mark.parametrize(("line", "mode"), [("", Mode.MERGE), ("mode: continuous\n", Mode.CONTINUOUS)])
def test_the_default_mode_is_merge(line: str, mode: Mode) -> None:
    """ "mode: merge (default) … continuous"."""
    (policy,) = accepted(floor(GOOD, more=line)).policies
    assert policy.mode is mode


def test_policies_carry_owner_reason_and_where_they_were_declared() -> None:
    """The plan shows the owner and the reason, and the first line of the document."""
    text = manifest("RetentionFloor", "orders", GOOD, metadata="owner: team-orders, reason: erase after 30 days")
    (policy,) = accepted(f"# a comment\n---\n{text}").policies
    assert (policy.metadata.owner, policy.metadata.reason) == ("team-orders", "erase after 30 days")
    assert str(policy.declared_at) == "it.yaml:3"


def spec(rules: str, more: str = "") -> str:
    """Return a floor on `orders`."""
    return floor(f"topics: [orders]\nkeep: {{{rules}}}\n{more}")


def good(old: str, new: str) -> str:
    """Return a good floor with another text at one place."""
    assert old in floor(GOOD)
    return floor(GOOD).replace(old, new)


REFUSED = {
    # Without a kind the fields cannot be validated; a kind that is not text has the wrong type.
    "M113": [
        "apiVersion: reconciler/v1\nmetadata: {name: a}\n",
        "{}\n",
        good("apiVersion: reconciler/v1\n", ""),
        good("{name: orders}", "{owner: me}"),
    ],
    "M114": ["kind: 7\n", "kind: [Cluster]\n", good("{name: orders}", "orders")],
    "M110": ["kind: 010\n"],
    "M113 M113": ["apiVersion: reconciler/v1\nkind: RetentionFloor\n"],
    "M115": [good("{name: orders}", "{name: 7}")],
    "M118": [floor(GOOD, more="mode: always\n")],
    "M112": [manifest("Waiver", "w", WAIVED, more="mode: merge\n") + "---\n" + floor(GOOD)],
    # A name is an address: lower-case letters, digits, dots and dashes, at most 63 characters.
    "M119": [
        floor(GOOD, name=f"'{name}'")
        for name in ("Orders", "-orders", "orders-", "a" * 64, "a/b", "a b", ".", "ordérs")
    ],
    # Each could be meant as none or as all. A list with only commented entries is empty.
    "M116": [
        floor("topics: []\nkeep: {last: 5}"),
        spec("unreadBy: []"),
        spec("fromOffset: {}"),
        spec("last: 5", "exceptTopics: []"),
        spec("last: 5", "partitions: []"),
        floor("topics: ['']\nkeep: {last: 5}"),
        spec("unreadBy: ['']"),
        spec("last: 5", "exceptTopics:"),
    ],
    # Fields that a merge key or an alias would add are not missing.
    "M105": [floor("<<: {keep: {last: 5}}\ntopics: [orders]")],
    "M104 M104": [floor("topics: &t [orders]\nexceptTopics: *t\nkeep: {last: 5}")],
    "M104 M110": [floor("topics: [orders, *x]\nkeep: {last: 5, newerThan: 010}")],
    "M104": [spec("last: 5, *x : 1")],
    # Documents before a syntax error are validated, and nothing behind it is reported as missing.
    "M116 M101": [floor("topics: []\nkeep: {last: 5}") + "---\n" + waiver(WAIVED) + "---\na: [\n"],
    "M115 M114": [floor(GOOD + "\nconsumers: 5\nexpectAtMost: [1]")],
    # Of two unknown fields that resemble a known field, only the first is taken for it.
    "M112 M112 M112": [spec("last: 5", "partitons: [0]\npartitionz: [1]\nzzz: 1")],
    # The same text is invalid now and valid later.
    "M206": [spec("since: 2026-12-24T00:00:00Z")],
}


@pytest.mark.parametrize(("expected", "text"), [(expected, text) for expected in REFUSED for text in REFUSED[expected]])
def test_what_is_refused_in_any_kind(expected: str, text: str) -> None:
    assert codes(text) == expected.split()


def test_rules_about_time_pass() -> None:
    assert codes(REFUSED["M206"][0], now_ms=NOW_MS + 40 * 86_400_000) == []


def metadata(line: str) -> str:
    return good("metadata: {name: orders}", f"metadata:\n  name: orders\n  {line}")


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        # All kinds, and the fields of such a manifest are not validated.
        (manifest("Deployment", "a", "replicas: 1"), "M120", "LeaderPolicy, ExternalReader, Waiver"),
        (good("reconciler/v1", "reconciler/v2"), "M118", "reconciler/v1"),
        # Scalars that YAML turned into something else: quote them, or remove the quotes.
        *((metadata(f"owner: {text}"), "M115", f'"{text}"') for text in ("2024", "true", "1.5")),
        (metadata("owner: ''"), "M116", ""),
        (metadata("owner: [me]"), "M114", ""),
        (metadata("owner:"), "M116", ""),
        *((metadata(f"{field}: me"), "M112", "") for field in ("ower", "1", "true")),
        (spec("last: '5'"), "M114", "quotes"),
        # An unknown field of a nested mapping lists the known fields.
        (spec("last: 5, zzz: 1"), "M112", "newerThan, since, last, fromOffset, topicId, unreadBy"),
        # A list has at most a thousand items: a reviewer cannot read more.
        (floor(f"topics: [{','.join(f't{n}' for n in range(1001))}]\nkeep: {{last: 5}}"), "M119", ""),
    ],
)
def test_the_hint_says_what_to_write(text: str, code: str, hint: str) -> None:
    (only,) = diagnostics_of(text)
    assert only.code == code
    assert only.hint
    assert only.hint.endswith(hint) if "," in hint else hint in only.hint


@pytest.mark.parametrize(
    ("kind", "near"), [("RetentionFlor", "RetentionFloor"), ("groupRemoval", "GroupRemoval"), ("Waver", "Waiver")]
)
def test_unknown_kinds(kind: str, near: str) -> None:
    """The hint has the closest kind; the manifest is validated as that kind."""
    (first, *rest) = diagnostics_of(manifest(kind, "orders", "nothing: 1"))
    assert (first.code, f"`{near}`" in first.hint) == ("M120", True)
    assert "M112" in [diagnostic.code for diagnostic in rest]


def test_yes_and_no_stay_text() -> None:
    """YAML 1.2: `no` is text, and a group of that name is a group of that name."""
    (policy,) = accepted(floor("topics: [orders]\nkeep: {unreadBy: [no, yes]}")).policies
    assert isinstance(policy, RetentionFloor)
    assert policy.spec.keep.unread_by == ("no", "yes")


def test_misspelt_fields_are_validated_as_the_closest_field() -> None:
    """One run reports all errors, and none of them twice."""
    diagnostics = diagnostics_of(floor('topic: ["clicks-*"]\nkep: {lst: -5}'))
    assert [(diagnostic.code, diagnostic.location.line, diagnostic.location.column) for diagnostic in diagnostics] == [
        ("M112", 5, 3),
        ("M112", 6, 3),
        ("M112", 6, 9),
        ("M119", 6, 14),
    ]
    assert [diagnostic.context for diagnostic in diagnostics[2:]] == ["in RetentionFloor/orders, spec.keep"] * 2


def test_wrong_types() -> None:
    """The message names expected and actual type in the words of the language."""
    for spec, types in (
        (
            "topics: orders\nkeep: 5\npartitions: {a: 1}\ndriftAfter: [1]",
            [("list", "text"), ("mapping", "number"), ("list", "mapping"), ("duration",)],
        ),
        ("topics: [orders]\nkeep: {last: many, fromOffset: [1]}", [("whole number", "text"), ("mapping", "list")]),
        (
            "topics: [orders]\nkeep: {last: 1.5}\npartitions: [true]",
            [("whole number",), ("whole number", "true or false")],
        ),
    ):
        for diagnostic, words in zip(diagnostics_of(floor(spec)), types, strict=True):
            assert diagnostic.code == "M114"
            assert re.search(".*".join(words), diagnostic.message)


def test_hostile_text_cannot_forge_output() -> None:
    """A manifest may come from any pull request: its text is escaped in all output."""
    (only,) = diagnostics_of(floor(GOOD + '\n"\\e[31mevil\\r::error::\\u202e": 1'))
    assert only.code == "M112"
    shown = write_diagnostics([only])
    assert "\x1b" not in shown
    assert "\\u001b[31mevil\\u000d" in shown
    assert "::error::\\u202e" in shown
    command, totals = diagnostics_document([only]).writers["github"]().splitlines()
    assert command.startswith("::error ")
    assert totals.startswith("::notice ")


def test_many_errors_are_bounded() -> None:
    """The first 200 errors of a file are shown, and the number of the others."""
    _, diagnostics = outcome({"a.yaml": "".join(f"f{number}:\n" for number in range(500)), "c.yaml": cluster()})
    in_file = [diagnostic for diagnostic in diagnostics if diagnostic.location.path == "a.yaml"]
    assert len(in_file) == 201
    assert in_file[-1].code == "M006"
    assert re.findall(r"\d+", in_file[-1].message) == ["301"]


@pytest.mark.parametrize("name", ["\\ud83d\\ude00", "\\ud83d", "a\\udfff"])
def test_half_a_character_is_no_text(name: str) -> None:
    """JSON writes one beyond U+FFFF as two escapes, and YAML reads two characters: a protection protected nothing."""
    assert codes(floor(f'topics: [orders]\nkeep: {{last: 5}}\nexceptGroups: ["{name}"]')) == ["M101"]
    assert codes(floor('topics: [orders]\nkeep: {last: 5}\nexceptGroups: ["\\U0001f600", "😀"]')) == ["M117"]


def test_errors_of_a_file_without_a_manifest() -> None:
    """An error in a file without a manifest has no context."""
    for text, code in (("%YAML 3\n---\n", "M102"), ("# \u202e\n", "M108"), ('"\\UFFFFFFFF": 1\n', "M101")):
        (only,) = diagnostics_of(text)
        assert (only.code, only.context) == (code, "")


def test_a_bound_is_printed_as_it_would_be_written() -> None:
    """The bound of a share was printed as 100.0; that of a number of 32 bits keeps all of its digits."""
    (percent,) = diagnostics_of(cluster("limits: {recordsPercent: 200}"))
    assert (percent.message, percent.hint) == ("more than 100", "at most 100")
    (partition,) = diagnostics_of(floor("topics: [orders]\npartitions: [2147483648]\nkeep: {last: 5}"))
    assert partition.hint == "at most 2147483647"


def test_unknown_errors_of_the_model_library_have_words() -> None:
    """An unknown error of the model library keeps the message of the library."""
    error = {"type": "new_in_a_later_version", "msg": "Something new"}
    issue = model_issue(error, Node(1, TextRange(1, 1, 1, 2)), ("spec",))
    assert (issue.code, issue.message) == ("M119", "Something new")
    assert issue.hint
    assert example(RetentionFloor, ()) == ""
    assert example(RetentionFloor, ("spec", "topics", 3)).endswith('topics: ["clicks-*"]')
