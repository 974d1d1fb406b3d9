"""delta-rs: reads the source with Arrow and streams it into a new Delta table; no Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, WriterProperties, write_deltalake

from bench.job import Job, Params


class Append(Job):
    partition_by: str | None = None

    def prepare(self, params: Params) -> None:
        self.source = ds.dataset(params["files"], format="parquet")
        self.out = str(self.scratch / "delta")

    def run(self) -> None:
        write_deltalake(self.out, self.batches(), partition_by=self.partition_by, writer_properties=WriterProperties(compression="ZSTD"))

    def batches(self) -> pa.RecordBatchReader:
        return self.source.scanner().to_reader()

    def outcome(self, full: bool) -> dict[str, Any]:
        return {"files": [path.removeprefix("file://") for path in DeltaTable(self.out).file_uris()]}


class AppendByMonth(Append):
    """Delta partitions by columns only: the month is one column more, kept in the path."""

    partition_by = "month"

    def batches(self) -> pa.RecordBatchReader:
        schema = self.source.schema.append(pa.field("month", pa.int32()))
        return pa.RecordBatchReader.from_batches(schema, (_with_month(batch, schema) for batch in self.source.to_batches()))


def _with_month(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    date = batch.column("l_shipdate")
    years = pc.multiply(pc.subtract(pc.year(date), 1970), 12)
    month = pc.add(years, pc.subtract(pc.month(date), 1)).cast(pa.int32())
    return pa.record_batch([*batch.columns, month], schema=schema)


JOBS: dict[str, type[Job]] = {"append": Append, "append-by-month": AppendByMonth}
