"""Brokers with a guarded listener that several files share; `GROUPS` of tests/schedule.py lists these.

The topics, the groups and the ordinary users of a file are its own, and it leaves the brokers as they were.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from reconciler.companions.sandbox.cluster import SandboxCluster, start, stopping
from reconciler.companions.sandbox.security import SecureAccess, Security
from tests import build
from tests.schedule import GROUPS, file_of

SECURE = "listener.name.secure"
SUPER_USER = "doctor"
"""The user who has every right; the others have those that a test grants."""
USERS = {
    SUPER_USER: "c0rrecthorsebattery",
    **{
        f"ci-{purpose}": f"s3cret{purpose}"
        for purpose in ("plan", "apply", "elections", "none", "earlier", "hidden", "removals", "topics")
    },
}
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_SASL = {
    f"{SECURE}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    f"{SECURE}.oauthbearer.sasl.jaas.config": f'{_OAUTH} required unsecuredLoginStringClaim_sub="broker";',
}
_TLS = {f"{SECURE}.ssl.allow.dn.changes": "true", f"{SECURE}.ssl.allow.san.changes": "true"}
_running = ExitStack()


@cache
def _broker(*, tls: bool) -> SandboxCluster:
    properties = {"super.users": f"User:ANONYMOUS;User:{SUPER_USER}", **(_TLS if tls else _SASL)}
    security = Security(USERS, tls=tls)
    return _running.enter_context(
        stopping(start(1, name="tls" if tls else "sasl", heap_mib=256, security=security, properties=properties))
    )


def access(cluster: SandboxCluster) -> SecureAccess:
    """Return the guarded listener of a broker."""
    assert cluster.secure is not None
    return cluster.secure


def write_manifests(
    folder: Path, cluster: SandboxCluster, properties: Mapping[str, str], policies: str, *, more: str = ""
) -> None:
    """Write the Cluster `guarded`, whose clients use the guarded listener with these properties, and policies.

    `more`: lines of the Cluster's spec.
    """
    lines = "\n  ".join(line for line in (f"client: {json.dumps(properties)}", more) if line)
    servers, cluster_id = access(cluster).bootstrap_servers, cluster.cluster_id
    build.write_manifests(folder, servers, policies, cluster_id=cluster_id, name="guarded", more=lines)


@pytest.fixture(scope="module")
def sasl_broker() -> SandboxCluster:
    """One broker whose second listener has SASL and no TLS, and accepts tokens without a signature, too."""
    return _broker(tls=False)


@pytest.fixture(scope="module")
def tls_broker() -> SandboxCluster:
    """One broker whose second listener has SASL and TLS, with a certificate that can change while it runs."""
    return _broker(tls=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the brokers after the last test of a group: no scope of fixtures spans its files and ends before the session."""
    if nextitem is None or GROUPS.get(file_of(nextitem.nodeid)) != GROUPS.get(file_of(item.nodeid)):
        _running.close()
        _broker.cache_clear()
