from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

from lakewright.options import resolve
from lakewright.plan.distribution import choose_distribution
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan

MakePlan = Callable[..., WritePlan]


@pytest.fixture
def make_plan(tmp_path: Path) -> MakePlan:
    """A plan for a table of a given schema, whose run writes below tmp_path."""

    def make(
        schema: Schema | str,
        partition_by: list[str] | None = None,
        sort_by: list[str] | None = None,
        *,
        engine: str = "arrow",
        bytes_per_row: float | None = None,
        **options: Any,
    ) -> WritePlan:
        table_schema = schema_from(schema) if isinstance(schema, str) else schema
        spec: PartitionSpec = build_spec(table_schema, partition_by) if partition_by else UNPARTITIONED_PARTITION_SPEC
        order: SortOrder = build_sort_order(table_schema, sort_by) if sort_by else UNSORTED_SORT_ORDER
        chosen = resolve(options, {}, {})
        return WritePlan(
            table="db.t",
            run_id="run",
            data_prefix=f"file://{tmp_path}/t/data/run",
            schema=table_schema,
            spec=spec,
            sort_order=order,
            engine=engine,
            distribution=choose_distribution(spec, order, chosen),
            options=chosen,
            io_properties={},
            bytes_per_row=bytes_per_row,
        )

    return make


@pytest.fixture
def on_disk(tmp_path: Path) -> Callable[[], set[str]]:
    """Locations of all files of the table."""
    return lambda: {f"file://{path}" for path in (tmp_path / "t").rglob("*") if path.is_file()}
