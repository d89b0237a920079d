"""Resolves what people type for a subject: a full address, or the short text that a plan prints.

`clicks[0]`, `clicks` and `"old-etl"` are short, `RetentionFloor/clicks/clicks[0]` is full. A full
address always wins, so that every group has one text that means only this group.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from reconciler.errors import UsageError
from reconciler.model.names import TOPIC, Address, format_address, format_subject
from reconciler.model.plan import Plan
from reconciler.model.scan_request import ScanRequest
from reconciler.model.snapshot import ClusterSnapshot, Unknown
from reconciler.policies import POLICIES, Policy
from reconciler.text.escape import display_name, unescape_name
from reconciler.text.formatting import count, first_few
from reconciler.text.suggest import suggestion

_CANDIDATES_MAX = 10


def with_parents(address: Address) -> tuple[Address, ...]:
    """Return the address, its topic and its policy."""
    return address, Address(address.kind, address.policy, address.name), address.policy_address


def find_targets(texts: Iterable[str], policies: Iterable[Policy]) -> Mapping[str, frozenset[Address]]:
    """Return for each text every subject of policies that it may mean. Needs no fact of the cluster.

    A text is a full address, or a subject as a plan prints it, which means the subject in each policy
    that decides about it. Raises UsageError for a text that names nothing that a policy selects.
    """
    policies = list(policies)
    return {text: _find_candidates(text, policies, label=f"--target {text}") for text in texts}


def check_targets(targets: Mapping[str, frozenset[Address]], plan: Plan, snapshot: ClusterSnapshot) -> Plan:
    """Return the plan of what `find_targets` found, with the addresses that have a decision as its targets.

    Raises UsageError for a target without any: a typing error must not look in sync.
    """
    decided = {decision.address for decision in plan.decisions}
    touched = {address for subject in decided for address in with_parents(subject)}
    with_decision: set[Address] = set()
    for text, addresses in targets.items():
        matched = {target for target in addresses if target in touched or not decided.isdisjoint(with_parents(target))}
        if not matched:
            target = min(addresses)
            subject = format_address(target) if len(addresses) == 1 else text
            raise UsageError(f"--target {subject}: nothing is decided about it{_hint(target, snapshot)}")
        with_decision |= matched
    return replace(plan, targets=tuple(sorted(map(str, with_decision))))


def _hint(target: Address, snapshot: ClusterSnapshot) -> str:
    """Return what explains a target without a decision, after a semicolon; empty: nothing does."""
    topic = None if target.is_of_group else snapshot.topics.get(target.name)
    if topic is not None and not isinstance(topic.partitions, Unknown) and target.partition >= topic.partitions:
        return f"; topic {display_name(topic.name)} has {count(topic.partitions, 'partition')}, numbered from 0"
    names: Collection[str] = snapshot.groups if target.is_of_group else snapshot.topics
    absent = f"; the cluster lists no {'group' if target.is_of_group else 'topic'} of this name"
    return "" if target.name in names else suggestion(target.name, names, before="; ", otherwise=absent)


def find_candidates(text: str, policies: Iterable[Policy]) -> frozenset[Address] | None:
    """Return every subject of policies that a text may mean; a plan decides some of them.

    None: only a plan of all subjects tells, since the text is the beginning of a long name. Needs no
    fact of the cluster. Raises UsageError for a text that names nothing that a policy selects.
    """
    if "\u2026" in text:
        return None
    return _find_candidates(text, list(policies), label=display_name(text))


def _find_candidates(text: str, policies: Sequence[Policy], *, label: str) -> frozenset[Address]:
    """Return what a text may mean: one full address, or subjects with this short text. Raises UsageError.

    `label`: what its message calls the text.
    """
    by_address = {policy.address: policy for policy in policies}
    unknown: Address | None = None
    for reading in _readings(text):
        if (address := _parse(reading)) is not None:
            if address.policy_address not in by_address:
                unknown = address
                break
            if not address.name or _selects(by_address[address.policy_address], address):
                return frozenset({address})
            policy_text = format_address(address.policy_address)
            raise UsageError(f"{label}: nothing is decided about it, {policy_text} does not select it")
        # A short text means a group, a topic or a partition of each policy that selects it.
        addresses = ((policy, Address.parse(f"{policy.address}/{reading}")) for policy in policies)
        if subjects := {address for policy, address in addresses if address.name and _selects(policy, address)}:
            return frozenset(_without_topics(text, subjects))
    known: Iterable[str] = map(str, by_address)
    names: Iterable[str] = (selector.name for policy in policies for selector in policy.selectors if selector.name)
    word, candidates, otherwise = text.partition("[")[0], names, ", no policy selects a topic or group of this name"
    if unknown:
        word, candidates, otherwise = str(unknown.policy_address), known, ", no manifest has this policy"
    hint = suggestion(word, candidates, before="; ", otherwise=otherwise)
    raise UsageError(f"{label}: nothing is decided about it{hint}")


def find_subjects(text: str, decided: Iterable[Address]) -> list[Address]:
    """Return the addresses that a text means, of these, their topics and their policies, in order.

    A short text means the subject in each policy that decides about it. A full address is returned
    whether it is one of them or not. Raises UsageError for a text that means none, or too many.
    """
    readings = _readings(text)
    if full := [address for reading in readings if (address := _parse(reading)) is not None]:
        if len(full) > 1:  # the text has quotes or escapes: both may be meant
            known = {parent for address in decided for parent in with_parents(address)}
            return [next((address for address in full if address in known), full[0])]
        return full
    topics = {(address.name, address.partition) for address in map(_as_topic, readings)}
    topic_names = {name for name, _partition in topics}
    subjects, known_names = set[Address](), set[str]()
    for address in decided:  # a plan may have a million
        known_names.add(address.name)
        if address.is_of_group:
            if address.name in readings or ("\u2026" in text and format_subject(address) == text):
                subjects.add(address)
        elif (address.name, address.partition) in topics or (address.partition < 0 and address.name in topic_names):
            subjects.add(address)  # a decision about a topic is one about each of its partitions
        elif (address.name, -1) in topics:
            subjects.add(Address(address.kind, address.policy, address.name))
    subjects = _without_topics(text, subjects)
    if len(subjects) > _CANDIDATES_MAX:
        names = first_few([format_address(address) for address in sorted(subjects)], limit=_CANDIDATES_MAX)
        raise UsageError(f"{display_name(text)} is ambiguous; write one of these: {names}")
    if subjects:
        return sorted(subjects)
    otherwise = "expected KIND/POLICY/SUBJECT or a subject of the plan"
    hint = suggestion(_as_topic(text).name, known_names, otherwise=otherwise)
    raise UsageError(f"the plan decides nothing at {display_name(text)}; {hint}")


def _without_topics(text: str, subjects: set[Address]) -> set[Address]:
    """Return the groups alone if the text has quotes and means some: reports put groups into quotes, and no topic."""
    groups = {subject for subject in subjects if subject.is_of_group} if text.startswith('"') else set()
    return groups or subjects


def _as_topic(text: str) -> Address:
    """Return an address with the topic and the partition that a short text would mean."""
    return Address.parse(f"topic/of/{text}")


def matches(text: str, address: Address) -> bool:
    """Whether a text means the address, its topic, its policy or a prefix of it, such as its kind."""
    if any(f"{address}/".startswith(f"{reading}/") for reading in _readings(text)):
        return True
    readings = {text, *_readings(text)}
    for parent in with_parents(address):
        short = str(parent).removeprefix(f"{address.policy_address}/")
        if not readings.isdisjoint((str(parent), short, format_subject(parent), format_address(parent))):
            return True
    return False


def restrict_request(request: ScanRequest, targets: Collection[Address]) -> ScanRequest:
    """Return what a policy needs to decide these targets of it only.

    Requests for metadata stay whole: they cost nothing, and a policy may compare what they select.
    """
    if not targets or any(not target.name for target in targets):
        return request if targets else ScanRequest()
    numbers = defaultdict[str, set[int]](set)
    for target in targets:
        numbers[target.name].add(target.partition)
    only = {name: None if -1 in of_name else frozenset(of_name) for name, of_name in numbers.items()}  # None: all of it
    return replace(
        request,
        topics=tuple(replace(part, only=only) if part.offsets else part for part in request.topics),
        groups=tuple(replace(part, only=frozenset(only)) for part in request.groups),
    )


def _readings(text: str) -> tuple[str, ...]:
    """Return the text as typed, and with the quotes and escapes of a report undone, the likelier first."""
    plain = unescape_name(text)
    if plain in (text, ""):
        return (text,)
    return (plain, text) if text.startswith('"') else (text, plain)


def _parse(text: str) -> Address | None:
    """Return the full address that a text begins like: with a kind; None: it is a short text."""
    try:
        address = Address.parse(text)
    except ValueError:
        return None
    return address if any(address.kind == policy.__name__ for policy in POLICIES) else None


def _selects(policy: Policy, address: Address) -> bool:
    if not address.is_of_group and not TOPIC.fullmatch(address.name):
        return False
    return bool(policy.select_among({address.name})) and (address.partition < 0 or policy.claims(address))
