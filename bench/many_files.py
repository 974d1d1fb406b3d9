"""A table of many small files with 20 columns, partitioned by day: 100 different files, linked under as many names as asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, PrimitiveType, StringType

from bench.places import DATA

ROWS_PER_FILE = 20
DAYS = 100
TABLE = "bench.many"


def _types() -> dict[str, PrimitiveType]:
    numbered = {f"{letter}{n}": kind for letter, kind in (("n", LongType()), ("x", DoubleType()), ("s", StringType())) for n in range(6)}
    return {"id": LongType(), "day": DateType(), **numbered}


SCHEMA = Schema(*[NestedField(field_id=n, name=name, field_type=kind, required=False) for n, (name, kind) in enumerate(_types().items(), 1)])
SPEC = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="day"))


def file_facts(count: int) -> Iterator[dict[str, Any]]:
    """What a manifest says of each of `count` files that exist: attributes by name, each with containers of its own."""
    paths = _linked(count)
    table = _described()
    bases = [_facts(parquet_file_to_data_file(table.io, table.metadata, path)) for path in paths[:DAYS]]
    for n, path in enumerate(paths):
        yield {**{key: _copied(value) for key, value in bases[n % DAYS].items()}, "file_path": path}


def built_table(count: int) -> dict[str, str]:
    """Catalog properties of a table of `count` files that PyIceberg committed, made once and kept."""
    folder = DATA / f"many-table-{count}"
    finished = folder / "catalog.db"
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        table = create(fresh_catalog(folder, "building.db"))
        fast_append(table, pyiceberg_files(file_facts(count), table))
        (folder / "building.db").rename(finished)
    return _properties(folder)


def sql_catalog(properties: dict[str, str]) -> SqlCatalog:
    return SqlCatalog("bench", **{key: value for key, value in properties.items() if key != "type"})


def fresh_catalog(folder: Path, database: str = "catalog.db") -> SqlCatalog:
    folder.mkdir(parents=True, exist_ok=True)
    return sql_catalog(_properties(folder, database))


def create(catalog: SqlCatalog) -> Table:
    catalog.create_namespace_if_not_exists("bench")
    return catalog.create_table(TABLE, SCHEMA, partition_spec=SPEC)


def fast_append(table: Table, files: list[DataFile]) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            append.append_data_file(file)


def pyiceberg_files(facts: Iterable[dict[str, Any]], table: Table) -> list[DataFile]:
    return [
        DataFile.from_args(
            content=DataFileContent.DATA, file_format=FileFormat.PARQUET, spec_id=table.metadata.default_spec_id, sort_order_id=None,
            equality_ids=None, key_metadata=None, **{**fact, "partition": Record(*fact["partition"])},
        )
        for fact in facts
    ]


def _properties(folder: Path, database: str = "catalog.db") -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/{database}", "warehouse": f"file://{folder}"}


def _described() -> Table:
    folder = DATA / "many-files" / "described"
    shutil.rmtree(folder, ignore_errors=True)
    return create(fresh_catalog(folder))


def _facts(file: DataFile) -> dict[str, Any]:
    names = ("record_count", "file_size_in_bytes", "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return {"partition": (file.partition[0],), "split_offsets": list(file.split_offsets or ()), **{name: getattr(file, name) for name in names}}


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


def _linked(count: int) -> list[str]:
    folder = DATA / "many-files" / str(count)
    paths = [folder / f"day={_day(n)}" / f"{n:06d}.parquet" for n in range(count)]
    if not paths[-1].exists():
        shutil.rmtree(folder, ignore_errors=True)
        for n, path in enumerate(paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, n) if n < DAYS else os.link(paths[n % DAYS], path)
    return [f"file://{path}" for path in paths]


def _day(n: int) -> date:
    return date(2024, 1, 1) + timedelta(days=n % DAYS)


def _write(path: Path, n: int) -> None:
    def values(name: str) -> list[Any]:
        rows = range(n * ROWS_PER_FILE, (n + 1) * ROWS_PER_FILE)
        match name[0]:
            case "d":
                return [_day(n)] * ROWS_PER_FILE
            case "s":
                return [f"{name}-{row:012d}" for row in rows]
            case "x":
                return [row / 7 for row in rows]
        return list(rows)

    schema = schema_to_pyarrow(SCHEMA)
    pq.write_table(pa.table([pa.array(values(field.name), field.type) for field in schema], schema=schema), path, compression="zstd")
