"""Files made by Spark into DataFiles, from their footers: in threads on the driver, or as a Spark job where they are many."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from lakewright.format.data_file import DataFile
from lakewright.format.local_io import open_io
from lakewright.format.metrics import MetricsConfig, data_file_from_footer, nan_statistics
from lakewright.format.storage import filesystem
from lakewright.format.transforms import partition_values
from lakewright.plan.write_plan import WritePlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ON_DRIVER = 500
THREADS = 8
FILES_PER_TASK = 200


@dataclass(frozen=True, slots=True)
class Made:
    """A file, its partition as far as its folder tells, and the places of the values that must be read from the file."""

    path: str
    size: int
    partition: tuple[Any, ...]
    unknown: tuple[int, ...] = ()


def data_files(plan: WritePlan, spark: SparkSession, made: list[Made]) -> list[DataFile]:
    """One DataFile for each file with rows; Spark makes one without rows for an empty DataFrame."""
    described = _in_tasks(plan, spark, made) if len(made) > MOST_ON_DRIVER else _in_threads(plan, made)
    return [file for file in described if file.record_count]


def _in_threads(plan: WritePlan, made: list[Made]) -> list[DataFile]:
    describe = _describer(plan)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(describe, made))


def _in_tasks(plan: WritePlan, spark: SparkSession, made: list[Made]) -> list[DataFile]:
    def describe_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        describe = _describer(plan)
        for batch in batches:
            files = [describe(pickle.loads(value)).to_bytes() for value in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_arrays([pa.array(files, pa.binary())], names=["data_file"])

    rows = spark.createDataFrame([(pickle.dumps(file),) for file in made], "made binary")
    rows = rows.repartition(-(-len(made) // FILES_PER_TASK))
    return [DataFile.from_bytes(bytes(row.data_file)) for row in rows.mapInArrow(describe_all, "data_file binary").collect()]


def _describer(plan: WritePlan) -> Callable[[Made], DataFile]:
    io = open_io(plan.io_properties, plan.data_prefix)
    config = MetricsConfig.from_options(plan.options, plan.schema, plan.sort_order)
    return lambda file: _describe(plan, io, config, file)


def _describe(plan: WritePlan, io: FileIO, config: MetricsConfig, file: Made) -> DataFile:
    fs, path = filesystem(io, file.path)
    with fs.open_input_file(path) as source:
        footer = pq.read_metadata(source)
        return data_file_from_footer(
            path=file.path,
            size=file.size,
            footer=footer,
            spec_id=plan.spec.spec_id,
            partition=_looked_up(plan, file, source) if file.unknown else file.partition,
            config=config,
            sort_order_id=plan.sort_order.order_id,
            nans=nan_statistics(source, footer, config),
        )


def _looked_up(plan: WritePlan, file: Made, source: Any) -> tuple[Any, ...]:
    """Partition values of the file's first row, which are those of all its rows."""
    first = next(pq.ParquetFile(source).iter_batches(batch_size=1))
    values = [array[0].as_py() for array in partition_values(plan.spec, plan.schema, first)]
    return tuple(values[index] if index in file.unknown else known for index, known in enumerate(file.partition))
