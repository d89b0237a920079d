"""bench/RESULTS.md: each bench owns one section between markers and replaces it whole. What is measured is decided in the benches.

    results.write("scan", "Scan", [f"{results.machine()} …", "", *results.table(("work", "measured"), rows)])

Numbers of several runs are told as median and spread: `results.told([1.2, 1.3, 1.9])` is "1.3 (1.2–1.9, n=3)".
"""

import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

FILE = Path(__file__).with_name("RESULTS.md")


def write(name: str, title: str, lines: Iterable[str], *, file: Path = FILE) -> None:
    """Replace the section `name`, or add it at the end. Lines are Markdown; the heading and the markers come with it."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = "\n".join([begin, f"## {title}", "", *lines, end])
    text = file.read_text(encoding="utf-8") if file.is_file() else "# Measured\n"
    if begin in text:
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _old: section, text, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    written = file.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    written.replace(file)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    return [_row(head), "|" + "---|" * len(head), *(_row(row) for row in rows)]


def told(values: Sequence[float], unit: str = "", *, digits: int = 1) -> str:
    """Median, and lowest and highest of how many runs."""
    if not values:
        return "not measured"
    middle = f"{statistics.median(values):,.{digits}f}{unit}"
    if len(values) == 1:
        return f"{middle} (n=1)"
    return f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f}, n={len(values)})"


def machine(kafka: str) -> str:
    """Where and with what: cores, memory, system, Python, Java, clients, brokers of version `kafka`. No host name."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "pyspark", "pyarrow"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}; one machine with {os.cpu_count()} cores ({_processor()}) and {memory_gib:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}, Java {_java()}, {versions}, Apache Kafka {kafka}; "
        "brokers, clients and Spark share the cores."
    )


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.is_file() else None
    return found[1].strip() if found else platform.machine()


def _java() -> str:
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return found[1] if found else "of unknown version"
