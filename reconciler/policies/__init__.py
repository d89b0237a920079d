"""The kinds of the manifest language: an explicit union, discriminated on `kind`. A new kind is one file and one name here."""

from typing import Annotated

from pydantic import Field

from reconciler.policies.cluster import Cluster
from reconciler.policies.group_removal import GroupRemoval
from reconciler.policies.leader_policy import LeaderPolicy
from reconciler.policies.retention_floor import RetentionFloor
from reconciler.policies.waiver import Waiver

Policy = RetentionFloor | GroupRemoval | LeaderPolicy
"""Kinds that desire a state."""

Manifest = Annotated[Cluster | Waiver | RetentionFloor | GroupRemoval | LeaderPolicy, Field(discriminator="kind")]

__all__ = ["Cluster", "GroupRemoval", "LeaderPolicy", "Manifest", "Policy", "RetentionFloor", "Waiver"]
