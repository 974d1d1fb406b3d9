from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from lakewright import options
from lakewright.errors import DuplicateColumn, NullInRequiredColumn, SchemaError, TypeMismatch, UnsupportedType
from lakewright.plan.schema import Reconciled, project, reconcile, replace_schema, translate_task_error
from lakewright.plan.types import FIELD_ID, iceberg_to_spark, schema_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MERGE = {"merge_schema": True}
CAST = {"merge_schema": True, "merge_schema_explicit_cast": True}
UNCHECKED = {"check_nullability": False}


def fit(df: DataFrame, table: str | Schema, given: dict[str, Any] | None = None, last: int | None = None) -> Reconciled:
    schema = schema_from(table) if isinstance(table, str) else table
    return reconcile(df.schema, schema, options.resolve(given or {}, {}, {}), "nyc.trips", last_column_id=last)


def written(df: DataFrame, table: str | Schema, given: dict[str, Any] | None = None) -> list[Any]:
    return [row.asDict(recursive=True) for row in project(df, fit(df, table, given)).collect()]


@pytest.fixture(scope="module", params=["true", "false"], ids=["ansi", "not ansi"])
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.mark.feature("I4")
def test_columns_match_by_name_in_the_tables_order(spark: SparkSession) -> None:
    df = spark.sql("select 'x' B, 1L a")
    assert project(df, fit(df, "a bigint, b string, c int")).columns == ["a", "b", "c"]
    assert written(df, "a bigint, b string, c int") == [{"a": 1, "b": "x", "c": None}]


def test_a_fitting_frame_is_selected_as_it_is(spark: SparkSession) -> None:
    df = spark.range(3).selectExpr("id", "named_struct('x', id) s")
    reconciled = fit(df, "id bigint, s struct<x: bigint>")
    assert not reconciled.changed
    assert project(df, reconciled).schema == df.schema


def test_values_are_widened(spark: SparkSession) -> None:
    df = spark.sql("select 1Y b, 2S s, 3 i, 4L l, 1.5f f, 2.5BD n, cast('x' as varchar(3)) v, null z")
    table = "b int, s double, i decimal(12,2), l decimal(20,1), f double, n decimal(6,3), v string, z array<int>"
    assert [str(v) for v in written(df, table)[0].values()] == ["1", "2.0", "3.00", "4.0", "1.5", "2.500", "x", "None"]


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("1L", "int"), ("1.5D", "float"), ("1L", "double"), ("1", "float"), ("1", "decimal(9,0)"), ("1.25", "decimal(3,1)"), ("1", "string"), ("'1'", "int"),
        ("date'2020-01-01'", "timestamp"), ("timestamp'2020-01-01'", "date"), ("timestamp'2020-01-01'", "timestamp_ntz"), ("true", "int"), ("'x'", "binary"), ("X'00'", "string"),
        ("struct(1 as x)", "int"), ("array(1)", "map<int,int>"), ("array(1L)", "array<int>"), ("map('a', 1.5D)", "map<string,int>"), ("struct(1L as x)", "struct<x: int>"), ("1", "array<int>"),
    ],
)  # fmt: skip
def test_what_could_lose_a_value_is_refused(spark: SparkSession, sql: str, table: str) -> None:
    with pytest.raises(TypeMismatch, match=r"'c.*nyc.trips"):
        fit(spark.sql(f"select {sql} c"), f"c {table}")


def test_missing_and_extra_columns(spark: SparkSession) -> None:
    df = spark.sql("select 1L id, 2 farre")
    with pytest.raises(SchemaError, match=r"no column 'farre'. Did you mean fare\? Use merge_schema=True .* accept_any_schema=True") as raised:
        fit(df, "id bigint, fare int")
    assert (raised.value.table, raised.value.column) == ("nyc.trips", "farre")
    assert written(df, "id bigint, fare int", {"accept_any_schema": True}) == [{"id": 1, "fare": None}]
    with pytest.raises(NullInRequiredColumn, match="requires column 'fare', which the DataFrame does not have"):
        fit(df, "id bigint, fare int not null", {"accept_any_schema": True})


def test_a_missing_column_takes_its_write_default(spark: SparkSession) -> None:
    table = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "n", IntegerType(), required=True, initial_default=0, write_default=7))
    assert written(spark.sql("select 1 id"), table) == [{"id": 1, "n": 7}]


def test_nested_fields_are_reordered_filled_and_widened(spark: SparkSession) -> None:
    df = spark.sql(
        "select named_struct('B', 1S, 'a', named_struct('x', 2)) s, array(named_struct('y', 1f), null) l, map(1Y, named_struct('q', 1)) m union all select null, null, null"
    )
    table = "s struct<a: struct<w: string, x: bigint>, b: int>, l array<struct<x: int, y: double>>, m map<int, struct<q: bigint>>"
    assert written(df, table) == [
        {"s": {"a": {"w": None, "x": 2}, "b": 1}, "l": [{"x": None, "y": 1.0}, None], "m": {1: {"q": 1}}},
        {"s": None, "l": None, "m": None},
    ]


