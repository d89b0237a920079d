"""Makes the list of jars of a Kafka version: `python -m tools.lock_kafka_jars 4.3.1`. For maintainers; nothing imports it.

Ivy resolves what a broker and its tools depend on, with the registry's checksums verified; the list is what was found, for
people to review and to commit. Connect, which the tools name and no tool here needs, and its web server stay out.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from reconciler.sandbox.jars import LISTS, ivy_class_path, sha256_of
from reconciler.sandbox.java import find_java

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
    """What the list must make runnable: broker, tools, and an implementation for the broker's log."""
    before_4 = int(version.split(".")[0]) < 4
    logging = (
        ("org.slf4j", "slf4j-reload4j", "1.7.36")
        if before_4
        else ("org.apache.logging.log4j", "log4j-slf4j2-impl", "2.25.4")
    )
    return (("org.apache.kafka", "kafka_2.13", version), ("org.apache.kafka", "kafka-tools", version), logging)


def resolve(version: str) -> str:
    """The list's text. Raises CalledProcessError with Ivy's words in `stdout`."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        module = ['<ivy-module version="2.0">', '<info organisation="reconciler" module="lock"/>']
        module += ['<configurations><conf name="default"/></configurations>', "<dependencies>"]
        module += [
            f'<dependency org="{o}" name="{n}" rev="{r}" conf="default->default"/>' for o, n, r in roots(version)
        ]
        module += [f'<exclude org="{o}" module="{n}" matcher="exactOrRegexp"/>' for o, n in _EXCLUDED]
        (work / "ivy.xml").write_text("\n".join([*module, "</dependencies>", "</ivy-module>"]), encoding="utf-8")
        command = [str(find_java()), "-cp", ivy_class_path(), "org.apache.ivy.Main", "-ivy", str(work / "ivy.xml")]
        command += ["-confs", "default", "-types", "jar", "bundle", "-cache", str(work / "cache")]
        command += ["-retrieve", str(work / "libs" / "[organisation]" / "[module]" / "[revision]" / "[artifact].[ext]")]
        subprocess.run(command, check=True, capture_output=True, text=True)
        found = sorted((work / "libs").rglob("*.jar"))
        lines = [f"{sha256_of(jar)}  {':'.join(jar.relative_to(work / 'libs').parts[:3])}\n" for jar in found]
    return "".join(lines)


if __name__ == "__main__":
    (LISTS / f"jars-{sys.argv[1]}.sha256").write_text(resolve(sys.argv[1]), encoding="utf-8")
