"""Hypothesis strategies of manifests: YAML text, valid manifests as data, and changed manifests."""

import copy
import json
import string
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
EXAMPLES = tuple(
    path.read_text(encoding="utf-8")
    for folder in ("examples", "demo")
    for path in sorted((ROOT / "manifests" / folder).glob("*.yaml"))
)
_PIECES = (
    *"\n\n\n  :-?[]{},&*!|>'\"%@`#~=\t\\",
    "---\n",
    "...\n",
    ": ",
    "- ",
    "? ",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "&a ",
    "*a",
    "!!str ",
    "!x!y ",
    "<<: ",
    "null",
    "true",
    "010",
    "1e3",
    "1_000",
    ".inf",
    "\\U0010FFFF",
    "\\UFFFFFFFF",
    "\\x",
    "\ufeff",
    "\u2028",
    "\u202e",
    "\x00",
    "\x85",
    "\U0001f600",
    "${env:A}",
    "regex:(",
    "apiVersion: reconciler/v1\n",
    "kind: RetentionFloor\n",
    "kind: Cluster\n",
    "metadata: {name: a}\n",
    "spec:\n",
    "  topics: [a]\n",
    "  keep: {last: 5}\n",
    "sasl.password: ",
)

text_soup = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=40).map("".join)
"""Text of pieces that are difficult for YAML parsers."""


