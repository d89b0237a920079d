"""Finds what a Cluster manifest could say: topics to protect, and limits that fit the cluster."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from reconciler.companions.suggest.facts import ClusterFacts, is_changelog
from reconciler.companions.suggest.findings import NAMES_MAX, Collector, Confidence
from reconciler.model.action import Action
from reconciler.model.snapshot import NOT_ASKED, ClusterSnapshot, Unknown
from reconciler.operations.touchable import system_topic_block
from reconciler.plan import limits
from reconciler.plan.rules import RuleSet
from reconciler.policies import RetentionFloor
from reconciler.policies.cluster import LIMITS
from reconciler.policies.fields import TOPIC_TEXT
from reconciler.text.escape import display_name
from reconciler.text.formatting import first_few

_LIMIT_SHARE = 0.1
"""The share of topics and of groups that one plan may touch."""
_LIMIT_FITS: Mapping[str, str] = {
    "topics": "a tenth of the topics",
    "groups": "a tenth of the groups",
    "elections": "what one broker leads where all leaders are preferred ones",
}


def find_protections(cluster_facts: ClusterFacts, collector: Collector) -> None:
    """Add the topics whose records no policy should ever delete, by their names and by compaction."""
    protection, snapshot = cluster_facts.cluster.protection, cluster_facts.snapshot
    for topic, facts in sorted(snapshot.topics.items()):
        is_system = system_topic_block(facts) is not None  # never loses records
        has_policy = cluster_facts.is_covered(RetentionFloor, topic)
        if is_system or has_policy or not re.fullmatch(TOPIC_TEXT, topic) or protection.of_topic(topic):
            continue
        reasons = []
        if topic.startswith("_"):
            reasons.append("its name begins with _, as those of topics of tools do")
        if is_changelog(topic):
            reasons.append("its name is that of a changelog of Kafka Streams, which restores state from it")
        policy = facts.cleanup_policy
        if isinstance(policy, Unknown):
            if not reasons and policy is not NOT_ASKED:
                collector.cannot_tell(f"its cleanup.policy: {policy.reason}", display_name(topic))
        elif "compact" in policy:
            reasons.append("it is compacted, so its records are a state and not a history")
        if not reasons or collector.is_ignored(topic):
            continue
        if len(collector.findings) == NAMES_MAX:
            reason = f"protect.topics takes {NAMES_MAX:,} names: name a pattern by hand"
            collector.cannot_tell(reason, display_name(topic))
            continue
        collector.add(
            topic,
            title="protect it from every policy",
            confidence=Confidence.HIGH,
            evidence=tuple(reasons),
            counter_evidence=("a policy that names it later is blocked until the protection is taken back",),
            partitions=facts.partitions if isinstance(facts.partitions, int) else None,
        )


def find_limits(cluster_facts: ClusterFacts, collector: Collector, actions: Sequence[Action]) -> None:
    """Add limits that are lower than the cluster's and still allow `actions`.

    `actions`: what the suggested manifests would do now.
    """
    cluster, snapshot = cluster_facts.cluster, cluster_facts.snapshot
    if at_work := [str(policy.address) for policy in cluster_facts.policies if policy.select(snapshot).matched]:
        collector.cannot_tell(f"this scan does not read what {first_few(at_work)} need")
        return
    totals = _limit_totals(snapshot)
    verdicts = {v.id: v for v in limits.verdicts(actions, RuleSet(cluster), snapshot)}
    for limit in LIMITS:
        if limit.id not in totals:
            continue
        current, needed, total = int(cluster.limit(limit)), verdicts[limit.id].observed, totals[limit.id]
        if isinstance(total, Unknown) or needed is None:
            reason = total.reason if isinstance(total, Unknown) else verdicts[limit.id].message
            collector.cannot_tell(reason, limit.id)
            continue
        if not total:  # a cluster that is not in use yet says nothing of its usual size
            collector.cannot_tell("the cluster has nothing yet that it counts: it stays as it is", limit.id)
            continue
        value = max(math.ceil(needed), total)
        if value >= current:
            continue
        collector.add(
            limit.id,
            title=f"{limit.words}: {value:,} instead of {current:,}",
            confidence=Confidence.MEDIUM,
            evidence=(
                f"the suggested manifests need {math.ceil(needed):,} at once"
                if value > total
                else f"{value:,} is {_LIMIT_FITS[limit.id]}; the suggested manifests need {math.ceil(needed):,}",
            ),
            counter_evidence=("a larger change needs a Waiver then",),
            value=value,
        )


def _limit_totals(snapshot: ClusterSnapshot) -> Mapping[str, int | Unknown]:
    """Return what one plan may do of each limit that depends on the size of the cluster."""
    ordinary = sum(system_topic_block(facts) is None for facts in snapshot.topics.values())
    listed = sum(group.listed is True for group in snapshot.groups.values())
    preferring: Counter[int] = Counter()
    unknown: Unknown | None = snapshot.topics_incomplete
    for _partition, facts in sorted(snapshot.partitions.items()):
        if isinstance(facts.replicas, Unknown):
            unknown = unknown if unknown is not None else Unknown(f"replicas: {facts.replicas.reason}")
        else:
            preferring.update(facts.replicas[:1])
    topics = math.ceil(ordinary * _LIMIT_SHARE)
    groups = math.ceil(listed * _LIMIT_SHARE)
    return {
        "topics": topics if snapshot.topics_incomplete is None else snapshot.topics_incomplete,
        "groups": groups if snapshot.groups_incomplete is None else snapshot.groups_incomplete,
        "elections": max(preferring.values(), default=0) if unknown is None else unknown,
    }
