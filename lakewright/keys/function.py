"""A merge function of the user's own: rows and records as Arrow batches, the merged rows back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright.errors import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    from lakewright.keys.engines import Engine


def merged_by(engine: Engine, record: DataType) -> Callable[[Column, Column], Column]:
    """The function as an expression of two structs. Fields of ours, which begin with _lw_, are those of the newer record."""
    import pyspark.sql.functions

    function = engine.function
    assert function is not None

    def merged(old: pa.Array, new: pa.Array) -> pa.Array:
        return apply(function, old, new)

    functions: Any = pyspark.sql.functions  # whose types do not list arrow_udf
    made: Callable[[Column, Column], Column] = functions.arrow_udf(merged, returnType=record)
    return made


def apply(function: Callable[[Any, Any], Any], old: pa.StructArray, new: pa.StructArray) -> pa.StructArray:
    """Call the function where both are there, with the columns of the table."""
    own = [n for n, f in enumerate(new.type) if f.name.startswith("_lw_")]
    both = pa.compute.and_(old.is_valid(), new.is_valid())
    given = [_columns(side.filter(both)) for side in (old, new)]
    made = function(*given)
    columns = dict(made) if isinstance(made, Mapping) else {name: made.column(name) for name in made.schema.names}
    rows = given[1].num_rows
    arrays = []
    for number, wanted in enumerate(new.type):
        if number in own:
            arrays.append(new.field(number))
            continue
        if wanted.name not in columns:
            raise InvalidOption(f"The merge function gave no column {wanted.name!r}; it returns every column of the batches it is given.")
        array = pa.array(columns[wanted.name]) if not isinstance(columns[wanted.name], pa.Array | pa.ChunkedArray) else columns[wanted.name]
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if len(array) != rows:
            raise InvalidOption(f"The merge function gave {len(array)} values of {wanted.name!r} for {rows} rows; it returns one row for each.")
        arrays.append(_spread(array.cast(wanted.type), both))
    return pa.StructArray.from_arrays(arrays, fields=list(new.type), mask=pa.compute.invert(both))


def _columns(side: pa.StructArray) -> pa.RecordBatch:
    fields = [(n, f) for n, f in enumerate(side.type) if not f.name.startswith("_lw_")]
    return pa.RecordBatch.from_arrays([side.field(n) for n, _ in fields], schema=pa.schema([f for _, f in fields]))


def _spread(array: pa.Array, chosen: pa.BooleanArray) -> pa.Array:
    """Values back to the places they were taken from."""
    if len(array) == len(chosen):
        return array
    numbers = pa.compute.subtract(pa.compute.cumulative_sum(chosen.cast(pa.int64())), 1)
    return array.take(pa.compute.if_else(chosen, numbers, None))
