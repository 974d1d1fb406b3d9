"""The other engine: PySpark with the Iceberg Spark runtime, in an interpreter and a JVM of its own.

Runs in .venv-peer and never imports Lakewright. Takes one JSON request a line on standard input and answers with one JSON line on what
was standard output; rows travel as Arrow IPC files. Requests: catalog, read, sql, query, equality_delete, sketches.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructField, StructType


def session(folder: Path, jars: list[str]) -> SparkSession:
    settings = {
        "spark.master": "local[2]",
        "spark.app.name": "peer",
        "spark.ui.enabled": "false",
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.driver.memory": "1g",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={folder}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "spark-warehouse"),
        "spark.sql.iceberg.handle-timestamp-without-timezone": "true",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Peer:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.answers = 0

    def catalog(self, name: str, properties: dict[str, str]) -> None:
        """Adds an Iceberg catalog to the session."""
        self.spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in properties.items():
            self.spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)

    def read(self, table: str, options: dict[str, str]) -> str:
        """Rows of a table, named by a catalog's identifier or by the path of its metadata file."""
        return self._rows(self.spark.read.format("iceberg").options(**options).load(table))

    def sql(self, statement: str) -> str:
        return self._rows(self.spark.sql(statement))

    def query(self, statement: str) -> tuple[Any, str]:
        """The schema as Spark has it, with what the rows in Arrow do not tell, such as comments; and the rows."""
        frame = self.spark.sql(statement)
        return frame.schema.jsonValue(), self._rows(frame)

    def equality_delete(self, table: str, columns: list[str], rows: list[list[Any]], partition_of: dict[str, Any] | None) -> None:
        """Commits an equality delete through the Iceberg Java API, which Spark SQL cannot write.

        Key columns are int or string. `partition_of` is a row whose partition the deletes belong to; None on an unpartitioned table.
        """
        java: Any = self.spark._jvm
        iceberg = java.org.apache.iceberg
        loaded = iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, table)
        schema, spec = loaded.schema(), loaded.spec()
        key = schema.select(columns)
        ids = self.spark.sparkContext._gateway.new_array(java.int, len(columns))
        for position, column in enumerate(columns):
            ids[position] = schema.findField(column).fieldId()
        partition = None
        if partition_of is not None:
            record = iceberg.data.GenericRecord.create(schema)
            for column, value in partition_of.items():
                record.setField(column, value)
            partition = iceberg.PartitionKey(spec, schema)
            partition.partition(iceberg.data.InternalRecordWrapper(schema.asStruct()).wrap(record))
        parquet = iceberg.FileFormat.PARQUET
        files = iceberg.io.OutputFileFactory.builderFor(loaded, 1, 1).format(parquet).build()
        output = files.newOutputFile(spec, partition) if partition is not None else files.newOutputFile()
        builder = iceberg.data.GenericFileWriterFactory.Builder(loaded).deleteFileFormat(parquet).equalityFieldIds(ids).equalityDeleteRowSchema(key)
        writer = builder.build().newEqualityDeleteWriter(output, spec, partition)
        for row in rows:
            record = iceberg.data.GenericRecord.create(key)
            for column, value in zip(columns, row, strict=True):
                record.setField(column, value)
            writer.write(record)
        writer.close()
        loaded.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
        self.spark.sql(f"REFRESH TABLE {table}")

    def sketches(self, path: str) -> dict[int, tuple[str, float, str]]:
        """By field id: the sketch of a column's values without its compression, what it estimates, and the number written beside it."""
        java: Any = self.spark._jvm
        iceberg = java.org.apache.iceberg
        sketches = iceberg.shaded.org.apache.datasketches
        reader = iceberg.puffin.Puffin.read(iceberg.Files.localInput(path)).build()
        found = {}
        for blob in reader.readAll(reader.fileMetadata().blobs()).iterator():
            stored = sketches.memory.Memory.wrap(iceberg.util.ByteBuffers.toByteArray(blob.second()))
            sketch = sketches.theta.CompactSketch.heapify(stored)
            [field] = blob.first().inputFields()
            found[field] = (sketch.toByteArray().hex(), sketch.getEstimate(), blob.first().properties()["ndv"])
        reader.close()
        return found

    def _rows(self, frame: DataFrame) -> str:
        self.answers += 1
        path = self.folder / f"answer-{self.answers}.arrow"
        rows = frame.to(relaxed(frame.schema)).toArrow()
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as file:
            file.write_table(rows)
        return str(path)


def relaxed(kind: Any) -> Any:
    """The type with every part nullable: PySpark 4.1 cannot convert a null struct that has a required field."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, relaxed(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(relaxed(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(relaxed(kind.keyType), relaxed(kind.valueType))
    return kind


def serve(answers: Any, folder: Path, jars: list[str]) -> None:
    peer = Peer(session(folder, jars), folder)
    served = (peer.catalog, peer.read, peer.sql, peer.query, peer.equality_delete, peer.sketches)
    verbs: dict[str, Callable[..., Any]] = {verb.__name__: verb for verb in served}
    print(json.dumps({"result": "ready"}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": verbs[request["verb"]](**request["arguments"])}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)
    peer.spark.stop()


if __name__ == "__main__":
    # Spark and its JVM print on standard output; keep that stream for the answers alone.
    with os.fdopen(os.dup(1), "w") as own:
        os.dup2(2, 1)
        serve(own, Path(sys.argv[1]), sys.argv[2:])