@st.composite
def mutated_text(draw: st.DrawFn) -> str:
    """An example file with a few parts removed, repeated, swapped or overwritten."""
    text = draw(st.sampled_from(EXAMPLES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        match draw(st.sampled_from(("cut", "double", "insert", "lines"))):
            case "cut":
                text = text[:start] + text[end:]
            case "double":
                text = text[:end] + text[start:end] + text[end:]
            case "insert":
                text = text[:start] + draw(st.sampled_from(_PIECES)) + text[end:]
            case _:
                lines = text.split("\n")
                first = draw(st.integers(0, len(lines) - 1))
                second = draw(st.integers(0, len(lines) - 1))
                lines[first], lines[second] = lines[second], lines[first]
                text = "\n".join(lines)
    return text


_words = st.sampled_from(("a", "orders", "clicks-x", "my_topic", "A.b", "x9"))
_names = st.text(string.ascii_lowercase + string.digits + ".-", min_size=1, max_size=10).map(
    lambda name: name.strip(".-") or "n"
)
_patterns = st.sampled_from(("clicks-*", "a?", "regex:^t-[0-9]+$", "[ab]x", "_*", "regex:__.*"))
_durations = st.builds("{}{}".format, st.integers(0, 999), st.sampled_from("smhd"))
_past = st.sampled_from(("2026-11-01T00:00:00Z", "2020-02-29T23:59:59.999+14:00", "1999-12-31T00:00:00-05:30"))
_soon = st.sampled_from(("2026-11-22T00:00:00Z", "2026-11-22T09:59:59+01:00"))
_counts = st.integers(0, 10**6)
_percents = st.one_of(st.integers(0, 100), st.floats(0, 100).map(lambda value: round(value, 3)))


def _unique_list(entries: st.SearchStrategy[Any], max_size: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(entries, min_size=1, max_size=max_size, unique=True)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def _selectors(draw: st.DrawFn, key: str, exact: st.SearchStrategy[str]) -> dict[str, Any]:
    names: list[str] = draw(_unique_list(exact))
    if draw(st.booleans()):
        return {key: names} | draw(_optional(expectAtMost=_counts))
    return {key: [*names, draw(_patterns)], "expectAtMost": draw(_counts)}


@st.composite
def _floor(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(_selectors("topics", _words))
    rules = _optional(
        newerThan=_durations.filter(lambda text: not text.startswith("0")),
        since=_past,
        last=st.integers(1, 10**9),
        unreadBy=_unique_list(st.text("ab/é ", min_size=1)),
    )
    keep = draw(rules)
    if "expectAtMost" not in spec and draw(st.booleans()):
        keep["fromOffset"] = draw(st.dictionaries(st.integers(0, 9).map(str), _counts, min_size=1, max_size=3))
        if len(spec["topics"]) == 1 and draw(st.booleans()):
            keep["topicId"] = "kAwXdc4bS8uMfEXAMPLE0g"
    elif draw(st.booleans()):
        spec["partitions"] = draw(_unique_list(st.integers(0, 9)))
    spec["keep"] = keep or {"last": 1}
    return spec | draw(
        _optional(
            exceptTopics=_unique_list(st.one_of(_words, _patterns)),
            consumers=st.sampled_from(("block", "clamp", "ignore")),
            exceptGroups=_unique_list(st.text("ab*", min_size=1)),
            every=_durations,
            driftAfter=_durations,
        )
    )


@st.composite
def _removal(draw: st.DrawFn) -> dict[str, Any]:
    spec = draw(_selectors("groups", st.text("ab /é", min_size=1, max_size=5)))
    spec["idleFor"] = draw(st.builds("{}{}".format, st.integers(1, 99), st.sampled_from("smhd")))
    types = st.sampled_from((["classic"], ["consumer"], ["consumer", "classic"]))
    return spec | draw(_optional(exceptGroups=_unique_list(_patterns), types=types))


@st.composite
def _leaders(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        partitions = st.dictionaries(_words, _unique_list(st.integers(0, 99)), min_size=1, max_size=3)
        return {"partitions": draw(partitions), "election": "unclean"}
    spec = {"topics": draw(_unique_list(st.one_of(_words, _patterns)))}
    optional_fields = _optional(exceptTopics=_unique_list(_words), election=st.just("preferred"), tolerance=_percents)
    return spec | draw(optional_fields)


@st.composite
def _waiver(draw: st.DrawFn) -> dict[str, Any]:
    limits = (
        ("RetentionFloor", "topics", _counts),
        ("RetentionFloor", "recordsPercent", _percents),
        ("GroupRemoval", "groupsPercent", _percents),
        ("LeaderPolicy", "uncleanElections", _counts),
    )
    kind, limit, value = draw(st.sampled_from(limits))
    return {"policy": f"{kind}/{draw(_names)}", "limit": limit, "value": draw(value), "expires": draw(_soon)}


@st.composite
def _cluster(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "clusterId": draw(st.text("abC-_9", min_size=1, max_size=22)),
        "bootstrapServers": draw(_unique_list(st.sampled_from(("a:1", "b-1.c:9092", "[::1]:9", "${env:SERVERS}")))),
    }
    client = _optional(
        **{
            "security.protocol": st.just("SASL_SSL"),
            "sasl.password": st.sampled_from(("${env:P}", "${file:/run/p w}")),
            "sasl.username": st.sampled_from(("x ${env:H}", "plain")),
            "reconnect.backoff.ms": st.sampled_from((7, "7")),
            "socket.keepalive.enable": st.sampled_from((True, "false")),
        }
    )
    limits = _optional(topics=_counts, recordsPercent=_percents, uncleanElections=st.just(0))
    protect = _optional(
        topics=_unique_list(st.one_of(_words, _patterns)), groups=_unique_list(st.text("a*", min_size=1))
    )
    journal = _optional(topic=_words)
    return spec | draw(_optional(client=client, limits=limits, protect=protect, journal=journal))


@st.composite
def _reader(draw: st.DrawFn) -> dict[str, Any]:
    positions = (
        {"sparkCheckpoint": "s3://lake/checkpoints/orders"},
        {"mirrorMakerSyncs": "mm2-offset-syncs.B.internal"},
        {"table": "/data/positions.parquet"},
    )
    topics = draw(_unique_list(st.one_of(_words, _patterns)))
    return {"topics": topics, "position": draw(st.sampled_from(positions))}


_SPECS: dict[str, Callable[[], st.SearchStrategy[dict[str, Any]]]] = {
    "Cluster": _cluster,
    "RetentionFloor": _floor,
    "GroupRemoval": _removal,
    "LeaderPolicy": _leaders,
    "ExternalReader": _reader,
    "Waiver": _waiver,
}


def _needs_a_review(spec: Mapping[str, Any]) -> bool:
    keep = spec.get("keep", {})
    excepts_all = any(not text.strip("*") for text in spec.get("exceptGroups", ()))
    return spec.get("election") == "unclean" or excepts_all or ("fromOffset" in keep and "topicId" not in keep)


@st.composite
def valid_manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A valid manifest of any kind, as data."""
    kind = draw(st.sampled_from(sorted(_SPECS)))
    metadata = {"name": draw(_names)} | draw(_optional(owner=st.text("Zoë 7", min_size=1), reason=st.just("because")))
    document = {"apiVersion": "reconciler/v1", "kind": kind, "metadata": metadata, "spec": draw(_SPECS[kind]())}
    if kind not in ("Cluster", "ExternalReader", "Waiver"):
        modes = ("merge",) if _needs_a_review(document["spec"]) else ("merge", "continuous")
        document |= draw(_optional(mode=st.sampled_from(modes)))
    return document


_unusual_values = st.sampled_from(
    (
        None,
        True,
        False,
        0,
        -1,
        1.5,
        10**20,
        "",
        "x",
        "*",
        "__x",
        "7",
        "7d",
        "0s",
        "a b",
        "${env:A}",
        "${x}",
        [],
        [1],
        ["a"],
        ["a", "a"],
        {},
        {"a": 1},
    )
)


def _paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all nodes below `node`."""
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [deeper for key, value in entries for deeper in ((*path, key), *_paths(value, (*path, key)))]


@st.composite
def changed_manifests(draw: st.DrawFn) -> dict[str, Any]:
    """A valid manifest with a few nodes removed, renamed, replaced, copied or added.

    It may still be valid.
    """
    document: dict[str, Any] = json.loads(json.dumps(draw(valid_manifests())))
    for _ in range(draw(st.integers(1, 3))):
        paths = _paths(document)
        if not paths:
            break
        *parent_path, key_or_index = draw(st.sampled_from(paths))
        parent = _node_at(document, parent_path)
        change = draw(st.sampled_from(("drop", "rename", "replace", "move", "add")))
        if change == "drop":
            del parent[key_or_index]
        elif change == "replace":
            parent[key_or_index] = draw(_unusual_values)
        elif change == "move":
            parent[key_or_index] = copy.deepcopy(draw(st.sampled_from([_node_at(document, path) for path in paths])))
        elif isinstance(parent, list):
            parent.append(draw(_unusual_values))
        elif change == "rename":
            others = ("x", "topics", "partitions", "fromOffset", "0", f"{key_or_index}s")
            parent[draw(st.sampled_from(others))] = parent.pop(key_or_index)
        else:
            others = ("x", "topics", "partitions", "exceptTopics", "topicId", "cluster", "group.id")
            parent[draw(st.sampled_from(others))] = draw(_unusual_values)
        document = json.loads(json.dumps(document))
    return document


def _node_at(document: Any, path: Sequence[Any]) -> Any:
    return reduce(getitem, path, document)
