"""The broker's jars in the user's cache, fetched with Java alone by the Ivy that pyspark ships.

A version is a committed list of coordinates with their sha256: nothing is resolved at run time, and nothing but that list
is accepted. No registry's address is known here; Ivy's own default is Maven Central. How a list is made: `lock`.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import platformdirs

from reconciler.errors import SandboxError
from reconciler.sandbox.java import find_java

DEFAULT_VERSION = "4.3.1"
VERSION_VARIABLE = "RECONCILER_SANDBOX_KAFKA"
"""Names another version for every sandbox that is not asked for a certain one: how the matrix runs the same tests on each."""

DOWNLOAD_TIMEOUT_S = 900
LISTS = Path(__file__).parent
"""Where the committed lists are."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a list: Maven coordinates and the sha256 of the file, in hex."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def no_progress(_: str) -> None:
    """A progress callback that drops what it hears."""


def versions(lists: Path = LISTS) -> tuple[str, ...]:
    """Kafka versions that have a list."""
    return tuple(sorted(path.stem.removeprefix("jars-") for path in lists.glob("jars-*.sha256")))


def chosen_version(environ: Mapping[str, str] = os.environ) -> str:
    """The version of a sandbox that nobody asked to be a certain one."""
    return environ.get(VERSION_VARIABLE) or DEFAULT_VERSION


def read_list(version: str, *, lists: Path = LISTS) -> tuple[Jar, ...]:
    """The list of a Kafka version. Raises SandboxError for a version without one."""
    path = lists / f"jars-{version}.sha256"
    if not path.is_file():
        raise SandboxError(f"no list of jars for Kafka {version}; there is one for {', '.join(versions(lists))}")
    return parse_list(path.read_text(encoding="utf-8"))


def parse_list(text: str) -> tuple[Jar, ...]:
    """Lines `sha256  organisation:name:revision`, as `lock` writes them."""
    jars = []
    for line in text.splitlines():
        digest, coordinates = line.split()
        organisation, name, revision = coordinates.split(":")
        jars.append(Jar(organisation, name, revision, digest))
    return tuple(jars)


def cache_dir() -> Path:
    """Where jars of all versions live, and Ivy's downloads on their way there."""
    return platformdirs.user_cache_path("kafka-reconciler", appauthor=False) / "kafka"


def fetch(
    version: str = DEFAULT_VERSION, *, cache: Path | None = None, lists: Path = LISTS, progress: Progress = no_progress
) -> Path:
    """Folder with the broker's jars, usable as class path `FOLDER/*`; downloads about 45 MB unless it is there and whole.

    Raises SandboxError: no Java, no such version, a download that failed (with its log), a jar that is not the listed one.
    """
    root = cache_dir() if cache is None else cache
    jars = read_list(version, lists=lists)
    # Named by the list: a checkout with another list must not pull the jars from under brokers that run on these.
    listed = hashlib.sha256(repr(jars).encode()).hexdigest()[:8]
    target = root / version / f"libs-{listed}"
    if target.is_dir():
        wrong = mismatch(target, jars)
        if wrong is None:
            return target
        progress(f"cached Kafka {version} is damaged ({wrong}), fetching it again")
    java = find_java()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Every process downloads into a folder of its own and renames: two at once waste a download, never mix files.
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target.parent))
    try:
        progress(f"fetching Apache Kafka {version}: {len(jars)} jars, about 45 MB, once")
        _run_ivy(java, version, jars, work=work, progress=progress)
        wrong = mismatch(work / "libs", jars)
        if wrong is not None:
            raise SandboxError(f"Kafka {version} was not installed: {wrong}; try again, or from another network")
        _swap(work / "libs", target, spare=work / "replaced")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def pyspark_jars() -> Path:
    """pyspark's folder of jars, found without importing pyspark, which this package may not and which is slow."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "jars").is_dir():
            return Path(location) / "jars"
    raise SandboxError("pyspark is not installed beside this program, and Ivy comes with it: run `make setup`")


def ivy_class_path() -> str:
    """Class path with Ivy on it. Raises SandboxError where pyspark ships none."""
    found = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not found:
        raise SandboxError(f"no ivy-*.jar in {pyspark_jars()}: this pyspark cannot fetch the broker's jars")
    return str(found[-1])


def _run_ivy(java: Path, version: str, jars: Sequence[Jar], *, work: Path, progress: Progress) -> None:
    (work / "ivysettings.xml").write_text(render_settings(work / "ivy"), encoding="utf-8")
    (work / "ivy.xml").write_text(render_module(jars), encoding="utf-8")
    # The log stays when the rest of the folder goes, because an error message points to it.
    log_path = work.parent / "fetch.log"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", ivy_class_path(), "org.apache.ivy.Main"]
    command += ["-settings", str(work / "ivysettings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", str(work / "libs" / "[artifact]-[revision].[ext]")]
    done = 0
    with (
        log_path.open("w", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as ivy,
    ):
        # A registry that stops answering in mid-file would hold Ivy, and us reading its words, for ever.
        watchdog = threading.Timer(DOWNLOAD_TIMEOUT_S, ivy.kill)
        watchdog.start()
        try:
            for line in ivy.stdout or ():
                log.write(line)
                if "[SUCCESSFUL ]" in line:
                    done += 1
                    progress(f"fetching Apache Kafka {version}: {done} of {len(jars)} jars")
            code = ivy.wait()
        finally:
            watchdog.cancel()
            ivy.kill()
    if code != 0 or done < len(jars):
        raise SandboxError(
            f"could not fetch {len(jars) - done} of {len(jars)} jars of Kafka {version} (is the network there?): log in {log_path}"
        )


def render_settings(ivy_cache: Path) -> str:
    """Ivy's settings: its default public repository, exact jars only, downloads kept in `ivy_cache`.

    Without POMs and checksum files there is one request per jar; what arrives is checked against the committed list.
    """
    return (
        "<ivysettings>\n"
        '  <settings defaultResolver="public"/>\n'
        f"  <caches defaultCacheDir={quoteattr(str(ivy_cache))}/>\n"
        "  <resolvers>\n"
        '    <ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false" checksums=""/>\n'
        "  </resolvers>\n"
        "</ivysettings>\n"
    )


def render_module(jars: Sequence[Jar]) -> str:
    """Ivy's module file: exactly these jars, and nothing they depend on."""
    lines = [
        '<ivy-module version="2.0">',
        '  <info organisation="reconciler" module="sandbox"/>',
        '  <configurations><conf name="default"/></configurations>',
        "  <dependencies>",
    ]
    lines += [
        f"    <dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        ' transitive="false" conf="default->default"/>'
        for jar in jars
    ]
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""])


def mismatch(folder: Path, jars: Sequence[Jar]) -> str | None:
    """What is wrong with a folder of jars; None when it holds the listed files and nothing else."""
    present = {path.name for path in folder.glob("*.jar")}
    for jar in jars:
        if jar.file_name not in present:
            return f"{jar.file_name} is missing"
        if sha256_of(folder / jar.file_name) != jar.sha256:
            return f"{jar.file_name} does not have the sha256 {jar.sha256[:12]}… of the committed list"
    unlisted = present - {jar.file_name for jar in jars}
    return f"{min(unlisted)} is not on the committed list" if unlisted else None


def sha256_of(path: Path) -> str:
    """In hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _swap(new: Path, target: Path, *, spare: Path) -> None:
    if target.is_dir():
        target.replace(spare)
    try:
        new.rename(target)
    except OSError:
        # Somebody else was first; theirs passed the same check.
        if not target.is_dir():
            raise