@pytest.mark.feature("I4", "P4")
def test_merge_adds_columns_after_the_last_id(spark: SparkSession) -> None:
    df = spark.sql("select 1L id, 2Y tip, named_struct('a', 1, 'b', array(named_struct('c', 1S))) s")
    reconciled = fit(df, "id bigint, s struct<a: int>", MERGE, last=40)
    schema = reconciled.schema
    assert reconciled.changed
    assert schema.schema_id == 1
    assert [f.name for f in schema.fields] == ["id", "s", "tip"]
    assert (schema.find_field("s.b").field_id, schema.find_field("s.b.element.c").field_id, schema.find_field("tip").field_id) == (41, 43, 44)
    assert reconciled.last_column_id == 44
    assert schema.find_field("tip").optional
    assert schema.find_field("s.b").optional
    rows = project(df, reconciled)
    assert rows.schema.simpleString() == "struct<id:bigint,s:struct<a:int,b:array<struct<c:int>>>,tip:int>"
    assert rows.collect()[0].s.b[0].c == 1


def test_merge_widens_the_table_where_the_format_allows(spark: SparkSession) -> None:
    df = spark.sql("select 1L i, 1.5D f, 1.25BD n, array(1L) l, 1S kept")
    schema = fit(df, "i int, f float, n decimal(2,2), l array<int>, kept bigint", MERGE).schema
    assert [str(f.field_type) for f in schema.fields] == ["long", "double", "decimal(3, 2)", "list<long>", "long"]
    with pytest.raises(TypeMismatch, match="merge_schema_explicit_cast"):
        fit(spark.sql("select 1.555BD n"), "n decimal(10,2)", MERGE)


def test_merge_refuses_types_without_a_place(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedType, match=r"'s\.x' has type interval"):
        fit(spark.sql("select 1 id, struct(interval 1 day as x) s"), "id int", MERGE)


@pytest.mark.feature("P4")
@pytest.mark.parametrize(
    ("sql", "table", "value"),
    [
        ("3.0D", "int", "3"), ("'5'", "int", "5"), ("5L", "float", "5.0"), ("0.1D", "decimal(5,2)", "0.10"), ("true", "int", "1"), ("5", "string", "5"),
        ("'2020-01-01'", "date", "2020-01-01"), ("timestamp'2020-01-01 00:00:00'", "date", "2020-01-01"), ("'inf'", "double", "inf"), ("cast(null as string)", "int", "None"),
        ("9007199254740993L", "double", "9007199254740992.0"), ("1.50BD", "decimal(9,1)", "1.5"), ("date'2020-01-01'", "timestamp_ntz", "2020-01-01 00:00:00"),
    ],
)  # fmt: skip
def test_explicit_cast(spark: SparkSession, ansi: None, sql: str, table: str, value: str) -> None:
    assert str(written(spark.sql(f"select {sql} c"), f"c {table}", CAST)[0]["c"]) == value


