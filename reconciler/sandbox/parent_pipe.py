"""The tie between the process that started a sandbox and the keeper of its brokers; the keeper's side is in `keeper`."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import reconciler
from reconciler.errors import SandboxError
from reconciler.sandbox import supervisor
from reconciler.sandbox.logs import tail
from reconciler.sandbox.process import Process


@dataclass(slots=True)
class ParentPipe:
    """The end of the pipe whose closing, by us or by our death, ends the brokers."""

    descriptor: int

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def detach(self) -> None:
        """Let the keeper go on without us."""
        if self.descriptor >= 0:
            os.write(self.descriptor, supervisor.DETACH)
        self.close()


def spawn_keeper(folder: Path, logs: Path, deadline: float) -> ParentPipe:
    """Start the keeper on `folder`; returns once it has recorded itself and its brokers."""
    read_end, write_end = os.pipe()
    lifeline = ParentPipe(write_end)
    # The keeper finds this package whatever folder or path hook this process found it through.
    search = [str(Path(reconciler.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        with (logs / "keeper.log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-m", "reconciler.sandbox.supervisor", str(folder)],
                stdin=read_end,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(search)},
                check=True,
                timeout=60,
            )
        _wait_recorded(folder, logs, deadline)
    except subprocess.SubprocessError:
        lifeline.close()
        raise SandboxError(f"the keeper of the brokers did not start; {tail(logs / 'keeper.log')}") from None
    except BaseException:
        lifeline.close()
        raise
    finally:
        os.close(read_end)
    return lifeline


def _wait_recorded(folder: Path, logs: Path, deadline: float) -> None:
    nodes = json.loads((folder / supervisor.SPEC).read_text(encoding="utf-8"))
    own = folder / supervisor.KEEPER
    files = [own, *(folder / f"node-{node['id']}.json" for node in nodes)]
    while not all(file.exists() for file in files):
        if time.monotonic() > deadline or (own.exists() and not read_process(own).alive()):
            raise SandboxError(f"the keeper of the brokers did not start; {tail(logs / 'keeper.log')}")
        time.sleep(0.02)


def read_process(path: Path) -> Process:
    """The process recorded in a file; one that never lives if there is none any more."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Process(0, "")
    return Process(record["pid"], record["started"])
