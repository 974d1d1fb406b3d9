"""Whatever is written, by either engine and in any distribution, three readers give back, and every file says the truth about itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import event, given, target

from lakewright.plan.types import iceberg_to_spark
from lakewright.read.scan import live_entries
from tests.interop.canonical import canonical
from tests.interop.readers import duck, pyiceberg
from tests.properties.cases import Case, cases
from tests.properties.checks import check_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewright.lake import Lake

EVERYWHERE = {"decimal", "'' partition", "null partition", "NaN", "date before 1970", "struct", "none", "hash", "range", "bucket", "truncate", "identity"}
EVENTS = {"native": EVERYWHERE, "arrow": EVERYWHERE | {"list", "map"}}


@pytest.mark.hypothesis
@pytest.mark.feature("D1", "D2", "D3", "D5", "I5", "I7")
@pytest.mark.parametrize("engine", ["native", "arrow"])
def test_rows_come_back(spark: SparkSession, lake: Lake, engine: str) -> None:
    seen: Counter[str] = Counter()

    @given(cases(engine))
    def round_trip(case: Case) -> None:
        found = case.events()
        seen.update({name: 1 for name, count in found.items() if count})
        for name in found:
            event(name)
        target(float(len(+found)))
        check(spark, lake, case, engine)

    round_trip()
    print(f"{engine}: {dict(seen.most_common())}")
    assert EVENTS[engine] <= set(seen), f"never drawn: {EVENTS[engine] - set(seen)}"


def as_pyiceberg_reads(rows: pa.Table) -> pa.Table:
    """PyIceberg 0.12 reads a null list or map of structs as an empty one, from files of its own writer too."""
    for at, field in enumerate(rows.schema):
        inner = field.type.item_type if pa.types.is_map(field.type) else field.type.value_type if pa.types.is_list(field.type) else None
        if inner is not None and pa.types.is_struct(inner):
            rows = rows.set_column(at, field, pa.array([value or [] for value in rows.column(at).to_pylist()], field.type))
    return rows


def check(spark: SparkSession, lake: Lake, case: Case, engine: str) -> None:
    table = lake.create_table("db.random", case.rows.schema, partition_by=case.partition_by, sort_by=case.sort_by)
    try:
        df = spark.createDataFrame(case.rows, iceberg_to_spark(table.schema))
        commit = table.append(df, engine=engine, distribution_mode=case.distribution, fanout_enabled=case.fanout)
        assert commit.added_rows == case.rows.num_rows
        wanted = canonical(case.rows)
        assert canonical(table.read().toArrow()) == wanted
        assert canonical(pyiceberg(table)) == canonical(as_pyiceberg_reads(case.rows))
        assert canonical(duck(table)) == wanted
        state = table.refresh()._state
        for entry in live_entries(state.io, state.metadata, state.metadata.head()):
            check_file(state.metadata, entry.data_file)
    finally:
        lake.drop_table("db.random", purge=True)
