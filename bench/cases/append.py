"""Append the lineitem table to a fresh table: unpartitioned (also through the Data Source entry), and by month."""

from __future__ import annotations

from bench.cases import Case, Entry, Scale
from bench.cases.facts import written_rows
from bench.contenders import DELTA_RS, ICEBERG_RUNTIME, LAKEWRIGHT, PYICEBERG, SPARK_PARQUET, Contender
from bench.data import lineitem

DATA_SOURCE = "lakewright-datasource"


def append(scale: Scale) -> Case:
    return Case(
        "append",
        f"append {scale.rows:,} rows, unpartitioned",
        (
            _entry(LAKEWRIGHT, "append", scale),
            _entry(LAKEWRIGHT, "append-data-source", scale, label=DATA_SOURCE),
            _entry(SPARK_PARQUET, "append", scale),
            _entry(ICEBERG_RUNTIME, "append", scale),
            _entry(DELTA_RS, "append", scale, every=3),
            _entry(PYICEBERG, "append", scale, every=3),
        ),
        written_rows,
    )


def append_by_month(scale: Scale) -> Case:
    job = "append-by-month"
    return Case(
        job,
        f"append {scale.rows:,} rows by month(l_shipdate)",
        (
            _entry(LAKEWRIGHT, job, scale),
            _entry(SPARK_PARQUET, job, scale),
            _entry(ICEBERG_RUNTIME, job, scale),
            _entry(DELTA_RS, job, scale, every=8),
        ),
        written_rows,
    )


def _entry(contender: Contender, job: str, scale: Scale, label: str = "", every: int = 1) -> Entry:
    """The warm-up round appends a quarter of the files: enough to load classes, caches and the compiler."""
    files = lineitem(scale.rows)
    return Entry(contender, job, {"files": files}, {"files": files[: len(files) // 4]}, label, every)
