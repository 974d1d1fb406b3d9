"""Child processes that serve on a free port of 127.0.0.1: start, wait until they answer, stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

READY_WITHIN_SECONDS = 90.0
STOP_WITHIN_SECONDS = 15.0


class ServiceFailed(RuntimeError):
    """A service the suite needs did not come up; the message ends with the last lines of its log."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextmanager
def serving(name: str, command: Sequence[str], log: Path, ready: Callable[[], bool], env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Runs `command` in a process group of its own until the block ends."""
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True)
    try:
        _wait_until_ready(name, child, log, ready)
        yield child
    finally:
        _stop(child)


def _wait_until_ready(name: str, child: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not ready():
        if child.poll() is not None:
            raise ServiceFailed(f"{name} ended with code {child.returncode} before it answered.\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise ServiceFailed(f"{name} did not answer within {READY_WITHIN_SECONDS:.0f} s.\n{_tail(log)}")
        time.sleep(0.1)


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
