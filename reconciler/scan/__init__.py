"""Runs a ScanRequest into a ClusterSnapshot. Only this package imports pyspark, when needed."""

from importlib.util import find_spec

from reconciler.errors import ScanFailed

_PACKAGES = ("pandas", "pyarrow", "pyspark")


def check_packages() -> None:
    """Raise ScanFailed if this installation lacks a package of the extra `scan`."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise ScanFailed(
            f"a scan needs {', '.join(missing)}, and this installation has only the packages of `validate`: install the "
            "program with its extra `scan` (docs/getting-started.md); in the GitHub action, leave `scan: false` out"
        )
