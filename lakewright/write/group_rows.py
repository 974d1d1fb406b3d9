"""Rows of one row group on their way into another file: the table's columns and lineage, with new values, without the removed ones."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.schema import Schema

from lakewright.write.carried_lineage import carried_lineage
from lakewright.write.changed_group import ChangedGroup
from lakewright.write.delta_output import DeltaOutput
from lakewright.write.source_file import SourceFile


def group_rows(output: DeltaOutput, source: SourceFile, group: ChangedGroup, assigned: Schema) -> Iterator[pa.RecordBatch]:
    """The rows that stay, in batches of `output.carried_arrow`."""
    schema, at = output.plan.write.schema, 0
    for batch in source.batches(group.index, [*source.columns_of(schema), *(source.lineage_names.values() if output.has_lineage else ())]):
        part = group.part(at, batch.num_rows)
        at += batch.num_rows
        rows = _with_updates(source.projected(batch, schema, output.table_arrow), part, assigned)
        if output.has_lineage:
            lineage = carried_lineage(source, batch if source.lineage_names else None, part.start, part.rows, part.updated)
            rows = pa.RecordBatch.from_arrays([*rows.columns, *lineage], schema=output.carried_arrow)
        yield part.keeping(rows)


def _with_updates(rows: pa.RecordBatch, part: ChangedGroup, assigned: Schema) -> pa.RecordBatch:
    if not len(part.updated):
        return rows
    names = [f.name for f in assigned.fields]
    updated = part.updating(rows.select(names))
    arrays = [updated.column(name) if name in names else rows.column(name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
