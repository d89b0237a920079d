"""Every code that a diagnostic can carry, with what `explain CODE` and the docs say about it. Codes are never reused.

M0xx files, M1xx the text and its shape, M2xx rules within one manifest, M3xx rules across manifests, M4xx warnings.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A short title, and a paragraph: why it is refused and what to do."""

    title: str
    explanation: str


CODES: Mapping[str, Code] = {
    "M001": Code(
        "no such file or folder",
        "A path that was given does not exist. Nothing is desired by accident: a mistyped path is an error, not an empty set.",
    ),
    "M002": Code(
        "file cannot be read",
        "The file exists and cannot be read: missing rights, or it is a device, a pipe or a socket. Only regular files are read.",
    ),
    "M003": Code(
        "not UTF-8", "Manifests are UTF-8 text. Save the file as UTF-8; a byte order mark at its start is allowed."
    ),
    "M004": Code(
        "file too large", "A manifest file holds at most 1 MiB. Split it; documents may be spread over files at will."
    ),
    "M005": Code(
        "no manifests",
        'The paths hold no manifest at all. An empty set would read as "nothing is desired", which nobody means; most often the path '
        "is wrong or the files do not end in .yaml or .yml.",
    ),
    "M006": Code(
        "more errors than are shown",
        "Of one file the first 200 errors are shown. As many as that have mostly one cause.",
    ),
    "M101": Code(
        "not YAML",
        "The text cannot be read as YAML from here on. What came before in the file is checked, the rest is not.",
    ),
    "M102": Code(
        "directive",
        "A %YAML or %TAG directive changes how the lines after it read. Manifests are YAML 1.2 without directives.",
    ),
    "M103": Code("tag", "A tag such as !!str changes what a value is. Quote text; write numbers as numbers."),
    "M104": Code(
        "anchor or alias",
        "With an anchor, a change in one place changes another that the pull request does not show. Write the value out in each place.",
    ),
    "M105": Code(
        "merge key", "A merge key (<<) takes over fields that the reviewer does not see here. Write them out."
    ),
    "M106": Code(
        "document is not a mapping",
        "Each document of a file is one manifest: a mapping with apiVersion, kind, metadata and spec. An empty document is refused, "
        "too: most often one --- is too many.",
    ),
    "M107": Code(
        "duplicate key",
        "A key stands twice in one mapping. Readers of YAML disagree on which one wins, so neither does.",
    ),
    "M108": Code(
        "invisible character",
        "A control, zero-width or bidirectional character makes text look different from what it is. Where one is really meant, "
        "write it as an escape in double quotes, where a reviewer sees it.",
    ),
    "M109": Code("nested too deep", "No manifest needs more than six levels; sixteen are read."),
    "M110": Code(
        "ambiguous number",
        "Readers of YAML do not agree on 0x1F, 0o17, 017, +5, 1e3, .5 and .inf: versions 1.1 and 1.2 make different values of them. "
        "Quote it where text is meant; write a number in decimal digits, which may be grouped as in 1_000_000.",
    ),
    "M111": Code(
        "key is not a word",
        "A list, a mapping or nothing at all stands where a field's name should be. Quote a name that holds brackets.",
    ),
    "M112": Code(
        "unknown field",
        "The field is not part of this kind, here. A misspelt field would otherwise be left out in silence.",
    ),
    "M113": Code("missing field", "A field that has no default is missing."),
    "M114": Code(
        "wrong type",
        "The value is of another type than the field: text, a whole number, a number, a list or a mapping.",
    ),
    "M115": Code(
        "quote it",
        "Text is wanted, and YAML turned the unquoted value into a number or a truth value. In quotes it stays the text it looks like.",
    ),
    "M116": Code(
        "empty",
        'An empty list, an empty mapping, empty text or no value at all. Each could be meant as "none" or as "all": leave the field out, or '
        "say what it holds.",
    ),
    "M117": Code("listed twice", "One value stands twice in a list: the second was meant to be another."),
    "M118": Code("unknown value", "The field takes one of a few words, and this is none of them."),
    "M119": Code(
        "value out of range",
        "The value is of the right type, and too large, too small or not of the form that the field needs.",
    ),
    "M120": Code(
        "unknown kind",
        "The kinds are Cluster, RetentionFloor, GroupRemoval, LeaderPolicy and Waiver, of apiVersion reconciler/v1.",
    ),
    "M121": Code("not a duration", "A duration is a whole number and a unit, in one word: 30s, 15m, 12h or 7d."),
    "M122": Code(
        "not an instant",
        "An instant is RFC 3339 with a zone: 2026-11-01T00:00:00Z or 2026-11-01T01:00:00+01:00. Without a zone it would depend on where it is read.",
    ),
    "M123": Code(
        "not a selector",
        "A selector is an exact name, a glob such as clicks-* or a regular expression such as regex:^test-[0-9]+$, which has to match the whole "
        "name. Regular expressions that could take forever on a name that somebody made up are refused, and what other tools read otherwise: "
        "{a,b} anywhere; in a glob also [^a], a backslash and a bracket that is not closed. Without any of *?[ a text is an exact name.",
    ),
    "M201": Code(
        "expectAtMost is missing",
        "A pattern selects whatever exists when the plan is made. expectAtMost bounds that: more matches than expected block the policy.",
    ),
    "M202": Code(
        "fromOffset beside a pattern",
        "An offset belongs to one partition of one topic. On whatever else a pattern happens to meet it would delete at random.",
    ),
    "M203": Code(
        "fromOffset and partitions",
        "The map of fromOffset selects just the partitions it names; a second selection could only contradict it.",
    ),
    "M204": Code(
        "topicId without its topic",
        "topicId pins the incarnation of one topic that the offsets of fromOffset were read from.",
    ),
    "M205": Code(
        "system topic",
        "Topics whose names start with __ belong to Kafka itself. Truncating __remote_log_metadata destroys a cluster's tiered storage.",
    ),
    "M206": Code(
        "since lies in the future",
        "Everything that exists today is older than an instant in the future, so all of it would go.",
    ),
    "M207": Code(
        "journal topic",
        "The journal is the purge clock and the audit trail of this tool. It cannot be the subject of a floor.",
    ),
    "M208": Code(
        "idleFor: 0s beside a pattern",
        "0s gives up the evidence that a group is idle. That may be right for a group somebody knows by name, never for whatever matches.",
    ),
    "M209": Code(
        "election and its subjects",
        "A preferred election takes topics. An unclean election loses records, so it takes exact partitions and nothing else.",
    ),
    "M210": Code(
        "waiver lasts too long", "A waiver is an exception: 30 days ahead at most, and 24 hours for uncleanElections."
    ),
    "M211": Code(
        "literal secret",
        "A secret stands in the manifest, and so in Git. Say ${env:NAME} or ${file:PATH}, and change the secret: Git does not forget.",
    ),
    "M212": Code(
        "reserved property",
        "The tool sets this property itself because a promise hangs on it, or it would run code from a pull request, or it is no property.",
    ),
    "M213": Code("broken reference", "A reference is ${env:NAME} or ${file:PATH}."),
    "M214": Code(
        "empty keep",
        "A floor without a rule would keep nothing. Say what stays: newerThan, since, last, fromOffset or unreadBy.",
    ),
    "M215": Code(
        "limit of another kind", "The limit does not bind policies of this kind, so the waiver would do nothing."
    ),
    "M301": Code(
        "two manifests of one name",
        "A name is unique per kind and cluster: it is the address of everything the policy decides.",
    ),
    "M302": Code(
        "two policies claim one subject",
        "Two policies of one kind name the same topic, partition or group. Which of them wins would be an accident, so neither acts. Take it out "
        "of one of them.",
    ),
    "M303": Code("unknown cluster", "metadata.cluster names no Cluster manifest of the set."),
    "M304": Code(
        "which cluster?",
        "The set holds several Cluster manifests, so each of the others has to say which one it belongs to.",
    ),
    "M305": Code(
        "unknown policy",
        "A waiver is addressed to one policy, KIND/NAME, of the same cluster. A waiver for nothing is a mistake.",
    ),
    "M306": Code(
        "no Cluster",
        "Nothing in the set says which cluster is meant. Give the folder that holds the Cluster manifest, too.",
    ),
    "M307": Code(
        "two manifests for one cluster",
        "Two Cluster manifests carry one clusterId. Policies of one would not see those of the other, so a subject could be claimed twice.",
    ),
    "M401": Code(
        "continuous with a file journal",
        "`every` takes its clock from the journal. A CI runner starts without the file each time, so every run would be the first. Name a journal topic.",
    ),
    "M402": Code("expired waiver", "The waiver has no effect any more. Remove it."),
    "M403": Code("nothing desired", "The set holds a Cluster and no policy for it, so its plan is empty."),
    "M501": Code(
        "secret cannot be found",
        "A reference points to a variable that is not set or empty, or to a file that cannot be read or is empty. Looked up on connecting only.",
    ),
}
