"""The records of a batch as a table in this process, one for each key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.keys.at_hand.key_codes import KeyCodes, KeyPlaces
from lakewright.keys.definition import Definition
from lakewright.quoting import quoted
from lakewright.session import estimated_bytes
from lakewright.write.arrow_rows import in_file_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BYTES_PER_VALUE = 16
MOST_GROWTH = 16  # of what Spark estimates, which is bytes as compressed in files
TOO_LARGE = "spark.driver.maxResultSize"


def brought_here(rows: DataFrame, held: Callable[[DataFrame], DataFrame], most: int) -> DataFrame | pa.Table:
    """The rows as a table, or as Spark holds them if they are more than `most` bytes by its estimate. Where it has none they are held and counted first."""
    size = estimated_bytes(rows)
    in_spark = held(rows) if size is None else None
    if in_spark is not None:
        size = in_spark.count() * len(rows.columns) * BYTES_PER_VALUE
    if size is not None and size <= most:
        try:
            table = (rows if in_spark is None else in_spark.select(*map(quoted, rows.columns))).toArrow()
        except Exception as error:
            if TOO_LARGE not in str(error):
                raise
        else:
            return table.combine_chunks() if table.nbytes <= most * MOST_GROWTH else in_spark or held(rows.sparkSession.createDataFrame(table, rows.schema))
    return held(rows) if in_spark is None else in_spark


@dataclass(frozen=True)
class KeyedRecords:
    """One record for each key. given: how many there were before they were combined."""

    table: pa.Table
    given: int
    places: KeyPlaces


def nulls_in(keys: Sequence[pa.Array]) -> int:
    """Records of which a part of the key is null."""
    return int(pc.sum(reduce(pc.or_, (key.is_null() for key in keys))).as_py() or 0)


def combined(table: pa.Table, codes: KeyCodes, definition: Definition) -> KeyedRecords:
    """The latest record of each key, in the order they came in. Of several with one ordering value it is the one that came last; null is before all else."""
    own = codes.own
    if codes.count == len(table):
        return KeyedRecords(table, len(table), KeyPlaces(codes, own))
    order = in_file_types(table, [part.column or "" for part in definition.ordering], definition.schema)
    nulls_first = {f"{what}{n}": column for n, values in enumerate(order) for what, column in (("has", values.is_valid()), ("value", values))}
    sorted_by = pa.table({"code": own, **nulls_first, "row": np.arange(len(own))})
    by_key = pc.sort_indices(sorted_by, sort_keys=[(name, "ascending") for name in sorted_by.column_names]).to_numpy()
    is_last = np.append(own[by_key][1:] != own[by_key][:-1], True)
    chosen = np.sort(by_key[is_last]).astype(np.int64)
    return KeyedRecords(table.take(pa.array(chosen)).combine_chunks(), len(table), KeyPlaces(codes, own[chosen]))
