"""Carrying out a plan: rechecks before each send, batches, retries, proof by reading back, the journal and the results.

Nothing is decided here about what should happen: each action is sent as it was planned, or not at all.
"""
