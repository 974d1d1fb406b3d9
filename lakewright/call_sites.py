"""Column expressions without a note of the line that made them.

PySpark tells the JVM for each step of an expression which line of the program it stands in, so that an error can name it. That takes
more calls to the JVM than the expressions themselves, 1,200 of 2,800 for an upsert, and the lines would be Lakewright's own. What users
made before or make afterwards keeps its lines; only what another thread makes at the same time does without.
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
