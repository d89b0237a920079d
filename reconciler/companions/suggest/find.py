"""Scans a cluster and finds suggestions, for the command and for the library."""

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from reconciler import pipeline
from reconciler.clock import wall_clock_ms
from reconciler.companions.suggest import rules
from reconciler.companions.suggest.findings import Suggestions
from reconciler.external.read import read_positions
from reconciler.run import Run


def find_suggestions(run: Run, *, idle_for_ms: int, ignored: Collection[str]) -> Suggestions:
    """Scan the whole cluster. The manifests of the run say what policies cover already."""
    now_ms = wall_clock_ms()
    snapshot = pipeline.scan(run, rules.scan_request(now_ms), now_ms)
    mirrors = read_positions(run.session, rules.undeclared_readers(snapshot))
    snapshot = replace(snapshot, external={**snapshot.external, **mirrors})
    run.progress("comparing groups, records and leaders")
    suggest = partial(
        rules.suggest,
        cluster=run.manifests.cluster,
        policies=run.manifests.policies,
        idle_for_ms=idle_for_ms,
        ignored=ignored,
    )
    return pipeline.decide_with_lookups(run.session, snapshot, suggest, run.progress)[0]
