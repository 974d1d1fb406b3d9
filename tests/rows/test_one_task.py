"""DELETE and UPDATE of one row group: Spark reads it in one task, and there its rows stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakewright.rows import execute
from lakewright.write.delta_write import materialise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewright.plan.delta import DeltaPlan
    from lakewright.write.delta_messages import Materialised

FEW_ROWS, MANY_ROWS = range(1000), range(1000, 60_000)
SMALL_GROUPS = {"write.parquet.row-group-size-bytes": str(64 * 1024)}


@pytest.fixture
def in_one_task(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each delta that is materialised from now on is to stay in one task."""
    seen: list[bool] = []

    def watched(plan: DeltaPlan, delta: DataFrame) -> Materialised:
        seen.append(plan.in_one_task)
        return materialise(plan, delta)

    monkeypatch.setattr(execute, "materialise", watched)
    return seen


@pytest.fixture(params=["copy-on-write", "merge-on-read"])
def table(request: pytest.FixtureRequest, lake: Any, spark: SparkSession) -> Any:
    """A file of one row group, and one of many."""
    modes = {f"write.{command}.mode": request.param for command in ("delete", "update")}
    name = f"rows.{request.node.name.replace('[', '_').replace(']', '').replace('-', '_').replace(' ', '_')}"
    made = lake.create_table(name, "id bigint, v string", format_version=3, properties={**modes, **SMALL_GROUPS})
    for ids in (FEW_ROWS, MANY_ROWS):
        made.append(spark.range(ids.start, ids.stop).selectExpr("id", "md5(string(id)) as v").coalesce(1), engine="arrow")
    groups = {row.record_count: len(row.split_offsets) for row in made.files().collect()}
    assert groups[len(FEW_ROWS)] == 1 < groups[len(MANY_ROWS)]
    return made


def ids(table: Any, where: str = "true") -> list[int]:
    return sorted(row.id for row in table.read(where).select("id").collect())


@pytest.mark.parametrize(
    ("where", "stay"),
    [
        ("id between 10 and 19", True),
        ("id between 2000 and 2009", False),
        ("id between 995 and 1004", False),
        ("id < 1000 and id in (select id + 20 from range(10))", False),
    ],
    ids=["one row group", "one file", "two files", "a query"],
)
def test_a_delete(table: Any, in_one_task: list[bool], where: str, stay: bool) -> None:
    chosen = set(ids(table, where))
    assert len(chosen) == 10
    table.delete(where)
    assert in_one_task == [stay]
    assert ids(table) == [i for i in range(MANY_ROWS.stop) if i not in chosen]


def test_a_file_with_a_vector(table: Any, in_one_task: list[bool]) -> None:
    table.delete("id between 10 and 19")
    table.delete("id between 15 and 24")
    table.update({"v": "'new'"}, where="id between 20 and 29")
    assert in_one_task == [True, True, True]
    assert ids(table, "v = 'new'") == list(range(25, 30))
    assert ids(table, "id < 40") == [*range(10), *range(25, 40)]
