"""Real Apache Kafka brokers without containers, for the demo, the tests and anyone who wants to try.

Jars come through Ivy (`jars`), brokers run under a keeper that never outlives its owner (`keeper`), `cluster` starts and
stops them, `named` keeps one running between commands, `tools` runs Kafka's own command-line tools against it.
Nothing here is on the way from a manifest to a plan.
"""
