from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.lake import Lake


class Db:
    """A lake, and tables of one format version in it."""

    def __init__(self, lake: Lake, version: int) -> None:
        self.lake = lake
        self.version = version

    def sql(self, text: str, args: Any = None, **frames: Any) -> Any:
        """Run SQL; `VERSION_N` is the property that makes a table of the version under test."""
        return self.lake.sql(text.replace("VERSION_N", f"'format-version' = '{self.version}'"), args, **frames)

    def rows(self, query: str, args: Any = None, **frames: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.sql(query, args, **frames).collect()]

    def trips(self, *values: str, name: str = "nyc.trips") -> None:
        """Trips by id, region and fare, partitioned by region."""
        self.sql(f"CREATE TABLE {name} (id bigint, region string, fare double) PARTITIONED BY (region) TBLPROPERTIES (VERSION_N)")
        if values:
            self.sql(f"INSERT INTO {name} VALUES {', '.join(values)}")

    def ids(self, table: str = "nyc.trips", column: str = "id") -> list[Any]:
        return sorted(row[0] for row in self.rows(f"SELECT {column} FROM {table}"))

    def column_names(self, table: str) -> Sequence[str]:
        return [f.name for f in self.lake.table(table).schema.fields]


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def db(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Db:
    return Db(lw.connect(str(tmp_path / "lake"), spark=spark, progress="off"), request.param)


@pytest.fixture
def trips(db: Db) -> Db:
    db.trips("(1, 'eu', 10.0)", "(2, 'eu', 20.0)", "(3, 'us', 30.0)", "(4, NULL, NULL)")
    return db
