"""`format("lakewright")`: the Spark Data Source. It works from its options alone, since Spark runs it in processes without a session."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType

from lakewright.plan.types import iceberg_to_spark
from lakewright.source_commit import load
from lakewright.source_options import place, read_options, write_options
from lakewright.source_reader import LakeReader, pinned
from lakewright.source_writer import begin_write


class DefaultSource(DataSource):
    """Reads and writes one table of a lake.

        spark.read.format("lakewright").option("lake", "lake").load("nyc.trips")
        df.write.format("lakewright").mode("append").option("lake", "lake").save("nyc.trips")

    Reading takes snapshot-id, as-of-timestamp, branch or tag. Writing takes branch, token, snapshot-property.<name>,
    overwrite-mode, overwrite-filter and every option of the reference. catalog.<name> goes to the catalog.
    """

    @classmethod
    def name(cls) -> str:
        return "lakewright"

    def schema(self) -> StructType:
        _, version = pinned(load(place(self.options))[1], read_options(self.options))
        return iceberg_to_spark(version)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LakeReader(load(place(self.options))[1], read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        request = write_options(self.options, overwrite)
        _, state = load(request.place)
        return begin_write(request, state, schema)

