"""The policies: kinds of manifests that state desired state, one class in one file each.

Everything iterates POLICIES. The other kinds, `cluster.Cluster`, `external_reader.ExternalReader` and
`waiver.Waiver`, state no desired state.
"""

from reconciler.policies.base import Policy
from reconciler.policies.group_removal import GroupRemoval
from reconciler.policies.leader_policy import LeaderPolicy
from reconciler.policies.retention_floor import RetentionFloor

POLICIES: tuple[type[Policy], ...] = (RetentionFloor, GroupRemoval, LeaderPolicy)
"""In the order of the documents."""

__all__ = ["POLICIES", "GroupRemoval", "LeaderPolicy", "Policy", "RetentionFloor"]
