"""The code of every diagnostic, with the texts of `explain CODE` and of the documents.

M0xx files, M1xx text and shape, M2xx rules within one manifest, M3xx rules across manifests,
M4xx warnings, M5xx secrets. A code is never used again for another meaning.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A short title, and a paragraph: the reason for the rule, and what to do."""

    title: str
    explanation: str


_TEXTS = """\
M001 no such file or folder
    A path on the command line does not exist. A mistyped path must not become an empty set.
M002 file cannot be read
    This user may not read the file, or it is a device, a pipe or a socket: no regular file.
M003 not UTF-8
    Manifests are UTF-8 text. Save the file as UTF-8, with or without a byte order mark.
M004 file too large
    A manifest file holds at most 1 MiB. Split it: the documents may be spread over many files.
M005 no manifests
    The paths hold no manifest. An empty set would state no desired state at all. Most often the
    path is wrong, or the files do not end in .yaml or .yml.
M006 more errors than are shown
    The first 200 errors of a file are shown. So many errors usually have one cause: correct the
    first ones and validate again.
M007 link out of the folder
    A symbolic link leads out of the paths on the command line. Errors quote the lines of a file, so
    a link in a pull request could show any file of the machine. Name the target on the command
    line as well, or write a file in the place of the link.
M101 not YAML
    The text after this position cannot be read as YAML. The documents before it are checked, the
    rest of the file is not.
M102 directive
    A %YAML or %TAG directive changes how the file is read. Manifests are YAML 1.2 without them.
M103 tag
    A tag such as !!str changes the type of a value. Quote text, and write numbers as numbers.
M104 anchor or alias
    With an anchor, a change in one place changes another place that the pull request does not show.
    Write the value out in each place.
M105 merge key
    A merge key (<<) adds fields that a reviewer does not see in this place. Write the fields out.
M106 document is not a mapping
    Each document of a file is one manifest: a mapping with apiVersion, kind, metadata and spec. An
    empty document is refused as well; most often a line with --- is too many.
M107 duplicate key
    A mapping holds one key twice. YAML readers disagree on which of the two wins. Remove one.
M108 invisible character
    A control, zero-width or bidirectional character makes text look different from its content. If
    the character is intended, write it as an escape in double quotes, where a reviewer sees it.
M109 nested too deep
    At most sixteen levels of nesting are read. No manifest needs more than six.
M110 ambiguous number
    YAML 1.1 and 1.2 give different values to 0x1F, 0o17, 017, +5, 1e3, .5 and .inf. Quote the value
    if it is text. Write a number in decimal digits, which may be grouped as in 1_000_000.
M111 key is not a word
    A list, a mapping or an empty key is no field's name. Quote a name that contains brackets.
M112 unknown field
    This kind has no such field in this place. A misspelt field is an error, because ignoring it
    would change the meaning of the manifest.
M113 missing field
    A field without a default is missing. Add it.
M114 wrong type
    A field is text, a whole number, a number, a list or a mapping. The value has another type.
M115 unquoted text
    The field is text, and YAML reads the value as a number or as true or false. Quote the value.
M116 empty
    A list, a mapping or a text is empty, or a value is missing. An empty value could mean "none" or
    "all". Remove the field, or add a value.
M117 listed twice
    A list holds the same value twice, so one of them is probably a mistake. Remove or correct it.
M118 unknown value
    The field accepts a few words only, and this is none of them.
M119 value out of range
    The value has the right type, but it is too large, too small or in the wrong form.
M120 unknown kind
    apiVersion reconciler/v1 has no such kind. The message names the closest kind or all kinds.
M121 not a duration
    A duration is a whole number and a unit in one word, such as 30s, 15m, 12h or 7d.
M122 not an instant
    An instant is an RFC 3339 time with a zone, such as 2026-11-01T00:00:00Z or
    2026-11-01T01:00:00+01:00. Without a zone, it would mean another time on another machine.
M123 not a selector
    A selector is an exact name, a glob such as clicks-* or a regular expression such as
    regex:^test-[0-9]+$, which must match the complete name. Text without any of *?[ is an exact
    name. Regular expressions that could take very long on a hostile name are refused. So are forms
    that other tools read differently: {a,b} anywhere, and in a glob also [^a], a backslash and an
    unclosed bracket.
M201 expectAtMost is missing
    A pattern selects the names that exist when the plan is made. expectAtMost bounds their number:
    a larger number blocks the policy.
M202 fromOffset with a pattern
    An offset belongs to one partition of one topic. On other topics that a pattern matches, it
    would delete arbitrary records.
M203 fromOffset with partitions
    The map of fromOffset selects exactly the partitions that it names. A second selection could
    only contradict it.
M204 topicId without its topic
    topicId is the id of the topic whose offsets are in fromOffset. It tells that topic from a later
    one of the same name. It needs fromOffset and exactly one topic.
M205 system topic
    Topics whose names start with __ belong to Kafka itself. Truncating __remote_log_metadata, for
    example, destroys the tiered storage of a cluster.
M206 since is in the future
    Every record is older than an instant in the future, so the floor would delete all of them.
M207 journal topic
    No retention floor may select the journal topic: it holds the purge clock and the audit trail.
M208 idleFor: 0s with a pattern
    0s removes a group without evidence that it is idle. That is allowed for a group that is named
    exactly, and never for the matches of a pattern.
M209 election and its subjects
    A preferred election selects topics; an unclean one loses records and needs exact partitions.
M210 waiver lasts too long
    A waiver expires in at most 30 days, and one for uncleanElections in at most 24 hours.
M211 literal secret
    The manifest holds a secret, so Git holds it as well. Write ${env:NAME} or ${file:PATH} instead,
    and change the secret: it stays in the history of Git.
M212 reserved property
    A guarantee depends on this property, so the tool sets it itself; or it would run code from a
    pull request; or it is not among the properties that a manifest may set. An operator allows more
    with RECONCILER_CLIENT_EXTRA, where the command runs.
M213 malformed reference
    A reference is ${env:NAME} or ${file:PATH}. References stand in secrets, user names, certificates
    and entries of bootstrapServers.
M214 empty keep
    A floor without a rule would delete all records. Add at least one rule: newerThan, since, last,
    fromOffset or unreadBy.
M215 limit of another kind
    The limit does not apply to policies of this kind, so the waiver would have no effect.
M216 not in mode continuous
    A policy in mode continuous acts without a review of each plan. Elections that lose records,
    removals without evidence, offsets of a topic without its id, and exceptGroups that excepts
    every group need one: use mode merge, or say it more narrowly.
M217 newerThan: 0s
    Every record is older than now, so the rule keeps nothing. Say how old a record may become.
M218 value of a client property
    The property does not accept this value.
M219 connection without protection
    Without TLS, or without a check of certificate and host name, the client hands its secrets
    to any server that answers. An operator allows it with RECONCILER_ALLOW_INSECURE=1, where the
    command runs, as for a sandbox.
M301 duplicate name
    A name is unique per kind and cluster: decisions are addressed by it. Rename one of the two.
M302 two policies claim one subject
    Two policies of one kind name the same topic, partition or group. The order of files must not
    decide which one wins, so neither acts. Remove the subject from one of them.
M303 unknown cluster
    metadata.cluster names a Cluster that the set of manifests does not hold.
M304 cluster is not named
    With several Cluster manifests, every other manifest names its cluster in metadata.cluster.
M305 unknown policy
    A waiver names one policy of the same cluster as KIND/NAME. The set holds no such policy.
M306 no Cluster
    The set holds no Cluster manifest, so the cluster is unknown. Add the folder of the Cluster
    manifest to the command.
M307 two manifests for one cluster
    Two Cluster manifests have one clusterId. Planned apart, their policies could claim one subject.
M401 continuous with a file journal
    `every` reads the time of the last purge from the journal. A CI runner starts without the
    journal file, so every run would be the first one. Name a journal topic in the Cluster manifest.
M402 expired waiver
    The waiver has no effect any more. Remove it.
M403 no policy
    The set holds a Cluster and no policy for it, so its plan is empty.
M501 secret cannot be resolved
    A reference names a variable that is unset or empty, or a file that is unreadable or empty.
    References are resolved only when the program connects.
"""

CODES: Mapping[str, Code] = {
    code: Code(title, " ".join(paragraph.split()))
    for code, title, paragraph in re.findall(r"^(M\d{3}) (.+)\n((?: .+\n)+)", _TEXTS, re.MULTILINE)
}
