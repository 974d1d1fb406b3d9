"""Files of a run that failed: tasks that are being stopped may add some for a moment after the job is over."""

from __future__ import annotations

import time
from contextlib import suppress

from pyiceberg.io import FileIO

from lakewright.format.storage import delete_tree, list_files, prune_empty_folders

SETTLE_SECONDS, SETTLE_STEP = 10.0, 0.2


def delete_until_quiet(io: FileIO, prefix: str) -> None:
    """Delete what is under the prefix, until tasks that were still being stopped add nothing more."""
    deadline = time.monotonic() + SETTLE_SECONDS
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        with suppress(Exception):
            quiet = 0 if any(True for _ in list_files(io, prefix)) else quiet + 1
            delete_tree(io, prefix)
        if quiet < 2:
            time.sleep(SETTLE_STEP)
    prune_empty_folders(prefix)
