"""One run on one cluster: its manifests, its Kafka session, its journal, and how the steps run."""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from reconciler.clock import wall_clock_ms
from reconciler.errors import JournalUnavailable, Refused, WrongCluster
from reconciler.external.read import read_positions
from reconciler.journal.file import FOLDER, JournalFile
from reconciler.journal.journal import ActionJournal, whoami
from reconciler.journal.release import ci_run
from reconciler.kafka.gateway import KafkaGateway
from reconciler.kafka.journal_topic import JournalTopic
from reconciler.kafka.session import KafkaSession
from reconciler.manifest import secrets
from reconciler.manifest.files import ClusterManifests, ManifestSet
from reconciler.model.names import TopicPartition
from reconciler.model.outcome import Outcome
from reconciler.model.progress import Progress
from reconciler.plan.expiry_and_cluster import check_cluster_id
from reconciler.references import CONNECTION
from reconciler.scan.engine_choice import Engine


@dataclass(kw_only=True)
class Run(AbstractContextManager["Run"]):
    """A run on one cluster: its manifests, its one Kafka session, and how the steps run.

    The journal and the results name its id, so it applies at most one plan. `timeout_s`: of each
    broker call. `stop`: whether a signal ends the run. `sending`: called before each request, from
    any thread. `last_purges`: when each partition last lost records in an earlier round of a loop, in
    epoch milliseconds; this run adds its own. None: the journal says it. The end of the `with` block
    closes the session.
    """

    manifests: ClusterManifests
    engine: Engine
    timeout_s: float
    progress: Progress
    stop: Callable[[], bool] = lambda: False
    sending: Callable[[], None] = lambda: None
    last_purges: dict[TopicPartition, int] | None = None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started_at_ms: int = field(init=False, default_factory=wall_clock_ms)

    def __exit__(self, *_error: object) -> None:
        if "session" in vars(self):
            self.session.close()

    @cached_property
    def session(self) -> KafkaSession:
        """Open the Kafka session at the first use. Raises ClusterUnreachable and WrongCluster."""
        cluster = self.manifests.cluster
        self.progress(f"connecting to {cluster.metadata.name}")
        session = KafkaSession.open(secrets.resolve(cluster, timeout_s=self.timeout_s))
        try:
            check_cluster_id(cluster, session.cluster_id, f"the brokers at {session.connection.servers} are")
        except WrongCluster:
            session.close()
            raise
        return session

    @property
    def gateway(self) -> KafkaGateway:
        """What the applier, the restoring of a group and `observe` call on the cluster of the manifests."""
        cluster = self.manifests.cluster
        return KafkaGateway(
            self.session,
            read_external=partial(read_positions, self.session, self.manifests.reader_requests),
            without_consumer_offsets=cluster.hides_consumer_offsets,
        )

    @cached_property
    def journal(self) -> ActionJournal:
        """Open the journal of the Cluster manifest: a topic, or a file in the (trusted) manifest's folder.

        The current user is the author of what is recorded.
        Raises JournalUnavailable for a file that is only where earlier versions stored it, and
        UsageError for an environment that names no CI run (`ci_run`).
        """
        cluster, base = self.manifests.cluster, self.manifests.base
        manifest = Path((cluster if base is None else base.cluster).declared_at.path)
        topic = cluster.spec.journal.topic
        # A link to the manifest would give the same cluster a second journal, and a second clock of `every`.
        folder = (manifest.resolve() if manifest.is_symlink() else manifest).parent
        path = Path(FOLDER) / f"{cluster.metadata.name}.jsonl"
        if not topic and path.exists() and not (folder / path).exists():
            raise JournalUnavailable(
                f"the journal {path} is in the working directory, and a journal belongs to its manifests: "
                f"move it to {folder / path}"
            )
        store = JournalTopic(self.session, topic) if topic else JournalFile(folder / path)
        return ActionJournal(store, who=whoami(), commit=None, **ci_run())

    def note_purges(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yield the outcomes, and remember those that may have deleted records for the next round."""
        for outcome in outcomes:
            if self.last_purges is not None and outcome.removed_max:
                address = outcome.action.address
                self.last_purges[TopicPartition(address.name, address.partition)] = wall_clock_ms()
            yield outcome


def connect_as_environment(manifests: ClusterManifests, load: Callable[[Path], ManifestSet]) -> ClusterManifests:
    """Return the manifests with the connection that the environment names, if any.

    `load`: loads the manifests that are named. Raises Refused for another connection: only `plan` is for
    manifests that propose one.
    """
    path = os.environ.get(CONNECTION)
    if not path or manifests.base is not None:
        return manifests
    connected = manifests.connect_as(load(Path(path)))
    if connected.connection_changes:
        raise Refused(
            f"{manifests.cluster.address} ({manifests.cluster.declared_at}) connects elsewhere "
            f"({', '.join(connected.connection_changes)}) than {path}, which {CONNECTION} names: nothing was done; "
            "`reconciler plan` shows what the manifests would do"
        )
    return connected
