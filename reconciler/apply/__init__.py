"""Rechecks each action, sends it as planned or not at all, reads back, records the outcome."""
