"""The exception tree. An exception means "cannot go on"; what fails for one subject is data (Blocked, Unread, Outcome).

    ReconcilerError                exit 1   anything below, caught once, in cli/
    ├── UsageError                 exit 64  the words of the command line do not fit together
    ├── ManifestsInvalid           exit 1   carries every diagnostic of the run
    ├── SecretMissing              exit 1   a ${env:…} or ${file:…} of a Cluster leads nowhere
    ├── ClusterUnreachable         exit 1   no broker answered: what was tried and for how long
    ├── ScanFailed                 exit 1   Spark could not run the scan at all
    ├── JournalUnavailable         exit 1   the journal cannot be read or written
    ├── SandboxError               exit 1   local brokers could not be fetched, started or found
    ├── Refused                    exit 3   a limit or a protection; nothing was done
    └── PlanUnusable               exit 4   stale, expired, tampered with, unknown format
        └── WrongCluster           exit 4   the brokers are not the cluster that the manifest or the plan names

Each message names the subject, the number, the limit and the next step, in one line.
"""

from collections.abc import Sequence


class ReconcilerError(Exception):
    """Root of the tree; `exit_code` is what the process answers when nothing caught it earlier."""

    exit_code = 1


class UsageError(ReconcilerError):
    """The words of the command line do not fit together."""

    exit_code = 64


class ManifestsInvalid(ReconcilerError):
    """At least one error diagnostic; `diagnostics` holds all of the run in file order (load.diagnostics.Diagnostic)."""

    def __init__(self, diagnostics: Sequence[object]) -> None:
        super().__init__(f"{len(diagnostics)} problem(s) in the manifests")
        self.diagnostics = tuple(diagnostics)


class SecretMissing(ReconcilerError):
    """A reference of a Cluster manifest leads nowhere; the message names each with its key, and never a value."""


class ClusterUnreachable(ReconcilerError):
    """No broker answered within the timeout, or the handshake failed."""


class ScanFailed(ReconcilerError):
    """Spark could not start or lost the scan as a whole; a broker that is away is not this, it is Unread."""


class JournalUnavailable(ReconcilerError):
    """The journal cannot be read or written, so neither the purge clock nor the audit trail can be trusted."""


class SandboxError(ReconcilerError):
    """Local brokers could not be fetched, started or found."""


class Refused(ReconcilerError):
    """A limit or a protection refuses the plan as a whole; nothing was done."""

    exit_code = 3


class PlanUnusable(ReconcilerError):
    """The plan file is stale, expired, tampered with or of an unknown format; nothing was done."""

    exit_code = 4


class OutputUnwritten(ReconcilerError):
    """What there is to tell could not be written where it was wanted."""


class WrongCluster(PlanUnusable):
    """The brokers answered with another cluster id than the manifest or the plan names; nothing was done."""
