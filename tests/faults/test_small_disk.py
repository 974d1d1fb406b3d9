"""A disk that is full or read-only: real ones, mounted for one process only."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.small_disk import SIZE_MIB


@pytest.mark.feature("I22")
def test_a_full_and_a_read_only_disk(tmp_path: Path) -> None:
    own_namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size={SIZE_MIB}m tmpfs {shlex.quote(str(tmp_path))}"
    run = f"exec {shlex.quote(sys.executable)} -m tests.faults.small_disk {shlex.quote(str(tmp_path))}"
    done = subprocess.run([*own_namespace, "sh", "-c", f"{mount} && {run}"], capture_output=True, text=True, timeout=400, cwd=Path(__file__).parents[2])
    assert done.returncode == 0 and "as before" in done.stdout, done.stderr[-4000:]
