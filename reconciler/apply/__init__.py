"""Carries out a plan: rechecks each action, sends it, reads back and records the outcome.

An action is sent as it was planned, or not at all.
"""
