"""Keyed tables of trips, made small and by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.lake import Lake
from lakewright.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "id bigint, region string, fare double, at int"
_numbers = itertools.count()


def keyed(lake: Lake, schema: str = SCHEMA, **how: Any) -> Table:
    """A table of its own, by id, ordered by at unless told otherwise."""
    return lake.create_table(f"keys.t{next(_numbers)}", schema, **{"key": ["id"], "ordering": "at", **how})


def records(lake: Lake, *rows: tuple[Any, ...], schema: str = SCHEMA) -> DataFrame:
    """In the order given, which is the order of arrival."""
    return lake.spark.createDataFrame(list(rows), schema).coalesce(1)


def rows(table: Table, **how: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in table.read(**how).collect()), key=repr)


def before_the_next(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, meanwhile: Callable[[], object], *, calls: int = 1) -> None:
    """Do something else before the next call of a function, or before a later one, and before that one alone."""
    function = getattr(module, name)

    def late(*given: Any, **how: Any) -> Any:
        monkeypatch.setattr(module, name, function)
        if calls == 1:
            meanwhile()
        else:
            before_the_next(monkeypatch, module, name, meanwhile, calls=calls - 1)
        return function(*given, **how)

    monkeypatch.setattr(module, name, late)
