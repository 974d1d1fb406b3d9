"""What is wrong with keys, orderings and records is told before anything is written; or set aside with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakewright.errors import ColumnNotFound, InvalidFilter, InvalidOption, NullInRequiredColumn, NullKey, SchemaError, TypeMismatch, UnsupportedOperation
from lakewright.lake import Lake
from tests.keys.kit import SCHEMA, keyed, records, rows

A, B = (1, "eu", 1.0, 10), (2, "us", 2.0, 10)


@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete_keys"])
def test_a_null_key(lake: Lake, verb: str) -> None:
    table = keyed(lake)
    with pytest.raises(NullKey, match=r"1 of 2 records .*\(id is null\)") as error:
        getattr(table, verb)(records(lake, A, (None, "eu", 1.0, 1)))
    assert (error.value.table, error.value.column, rows(table)) == (table.name, "id", [])


@pytest.mark.parametrize(
    ("how", "error", "told"),
    [
        ({"key": ["nope"]}, ColumnNotFound, "names column 'nope'"),
        ({"key": ["id +"]}, InvalidOption, "cannot be read"),
        ({"key": ["1"]}, InvalidOption, "names no column"),
        ({"key": ["fare"]}, SchemaError, "cannot be part of the key"),
        ({"key": ["max(id)"]}, InvalidOption, "one row"),
        ({"key": ["concat(region, uuid())"]}, InvalidOption, "another answer"),
        ({"ordering": "m", "schema": SCHEMA + ", m map<string,int>"}, SchemaError, "cannot order"),
        ({"ordering": "nope"}, ColumnNotFound, "lakewright.ordering .* 'nope'"),
        ({"key": []}, InvalidOption, "give key= too"),
    ],
)
def test_keys_and_orderings_that_cannot_be(lake: Lake, how: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        keyed(lake, **how)


def test_records_without_key_or_ordering(lake: Lake) -> None:
    table = keyed(lake)
    with pytest.raises(ColumnNotFound, match="need column 'id'"):
        table.upsert(lake.spark.createDataFrame([("eu", 1)], "region string, at int"))
    with pytest.raises(ColumnNotFound, match="need column 'at'"):
        table.upsert(lake.spark.createDataFrame([(1, "eu")], "id bigint, region string"))
    with pytest.raises(SchemaError, match="has no column 'more'"):
        table.upsert(lake.spark.createDataFrame([(1, 1, 1)], "id bigint, at int, more int"))
    with pytest.raises(ColumnNotFound, match="delete_when"):
        table.upsert(records(lake, A), delete_when="op = 'D'")
    with pytest.raises(InvalidFilter, match="Cannot read delete_when"):
        table.upsert(records(lake, A), delete_when="at = (")
    with pytest.raises(SchemaError, match="has no column 'd'"):
        table.upsert(lake.spark.createDataFrame([(1, 1, 1, "D")], "id bigint, at int, d int, op string"), delete_when="op = 'D'")
    with pytest.raises(InvalidOption, match="on_record_error is 'ignore'"):
        table.upsert(records(lake, A), on_record_error="ignore")


def test_a_table_without_a_key(lake: Lake) -> None:
    table = lake.create_table("keys.plain", SCHEMA)
    with pytest.raises(UnsupportedOperation, match="has no key"):
        table.upsert(records(lake, A))


def test_the_key_of_a_table_with_rows_stays(lake: Lake) -> None:
    table = keyed(lake, schema="id bigint, other bigint not null, at int")
    table.set_properties({"lakewright.key": "other"})
    assert table.schema.identifier_field_names() == {"other"}
    table.upsert(records(lake, (1, 1, 1), schema="id bigint, other bigint, at int"))
    for change in (lambda: table.set_properties({"lakewright.key": "id"}), lambda: table.evolve_schema(key=["id"]), lambda: table.set_properties({"lakewright.key": None})):
        with pytest.raises(UnsupportedOperation, match="has rows"):
            change()
    with pytest.raises(SchemaError, match="lakewright.ordering"):
        table.evolve_schema(drop=["at"])


REQUIRED = "id bigint, name string not null, n int, at int"


@pytest.mark.feature("H10")
def test_quarantine(lake: Lake) -> None:
    table = keyed(lake, REQUIRED)
    given = [("1", "a", "7", 1), ("x", "b", "1", 1), ("3", None, "1", 1), (None, "d", "1", 1), ("5", "e", "many", 1), ("6", "f", None, 1)]
    batch = records(lake, *given, schema="id string, name string, n string, at int")
    with pytest.raises(TypeMismatch):
        table.upsert(batch)
    commit = table.upsert(batch, on_record_error="quarantine", token="b1")
    assert commit.summary["lakewright.records-quarantined"] == "4"
    assert rows(table) == [(1, "a", 7, 1), (6, "f", None, 1)]
    told = {json.loads(row.record).get("id"): row.reason for row in lake.table(f"{table.name}$errors").read().collect()}
    assert told == {
        "x": "id is x, which is no long",
        "3": "name is null, and the table requires it",
        None: "the key id is null",
        "5": "n is many, which is no int",
    }
    table.upsert(batch, on_record_error="quarantine", token="b1")
    assert lake.table(f"{table.name}$errors").read().count() == 4, "set aside once for a token"


def test_a_null_for_a_required_column_fails_the_batch(lake: Lake) -> None:
    table = keyed(lake, REQUIRED)
    with pytest.raises(NullInRequiredColumn, match="name"):
        table.upsert(records(lake, (1, None, 1, 1), schema="id bigint, name string, n int, at int"))
    assert rows(table) == []
