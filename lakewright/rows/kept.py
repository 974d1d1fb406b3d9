"""Rows that an operation needs more than once, and that may not come out the same a second time."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_of_connect: WeakSet[Any] = WeakSet()


def kept(rows: DataFrame, *, eager: bool = True) -> DataFrame:
    """The rows, held by the executors until nothing refers to them."""
    held = rows.localCheckpoint(eager=eager)
    if type(rows).__module__.startswith("pyspark.sql.connect"):
        _of_connect.add(held._plan)
    return held


@atexit.register
def _leave_to_the_session() -> None:
    """A Connect client tells its server when kept rows are not referred to any more, and hangs if that is found out while Python shuts
    down, as with the traceback of a job that failed. What is left by then goes with the session instead."""
    for plan in list(_of_connect):
        plan._relation_id = None
