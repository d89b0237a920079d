"""How long `load` takes for 1,000 files with 10,000 manifests, against the YAML reader alone. Prints one line; target: 30 s on two cores.

python bench/manifests.py [FILES [MANIFESTS_PER_FILE]]
"""

import sys
import tempfile
import time
from pathlib import Path

from ruamel.yaml import YAML

from reconciler.load.files import load

NOW_MS = 1_800_000_000_000
CLUSTER = """apiVersion: reconciler/v1
kind: Cluster
metadata: {name: prod-eu}
spec: {clusterId: 5L6g3nShT-eMCtK--X86sw, bootstrapServers: ["broker-1:9093"], journal: {topic: _reconciler.journal}}
"""
POLICY = """apiVersion: reconciler/v1
kind: RetentionFloor
metadata:
  name: clicks-{n}
  cluster: prod-eu
  owner: team-clicks
  reason: erase after 7 days
spec:
  topics: [clicks-{n}, "clicks-{n}-*"]
  exceptTopics: [clicks-{n}-audit]
  expectAtMost: 40
  keep:
    newerThan: 7d
    last: 1_000_000
    unreadBy: [billing, shipping]
  consumers: clamp
  every: 30s
"""


def main(files: int, per_file: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "cluster.yaml").write_text(CLUSTER)
        for file in range(files):
            documents = (POLICY.replace("{n}", str(file * per_file + n)) for n in range(per_file))
            (root / f"clicks-{file:05}.yaml").write_text("---\n".join(documents))
        started = time.perf_counter()
        loaded = load([root], now_ms=NOW_MS)
        took = time.perf_counter() - started
        assert len(loaded.policies) == files * per_file
        started = time.perf_counter()
        for path in sorted(root.iterdir()):
            for _ in YAML(typ="safe", pure=True).parse(path.read_text()):
                pass
        reader = time.perf_counter() - started
    print(f"files={files + 1} manifests={files * per_file + 1} validate_s={took:.1f} yaml_reader_alone_s={reader:.1f}")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], "1000", "10")[:2]))
