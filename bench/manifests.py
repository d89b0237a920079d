"""How long `load` takes for 1,000 files with 10,000 manifests, against the YAML reader alone. Prints one line; target: 30 s.

    python -m bench.manifests

One process on one core: CPU seconds are what to compare on a machine that is busy with other things.
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


def measured(sizes: Manifests) -> dict[str, float]:
    """Counts and seconds, by name."""
    files, per_file = sizes.files, sizes.per_file
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "cluster.yaml").write_text(CLUSTER)
        for file in range(files):
            documents = (POLICY.replace("{n}", str(file * per_file + n)) for n in range(per_file))
            (root / f"clicks-{file:05}.yaml").write_text("---\n".join(documents))
        started, cpu = time.perf_counter(), time.process_time()
        loaded = load([root], now_ms=NOW_MS)
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
        assert len(loaded.policies) == files * per_file
        started = time.process_time()
        for path in sorted(root.iterdir()):
            for _ in YAML(typ="safe", pure=True).parse(path.read_text()):
                pass
        reader = time.process_time() - started
    return {
        "files": files + 1,
        "manifests": files * per_file + 1,
        "validate_s": round(took, 1),
        "validate_cpu_s": round(cpu, 1),
        "yaml_reader_alone_cpu_s": round(reader, 1),
    }


def main() -> None:
    print(" ".join(f"{name}={figure}" for name, figure in measured(FULL.manifests).items()))


if __name__ == "__main__":
    main()
