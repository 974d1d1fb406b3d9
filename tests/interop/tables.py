"""Every table of the suite: a name, and how Lakewright makes it in a lake. The rows hold what engines tend to disagree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

COLUMNS = "id int, code bigint, name string, amount decimal(9,2), day date, ts timestamp, local timestamp_ntz, ok boolean, score double, ratio float, data binary"
NAN = float("nan")


def _row(id: int | None, code: int | None, name: str | None, amount: str | None, day: str | None, at: str | None, ok: bool | None, score: float | None, data: bytes | None) -> tuple[Any, ...]:
    moment = datetime.fromisoformat(at) if at else None
    return (
        id,
        code,
        name,
        Decimal(amount) if amount else None,
        date.fromisoformat(day) if day else None,
        moment.replace(tzinfo=UTC) if moment else None,
        moment,
        ok,
        score,
        score,
        data,
    )


ROWS = [
    _row(1, 10, "eu", "12.34", "2024-02-29", "2024-02-29T23:59:59.999999", True, 1.5, b"\x00\xff"),
    _row(2, -10, "", "-12.34", "1969-12-31", "1969-12-31T23:59:59.999999", False, NAN, b""),
    _row(3, -1, "null", "0.00", "1970-01-01", "1970-01-01T00:00:00", None, -0.5, b"null"),
    _row(-4, 2**40, None, None, None, None, True, None, None),
    _row(5, None, "a/b=c d%é", "9999999.99", "1900-01-01", "1900-01-01T00:00:00.000001", False, 1e300, b"a/b"),
    _row(-6, -(2**40), "東京タワー", "-9999999.00", "2999-12-31", "2262-01-01T12:30:00", True, float("inf"), b"\xf0\x9f\x98\x80"),
    _row(None, 0, "us", "1.00", "2024-03-01", "2024-03-01T00:00:00", True, 0.25, b"us"),
]
MORE = [
    _row(7, 11, "eu", "3.21", "2024-02-29", "2024-02-29T00:00:00", True, 2.5, b"\x01"),
    _row(8, 12, "us", "4.50", "2024-03-01", "2024-03-01T05:00:00", False, NAN, b"us"),
    _row(9, 13, "apac", "5.25", "2024-03-02", "2024-03-02T10:00:00", None, 3.5, None),
]
PARTITIONINGS = {
    "identity_string": ["name"],
    "identity_date": ["day"],
    "identity_boolean": ["ok"],
    "identity_decimal": ["amount"],
    "identity_long": ["code"],
    "bucket_int": ["bucket(4, id)"],
    "bucket_long": ["bucket(4, code)"],
    "bucket_string": ["bucket(4, name)"],
    "bucket_decimal": ["bucket(4, amount)"],
    "bucket_date": ["bucket(4, day)"],
    "bucket_timestamp": ["bucket(4, ts)"],
    "bucket_binary": ["bucket(4, data)"],
    "truncate_string": ["truncate(3, name)"],
    "truncate_int": ["truncate(10, id)"],
    "truncate_long": ["truncate(10, code)"],
    "truncate_decimal": ["truncate(50, amount)"],
    "truncate_binary": ["truncate(2, data)"],
    "year": ["year(ts)"],
    "month": ["month(day)"],
    "day": ["day(ts)"],
    "hour": ["hour(local)"],
    "void": ["void(name)", "ok"],
    "several_on_one_column": ["year(ts)", "bucket(3, ts)", "truncate(1, name)", "bucket(2, name)"],
}
NESTED = "id int, tags array<string>, attributes map<string, int>, place struct<city: string, geo: struct<lat: double, lon: double>>, visits array<struct<at: date, pages: array<int>>>"
NESTED_ROWS = [
    (1, ["a", "", None], {"x": 1, "y": None}, ("Tōkyō", (35.7, 139.7)), [(date(1969, 1, 1), [1, 2]), (None, [])]),
    (2, [], {}, ("", None), []),
    (3, None, None, None, []),
]


@dataclass(frozen=True)
class Case:
    """`build` makes the table under the given name and returns it; `rows` is how many it must then have.

    `misread_by` names readers that are known to get even their own tables of this kind wrong.
    """

    name: str
    rows: int
    build: Callable[[Any, str, str], Any]
    engines: tuple[str, ...] = ("native", "arrow")
    refs: tuple[str, ...] = ()
    misread_by: tuple[str, ...] = ()


def frame(lake: Any, rows: list[Any], columns: str = COLUMNS) -> Any:
    return lake.spark.createDataFrame(rows, columns)


def plain(lake: Any, name: str, engine: str, **layout: Any) -> Any:
    table = lake.create_table(name, COLUMNS, **layout)
    table.append(frame(lake, ROWS), engine=engine)
    return table


def appended_twice(lake: Any, name: str, engine: str, **layout: Any) -> Any:
    table = plain(lake, name, engine, **layout)
    table.append(frame(lake, MORE), engine=engine)
    return table


def _partitioned(fields: list[str]) -> Callable[[Any, str, str], Any]:
    return lambda lake, name, engine: appended_twice(lake, name, engine, partition_by=fields)


def empty(lake: Any, name: str, engine: str) -> Any:
    return lake.create_table(name, COLUMNS, partition_by=["name"])


def required_columns(lake: Any, name: str, engine: str) -> Any:
    table = lake.create_table(name, "id int NOT NULL, at struct<x: int NOT NULL, y: string>", partition_by=["bucket(2, id)"])
    rows = [(1, (1, "a")), (2, (2, None)), (3, None)]
    table.append(frame(lake, rows, "id int NOT NULL, at struct<x: int NOT NULL, y: string>"), engine=engine)
    return table


def nested(lake: Any, name: str, engine: str) -> Any:
    table = lake.create_table(name, NESTED, partition_by=["bucket(2, id)"])
    table.append(frame(lake, NESTED_ROWS, NESTED), engine=engine)
    return table


def null_list_of_structs(lake: Any, name: str, engine: str) -> Any:
    columns = "id int, visits array<struct<at: date>>"
    table = lake.create_table(name, columns)
    table.append(frame(lake, [(1, [(None,)]), (2, []), (3, None)], columns), engine=engine)
    return table


def evolved_schema(lake: Any, name: str, engine: str) -> Any:
    table = lake.create_table(name, "id int, old string, gone int, price decimal(5,2), size float, at struct<x: int>")
    table.append(frame(lake, [(1, "a", 1, Decimal("1.50"), 0.5, (1,)), (2, None, None, None, NAN, None)], "id int, old string, gone int, price decimal(5,2), size float, at struct<x: int>"), engine=engine)
    table.evolve_schema(add={"extra": "string", "at.y": "string"}, rename={"old": "new"}, drop=["gone"], promote={"id": "bigint", "price": "decimal(9,2)", "size": "double"}, move={"extra": "first"})
    later = "extra string, id bigint, new string, price decimal(9,2), size double, at struct<x: int, y: string>"
    table.append(frame(lake, [("e", 2**40, "b", Decimal("1234567.89"), 1e300, (2, "y")), (None, 4, "", None, None, None)], later), engine=engine)
    table.evolve_schema(add={"gone": "string"})
    return table


def evolved_back_and_forth(lake: Any, name: str, engine: str) -> Any:
    """Schemas and orders that the table had before, which catalogs know by their ids."""
    table = lake.create_table(name, "id int, name string", sort_by=["id"])
    for there, back in (("name", "title"), ("title", "name")):
        table.append(frame(lake, [(1, "a")], f"id int, {there} string"), engine=engine)
        table.evolve_schema(rename={there: back})
        table.set_sort_order([] if there == "name" else ["id"])
    return table


def merged_schema(lake: Any, name: str, engine: str) -> Any:
    table = lake.create_table(name, "id int, name string")
    table.append(frame(lake, [(1, "a")], "id int, name string"), engine=engine)
    table.append(frame(lake, [(2**40, "b", 2.5)], "id bigint, name string, score double"), engine=engine, merge_schema=True)
    return table


def evolved_spec(lake: Any, name: str, engine: str) -> Any:
    table = plain(lake, name, engine, partition_by=["month(day)"])
    table.evolve_partitions(add=["day(day)", "bucket(2, id)"], drop=["month(day)"])
    table.append(frame(lake, MORE), engine=engine)
    table.evolve_partitions(add=["name"], drop=["day(day)"])
    table.append(frame(lake, MORE), engine=engine)
    return table


def sorted_rows(lake: Any, name: str, engine: str) -> Any:
    return appended_twice(lake, name, engine, partition_by=["ok"], sort_by=["name desc nulls last", "bucket(4, id)"])


def overwritten(lake: Any, name: str, engine: str) -> Any:
    table = plain(lake, name, engine, partition_by=["name"])
    table.overwrite(frame(lake, MORE), engine=engine)
    return table


def overwritten_partitions(lake: Any, name: str, engine: str) -> Any:
    table = appended_twice(lake, name, engine, partition_by=["name"])
    table.overwrite_partitions(frame(lake, MORE[:2]), engine=engine)
    return table


def overwritten_where(lake: Any, name: str, engine: str) -> Any:
    """Files hold rows inside and outside the filter, so rows that stay must be carried over; null and NaN are outside."""
    table = plain(lake, name, engine)
    table.overwrite(frame(lake, MORE[:1]), where="score > 1 and name = 'eu'", engine=engine)
    return table


def replaced(lake: Any, name: str, engine: str) -> Any:
    plain(lake, name, engine)
    table = lake.create_table(name, "other string, day date", partition_by=["day"], replace=True)
    table.append(frame(lake, [("x", date(1969, 7, 20)), (None, None)], "other string, day date"), engine=engine)
    return table


def branched(lake: Any, name: str, engine: str) -> Any:
    table = plain(lake, name, engine, partition_by=["name"])
    table.create_tag("before")
    table.create_branch("audit")
    table.append(frame(lake, MORE), engine=engine, branch="audit")
    table.overwrite(frame(lake, MORE[:1]), where="name = 'eu'", engine=engine)
    return table


def in_transaction(lake: Any, name: str, engine: str) -> Any:
    table = plain(lake, name, engine)
    with table.transaction() as tx:
        tx.evolve_schema(add={"tip": "double"})
        tx.append(frame(lake, [(*MORE[0], 0.5)], COLUMNS + ", tip double"), engine=engine)
    return table


def through_lake_write(lake: Any, name: str, engine: str) -> Any:
    lake.write(frame(lake, ROWS), name, mode="error", partition_by=["year(ts)"], engine=engine)
    lake.write(frame(lake, MORE), name, mode="append", engine=engine)
    return lake.table(name)


def many_manifests(lake: Any, name: str, engine: str) -> Any:
    """Enough appends that manifests are merged."""
    table = lake.create_table(name, COLUMNS, properties={"commit.manifest.min-count-to-merge": "2"})
    for row in ROWS[:4]:
        table.append(frame(lake, [row]), engine=engine)
    return table


CASES = [
    Case("unpartitioned", 10, appended_twice),
    *(Case(label, 10, _partitioned(fields)) for label, fields in PARTITIONINGS.items()),
    Case("empty", 0, empty, engines=("native",)),
    Case("required_columns", 3, required_columns),
    Case("nested", 3, nested, engines=("arrow",)),
    # PyIceberg 0.12 returns an empty list for a null list of structs.
    Case("null_list_of_structs", 3, null_list_of_structs, engines=("arrow",), misread_by=("pyiceberg",)),
    Case("evolved_schema", 4, evolved_schema),
    Case("evolved_back_and_forth", 2, evolved_back_and_forth),
    Case("merged_schema", 2, merged_schema),
    Case("evolved_spec", 13, evolved_spec),
    Case("sorted", 10, sorted_rows),
    Case("overwritten", 3, overwritten),
    Case("overwritten_partitions", 8, overwritten_partitions),
    Case("overwritten_where", 7, overwritten_where),
    Case("replaced", 2, replaced),
    Case("branched", 7, branched, refs=("before", "audit")),
    Case("in_transaction", 8, in_transaction),
    Case("through_lake_write", 10, through_lake_write),
    Case("many_manifests", 4, many_manifests),
]
