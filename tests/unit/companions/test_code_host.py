"""What a second code host needs to comment on pull requests: one class, with the form of its comments."""

from pathlib import Path
from typing import ClassVar

import pytest

from reconciler.companions import code_host
from reconciler.companions.code_host import CodeHost, CodeHostUnavailable
from reconciler.errors import ExitCode, UsageError
from tests.unit.companions.github.conftest import FakeApi
from tests.unit.companions.github.conftest import api as api  # the fixture

TOKEN = "forge_planted77hunter2"


class ForgeUnavailable(CodeHostUnavailable):
    """The forge gave no answer."""


class Forge(CodeHost):
    """A host whose comments are notes, with an author and a number of their own."""

    NAME: ClassVar[str] = "Forge"
    UNAVAILABLE: ClassVar[type[CodeHostUnavailable]] = ForgeUnavailable
    VARIABLES: ClassVar[tuple[str, str]] = "FORGE_TOKEN", "FORGE_URL"

    @property
    def root(self) -> str:
        return f"{self.url}/repos/acme/kafka"

    def find_comment(self, number: str, marker: str) -> str | None:
        notes = self.get_all(f"merges/{number}/notes")
        own = (note for note in notes if note["author"] == "reconciler-bot" and note["note"].startswith(marker))
        return next((str(note["key"]) for note in own), None)

    def write_comment(self, number: str, body: str, edited: str | None = None) -> None:
        path = f"merges/{number}/notes"
        if edited is None:
            self.send("POST", path, note=body)
        else:
            self.send("PATCH", f"{path}/{edited}", note=body)


def forge(api: FakeApi, **changes: str) -> Forge:
    return Forge(**{"repository": "acme/kafka", "url": api.url, "token": TOKEN} | changes)


def test_a_second_host_keeps_one_comment_per_cluster(api: FakeApi, tmp_path: Path) -> None:
    """Its own comment is edited, a missing one is added, and a person's with the same marker stays."""
    for cluster in ("eu", "us"):
        (tmp_path / cluster).mkdir()
        (tmp_path / cluster / "plan.md").write_text(f"plan of {cluster}")
    markers = {cluster: f"<!-- reconciler plan {cluster} -->" for cluster in ("eu", "us", "asia")}
    api.answers["merges/7/notes"] = [
        {"key": 1, "author": "mallory", "note": markers["us"]},
        {"key": 2, "author": "reconciler-bot", "note": f"{markers['eu']}\nold"},
    ]
    api.answers["merges/7/notes/2"] = {}
    code = code_host.keep_plan_comments(forge(api), "7", ["eu", "us", "asia"], tmp_path, "https://forge.example/run/1")
    assert code == ExitCode.DONE
    added = [fields["note"] for method, path, fields in api.sent if (method, path) == ("POST", "merges/7/notes")]
    assert api.sent[0] == ("PATCH", "merges/7/notes/2", {"note": f"{markers['eu']}\nplan of eu"})
    assert added[0] == f"{markers['us']}\nplan of us"
    assert added[1].startswith(f"{markers['asia']}\nNo plan for `asia`: [the run](https://forge.example/run/1)")


def test_a_second_host_posts_results_and_one_failure_stops_no_other(
    api: FakeApi, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An answer of another form than the host documents is an error of one comment, and names the host."""
    for cluster in ("eu", "us"):
        (tmp_path / cluster / "apply").mkdir(parents=True)
        (tmp_path / cluster / "apply" / "results.md").write_text(f"results of {cluster}")
    api.answers["merges/7/notes"] = [{"text": "no author"}]
    assert code_host.post_result_comments(forge(api), "7", tmp_path, "https://forge.example/run/1") == ExitCode.DONE
    assert [fields["note"].partition("\n")[0] for _method, _path, fields in api.sent] == [
        "results of eu",
        "results of us",
    ]
    (tmp_path / "eu" / "plan.md").write_text("plan of eu")
    assert code_host.keep_plan_comments(forge(api), "7", ["eu", "us"], tmp_path, "https://forge.example") == (
        ExitCode.ERROR
    )
    errors = capfd.readouterr().err.splitlines()
    assert errors == [f"error: {name}: the API answered in another form than Forge documents" for name in ("eu", "us")]


@pytest.mark.parametrize("changes", [{"url": "http://forge.example/api"}, {"token": "two words"}])
def test_a_second_host_refuses_an_unsafe_address_and_a_garbled_token(api: FakeApi, changes: dict[str, str]) -> None:
    """The message names the host's own variables, and never the value."""
    with pytest.raises(UsageError, match=r"FORGE_(URL|TOKEN) is not") as caught:
        forge(api, **changes)
    assert "two words" not in str(caught.value)


def test_the_token_of_a_second_host_is_in_no_message(api: FakeApi) -> None:
    api.answers["merges/7/notes"] = (403, {"message": f"no {TOKEN}"})
    with pytest.raises(CodeHostUnavailable, match=r"Forge refuses merges/7/notes\S+ to this token \(no \*\*\*\)"):
        forge(api).find_comment("7", "<!-- m -->")
