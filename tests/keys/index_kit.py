"""A keyed table, a model of its rows, and what its index says of a batch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewright.keys.request import KeyRequest, Operation
from lakewright.keys.run import fitted_to, prepared
from lakewright.read.scan import plan_scan
from lakewright.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.lake import Lake
    from lakewright.table import Table

_names = itertools.count()
COLUMNS = "k string, v bigint"


def keyed(lake: Lake, columns: str = COLUMNS, *, key: Any = ("k",), **how: Any) -> Table:
    properties = how.pop("properties", {})
    return lake.create_table(f"indexed.t{next(_names)}", columns, key=key, properties={"write.merge.mode": "merge-on-read", **properties}, **how)


def frame(table: Table, rows: Mapping[str, int]) -> DataFrame:
    return table._lake.spark.createDataFrame(list(rows.items()), COLUMNS)


def load(table: Table, rows: DataFrame, files: int = 8, *, by_range: bool = True) -> None:
    """The rows in that many files, each with a range of keys or with some of everywhere."""
    first = rows.columns[0]
    table.bulk_insert(rows, by=lambda r: r.repartitionByRange(files, first) if by_range else r.repartition(files, first))


def contents(table: Table) -> dict[str, int]:
    rows = table.read().collect()
    found = {row.k: row.v for row in rows}
    assert len(found) == len(rows)
    return found


def candidates(table: Table, records: DataFrame, **options: Any) -> set[str]:
    """The files an upsert of these records would join with."""
    table.refresh()
    request = prepared(table, fitted_to(table, KeyRequest(Operation.UPSERT, records, options=options)))
    metadata = table._state.metadata
    context = Transaction(table._lake, table._state)._row_context(request._merge(metadata), request.options, f"{metadata.location}/data", "merge-on-read")
    source = request.batch.source
    assert source.index is not None
    files = plan_scan(table._state.io, metadata, metadata.head(), with_metrics=True).files
    return {file.data_file.file_path for file in source.index.candidates(context, source, files)}


def files_with(table: Table, condition: str) -> set[str]:
    """The files that do have such rows."""
    return {row[0] for row in table.read(metadata=True).where(condition).select("_file").distinct().collect()}


def all_files(table: Table) -> set[str]:
    state = table.refresh()._state
    return {file.data_file.file_path for file in plan_scan(state.io, state.metadata, state.metadata.head()).files}


def index_folder(table: Table) -> Path:
    return Path(table.location.removeprefix("file://")) / "index" / "record"
