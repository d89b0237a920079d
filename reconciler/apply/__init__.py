"""Carries out a plan: rechecks each action before its request, sends it, reads back, and records the outcome.

An action is sent as it was planned, or not at all.
"""
