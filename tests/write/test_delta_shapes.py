"""Files of every age and form: what the table has become since they were written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from lakewright.plan.delta import DELETE, MOVE, UPDATE
from lakewright.plan.partitioning import build_spec
from lakewright.plan.types import schema_from
from lakewright.plan.write_plan import WritePlan
from lakewright.read.arrow_scan import ArrowRead
from lakewright.write.delta_task import materialise_batches
from tests.write.delta_kit import Change, Kit, local

MakePlan = Callable[..., WritePlan]
ACTIONS = pytest.mark.parametrize("removing", [False, True], ids=["updates", "updates and deletes"])
NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StructType(NestedField(10, "a", IntegerType(), required=False), NestedField(11, "b", StringType(), required=False)), required=False),
    NestedField(3, "l", ListType(12, StructType(NestedField(13, "k", LongType(), required=False)), element_required=False), required=False),
    NestedField(4, "m", MapType(14, StringType(), 15, DoubleType(), value_required=False), required=False),
    NestedField(5, "u", UUIDType(), required=False),
    NestedField(6, "f", FixedType(3), required=False),
    NestedField(7, "c", DecimalType(20, 3), required=False),
    NestedField(8, "ts", TimestamptzType(), required=False),
    NestedField(9, "d", DateType(), required=False),
    NestedField(16, "bin", BinaryType(), required=False),
)
MOMENT = datetime(2024, 2, 28, 12, 30, tzinfo=UTC)


def nested_row(i: int) -> dict[str, Any]:
    if i % 11 == 3:
        return {"id": i, **dict.fromkeys(("s", "l", "m", "u", "f", "c", "ts", "d", "bin"))}
    return {
        "id": i,
        "s": {"a": i, "b": None if i % 3 else f"b{i}"},
        "l": [{"k": k} for k in range(i % 4)],
        "m": {f"k{k}": k / 2 for k in range(i % 3)},
        "u": uuid.UUID(int=i),
        "f": bytes([i % 256] * 3),
        "c": Decimal(i) / 8,
        "ts": MOMENT.replace(year=2000 + i % 24),
        "d": date(2000 + i % 24, 2, 28),
        "bin": b"x" * (i % 5),
    }


def stored(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.bytes if isinstance(v, uuid.UUID) else v for k, v in row.items()}


def given(row: dict[str, Any]) -> dict[str, Any]:
    """As Spark hands it over."""
    return {k: str(v) if isinstance(v, uuid.UUID) else v for k, v in row.items()}


@ACTIONS
@pytest.mark.parametrize("column", [f.name for f in NESTED.fields[1:]])
@pytest.mark.feature("I15")
def test_every_type_is_updated_in_place(make_plan: MakePlan, column: str, removing: bool) -> None:
    kit = Kit(make_plan(NESTED), assigned=(column,))
    kit.add([stored(nested_row(i)) for i in range(250)])
    changed = {at: nested_row(500 + at) for at in (0, 3, 120, 249)}
    changes = [Change(UPDATE, 0, at, {column: given(row)[column]}) for at, row in changed.items()]
    changes += [Change(DELETE, 0, at) for at in (5, 130)] if removing else []
    message = kit.run(*changes)
    expected = {i: {**nested_row(i), **({column: changed[i][column]} if i in changed else {})} for i in range(250)}
    for at in (5, 130) if removing else ():
        del expected[at]
    found = {row["id"]: {k: v for k, v in row.items() if not k.startswith("_")} for row in kit.live(message)}
    assert found == expected and len(message.files) == 1


@pytest.mark.feature("I15")
def test_every_type_moves(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(NESTED))
    kit.add([stored(nested_row(i)) for i in range(120)])
    message = kit.run(*(Change(MOVE, 0, at, given({**nested_row(700 + at), "id": at})) for at in range(0, 120, 7)))
    found = {row["id"]: {k: v for k, v in row.items() if not k.startswith("_")} for row in kit.live(message)}
    assert found == {i: {**nested_row(700 + i), "id": i} if i % 7 == 0 else nested_row(i) for i in range(120)}


OLD = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "gone", StringType(), required=False),
    NestedField(3, "old_name", StringType(), required=False),
    NestedField(4, "s", StructType(NestedField(5, "a", IntegerType(), required=False)), required=False),
)
NEW = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(3, "t", StringType(), required=False),
    NestedField(4, "s", StructType(NestedField(5, "a", LongType(), required=False), NestedField(6, "b", StringType(), required=False)), required=False),
    NestedField(7, "added", LongType(), required=False),
    NestedField(8, "with_default", StringType(), required=False, initial_default="old"),
)


def old_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "gone": f"g{i}", "old_name": f"t{i}", "s": {"a": i} if i % 3 else None} for i in range(count)]


def new_row(i: int) -> dict[str, Any]:
    return {"id": i, "t": f"t{i}", "s": {"a": i, "b": None} if i % 3 else None, "added": None, "with_default": "old"}


def without_lineage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        plain = {k: v for k, v in row.items() if not k.startswith("_")}
        plain["s"] = None if plain["s"] is None else {"b": None, **plain["s"]}
        found.append(plain)
    return found


@ACTIONS
@pytest.mark.parametrize(("column", "value"), [("t", "new"), ("added", 7), ("with_default", None), ("s", {"a": 2**40, "b": "x"})])
def test_an_old_file_becomes_one_of_the_current_schema(make_plan: MakePlan, column: str, value: Any, removing: bool) -> None:
    kit = Kit(make_plan(NEW), assigned=(column,))
    kit.add(old_rows(250), schema=OLD)
    changes = [Change(UPDATE, 0, at, {column: value}) for at in (4, 210)] + ([Change(DELETE, 0, 100)] if removing else [])
    message = kit.run(*changes)
    expected = [{**new_row(i), **({column: value} if i in (4, 210) else {})} for i in range(250) if not (removing and i == 100)]
    assert without_lineage(kit.live(message)) == expected
    assert all("gone" not in pq.read_schema(local(f.file_path)).names for f in message.files)
    assert sum(f.record_count for f in message.files) == len(expected) and message.copied == len(expected) - 2


def test_a_column_takes_the_name_another_one_had(make_plan: MakePlan) -> None:
    old = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "a", LongType(), required=False))
    new = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "b", LongType(), required=False), NestedField(3, "a", LongType(), required=False))
    kit = Kit(make_plan(new), assigned=("a",))
    kit.add([{"id": i, "a": i * 2} for i in range(150)], schema=old)
    message = kit.run(Change(UPDATE, 0, 3, {"a": -1}))
    assert [(row["b"], row["a"]) for row in kit.live(message)] == [(i * 2, -1 if i == 3 else None) for i in range(150)]


@ACTIONS
def test_a_file_of_an_older_spec_is_written_under_the_current_one(make_plan: MakePlan, removing: bool) -> None:
    schema = schema_from("id bigint, p int, n int")
    older = build_spec(schema, ["n"])
    older = type(older)(*older.fields, spec_id=7)
    kit = Kit(make_plan(schema, ["p"]), assigned=("n",), specs={7: older})
    kit.add([{"id": i, "p": i % 2, "n": 1} for i in range(200)], spec_id=7, partition=(1,))
    changes = [Change(UPDATE, 0, 6, {"n": 9})] + ([Change(DELETE, 0, 7)] if removing else [])
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert kit.live(message) == expected
    assert {(f.spec_id, f.partition) for f in message.files} == {(0, (0,)), (0, (1,))}


def test_a_file_whose_partition_has_a_column_in_its_place(make_plan: MakePlan) -> None:
    schema = schema_from("id bigint, p int, n int")
    without = Schema(*(f for f in schema.fields if f.name != "p"))
    kit = Kit(make_plan(schema, ["p"]), assigned=("n",))
    kit.add([{"id": i, "n": 1} for i in range(150)], schema=without, partition=(4,), constants={2: 4})
    message = kit.run(Change(UPDATE, 0, 6, {"n": 9}))
    assert {(row["p"], row["n"]) for row in kit.live(message)} == {(4, 1), (4, 9)}
    assert {f.partition for f in message.files} == {(4,)}


def test_a_file_read_by_name_mapping(make_plan: MakePlan) -> None:
    schema = schema_from("id bigint, n int")
    kit = Kit(make_plan(schema), assigned=("n",))
    kit.add(pa.table({"id": pa.array(range(150), pa.int64()), "n": pa.array([1] * 150, pa.int32())}))
    mapping = NameMapping([MappedField(**{"field-id": 1, "names": ["id"]}), MappedField(**{"field-id": 2, "names": ["n"]})])
    plan = kit.plan()
    plan = type(plan)(**{**vars(plan), "read": ArrowRead(schema, schema, mapping, with_position=False)})
    message = materialise_batches(plan, kit.batches([Change(UPDATE, 0, 6, {"n": 9}), Change(DELETE, 0, 120)]), 0, 0, 0)
    (file,) = message.files
    assert pq.read_table(local(file.file_path)).column("n").to_pylist() == [9 if i == 6 else 1 for i in range(150) if i != 120]


@ACTIONS
@pytest.mark.parametrize(
    "parquet",
    [{"use_deprecated_int96_timestamps": True}, {"store_decimal_as_integer": False}, {"data_page_version": "2.0"}, {"compression": "snappy"}, {"use_dictionary": False}, {"store_schema": True}],
    ids=lambda options: next(iter(options)),
)
def test_files_of_other_writers(make_plan: MakePlan, parquet: dict[str, Any], removing: bool) -> None:
    """Row groups that lose rows cannot stand beside copied ones of another physical form: they go into a file of their own."""
    kit = Kit(make_plan("id bigint, c decimal(9,2), ts timestamp, n int"), assigned=("n",))
    kit.add([{"id": i, "c": Decimal(i), "ts": MOMENT.replace(year=1990 + i % 30), "n": i % 7} for i in range(300)], parquet=parquet)
    changes = [Change(UPDATE, 0, at, {"n": -1}) for at in (1, 120, 299)] + ([Change(DELETE, 0, 130)] if removing else [])
    expected = kit.expected(*changes)
    message = kit.run(*changes)
    assert [{**row, "ts": row["ts"].replace(tzinfo=UTC)} for row in kit.live(message)] == [{**row, "ts": row["ts"].replace(tzinfo=UTC)} for row in expected]
    assert message.copied == len(expected) - 3
    mixes = not {"use_deprecated_int96_timestamps", "store_decimal_as_integer"} & parquet.keys()
    assert sorted(f.record_count for f in message.files) == ([300] if not removing else [299] if mixes else [99, 200])


def test_a_file_with_none_of_the_columns(make_plan: MakePlan) -> None:
    kit = Kit(make_plan(Schema(NestedField(1, "id", LongType(), required=False, initial_default=3), NestedField(2, "n", LongType(), required=False))), assigned=("n",))
    kit.add([{"gone": i} for i in range(150)], schema=Schema(NestedField(9, "gone", LongType(), required=False)))
    message = kit.run(Change(UPDATE, 0, 6, {"n": 9}), Change(DELETE, 0, 120))
    assert [row["n"] for row in kit.live(message)] == [9 if i == 6 else None for i in range(149)]
