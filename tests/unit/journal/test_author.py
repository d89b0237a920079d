"""The author of journal entries."""

import pytest

from reconciler.journal import journal


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a number of no user list: once no plan could be applied there."""
    for name in ("GITHUB_ACTOR", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1_234_567)
    assert journal.whoami().startswith("uid-1234567@")
