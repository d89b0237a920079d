"""Writes the lists of jars of a Kafka version: `python -m tools.lock_kafka_jars 4.3.1`.

Ivy resolves the dependencies of a broker and its tools and verifies the registry's checksums. A
maintainer reviews and commits the lists. Connect and its web server are excluded: Kafka's tools
depend on them, but no tool here uses them. A second list has Kafka Streams for its test. Other jars
that the test needs are in the broker's list, and RocksDB is not needed: its stores are in memory.
Of the default version two more lists have MirrorMaker 2 and Spark's connector, which have tests, too.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from reconciler.companions.sandbox.jars import DEFAULT_VERSION, LISTS, ivy_class_path, parse_list, sha256_of
from reconciler.companions.sandbox.java import find_java

_TESTS = Path(__file__).parents[1] / "tests" / "e2e"
STREAMS_LISTS, MIRROR_LISTS, QUERY_LISTS = (_TESTS / name for name in ("streams", "mirror", "query"))
SPARK_VERSION = "4.2.0"
"""The newest Spark whose connector to Kafka is in the registry."""
_CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""What pyspark lacks of it."""
_EXCLUDED = (
    ("org.apache.kafka", "connect-runtime"),
    ("org.apache.kafka", "connect-json"),
    ("commons-beanutils", ".*"),
    ("commons-digester", ".*"),
    ("commons-logging", ".*"),
    ("commons-collections", ".*"),
    ("com.fasterxml.jackson.(jakarta.rs|jaxrs)", ".*"),
    ("com.fasterxml.jackson.dataformat", "jackson-dataformat-yaml"),
    ("com.fasterxml.jackson.module", "jackson-module-(jakarta-xmlbind|jaxb)-annotations"),
)


def roots(version: str) -> tuple[tuple[str, str, str], ...]:
    """The artifacts to resolve: the broker, the tools, and a logging implementation."""
    before_4 = int(version.split(".")[0]) < 4
    logging = (
        ("org.slf4j", "slf4j-reload4j", "1.7.36")
        if before_4
        else ("org.apache.logging.log4j", "log4j-slf4j2-impl", "2.25.4")
    )
    return (("org.apache.kafka", "kafka_2.13", version), ("org.apache.kafka", "kafka-tools", version), logging)


def resolve(
    artifacts: Iterable[tuple[str, str, str]],
    *,
    transitive: bool = True,
    excluded: Iterable[tuple[str, str]] = _EXCLUDED,
) -> str:
    """Return the text of the list of artifacts and, if `transitive`, of their dependencies.

    Raises CalledProcessError with Ivy's output in `stdout`.
    """
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        module = ['<ivy-module version="2.0">', '<info organisation="reconciler" module="lock"/>']
        module += ['<configurations><conf name="default"/></configurations>', "<dependencies>"]
        module += [
            f'<dependency org="{organisation}" name="{name}" rev="{revision}" transitive="{str(transitive).lower()}"'
            ' conf="default->default"/>'
            for organisation, name, revision in artifacts
        ]
        module += [
            f'<exclude org="{organisation}" module="{name}" matcher="exactOrRegexp"/>'
            for organisation, name in excluded
        ]
        (work / "ivy.xml").write_text("\n".join([*module, "</dependencies>", "</ivy-module>"]), encoding="utf-8")
        command = [str(find_java()), "-cp", ivy_class_path(), "org.apache.ivy.Main", "-ivy", str(work / "ivy.xml")]
        command += ["-confs", "default", "-types", "jar", "bundle", "-cache", str(work / "cache")]
        command += ["-retrieve", str(work / "libs" / "[organisation]" / "[module]" / "[revision]" / "[artifact].[ext]")]
        subprocess.run(command, check=True, capture_output=True, text=True)
        jars = sorted((work / "libs").rglob("*.jar"))
        lines = [f"{sha256_of(jar)}  {':'.join(jar.relative_to(work / 'libs').parts[:3])}\n" for jar in jars]
    return "".join(lines)


if __name__ == "__main__":
    version = sys.argv[1]
    brokers = resolve(roots(version))
    lists = {
        LISTS / f"jars-{version}.sha256": brokers,
        STREAMS_LISTS / f"jars-{version}.sha256": resolve(
            [("org.apache.kafka", "kafka-streams", version)], transitive=False
        ),
    }
    if version == DEFAULT_VERSION:
        known = [(jar.organisation, jar.name) for jar in parse_list(brokers)]
        mirror = resolve([("org.apache.kafka", "connect-mirror", version)], excluded=known)
        lists[MIRROR_LISTS / f"jars-{version}.sha256"] = mirror
        lists[QUERY_LISTS / f"jars-{SPARK_VERSION}.sha256"] = resolve(_CONNECTOR, transitive=False)
    for path, text in lists.items():
        path.write_text(text, encoding="utf-8")
