"""Starts the supervisor of the brokers and holds the pipe that ties it to this process.

The supervisor's side of the pipe is in `supervisor`.
"""

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
from reconciler.sandbox.process import read_process


@dataclass(slots=True)
class ParentPipe:
    """The write end of the pipe to the supervisor.

    The brokers end when it is closed, or when this process ends.
    """

    descriptor: int

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def detach(self) -> None:
        """Let the supervisor go on after the end of this process."""
        if self.descriptor >= 0:
            os.write(self.descriptor, supervisor.DETACH)
        self.close()


def spawn_supervisor(folder: Path, logs: Path, deadline: float) -> ParentPipe:
    """Start the supervisor of `folder` and wait until it has recorded itself and its brokers.

    Raises SandboxError if it does not start before `deadline`, an instant of the monotonic clock.
    """
    read_end, write_end = os.pipe()
    parent_pipe = ParentPipe(write_end)
    # The supervisor must import the same package, also where this process found it through a path
    # hook.
    search_path = [str(Path(reconciler.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        with (logs / "supervisor.log").open("ab") as log:
            subprocess.run(
                [sys.executable, "-m", "reconciler.sandbox.supervisor", str(folder)],
                stdin=read_end,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path)},
                check=True,
                timeout=60,
            )
        _wait_recorded(folder, logs, deadline)
    except subprocess.SubprocessError:
        parent_pipe.close()
        raise _start_error(logs) from None
    except BaseException:
        parent_pipe.close()
        raise
    finally:
        os.close(read_end)
    return parent_pipe


def _wait_recorded(folder: Path, logs: Path, deadline: float) -> None:
    nodes = json.loads((folder / supervisor.SPEC).read_text(encoding="utf-8"))
    supervisor_file = folder / supervisor.SUPERVISOR
    files = [supervisor_file, *(folder / f"node-{node['id']}.json" for node in nodes)]
    while not all(file.exists() for file in files):
        if time.monotonic() > deadline or (supervisor_file.exists() and not read_process(supervisor_file).alive()):
            raise _start_error(logs)
        time.sleep(0.02)


def _start_error(logs: Path) -> SandboxError:
    return SandboxError(f"the supervisor of the brokers did not start; {tail(logs / 'supervisor.log')}")
