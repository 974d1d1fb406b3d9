from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, DoubleType, LongType, StringType
from pyspark.sql import types as spark

from lakewright.errors import ColumnNotFound, DuplicateColumn, IllegalEvolution, LakewrightError, SchemaError
from lakewright.plan.evolution import evolve_schema
from lakewright.plan.partitioning import build_sort_order, build_spec
from lakewright.plan.types import schema_from

SCHEMA = schema_from(
    "id bigint not null, ts timestamp, name string, price decimal(5,2), a struct<b: int, c: int not null>, items array<struct<x: int>>, m map<string, struct<y: float>>, n int"
)


def evolved(version: int = 2, **changes: Any) -> Schema:
    return evolve_schema(SCHEMA, 20, version, table="nyc.trips", **changes)[0]


def ids(schema: Schema) -> dict[str, int]:
    return {name: schema.find_field(name).field_id for name in schema.column_names}


def test_add_gets_ids_after_the_last_one() -> None:
    schema, last = evolve_schema(SCHEMA, 20, 2, add={"tip": "double comment 'extra'", "tags": "array<string>", "note": spark.StringType()})
    assert {name: ids(schema)[name] for name in ("tip", "tags", "note", "tags.element")} == {"tip": 21, "tags": 22, "note": 23, "tags.element": 24}
    assert last == 24
    assert schema.find_field("tip").doc == "extra"
    assert schema.find_field("note").optional
    assert schema.schema_id == 1


def test_add_into_structs_lists_and_maps() -> None:
    schema = evolved(add={"a.z": "int", "items.element.w": "string", "items.v": "int", "m.value.k": "int"})
    assert {"a.z", "items.element.w", "items.element.v", "m.value.k"} <= set(schema.column_names)


def test_dropped_and_added_again_is_another_column() -> None:
    schema = evolved(drop=["name"], add={"name": "binary"})
    assert ids(schema)["name"] == 21


def test_rename_keeps_the_id() -> None:
    schema = evolved(rename={"name": "title", "a.b": "bb", "m.value.y": "m.value.yy"})
    assert ids(schema)["title"] == ids(SCHEMA)["name"]
    assert ids(schema)["a.bb"] == ids(SCHEMA)["a.b"]
    assert ids(schema)["m.value.yy"] == ids(SCHEMA)["m.value.y"]


def test_names_may_be_swapped() -> None:
    schema = evolved(rename={"name": "n", "n": "name"})
    assert ids(schema)["n"] == ids(SCHEMA)["name"]
    assert ids(schema)["name"] == ids(SCHEMA)["n"]


def test_promote() -> None:
    schema = evolved(promote={"n": "bigint", "m.value.y": "double", "price": "decimal(9,2)", "a.b": spark.LongType()})
    assert [schema.find_field(c).field_type for c in ("n", "m.value.y", "price", "a.b")] == [LongType(), DoubleType(), DecimalType(9, 2), LongType()]
    assert ids(schema) == ids(SCHEMA)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("price", "decimal(7,3)"),
        ("price", "decimal(4,2)"),
        ("price", "double"),
        ("name", "binary"),
        ("id", "int"),
        ("n", "double"),
        ("n", "string"),
        ("ts", "timestamp_ntz"),
        ("a", "int"),
    ],
)
def test_illegal_promotions_are_refused(column: str, wanted: str) -> None:
    with pytest.raises(IllegalEvolution, match=f"'{column}' of table nyc.trips cannot go from"):
        evolved(promote={column: wanted})


def test_nullable_and_comments() -> None:
    schema = evolved(nullable=["id", "a.c"], comments={"ts": "pick-up", "a.b": "deep"})
    assert schema.find_field("id").optional
    assert schema.find_field("a.c").optional
    assert (schema.find_field("ts").doc, schema.find_field("a.b").doc) == ("pick-up", "deep")


@pytest.mark.parametrize(
    ("move", "order"),
    [
        ({"n": "first"}, ["n", "id", "ts", "name", "price", "a", "items", "m"]),
        ({"n": "after id"}, ["id", "n", "ts", "name", "price", "a", "items", "m"]),
        ({"n": ("before", "ts"), "id": ("after", "n")}, ["n", "id", "ts", "name", "price", "a", "items", "m"]),
    ],
)
def test_move(move: dict[str, Any], order: list[str]) -> None:
    assert [f.name for f in evolved(move=move).fields] == order


