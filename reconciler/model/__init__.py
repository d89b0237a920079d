"""Nouns that cross packages: frozen values, stdlib only, no I/O, no clock, no client and no YAML.

Offsets are absolute record offsets; times are epoch milliseconds (`_ms`); sets are tuples in a stable order.
"""
