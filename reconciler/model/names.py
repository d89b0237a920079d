"""Partitions, addresses of subjects, locations in manifests, and their texts in messages."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.model.bounds import Int32, NonEmpty
from reconciler.text.escape import display_name, quoted

TOPIC = re.compile("[a-zA-Z0-9._-]{1,249}")
"""The names that a topic can have."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic that brokers create for the first transactional producer of a cluster."""
_PARTITION = re.compile(rf"(?P<topic>{TOPIC.pattern})\[(?P<partition>0|[1-9][0-9]*)\]")


def subjects_of(kind: str) -> str:
    """Return what a kind is about: `groups` where its name begins with Group, else `topics`.

    A rule and no list: an address of a kind that this version does not know must not be misread, and
    group ids are arbitrary text, such as `orders[3]`.
    """
    return "groups" if kind.startswith("Group") else "topics"


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic; sorts by topic, then by number."""

    topic: NonEmpty
    partition: Int32

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The stable name of one decision: `RetentionFloor/orders-gdpr/orders[3]`.

    `name`: a topic or a group id; empty: the policy. `partition`: -1 for a group, a topic or a
    policy. Sorts by kind, policy, name and partition *number*. Group ids are arbitrary text:
    `str()` is exact and not harmless; reports escape it.
    """

    kind: str
    policy: str
    name: str = ""
    partition: int = -1

    def __str__(self) -> str:
        head = f"{self.kind}/{self.policy}"
        if not self.name:
            return head
        return f"{head}/{self.name}" if self.partition < 0 else f"{head}/{self.name}[{self.partition}]"

    @property
    def is_of_group(self) -> bool:
        return subjects_of(self.kind) == "groups"

    @property
    def policy_address(self) -> "Address":
        return Address(self.kind, self.policy)

    @classmethod
    def parse(cls, text: str) -> "Address":
        """The inverse of `str()`; group ids may hold slashes. Raises ValueError for other text."""
        kind, _, path = text.partition("/")
        policy, _, name = path.partition("/")
        if not kind or not policy:
            raise ValueError(f"not an address: {display_name(text)}; expected KIND/POLICY or KIND/POLICY/SUBJECT")
        address = cls(kind, policy, name)
        if not address.is_of_group and (match := _PARTITION.fullmatch(name)):
            return cls(kind, policy, match["topic"], int(match["partition"]))
        return address


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """Where a manifest declares something: path as on the command line, 1-based line and column."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


NOWHERE = SourceLocation("", 0, 0)


def format_address(address: Address) -> str:
    """Return an address for a message: escaped if necessary, else the text that `explain` takes."""
    return display_name(str(address))


def format_subject(address: Address) -> str:
    """Return what a decision is about: `orders[3]`, `"old-etl"`, or the policy itself."""
    if not address.name:
        return format_address(address)
    if address.is_of_group:
        return quoted(address.name)
    topic = display_name(address.name)
    return topic if address.partition < 0 else f"{topic}[{address.partition}]"


def format_location(location: SourceLocation) -> str:
    """Return file and line: `manifests/prod-eu/orders.yaml:9`."""
    return f"{display_name(location.path)}:{location.line}"


def count_by_sort(addresses: Iterable[Address], others: Iterable[Address] = ()) -> Counter[str]:
    """Count partitions, topics, groups and policies. Each counts once, and those of `others` never."""
    counted, elsewhere = _partitions_of(addresses), _partitions_of(others)
    numbers = Counter({"partition": 0, "topic": 0, "group": 0, "policy": 0})
    for (sort, name), partitions in counted.items():
        numbers[sort] += len(partitions - elsewhere.get((sort, name), set()))
    return numbers


def _partitions_of(addresses: Iterable[Address]) -> defaultdict[tuple[str, str], set[int]]:
    """Return the partition numbers of each sort of subject by its name; of all but partitions: -1."""
    subjects: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for address in addresses:
        sort = "partition" if address.partition >= 0 else "group" if address.is_of_group else "topic"
        subjects[sort if address.name else "policy", address.name or str(address)].add(address.partition)
    return subjects
