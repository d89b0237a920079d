"""For programs with Spark: `from reconciler.spark import register`; docs/tables.md says what it registers."""

from reconciler.companions.sources.data_sources import register

__all__ = ["register"]
