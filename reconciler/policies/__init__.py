"""The kinds of the manifest language. Everything iterates POLICIES or KINDS; a new kind is one name here."""

from reconciler.policies.base import Envelope, Policy
from reconciler.policies.cluster import Cluster
from reconciler.policies.group_removal import GroupRemoval
from reconciler.policies.leader_policy import LeaderPolicy
from reconciler.policies.retention_floor import RetentionFloor
from reconciler.policies.waiver import Waiver

POLICIES: tuple[type[Policy], ...] = (RetentionFloor, GroupRemoval, LeaderPolicy)
"""Kinds that state desired state."""

KINDS: tuple[type[Envelope], ...] = (Cluster, *POLICIES, Waiver)
"""All kinds, in the order of the documents."""

__all__ = ["KINDS", "POLICIES", "Cluster", "GroupRemoval", "LeaderPolicy", "Policy", "RetentionFloor", "Waiver"]
