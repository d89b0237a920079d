"""Measures `load` for 1,000 files with 10,000 manifests, against the YAML reader alone.

The goal is 30 s.

    python -m bench.manifests

It runs in one process on one core and prints one line. Compare CPU seconds on a busy machine.
"""

import tempfile
import time
from pathlib import Path

from ruamel.yaml import YAML

from bench.sizes import FULL, Manifests
from reconciler.manifest.files import load

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


def measure(sizes: Manifests) -> dict[str, float]:
    """Return counts and seconds by name."""
    files, per_file = sizes.files, sizes.per_file
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "cluster.yaml").write_text(CLUSTER)
        for file in range(files):
            documents = (POLICY.replace("{n}", str(file * per_file + n)) for n in range(per_file))
            (root / f"clicks-{file:05}.yaml").write_text("---\n".join(documents))
        start, cpu_start = time.perf_counter(), time.process_time()
        manifest_set = load([root], now_ms=NOW_MS)
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
        assert len(manifest_set.policies) == files * per_file
        reader_start = time.process_time()
        for path in sorted(root.iterdir()):
            for _ in YAML(typ="safe", pure=True).parse(path.read_text()):
                pass
        reader_s = time.process_time() - reader_start
    return {
        "files": files + 1,
        "manifests": files * per_file + 1,
        "validate_s": round(seconds, 1),
        "validate_cpu_s": round(cpu_s, 1),
        "yaml_reader_alone_cpu_s": round(reader_s, 1),
    }


def main() -> None:
    print(" ".join(f"{name}={figure}" for name, figure in measure(FULL.manifests).items()))


if __name__ == "__main__":
    main()
