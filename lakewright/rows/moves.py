"""Whether an updated row can stay where it is, or has to go to another file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from pyiceberg.types import NestedField

from lakewright.plan.delta import COPY_ON_WRITE, MOVE, UPDATE
from lakewright.plan.partition_scope import stays
from lakewright.plan.transform_columns import source_path
from lakewright.read.scan import FileScan

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakewright.rows.row_plan import RowContext


class Moves(Enum):
    NONE = "none"
    SOME = "some"
    ALL = "all"


def moves_of(context: RowContext, files: Iterable[FileScan], assigned: Iterable[int]) -> Moves:
    """Merging on read all rows move. Else those that change partition; all where files of an earlier spec make that hard to tell."""
    if context.mode != COPY_ON_WRITE:
        return Moves.ALL
    specs = {f.data_file.spec_id for f in files} | {context.write.spec.spec_id}
    sources = {f.source_id for spec_id in specs for f in context.metadata.specs[spec_id].fields}
    changed = set(assigned)
    if not any(top_level(context, source) in changed for source in sources):
        return Moves.NONE
    return Moves.SOME if len(specs) == 1 else Moves.ALL


def update_action(context: RowContext, moves: Moves, values: Mapping[int, Column], old: Callable[[NestedField], Column]) -> Column:
    """What becomes of a row that gets these values."""
    from pyspark.sql import functions as F

    if moves is not Moves.SOME:
        return F.lit(UPDATE if moves is Moves.NONE else MOVE)
    return F.when(stays(context.schema, context.write.spec, values, old), F.lit(UPDATE)).otherwise(F.lit(MOVE))


def top_level(context: RowContext, field_id: int) -> int:
    """The column a field is in; itself for one that the schema does not have any more."""
    schema = context.schema
    if field_id not in schema._lazy_id_to_field:
        return field_id
    name = source_path(schema, field_id)[0]
    return next(f.field_id for f in schema.fields if f.name == name)
