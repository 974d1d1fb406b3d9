"""Lakewright's row-level changes."""

from __future__ import annotations

from pyspark.sql import DataFrame

import lakewright as lw
from bench.contenders.row_level import ChangeRows
from bench.job import Job
from bench.row_changes import KEY, PRICE
from lakewright.commit.change import MetadataChange
from lakewright.commit.updates import set_ref

NAME = "bench.lineitem"


class LakewrightRows(ChangeRows):
    def make(self, rows: DataFrame, mode: str) -> None:
        lake = lw.connect(self.scratch / "lake", spark=self.spark, progress="off")
        modes = {f"write.{command}.mode": mode for command in ("delete", "update", "merge")}
        self.table = lake.create_table(NAME, rows.schema, format_version=3, properties=modes)
        self.first = self.table.append(rows).snapshot_id

    def put_back(self) -> None:
        assert self.first is not None
        first = self.first
        with self.table.transaction() as tx:
            tx.change(MetadataChange("put back", lambda metadata: [set_ref("main", first)]))

    def apply(self) -> None:
        if self.change["command"] == "compact":
            self.table.compact()
        elif self.change["command"] == "delete":
            self.table.delete(self.change["where"])
        elif self.change["command"] == "update":
            self.table.update({PRICE: f"{PRICE} + 1"}, where=self.change["where"])
        else:
            merge = self.table.merge(self.updates, on=f"t.{KEY} = s.{KEY}")
            merge = merge.when_matched_update_all() if self.change["all_columns"] else merge.when_matched_update({PRICE: f"s.{PRICE}"})
            merge.execute()

    def rows(self) -> DataFrame:
        return self.table.read()


JOBS: dict[str, type[Job]] = {"change-rows": LakewrightRows}
