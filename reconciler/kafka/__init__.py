"""The outside world: the only package that imports the Kafka client. Reads become Arrow batches or nouns, writes become answers.

No client object and no client error leaves this package. Nothing is decided here about what should be done to a cluster.
"""
