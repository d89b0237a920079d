"""Real Apache Kafka brokers without containers, for the demo, the tests and local trials.

`jars` fetches Kafka, `storage` formats data folders, `cluster` starts and stops brokers, and
`supervisor` is the process that owns them and ends them together with the process that asked for
them. `registry` lists sandboxes that run between commands, `client` prepares their content, and
`tools` runs Kafka's own command-line tools. No module from a manifest to a plan imports this package.
"""
