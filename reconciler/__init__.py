"""Declarative housekeeping for Apache Kafka: retention floors, groups to remove, preferred leaders."""

__version__ = "0.1.0"