@pytest.mark.feature("P4")
@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("3.5D", "int"), ("3e9D", "int"), ("double('NaN')", "int"), ("'5x'", "int"), ("''", "int"), ("1.25BD", "decimal(9,1)"), ("1234.5BD", "decimal(4,2)"), ("9000000000000000000BD", "int"),
        ("timestamp'2020-01-01 10:00:00'", "date"), ("'yesterday'", "date"), ("'1e400'", "float"), ("'maybe'", "boolean"), ("array('x')", "array<int>"),
        ("struct('x' as y)", "struct<y: int>"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_fails_the_write(spark: SparkSession, ansi: None, sql: str, table: str) -> None:
    df = spark.sql(f"select {sql} c")
    with pytest.raises(Exception, match="LAKEWRIGHT") as raised:
        written(df, f"c {table}", CAST)
    error = translate_task_error(raised.value, "nyc.trips")
    assert isinstance(error, TypeMismatch)
    assert str(error.column).startswith("c")
    assert "nyc.trips" in str(error)


@pytest.mark.feature("I4")
@pytest.mark.parametrize(
    ("sql", "table", "column"),
    [
        ("if(id < 5, id, null) c", "c bigint not null", "c"),
        ("named_struct('x', if(id < 5, id, null)) c", "c struct<x: bigint not null>", "c.x"),
        ("array(if(id < 5, id, null)) c", "c array<bigint not null>", "c.element"),
        ("map('a', if(id < 5, id, null)) c", "c map<string, bigint not null>", "c.value"),
    ],
)
def test_nulls_for_required_columns(spark: SparkSession, sql: str, table: str, column: str) -> None:
    df = spark.range(8).selectExpr(sql)
    with pytest.raises(NullInRequiredColumn, match=f"'{column}' may hold nulls.*check_nullability=False"):
        fit(df, table)
    assert len(written(spark.range(3).selectExpr(sql), table, UNCHECKED)) == 3
    with pytest.raises(Exception, match="LAKEWRIGHT") as raised:
        written(df, table, UNCHECKED)
    error = translate_task_error(raised.value, "nyc.trips")
    assert isinstance(error, NullInRequiredColumn)
    assert error.column == column


def test_odd_names_come_back_whole() -> None:
    error = translate_task_error(RuntimeError("[USER_RAISED_EXCEPTION] [LAKEWRIGHT:NULL_IN_REQUIRED a%5D%20b] a null SQLSTATE: P0001"), "t")
    assert error is not None
    assert error.column == "a] b"


def test_errors_of_python_tasks_are_told_by_their_name() -> None:
    text = "Traceback …\nlakewright.errors.TypeMismatch: Column 'a' is odd.\n"
    error = translate_task_error(RuntimeError(text), "t")
    assert isinstance(error, TypeMismatch)
    assert str(error) == "Column 'a' is odd."


def test_other_errors_are_left_alone() -> None:
    assert translate_task_error(RuntimeError("disk full")) is None


@pytest.mark.feature("I4")
def test_check_ordering(spark: SparkSession) -> None:
    df = spark.sql("select 1 b, named_struct('y', 1, 'x', 2) s, 2 a")
    table = "a int, b int, s struct<x: int, y: int>"
    assert written(df, table)
    with pytest.raises(SchemaError, match=r"Columns come as b, s, a, but table nyc.trips has them as a, b, s"):
        fit(df, table, {"check_ordering": True})
    with pytest.raises(SchemaError, match="Columns of 's' come as y, x"):
        fit(df.select("s"), table, {"check_ordering": True})
    assert fit(df.selectExpr("2 a", "1 b"), table, {"check_ordering": True})


def test_names_that_differ_by_case_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DuplicateColumn, match="'id' and 'ID' of the DataFrame"):
        fit(spark.sql("select 1 id, 2 ID"), "id int")
    with pytest.raises(DuplicateColumn, match="of 's'"):
        fit(spark.sql("select named_struct('x', 1, 'X', 2) s"), "s struct<x: int>")


def test_text_for_uuid_and_bytes_for_fixed_are_checked(spark: SparkSession) -> None:
    good = "123e4567-e89b-12d3-a456-426614174000"
    assert written(spark.sql(f"select '{good}' u, X'0102' f"), "u uuid, f fixed(2)")[0]["u"] == good
    for sql in ("'x' u", "X'01' f"):
        with pytest.raises(Exception, match="LAKEWRIGHT") as raised:
            written(spark.sql(f"select {sql}"), "u uuid, f fixed(2)")
        assert isinstance(translate_task_error(raised.value), TypeMismatch)


def test_field_ids_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql("select 1 id, named_struct('x', 1, 'y', named_struct('z', 'a')) s, 1.5D `odd.name`")
    table = schema_from("s struct<x: int, y: struct<z: string>>, id bigint, `odd.name` double, missing int")
    rows = project(df, fit(df, table), field_ids=True)
    assert rows.schema["id"].metadata == {FIELD_ID: 2}
    rows.write.parquet(str(tmp_path / "out"))
    schema = pq.ParquetFile(next((tmp_path / "out").glob("*.parquet"))).schema_arrow

    def field_id(field: Any) -> int:
        return int(field.metadata[b"PARQUET:field_id"])

    assert [(f.name, field_id(f)) for f in schema] == [("s", 1), ("id", 2), ("odd.name", 3), ("missing", 4)]
    assert field_id(schema.field("s").type.field("x")) == table.find_field("s.x").field_id
    assert field_id(schema.field("s").type.field("y").type.field("z")) == table.find_field("s.y.z").field_id


def test_what_was_reconciled_pickles(spark: SparkSession) -> None:
    df = spark.sql("select 1 id, array(named_struct('x', 1S)) l")
    reconciled = fit(df, "id bigint, l array<struct<x: int, y: int>>", MERGE)
    assert pickle.loads(pickle.dumps(reconciled)) == reconciled


def test_replace_schema_keeps_ids_of_what_stays(spark: SparkSession) -> None:
    old = schema_from("id bigint comment 'key', n int, s struct<a: int, b: int>, l array<int>, gone int")
    df = spark.sql("select 'x' n, 1L id, named_struct('b', 1, 'c', 2L) s, array('x') l, 5 new")
    schema, last = replace_schema(df.schema, old, 20)
    found = {name: schema.find_field(name).field_id for name in schema.column_names}
    was = {name: old.find_field(name).field_id for name in old.column_names}
    assert (found["id"], found["s"], found["s.b"], found["l"]) == (was["id"], was["s"], was["s.b"], was["l"])
    assert {found["n"], found["s.c"], found["l.element"], found["new"]} == {21, 22, 23, 24}
    assert last == 24
    assert schema.find_field("id").doc == "key"
    assert iceberg_to_spark(schema).names == ["n", "id", "s", "l", "new"]