def test_move_new_and_nested() -> None:
    schema = evolved(
        add={"tip": "double", "items.w": "int"}, rename={"name": "title"}, move={"tip": "after title", "a.c": "first", "items.element.w": "before x"}
    )
    assert [f.name for f in schema.fields][2:4] == ["title", "tip"]
    assert [f.name for f in schema.find_field("a").field_type.fields] == ["c", "b"]  # type: ignore[union-attr]
    assert [f.name for f in schema.find_field("items.element").field_type.fields] == ["w", "x"]  # type: ignore[union-attr]


def test_defaults_of_version_3() -> None:
    schema = evolved(3, add={"x": "int not null", "d": "date"}, defaults={"x": 5, "d": "2020-01-01", "name": "none"})
    assert (schema.find_field("x").initial_default, schema.find_field("x").write_default) == (5, 5)
    assert schema.find_field("d").initial_default == date(2020, 1, 1)
    assert (schema.find_field("name").initial_default, schema.find_field("name").write_default) == (None, "none")
    assert Schema.model_validate_json(schema.model_dump_json()) == schema
    assert schema.find_field("d").field_type == DateType()


@pytest.mark.parametrize(
    ("version", "changes", "error", "message"),
    [
        (2, {"drop": ["nam"]}, ColumnNotFound, "'nam' of table nyc.trips. Did you mean name"),
        (2, {"rename": {"nope": "x"}}, ColumnNotFound, "nope"),
        (2, {"add": {"zz.y": "int"}}, ColumnNotFound, "'zz'"),
        (2, {"move": {"n": "after nope"}}, ColumnNotFound, "nope"),
        (2, {"move": {"n": "last"}}, IllegalEvolution, "say 'first'"),
        (2, {"add": {"NAME": "int"}}, IllegalEvolution, "already is a column 'name'"),
        (2, {"rename": {"name": "ID"}}, DuplicateColumn, "case aside"),
        (2, {"rename": {"name": " "}}, SchemaError, "empty name"),
        (2, {"add": {"n.y": "int"}}, IllegalEvolution, "not a struct"),
        (2, {"add": {"x": "int not null"}}, IllegalEvolution, "defaults need format version 3"),
        (3, {"add": {"x": "int not null"}}, IllegalEvolution, "or with a default"),
        (2, {"add": {"x": "int"}, "defaults": {"x": 1}}, IllegalEvolution, "defaults need format version 3"),
        (3, {"add": {"x": "int"}, "defaults": {"x": "many"}}, SchemaError, "is not of type int"),
        (3, {"add": {"x": "int"}, "defaults": {"x": 2**40}}, SchemaError, "out of range"),
        (2, {"drop": ["items.element"]}, IllegalEvolution, "part of a list or map"),
        (2, {"drop": ["name"], "rename": {"name": "x"}}, IllegalEvolution, "dropped and changed at once"),
        (2, {"drop": ["a.b", "a.c"]}, IllegalEvolution, "every field"),
        (2, {"add": {"x": "money"}}, SchemaError, "'money'"),
        (2, {"add": {"x": 5}}, SchemaError, "not int"),
    ],
)
def test_bad_changes(version: int, changes: dict[str, Any], error: type[LakewrightError], message: str) -> None:
    with pytest.raises(error, match=message):
        evolved(version, **changes)


def test_columns_in_use_are_not_dropped() -> None:
    keyed = Schema(*SCHEMA.fields, identifier_field_ids=[1])
    spec, order = build_spec(SCHEMA, ["day(ts)"]), build_sort_order(SCHEMA, ["a.b"])
    for column, message in (("ts", "partitioned by"), ("a", "'a.b' of table t is sorted by"), ("id", "part of the table's key")):
        with pytest.raises(IllegalEvolution, match=message):
            evolve_schema(keyed, 20, 2, drop=[column], spec=spec, sort_order=order, table="t")
    with pytest.raises(IllegalEvolution, match="stays required"):
        evolve_schema(keyed, 20, 2, nullable=["id"])


def test_the_key_is_kept() -> None:
    keyed = Schema(*SCHEMA.fields, identifier_field_ids=[1])
    assert evolve_schema(keyed, 20, 2, add={"x": "int"}, rename={"id": "key"})[0].identifier_field_ids == [1]


def test_one_column_stays() -> None:
    with pytest.raises(IllegalEvolution, match="drop every column"):
        evolve_schema(schema_from("a int"), 1, 2, drop=["a"])


def test_types_of_iceberg() -> None:
    assert evolved(add={"x": StringType()}).find_field("x").field_type == StringType()
