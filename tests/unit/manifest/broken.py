"""A broken example of each error code, as file name → text; a valid Cluster is added if none is there.

The documents show the examples with their real output.
"""

from collections.abc import Mapping

NOW_MS = 1_795_255_200_000  # 2026-11-21T10:00:00Z


def manifest(kind: str, name: str, spec: str, *, more: str = "", metadata: str = "") -> str:
    """Return a manifest around the lines of a spec."""
    body = "".join(f"  {line}\n" for line in spec.strip("\n").splitlines())
    inner = f"name: {name}{metadata and ', ' + metadata}"
    return f"apiVersion: reconciler/v1\nkind: {kind}\nmetadata: {{{inner}}}\n{more}spec:\n{body}"


def floor(spec: str, *, name: str = "orders", more: str = "") -> str:
    return manifest("RetentionFloor", name, spec, more=more)


def cluster(spec: str = "", *, name: str = "prod-eu", cluster_id: str = "5L6g3nShT-eMCtK--X86sw") -> str:
    return manifest("Cluster", name, f"clusterId: {cluster_id}\nbootstrapServers: [broker-1:9093]\n{spec}")


def waiver(spec: str) -> str:
    return manifest("Waiver", "first-purge", spec)


CLUSTER = cluster()
GOOD = "topics: [orders]\nkeep: {newerThan: 7d}"
WAIVED = "policy: RetentionFloor/orders\nlimit: recordsPercent\nvalue: 100\nexpires: 2026-12-01T00:00:00Z"

