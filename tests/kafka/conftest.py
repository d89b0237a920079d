"""Guarded brokers for all files of this folder."""

from tests.kafka.secured import pytest_runtest_teardown, sasl_broker, tls_broker

__all__ = ["pytest_runtest_teardown", "sasl_broker", "tls_broker"]
