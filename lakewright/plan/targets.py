"""The files a delta may touch, numbered, and what gives each located row the number of its file."""

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
FEW = 32  # targets that are told apart by an expression; a join of more needs a job for its broadcast
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
    called = [names[target.file.scan.data_file.file_path] for target in targets]
    return _by_expression(targets, called, rows) if len(targets) <= FEW else _by_join(spark, targets, called, rows)


def _by_expression(targets: Sequence[TargetFile], called: Sequence[str], rows: DataFrame) -> DataFrame:
    number = "0" if len(targets) == 1 else _number_of_part(targets, called) if any(target.row_groups for target in targets) else _number_of_file(called)
    first_rows = ", ".join("null" if first is None else str(first) for first in _first_row_ids(targets))
    return rows.selectExpr("*", f"{number} as {FILE}", f"bigint(get(array({first_rows}), {FILE})) as {FIRST_ROW}")


def _number_of_file(called: Sequence[str]) -> str:
    return f"int(array_position(array({', '.join(map(_sql_text, called))}), {PATH})) - 1"


def _number_of_part(targets: Sequence[TargetFile], called: Sequence[str]) -> str:
    places = enumerate(zip(called, _positions(targets), strict=True))
    cases = [f"when {PATH} = {_sql_text(name)} and {POSITION} between {start} and {end - 1} then {n}" for n, (name, (start, end)) in places]
    return f"case {' '.join(cases)} end"


def _by_join(spark: SparkSession, targets: Sequence[TargetFile], called: Sequence[str], rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    lookup = {_KEY: pa.array(called, pa.string()), FILE: pa.array(range(len(targets)), pa.int32()), FIRST_ROW: pa.array(_first_row_ids(targets), pa.int64())}
    same = F.col(PATH) == F.col(_KEY)
    if any(target.row_groups for target in targets):
        starts, ends = zip(*_positions(targets), strict=True)
        lookup |= {_FROM: pa.array(starts, pa.int64()), _UPTO: pa.array(ends, pa.int64())}
        same = same & (F.col(POSITION) >= F.col(_FROM)) & (F.col(POSITION) < F.col(_UPTO))
    return rows.join(F.broadcast(spark.createDataFrame(pa.table(lookup))), same).drop(PATH, _KEY, _FROM, _UPTO)


def _positions(targets: Sequence[TargetFile]) -> list[tuple[int, int]]:
    """The first position of each target, and the first one past it."""
    starts = [target.first_position for target in targets]
    return [(a, b if a < b else 2**62) for a, b in zip(starts, [*starts[1:], 0], strict=True)]


def _first_row_ids(targets: Sequence[TargetFile]) -> list[int | None]:
    return [target.file.scan.data_file.first_row_id for target in targets]


def _sql_text(text: str) -> str:
    """Text as SQL: as bytes, since how quotes and backslashes are escaped is a matter of the session's settings."""
    return f"string(X'{text.encode().hex()}')"


def _parts(io: FileIO, file: ArrowFile, target_size: int) -> list[TargetFile]:
    fs, path = filesystem(io, file.scan.data_file.file_path)
    with fs.open_input_file(path) as source:
        footer = pq.read_metadata(source)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    starts = [0, *accumulate(group.num_rows for group in groups)]
    share = file.scan.data_file.file_size_in_bytes / max(len(groups), 1)
    step = max(1, round(target_size / share))
    return [TargetFile(file, (first, min(first + step, len(groups))), starts[first]) for first in range(0, len(groups), step)] or [TargetFile(file)]