BROKEN: Mapping[str, Mapping[str, str]] = {
    "M101": {"orders.yaml": floor("topics: [orders\nkeep: {newerThan: 7d}")},
    "M102": {"orders.yaml": "%YAML 1.1\n---\n" + floor(GOOD)},
    "M103": {"orders.yaml": floor("topics: [!!str 2024]\nkeep: {newerThan: 7d}")},
    "M104": {"orders.yaml": floor("topics: &all [orders, clicks]\nexceptTopics: *all\nkeep: {newerThan: 7d}")},
    "M105": {"orders.yaml": floor("<<: {partitions: [0]}\ntopics: [orders]\nkeep: {newerThan: 7d}")},
    "M106": {"orders.yaml": floor(GOOD) + "---\n---\n- orders\n"},
    "M107": {"orders.yaml": floor("topics: [orders]\nkeep: {newerThan: 7d}\ntopics: [clicks]")},
    "M108": {"orders.yaml": floor("topics: [orders\u200b]\nkeep: {newerThan: 7d}")},
    "M109": {"orders.yaml": floor("topics: [[[[[[[[[[[[[[[[orders]]]]]]]]]]]]]]]]\nkeep: {newerThan: 7d}")},
    "M110": {"orders.yaml": floor("topics: [orders]\npartitions: [010]\nkeep: {newerThan: 7d}")},
    "M111": {"orders.yaml": floor("topics: [orders]\n[a, b]: 1\nkeep: {newerThan: 7d}")},
    "M112": {"orders.yaml": floor("topics: [orders]\npartitons: [0, 1]\nkeep: {newerThan: 7d}", name="orders-gdpr")},
    "M113": {"groups.yaml": manifest("GroupRemoval", "dead-etl", "groups: [old-etl]")},
    "M114": {"orders.yaml": floor("topics: orders\nkeep: {newerThan: 7d, last: '100'}")},
    "M115": {"orders.yaml": floor("topics: [2024]\nkeep: {newerThan: 7d}")},
    "M116": {"orders.yaml": floor("topics: []\nexceptTopics:\nkeep: {newerThan: 7d}")},
    "M117": {"orders.yaml": floor("topics: [orders, clicks, orders]\nkeep: {newerThan: 7d}")},
    "M118": {"orders.yaml": floor(GOOD + "\nconsumers: clmap")},
    "M119": {"orders.yaml": floor("topics: [orders]\npartitions: [-1]\nkeep: {newerThan: 7d}", name="Orders")},
    "M120": {"orders.yaml": manifest("RetentionFlor", "orders", GOOD)},
    "M121": {"orders.yaml": floor("topics: [orders]\nkeep: {newerThan: 1w}")},
    "M122": {"orders.yaml": floor("topics: [orders]\nkeep: {since: 2026-11-01}")},
    "M123": {"orders.yaml": floor("topics: ['regex:^test-[0-9+$']\nkeep: {newerThan: 7d}\nexpectAtMost: 9")},
    "M124": {"orders.yaml": floor("topics: ['regex:(?!dev-).*']\nkeep: {newerThan: 7d}\nexpectAtMost: 9")},
    "M201": {"orders.yaml": floor('topics: ["clicks-*"]\nkeep: {newerThan: 7d}')},
    "M202": {"orders.yaml": floor('topics: ["clicks-*"]\nexpectAtMost: 9\nkeep:\n  fromOffset: {0: 1200}')},
    "M203": {"orders.yaml": floor("topics: [orders]\npartitions: [0, 1]\nkeep:\n  fromOffset: {0: 1200}")},
    "M204": {"orders.yaml": floor("topics: [orders]\nkeep:\n  newerThan: 7d\n  topicId: kAwXdc4bS8uMfEXAMPLE0g")},
    "M205": {"orders.yaml": floor("topics: [__remote_log_metadata]\nkeep: {newerThan: 7d}")},
    "M206": {"orders.yaml": floor("topics: [orders]\nkeep: {since: 2027-01-01T00:00:00Z}")},
    "M207": {
        "cluster.yaml": cluster("journal: {topic: _reconciler.journal}"),
        "orders.yaml": floor("topics: [_reconciler.journal]\nkeep: {newerThan: 7d}"),
    },
    "M208": {"groups.yaml": manifest("GroupRemoval", "dead-etl", 'groups: ["etl-*"]\nexpectAtMost: 9\nidleFor: 0s')},
    "M209": {"leaders.yaml": manifest("LeaderPolicy", "orders", "topics: [orders]\nelection: unclean")},
    "M210": {"orders.yaml": floor(GOOD), "waiver.yaml": waiver(WAIVED.replace("2026-12-01", "2027-12-01"))},
    "M211": {"cluster.yaml": cluster("client:\n  sasl.username: reconciler\n  sasl.password: correct-horse")},
    "M212": {"cluster.yaml": cluster("client:\n  enable.auto.commit: true\n  plugin.library.paths: ./monitor.so")},
    "M213": {"cluster.yaml": cluster("client:\n  sasl.username: ${KAFKA_USER}")},
    "M214": {"orders.yaml": floor("topics: [orders]\nkeep: {}")},
    "M215": {"orders.yaml": floor(GOOD), "waiver.yaml": waiver(WAIVED.replace("recordsPercent", "elections"))},
    "M216": {
        "groups.yaml": manifest("GroupRemoval", "dead-etl", "groups: [old-etl]\nidleFor: 0s") + "mode: continuous\n"
    },
    "M217": {"orders.yaml": floor("topics: [orders]\nkeep: {newerThan: 0s}")},
    "M218": {"cluster.yaml": cluster("client:\n  security.protocol: TLS\n  reconnect.backoff.ms: 1s")},
    "M219": {
        "cluster.yaml": cluster(
            "client:\n  security.protocol: SASL_PLAINTEXT\n  sasl.mechanism: PLAIN\n  sasl.username: reconciler\n"
            "  sasl.password: ${env:KAFKA_PASSWORD}"
        )
    },
    "M220": {
        "cluster.yaml": cluster("client:\n  security.protocol: SASL_SSL\n  sasl.mechanism: OAUTHBEARER"),
        "orders.yaml": floor(GOOD),
    },
    "M221": {
        "lake.yaml": manifest(
            "ExternalReader",
            "orders-lake",
            "topics: [orders]\nposition: {sparkCheckpoint: 's3://ID:SECRET@lake/orders?endpoint_override=example.org'}",
        )
    },
    "M222": {"lake.yaml": manifest("ExternalReader", "orders-lake", "topics: [orders]\nposition: {}")},
    "M301": {"orders.yaml": floor(GOOD), "more.yaml": floor("topics: [clicks]\nkeep: {newerThan: 7d}")},
    "M302": {"orders.yaml": floor(GOOD), "team.yaml": floor(GOOD, name="team-orders")},
    "M303": {"orders.yaml": manifest("RetentionFloor", "orders", GOOD, metadata="cluster: prod-ue")},
    "M304": {
        "cluster.yaml": cluster(),
        "other.yaml": cluster(name="prod-us", cluster_id="9QxT2nUdS7ujRk5w1yZ4LA"),
        "orders.yaml": floor(GOOD),
    },
    "M305": {"orders.yaml": floor(GOOD), "waiver.yaml": waiver(WAIVED.replace("/orders", "/oders"))},
    "M306": {"cluster.yaml": "", "orders.yaml": floor(GOOD)},
    "M307": {"cluster.yaml": cluster(), "copy.yaml": cluster(name="prod-us")},
    "M401": {"orders.yaml": floor("topics: [orders]\nkeep: {unreadBy: [billing]}", more="mode: continuous\n")},
    "M402": {"orders.yaml": floor(GOOD), "waiver.yaml": waiver(WAIVED.replace("2026-12-01", "2026-11-01"))},
    "M403": {"cluster.yaml": cluster()},
    "M501": {"cluster.yaml": cluster("client:\n  sasl.password: ${env:KAFKA_PASSWORD}")},
}
"""M001 to M007 concern files, not their text; tests/unit/manifest/test_files.py has examples of those."""
