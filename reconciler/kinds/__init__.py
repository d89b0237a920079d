"""The kinds of the manifest language: an explicit union, discriminated on `kind`. A new kind is one file and one name here."""

from typing import Annotated

from pydantic import Field

from reconciler.kinds.cluster import Cluster
from reconciler.kinds.group_removal import GroupRemoval
from reconciler.kinds.leader_policy import LeaderPolicy
from reconciler.kinds.retention_floor import RetentionFloor
from reconciler.kinds.waiver import Waiver

Policy = RetentionFloor | GroupRemoval | LeaderPolicy
"""Kinds that desire a state."""

Manifest = Annotated[Cluster | Waiver | RetentionFloor | GroupRemoval | LeaderPolicy, Field(discriminator="kind")]

__all__ = ["Cluster", "GroupRemoval", "LeaderPolicy", "Manifest", "Policy", "RetentionFloor", "Waiver"]
