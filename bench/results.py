"""Writes the sections of bench/RESULTS.md and formats their figures.

    results.write("scan", "Scan", [results.machine("4.3.1"), "", *results.table(("work", "measured"), rows)])

Each bench has one section between markers and replaces it. The figures of several runs become a
median and a range: `results.summarize([1.2, 1.3, 1.9])` is "1.3 (1.2–1.9, n=3)".
"""

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from reconciler.model.progress import Progress

FILE = Path(__file__).with_name("RESULTS.md")
LINE_LENGTH = 100


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every bench: small sizes only show that it works, and are never written."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--quick", action="store_true", help="smaller sizes or fewer runs; prints the results only")
    options.add_argument("--dry", action="store_true", help="print the results without writing RESULTS.md")
    return options


def timed_progress() -> Progress:
    """Return a function that prints a line with the seconds since now."""
    start = time.monotonic()
    return lambda text, *_state: print(f"{time.monotonic() - start:7.1f} s  {text}", file=sys.stderr, flush=True)


def publish(options: argparse.Namespace, name: str, title: str, lines: Iterable[str], *, whole: bool = True) -> None:
    """Print the lines, and write their section. `whole`: of a run that measured everything."""
    text = [*lines]
    print("\n".join(text))
    if whole and not (options.dry or options.quick):
        write(name, title, text)


def write(name: str, title: str, lines: Iterable[str], *, file: Path = FILE) -> None:
    """Replace the section `name`, or add it at the end.

    `lines` are Markdown without the heading: table rows, and paragraphs, which are wrapped.
    """
    begin_mark, end_mark = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    wrapped = [line if line.startswith("|") else textwrap.fill(line, LINE_LENGTH) for line in lines]
    section = "\n".join([begin_mark, f"## {title}", "", *wrapped, end_mark])
    text = file.read_text(encoding="utf-8") if file.is_file() else "# Measured\n"
    if begin_mark in text:
        text = re.sub(f"{re.escape(begin_mark)}.*?{re.escape(end_mark)}", lambda _match: section, text, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    draft = file.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Render a Markdown table."""
    return [_row(head), "|" + "---|" * len(head), *(_row(row) for row in rows)]


def summarize(values: Sequence[float], unit: str = "", *, digits: int = 1) -> str:
    """Render the median, the lowest and highest value, and the number of runs."""
    if not values:
        return "not measured"
    center = f"{statistics.median(values):,.{digits}f}{unit}"
    if len(values) == 1:
        return f"{center} (n=1)"
    return f"{center} ({min(values):,.{digits}f}–{max(values):,.{digits}f}, n={len(values)})"


def ratio(seconds: Sequence[float], baseline_s: Sequence[float]) -> str:
    """Render the ratio of the medians; empty without a baseline."""
    return f"{statistics.median(seconds) / statistics.median(baseline_s):.2f} ×" if baseline_s else ""


def machine(kafka: str) -> str:
    """Describe the machine and all versions, without the host name.

    `kafka` is the brokers' version.
    """
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
    match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.is_file() else None
    return match[1].strip() if match else platform.machine()


def _java() -> str:
    result = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    match = re.search(r'version "([^"]+)"', result.stderr)
    return match[1] if match else "of unknown version"
