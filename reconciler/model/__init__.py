"""Nouns that cross packages: frozen values, standard library only, no I/O, no clock, no client.

Offsets are absolute; times are epoch milliseconds (`_ms`); sets are tuples in a stable order.
"""
