"""Lakewright: a write engine for open lake tables, on Spark through PySpark.

Importing it touches neither PySpark nor Java; connecting to a lake does, at the first need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakewright import errors

if TYPE_CHECKING:
    from lakewright import shards
    from lakewright.commit.result import Commit
    from lakewright.lake import Lake, connect
    from lakewright.table import Table

__version__ = "0.1.0"
__all__ = ["Commit", "Lake", "Table", "connect", "errors", "shards"]

_HOMES = {"connect": "lakewright.lake", "Lake": "lakewright.lake", "Table": "lakewright.table", "Commit": "lakewright.commit.result"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "shards":
        return import_module("lakewright.shards")
    if name not in _HOMES:
        raise AttributeError(f"module 'lakewright' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
