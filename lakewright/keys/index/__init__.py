"""Indexes: which files may have rows of a batch's keys, so that the others are not read. What an index says is only ever checked against the rows."""

from __future__ import annotations

from lakewright.keys.index.choice import index_of

__all__ = ["index_of"]
