"""What keyed tables on Spark have in common: whole rows read from Parquet, and facts from one aggregate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from bench.contenders.keyed import KeyedTable
from bench.contenders.spark_session import session, source
from bench.keyed_data import KEY

# Columns added by the contender are no part of the facts, nor of what a reader asks for.
FACTS = ("count(*) as rows", f"count(distinct {KEY}) as keys", f"sum({KEY}) as key_sum", "sum(version) as versions", "cast(sum(price) as string) as prices", "count(note) as notes")


class KeyedSpark(KeyedTable):
    def __init__(self, scratch: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(scratch)
        self.spark = session(settings)

    def incoming(self, files: list[str]) -> DataFrame:
        rows = source(self.spark, files)
        self.columns = rows.columns
        return rows

    def read(self) -> None:
        self.rows().select(*self.columns).write.format("noop").mode("overwrite").save()

    def read_last_commit(self) -> None:
        self.last_commit().select(*self.columns).write.format("noop").mode("overwrite").save()

    def facts(self) -> dict[str, Any]:
        return facts(self.rows())

    def last_commit_facts(self) -> dict[str, Any]:
        return facts(self.last_commit())

    def rows(self) -> DataFrame:
        raise NotImplementedError

    def last_commit(self) -> DataFrame:
        raise NotImplementedError


def facts(rows: DataFrame) -> dict[str, Any]:
    return rows.selectExpr(*FACTS).collect()[0].asDict()
