"""Loads manifests: YAML files to validated policies, with a position for every error."""
