"""Which columns are worth a dictionary: for values that hardly repeat one makes the file larger."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE = 20_000
MOST_DISTINCT = 0.6


def dictionary_columns(sample: pa.RecordBatch) -> list[str]:
    """Parquet paths of the columns to encode with a dictionary, judged by the first rows."""
    rows = sample.slice(0, SAMPLE)
    return [path for name, values in zip(rows.schema.names, rows.columns, strict=True) for path in _worthwhile(name, values)]


def _worthwhile(path: str, array: pa.Array) -> Iterator[str]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child, values in zip(kind, array.flatten(), strict=True):
            yield from _worthwhile(f"{path}.{child.name}", values)
    elif pa.types.is_large_list(kind):
        yield from _worthwhile(f"{path}.list.element", array.values)
    elif pa.types.is_map(kind):
        yield from _worthwhile(f"{path}.key_value.key", array.keys)
        yield from _worthwhile(f"{path}.key_value.value", array.items)
    elif not pa.types.is_boolean(kind) and _repeats(array.storage if isinstance(array, pa.ExtensionArray) else array):
        yield path


def _repeats(array: pa.Array) -> bool:
    present = len(array) - array.null_count
    return bool(pc.count_distinct(array).as_py() <= present * MOST_DISTINCT)
