"""`reconciler observe`: records how groups look, so that later runs can tell which are idle."""

from reconciler import pipeline
from reconciler.cli import common, console, loading
from reconciler.cli.loading import Paths
from reconciler.cli.settings import SPARK, Settings, accepts_settings
from reconciler.errors import ExitCode
from reconciler.model.snapshot import GroupState, Unknown
from reconciler.text.escape import display_name, escape_sentence, quoted
from reconciler.text.formatting import count


@accepts_settings(None, without=SPARK)
def observe(settings: Settings, paths: Paths = None) -> int:
    """Record how groups look, where __consumer_offsets is hidden.

    Of clusters with `consumerOffsets: hidden`, the groups that a GroupRemoval selects, at least four
    times in each `idleFor`. Writes to the journal and nothing else.
    """
    codes: set[int] = set()
    for manifests in loading.load_clusters(paths, settings):
        name = display_name(manifests.cluster.metadata.name)
        with common.collect_errors(manifests, codes):
            with common.open_run(settings, manifests) as run:
                seen = pipeline.observe(run)
            if seen is None:
                why = "it has no `consumerOffsets: hidden`, or no GroupRemoval with idleFor above 0s"
                console.print_stderr(f"{name}: nothing to observe: {why}")
                continue
            unread = {group: of for group, of in seen.items() if isinstance(of, Unknown)}
            empty = sum(not isinstance(of, Unknown) and of.state is GroupState.EMPTY for of in seen.values())
            if not settings.quiet:
                console.write(f"{name}: recorded {count(len(seen) - len(unread), 'group')}, {empty:,} EMPTY\n")
            for group, reason in unread.items():
                console.print_error(f"{name}: group {quoted(group)} was not read: {escape_sentence(reason.reason)}")
                codes.add(ExitCode.ERROR)
    return common.worst_exit_code(codes)
