"""The files a delta may touch, numbered, and the join that gives each located row the number of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema

from lakewright.format.metadata import Metadata
from lakewright.format.storage import filesystem
from lakewright.plan.delta import FILE, TargetFile
from lakewright.read.arrow_scan import ArrowFile, arrow_file
from lakewright.read.layout import FILE as PATH
from lakewright.read.layout import POSITION
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGE = 2  # times the target size: past it the row groups of a file are shared out among tasks
FIRST_ROW = "_lw_first_row"
_KEY, _FROM, _UPTO = "_lw_key", "_lw_from", "_lw_upto"


def plan_targets(io: FileIO, metadata: Metadata, files: Sequence[FileScan], schema: Schema, *, target_size: int, may_split: bool) -> tuple[TargetFile, ...]:
    """One target per file, or several for a large one where the materialiser may write its parts as files of their own."""
    targets: list[TargetFile] = []
    for scanned in files:
        file = arrow_file(metadata, scanned, schema)
        large = may_split and scanned.data_file.file_size_in_bytes > LARGE * target_size
        targets.extend(_parts(io, file, target_size) if large else [TargetFile(file)])
    return tuple(targets)


def with_targets(spark: SparkSession, targets: Sequence[TargetFile], names: Mapping[str, str], rows: DataFrame) -> DataFrame:
    """Located rows with the number of their target (FILE) and the row id of their file's first row (FIRST_ROW). names: path to what the rows call it."""
    from pyspark.sql import functions as F

    data = [target.file.scan.data_file for target in targets]
    starts = [target.first_position for target in targets]
    ends = [b if a < b else 2**62 for a, b in zip(starts, [*starts[1:], 0], strict=True)]
    lookup = {
        _KEY: pa.array([names[d.file_path] for d in data], pa.string()),
        FILE: pa.array(range(len(targets)), pa.int32()),
        FIRST_ROW: pa.array([d.first_row_id for d in data], pa.int64()),
    }
    same = F.col(PATH) == F.col(_KEY)
    if any(target.row_groups for target in targets):
        lookup |= {_FROM: pa.array(starts, pa.int64()), _UPTO: pa.array(ends, pa.int64())}
        same = same & (F.col(POSITION) >= F.col(_FROM)) & (F.col(POSITION) < F.col(_UPTO))
    return rows.join(F.broadcast(spark.createDataFrame(pa.table(lookup))), same).drop(PATH, _KEY, _FROM, _UPTO)


def _parts(io: FileIO, file: ArrowFile, target_size: int) -> list[TargetFile]:
    fs, path = filesystem(io, file.scan.data_file.file_path)
    with fs.open_input_file(path) as source:
        footer = pq.read_metadata(source)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    starts = [0, *accumulate(group.num_rows for group in groups)]
    share = file.scan.data_file.file_size_in_bytes / max(len(groups), 1)
    step = max(1, round(target_size / share))
    return [TargetFile(file, (first, min(first + step, len(groups))), starts[first]) for first in range(0, len(groups), step)] or [TargetFile(file)]
