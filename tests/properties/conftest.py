"""Number of Hypothesis examples: HYPOTHESIS_PROFILE=quick (the default), ci, soak or mutants.

`quick` draws the same examples in each run, so that a change is refused for what it does. New examples
are drawn by `make soak`, which the scheduled workflow runs. There is no deadline per example, because
the machine may have other work.
"""

import os

from hypothesis import HealthCheck, settings

from tests.fakes.disk import disable_fsync

__all__ = ["disable_fsync"]

_TOO_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("quick", max_examples=50, deadline=None, suppress_health_check=_TOO_SLOW, derandomize=True)
settings.register_profile("ci", max_examples=10_000, deadline=None, suppress_health_check=_TOO_SLOW, print_blob=True)
settings.register_profile("soak", max_examples=100_000, deadline=None, suppress_health_check=_TOO_SLOW, print_blob=True)
settings.register_profile("mutants", max_examples=25, deadline=None, suppress_health_check=_TOO_SLOW, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
