"""The row-level changes of the Iceberg Spark runtime, with its defaults but for the mode at hand."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from bench.contenders.row_level import ChangeRows
from bench.job import Job
from bench.peer import RUNTIME_JAR
from bench.row_changes import KEY, PRICE

NAME = "peer.bench.lineitem"
TARGET_BYTES = 128 * 1024 * 1024  # Lakewright's default


class IcebergRows(ChangeRows):
    def __init__(self, scratch: Path) -> None:
        settings = {
            "spark.driver.extraClassPath": str(RUNTIME_JAR),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.peer.type": "hadoop",
            "spark.sql.catalog.peer.warehouse": str(scratch / "warehouse"),
            "spark.sql.catalog.peer.cache-enabled": "false",
        }
        super().__init__(scratch, settings)

    def make(self, rows: DataFrame, mode: str) -> None:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
        self.spark.sql(f"CREATE TABLE {NAME} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3', {modes})")
        rows.writeTo(NAME).append()
        self.first = self.spark.sql(f"SELECT snapshot_id FROM {NAME}.snapshots").collect()[0][0]

    def put_back(self) -> None:
        self.spark.sql(f"CALL peer.system.set_current_snapshot('bench.lineitem', {self.first})")

    def apply(self) -> None:
        if self.change["command"] == "compact":
            self.spark.sql(f"CALL peer.system.rewrite_data_files(table => 'bench.lineitem', options => map('target-file-size-bytes', '{TARGET_BYTES}', 'min-input-files', '2'))")
        elif self.change["command"] == "delete":
            self.spark.sql(f"DELETE FROM {NAME} WHERE {self.change['where']}")
        elif self.change["command"] == "update":
            self.spark.sql(f"UPDATE {NAME} SET {PRICE} = {PRICE} + 1 WHERE {self.change['where']}")
        else:
            assert self.updates is not None
            self.updates.createOrReplaceTempView("updates")
            what = "*" if self.change["all_columns"] else f"t.{PRICE} = s.{PRICE}"
            self.spark.sql(f"MERGE INTO {NAME} t USING updates s ON t.{KEY} = s.{KEY} WHEN MATCHED THEN UPDATE SET {what}")

    def rows(self) -> DataFrame:
        return self.spark.table(NAME)


JOBS: dict[str, type[Job]] = {"change-rows": IcebergRows}
