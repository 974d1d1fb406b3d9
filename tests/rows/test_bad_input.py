"""Statements that cannot be carried out: a typed error that says what and where, no commit, and no file left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewright.errors import (
    ColumnNotFound,
    CorruptFile,
    InvalidFilter,
    InvalidOption,
    LakewrightError,
    MultipleMatches,
    NotABranch,
    NullInRequiredColumn,
    RefNotFound,
    SchemaError,
    TypeMismatch,
    UnknownOption,
    WriteFailed,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

SCHEMA = "id bigint not null, p string, n int, x double, s struct<a: int, b: string>, l array<int>, r struct<a: int not null, b: int>"
Act = Callable[["Table", "DataFrame"], Any]


def stored(table: Table) -> set[Path]:
    root = Path(table.location.removeprefix("file://"))
    return {path for folder in ("data", "metadata") for path in (root / folder).rglob("*") if path.is_file()}


def state(table: Table) -> Any:
    return table.iceberg.metadata_location, stored(table), table.refresh().schema


@pytest.fixture(scope="module")
def shared(lake: Any) -> Table:
    rows = [(1, "eu", 1, 1.5, (1, "q"), [1], (1, 1)), (2, "us", None, None, None, None, None), (3, "us", 3, 0.0, (None, "z"), [], None)]
    table: Table = lake.create_table("rows.bad", SCHEMA, partition_by=["p"])
    table.append(lake.spark.createDataFrame(rows, SCHEMA))
    table.create_tag("v1")
    return table


@pytest.fixture
def untouched(shared: Table) -> Iterator[Table]:
    before = state(shared)
    yield shared
    assert state(shared) == before


@pytest.fixture(scope="module")
def source(lake: Any) -> DataFrame:
    frame: DataFrame = lake.spark.createDataFrame([(1, "eu", 10), (2, "us", 20), (7, "us", 70)], "id bigint, p string, v int")
    return frame


def column(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


def rand_above() -> Any:
    from pyspark.sql import functions as F

    return F.rand() > 0.5


CHANGES: dict[str, tuple[Act, type[LakewrightError], str]] = {
    "delete: unknown column": (lambda t, _: t.delete("fare > 1"), ColumnNotFound, "fare"),
    "delete: unknown column, as a Column": (lambda t, _: t.delete(column("fare > 1")), LakewrightError, "fare"),
    "delete: not a condition": (lambda t, _: t.delete("n"), InvalidFilter, "n"),
    "delete: brackets without end": (lambda t, _: t.delete("(" * 3000 + "n = 1" + ")" * 3000), InvalidFilter, "Cannot read the where"),
    "delete: no SQL": (lambda t, _: t.delete("n = = 1"), InvalidFilter, "n = = 1"),
    "delete: rand()": (lambda t, _: t.delete("rand() > 0.5"), InvalidFilter, r"rand\(\)"),
    "delete: rand() as a Column": (lambda t, _: t.delete(rand_above()), InvalidFilter, r"rand\(\)"),
    "delete: unix_timestamp()": (lambda t, _: t.delete("unix_timestamp() > n"), InvalidFilter, r"current_timestamp\(\)"),
    "delete: random by reflection": (lambda t, _: t.delete("reflect('java.util.UUID', 'randomUUID') > p"), InvalidFilter, r"reflect\(\)"),
    "delete: spans rows": (lambda t, _: t.delete("max(n) > 1"), InvalidFilter, "spans rows"),
    "delete: from a tag": (lambda t, _: t.delete("id = 1", branch="v1"), NotABranch, "v1"),
    "delete: from no branch": (lambda t, _: t.delete("id = 1", branch="dev"), RefNotFound, "dev"),
    "delete: unknown option": (lambda t, _: t.delete("id = 1", delete_mod="x"), UnknownOption, "delete_mod"),
    "delete: unknown mode": (lambda t, _: t.delete("id = 1", delete_mode="fast"), InvalidOption, "fast"),
    "update: unknown column": (lambda t, _: t.update({"fare": 1}), ColumnNotFound, "fare"),
    "update: unknown field": (lambda t, _: t.update({"s.c": 1}), ColumnNotFound, "s.c"),
    "update: unknown column where no row is concerned": (lambda t, _: t.update({"fare": 1}, "id > 100"), ColumnNotFound, "fare"),
    "update: unknown column in the value": (lambda t, _: t.update({"n": "fare + 1"}), ColumnNotFound, "fare"),
    "update: a text for a number": (lambda t, _: t.update({"n": "p"}), TypeMismatch, "'n'.*string"),
    "update: a text for a number where no row is concerned": (lambda t, _: t.update({"n": "p"}, "id > 100"), TypeMismatch, "'n'.*string"),
    "update: a number for a struct": (lambda t, _: t.update({"s": "1"}), TypeMismatch, "s"),
    "update: a number for a partition": (lambda t, _: t.update({"p": "array(1)"}), TypeMismatch, "'p'"),
    "update: a number too large": (lambda t, _: t.update({"n": "id + 10000000000"}), LakewrightError, "rows.bad|n"),
    "update: one column twice": (lambda t, _: t.update({"n": 1, "N": 2}), SchemaError, "twice"),
    "update: a struct and a field of it": (lambda t, _: t.update({"s": None, "S.a": 2}), SchemaError, "twice"),
    "update: an element of a list": (lambda t, _: t.update({"l.element": 1}), SchemaError, "assign 'l' as a whole"),
    "update: a null for a required field": (lambda t, _: t.update({"r.a": None}), NullInRequiredColumn, "r.a"),
    "update: one of two required fields of no struct": (lambda t, _: t.update({"r.b": 1}), NullInRequiredColumn, "r.a"),
    "update: a null for a required column": (lambda t, _: t.update({"id": None}), NullInRequiredColumn, "id"),
    "update: perhaps a null for a required column": (lambda t, _: t.update({"id": "nullif(id, 3)"}), NullInRequiredColumn, "id"),
    "update: nothing": (lambda t, _: t.update({}), InvalidOption, "no column"),
    "update: an expression that fails": (lambda t, _: t.update({"n": "1 div (id - 1)"}), WriteFailed, "(?i)zero"),
    "update: a tag": (lambda t, _: t.update({"n": 1}, branch="v1"), NotABranch, "v1"),
}
MERGES: dict[str, tuple[Act, type[LakewrightError], str]] = {
    "no clause": (lambda t, s: t.merge(s, "t.id = s.id"), InvalidOption, "no clause"),
    "one alias": (lambda t, s: t.merge(s, "t.id = t.id", source_alias="T").when_matched_delete(), InvalidOption, "alias"),
    "unknown column in on": (lambda t, s: t.merge(s, "t.id = s.key").when_matched_delete(), ColumnNotFound, "key"),
    "ambiguous column in on": (lambda t, s: t.merge(s, "id = id").when_matched_delete(), InvalidFilter, "(?i)ambiguous"),
    "on is no SQL": (lambda t, s: t.merge(s, "t.id = = s.id").when_matched_delete(), InvalidFilter, "t.id = = s.id"),
    "on is no condition": (lambda t, s: t.merge(s, "t.id").when_matched_delete(), InvalidFilter, "on"),
    "on is never the same": (lambda t, s: t.merge(s, "t.id = s.id and rand() > 0.5").when_matched_delete(), InvalidFilter, r"rand\(\)"),
    "ambiguous column in a condition": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_delete("p = 'eu'"), InvalidFilter, "(?i)ambiguous"),
    "a condition that is never the same": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_delete(rand_above()), InvalidFilter, r"rand\(\)"),
    "ambiguous column in a value": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({"n": "id"}), InvalidFilter, "(?i)ambiguous"),
    "unknown column to set": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({"v": "s.v"}), ColumnNotFound, "v"),
    "unknown column to set, no row matched": (lambda t, s: t.merge(s, "t.id = s.id + 100").when_matched_update({"v": "s.v"}), ColumnNotFound, "v"),
    "unknown column to insert": (lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_insert({"id": "s.id", "v": "s.v"}), ColumnNotFound, "v"),
    "a column of the table to insert": (lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_insert({"id": "t.id"}), ColumnNotFound, "t"),
    "a column of the source without a source row": (
        lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_by_source_update({"n": "s.v"}),
        ColumnNotFound,
        "s",
    ),
    "a condition on the source without a source row": (
        lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_by_source_delete("s.v > 1"),
        ColumnNotFound,
        "s",
    ),
    "a text for a number": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({"n": "s.p"}), TypeMismatch, "'n'.*string"),
    "one column twice": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({"n": "s.v", "t.N": "1"}), SchemaError, "twice"),
    "the source lacks a column of *": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update_all(), ColumnNotFound, "'n'"),
    "a required column left out": (lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_insert({"p": "s.p"}), NullInRequiredColumn, "id"),
    "a null for a required column": (
        lambda t, s: t.merge(s, "t.id = s.id").when_not_matched_insert({"id": "nullif(s.id, 7)"}),
        NullInRequiredColumn,
        "id",
    ),
    "a clause that never applies": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_delete().when_matched_update({"n": "s.v"}), InvalidOption, "put it last"),
    "nothing to set": (lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({}), InvalidOption, "no column"),
    "two source rows for one": (lambda t, s: t.merge(s.unionAll(s), "t.id = s.id").when_matched_update({"n": "s.v"}), MultipleMatches, "id = [12]"),
    "two source rows for one, and inserts": (
        lambda t, s: t.merge(s.unionAll(s), "t.id = s.id").when_matched_update({"n": "s.v"}).when_not_matched_insert({"id": "s.id"}),
        MultipleMatches,
        "id = [12]",
    ),
    "a source that fails": (lambda t, s: t.merge(s.selectExpr("id", "1 div (id - 1) as v"), "t.id = s.id").when_matched_delete("s.v = 0"), LakewrightError, "(?i)zero"),
    "an on that fails": (
        lambda t, s: t.merge(s, "t.id div (s.id - 1) = s.id").when_not_matched_insert({"id": "s.id"}),
        LakewrightError,
        "(?i)zero",
    ),
    "a tag": (lambda t, s: t.merge(s, "t.id = s.id", branch="v1").when_matched_delete(), NotABranch, "v1"),
}


@pytest.mark.feature("I14")
@pytest.mark.parametrize("case", CHANGES)
def test_bad_changes(untouched: Table, source: DataFrame, case: str) -> None:
    act, error, says = CHANGES[case]
    with pytest.raises(error, match=says):
        act(untouched, source)


@pytest.mark.feature("I14")
@pytest.mark.parametrize("case", MERGES)
def test_bad_merges(untouched: Table, source: DataFrame, case: str) -> None:
    act, error, says = MERGES[case]
    with pytest.raises(error, match=says):
        act(untouched, source).execute()


@pytest.mark.feature("I14")
@pytest.mark.parametrize(
    "act",
    [
        lambda t, s: t.delete("n + 0 = 1"),
        lambda t, s: t.update({"n": "n + 1"}, update_mode="merge-on-read"),
        lambda t, s: t.merge(s, "t.id = s.id").when_matched_update({"n": "s.v"}).when_not_matched_insert({"id": "s.id"}).execute(),
    ],
    ids=["delete", "update", "merge"],
)
def test_a_data_file_that_vanished(untouched: Table, source: DataFrame, act: Act) -> None:
    lost = next(path for path in sorted(stored(untouched)) if path.suffix == ".parquet")
    aside = lost.with_name("aside")
    lost.rename(aside)
    try:
        with pytest.raises(CorruptFile, match=lost.name):
            act(untouched, source)
    finally:
        aside.rename(lost)
