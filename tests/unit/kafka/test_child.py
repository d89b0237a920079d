"""Processes of this program that end with their parent, and with the object that stands for them."""

import gc
import os

import pytest

from reconciler.kafka.child import Child, serve


def main(descriptor: int) -> None:
    """In the process: send back what comes."""
    pipe, received = serve(descriptor)
    while True:
        pipe.send(received.get())


@pytest.mark.parametrize("leads_group", [False, True])
@pytest.mark.parametrize("explicit", [False, True])
def test_a_process_ends_with_its_object(explicit: bool, leads_group: bool) -> None:
    """A forgotten session would otherwise leave a process, which no one waits for."""
    child = Child(__name__, new_session=leads_group)
    child.send("hello")
    assert child.receive(30) == "hello"
    pid = child.process.pid
    if explicit:
        child.end()
        child.end()
        assert child.has_ended
    del child
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
