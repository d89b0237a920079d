"""Manifests in: YAML files to validated policies, with a position for everything that is wrong. What policies mean is in kinds/."""
