"""Facts and policies in, a plan out; then limits, the plan file, its renderings, and what is left of a plan when it is applied.

Pure: no clock, no client, no Spark. Each module says what it decides.
"""
