"""Column expressions without a note of the line that made them.

PySpark tells the JVM for each step of an expression which line of the program it stands in, so that an error can name it. That took
1,200 of the 2,800 calls to the JVM of an upsert, and the lines would be Lakewright's own. What users made before or make afterwards
keeps its lines; only what another thread makes at the same time does without. PySpark has a setting for all of a session, and none for
a while, hence its variable is set here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
_before: Any = None


@contextmanager
def no_call_sites() -> Iterator[None]:
    """For a block, or a function as its decorator."""
    global _inside, _before
    from pyspark.errors import utils

    with _lock:
        if _inside == 0:
            _before = getattr(utils, "_enable_debugging_cache", None)
            utils._enable_debugging_cache = False  # type: ignore[assignment]
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                utils._enable_debugging_cache = _before
