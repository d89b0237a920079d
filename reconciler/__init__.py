"""Declarative housekeeping for Apache Kafka: retention floors, group removal, preferred leaders."""

__version__ = "0.2.0"
