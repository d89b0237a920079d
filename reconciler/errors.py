"""The exceptions that end a command, and the exit codes of the process.

What fails for one subject is not an exception but data (Blocked, Unknown, Outcome). Each message names
the subject, the number, the limit and the next step, in one line. cli/ catches the exceptions once.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """The exit codes of the process."""

    DONE = 0
    ERROR = 1
    ACTIONS = 2
    """There are actions or drift, for --detailed-exitcode and drift."""
    REFUSED = 3
    PLAN_UNUSABLE = 4
    PARTLY = 5
    """Something was or may have been written, and something was not done."""
    USAGE = 64
    INTERRUPTED = 130
    """A signal ended the command before a request that changes records, groups or leaders."""


class ReconcilerError(Exception):
    """Base of all; `exit_code` is that of the process."""

    exit_code = ExitCode.ERROR


class UsageError(ReconcilerError):
    """The words of the command line do not fit together."""

    exit_code = ExitCode.USAGE


class ManifestsInvalid(ReconcilerError):
    """`diagnostics`: those of the whole run in file order (manifest.diagnostics.Diagnostic).

    `clusters`: the Cluster manifests without an error of their own, or of another one of the same name.
    `contents`: as in ManifestSet.
    """

    def __init__(self, diagnostics: Sequence[Any], clusters: Sequence[Any] = (), contents: Sequence[str] = ()) -> None:
        errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
        first = errors[0] if errors else None
        more = f", the first: {first.location}: {first.message}" if first else ""
        next_step = f"; {first.hint}" if first and first.hint else ""
        super().__init__(f"{len(errors)} error{'s' * (len(errors) > 1)} in the manifests{more}{next_step}")
        self.contents = tuple(contents)
        self.diagnostics = tuple(diagnostics)
        self.clusters = tuple(clusters)


class SecretMissing(ReconcilerError):
    """A `${env:…}` or `${file:…}` of a Cluster has no value; the message never holds a value."""


class ClusterUnreachable(ReconcilerError):
    """No broker answered within the timeout, or the handshake failed."""


class ProgramFailed(ReconcilerError):
    """A worker process met an exception of our own; the message names its type."""


class ScanFailed(ReconcilerError):
    """Spark could not start, or lost the whole scan. An unavailable broker is Unknown instead."""


class JournalUnavailable(ReconcilerError):
    """The journal, with the purge clock and the audit trail, cannot be read or written."""


class SandboxError(ReconcilerError):
    """Local brokers could not be fetched, started or found."""


class Interrupted(ReconcilerError):
    """A signal ended a command that says itself what it had done."""

    exit_code = ExitCode.INTERRUPTED


class OutputUnwritten(ReconcilerError):
    """A result could not be written to standard output or to a file."""


class Refused(ReconcilerError):
    """A limit or a protection refuses the plan as a whole; nothing was done."""

    exit_code = ExitCode.REFUSED


class PlanUnusable(ReconcilerError):
    """The plan file is stale, expired, tampered with or of an unknown format; nothing was done."""

    exit_code = ExitCode.PLAN_UNUSABLE


class WrongCluster(PlanUnusable):
    """The brokers have another cluster id than the manifest or the plan; nothing was done."""
