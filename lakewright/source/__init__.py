"""`format("lakewright")`: the Spark Data Source. It works from its options alone, since Spark runs it in processes without a session.

Spark starts a process for each step, so each step imports only what it needs.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Reads and writes one table of a lake.

        spark.read.format("lakewright").option("lake", "lake").load("nyc.trips")
        df.write.format("lakewright").mode("append").option("lake", "lake").save("nyc.trips")

    Reading takes snapshot-id, as-of-timestamp, branch or tag; or query-type=incremental with begin, end, path-glob and log. Writing takes branch, token, snapshot-property.<name>,
    overwrite-mode, overwrite-filter and every option of the reference. catalog.<name> goes to the catalog.
    """

    @classmethod
    def name(cls) -> str:
        return "lakewright"

    def schema(self) -> StructType:
        from lakewright.plan.types import spark_struct
        from lakewright.source.options import load, place, read_options
        from lakewright.source.reader import pinned

        options = read_options(self.options)
        if options.incremental:
            from lakewright.source.changes import changes_schema

            return changes_schema(load(place(self.options))[1], options)
        _, version = pinned(load(place(self.options))[1], options)
        return spark_struct(version.as_struct(), nullable=True)

    def reader(self, schema: StructType) -> DataSourceReader:
        from lakewright.source.options import load, place, read_options
        from lakewright.source.reader import LakeReader

        options = read_options(self.options)
        if options.incremental:
            from lakewright.source.changes import ChangesReader

            return ChangesReader(load(place(self.options))[1], options, schema)
        return LakeReader(load(place(self.options))[1], options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lakewright.source.options import load, write_options
        from lakewright.source.writer import begin_write

        request = write_options(self.options, overwrite)
        return begin_write(request, *load(request.place), schema)
