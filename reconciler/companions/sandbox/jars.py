"""Fetches the broker's jars into the user's cache, with the Ivy that pyspark ships.

A version is a committed list of Maven coordinates with their sha256. Nothing is resolved at run
time, and only the listed jars are accepted. This module contains no registry address: Ivy's default
is Maven Central. `tools/lock_kafka_jars.py` makes a list.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import platformdirs

from reconciler.companions.sandbox import data_dir
from reconciler.companions.sandbox.java import find_java
from reconciler.errors import SandboxError
from reconciler.model.progress import Progress, no_progress

DEFAULT_VERSION = "4.3.1"
VERSION_VARIABLE = "RECONCILER_SANDBOX_KAFKA"
"""Environment variable with the Kafka version of all sandboxes whose caller names none."""

DOWNLOAD_TIMEOUT_S = 900
LISTS = Path(__file__).parent
"""Folder of the committed lists."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a list: Maven coordinates and the file's sha256 in hexadecimal."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def versions(lists: Path = LISTS) -> tuple[str, ...]:
    """Kafka versions with a list, sorted."""
    return tuple(sorted(path.stem.removeprefix("jars-") for path in lists.glob("jars-*.sha256")))


def configured_version() -> str:
    """The Kafka version of a sandbox whose caller names none."""
    return os.environ.get(VERSION_VARIABLE) or DEFAULT_VERSION


def read_list(version: str, *, lists: Path = LISTS) -> tuple[Jar, ...]:
    """Read the list of a Kafka version. Raises SandboxError for a version without one."""
    path = lists / f"jars-{version}.sha256"
    if not path.is_file():
        raise SandboxError(f"no list of jars for Kafka {version}; there is one for {', '.join(versions(lists))}")
    return parse_list(path.read_text(encoding="utf-8"))


def parse_list(text: str) -> tuple[Jar, ...]:
    """Parse lines of the form `sha256  organisation:name:revision`."""
    rows = (line.replace(":", " ").split() for line in text.splitlines())
    return tuple(Jar(organisation, name, revision, digest) for digest, organisation, name, revision in rows)


def fetch(
    version: str = DEFAULT_VERSION, *, cache: Path | None = None, lists: Path = LISTS, progress: Progress = no_progress
) -> Path:
    """Return a folder with the broker's jars, for class path `FOLDER/*`. Downloads about 45 MB once.

    Raises SandboxError without Java, for an unknown version, for a failed download, and for a jar
    that differs from the list.
    """
    root = cache or platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "kafka"
    jars = read_list(version, lists=lists)
    # The name contains the list's hash: a checkout with another list must not replace the jars of running brokers.
    list_hash = hashlib.sha256(repr(jars).encode()).hexdigest()[:8]
    target = root / version / f"libs-{list_hash}"
    if target.is_dir():
        problem = find_mismatch(target, jars)
        if problem is None:
            return target
        progress(f"cached Kafka {version} is damaged ({problem}), fetching it again")
    java = find_java()
    with data_dir.writing():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Each process downloads into its own folder and renames it, so that two processes never mix files.
        work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target.parent))
    try:
        progress(f"fetching Apache Kafka {version}", f"{len(jars)} jars, about 45 MB, once")
        _run_ivy(java, version, jars, work=work, progress=progress)
        problem = find_mismatch(work / "libs", jars)
        if problem is not None:
            raise SandboxError(f"Kafka {version} was not installed: {problem}; try again, or from another network")
        if target.is_dir():
            target.replace(work / "replaced")
        try:
            (work / "libs").rename(target)
        except OSError:
            # Another process renamed its folder first; that folder passed the same check.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def ivy_class_path() -> str:
    """Class path with Ivy, of pyspark's jars. Raises SandboxError if there is none.

    pyspark is not imported: the import is slow, and a contract forbids it.
    """
    spec = importlib.util.find_spec("pyspark")
    folders = [Path(location) / "jars" for location in (spec and spec.submodule_search_locations) or ()]
    candidates = sorted(jar for folder in folders for jar in folder.glob("ivy-*.jar"))
    if not candidates:
        raise SandboxError(
            "no pyspark with an ivy-*.jar is installed, which fetches the broker's jars: run `make setup`"
        )
    return str(candidates[-1])


def _run_ivy(java: Path, version: str, jars: Sequence[Jar], *, work: Path, progress: Progress) -> None:
    (work / "ivysettings.xml").write_text(render_settings(work / "ivy"), encoding="utf-8")
    (work / "ivy.xml").write_text(render_module(jars), encoding="utf-8")
    # The log is outside the work folder, because an error message names it after the folder is removed.
    log_path = work.parent / "fetch.log"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", ivy_class_path(), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "ivysettings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", str(work / "libs" / "[artifact]-[revision].[ext]")]
    downloaded = 0
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as ivy,
    ):
        # A registry that stops answering within a file would block Ivy, and this loop, for ever.
        watchdog = threading.Timer(DOWNLOAD_TIMEOUT_S, ivy.kill)
        watchdog.start()
        try:
            for line in ivy.stdout or ():
                log.write(line)
                if "[SUCCESSFUL ]" in line:
                    downloaded += 1
                    state = f"{downloaded} of {len(jars)} jars"
                    progress(f"fetching Apache Kafka {version}", state, downloaded, len(jars))
            code = ivy.wait()
        finally:
            watchdog.cancel()
            ivy.kill()
    if code != 0 or downloaded < len(jars):
        missing = f"{len(jars) - downloaded} of {len(jars)} jars of Kafka {version}"
        raise SandboxError(f"could not fetch {missing}: check the network; log in {log_path}")


def render_settings(ivy_cache: Path) -> str:
    """Render Ivy's settings: its default public repository, jars only, downloads in `ivy_cache`.

    Ivy sends one request per jar, because it fetches no POM and no checksum file; `find_mismatch`
    checks the files.
    """
    return f"""\
<ivysettings>
  <settings defaultResolver="public"/>
  <caches defaultCacheDir={quoteattr(str(ivy_cache))}/>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""/>
  </resolvers>
</ivysettings>
"""


def render_module(jars: Sequence[Jar]) -> str:
    """Render Ivy's module file with exactly these jars, without their dependencies."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        ' transitive="false" conf="default->default"/>\n'
        for jar in jars
    )
    return f"""\
<ivy-module version="2.0">
  <info organisation="reconciler" module="sandbox"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}  </dependencies>
</ivy-module>
"""


def find_mismatch(folder: Path, jars: Sequence[Jar]) -> str | None:
    """Describe how a folder of jars differs from the list; None: it has exactly the listed files."""
    present = {path.name for path in folder.glob("*.jar")}
    for jar in jars:
        if jar.file_name not in present:
            return f"{jar.file_name} is missing"
        if sha256_of(folder / jar.file_name) != jar.sha256:
            return f"{jar.file_name} does not have the sha256 {jar.sha256[:12]}… of the committed list"
    unlisted = present - {jar.file_name for jar in jars}
    return f"{min(unlisted)} is not on the committed list" if unlisted else None


def sha256_of(path: Path) -> str:
    """Return a file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
