"""Doing to Arrow batches what `reconcile` declared, where there is no DataFrame to do it with."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, IcebergType, TimestamptzType, UUIDType

from lakewright.errors import NullInRequiredColumn, RowsOutsideFilter, TypeMismatch, UnsupportedOperation
from lakewright.plan.conversion import Assign, Cast, Conversion, Keep, Reconciled, ToList, ToMap, ToStruct
from lakewright.plan.filters import Filter
from lakewright.plan.project import UUID_TEXT
from lakewright.plan.types import spark_type
from lakewright.read.spark_arrow import arrow_type


def project_batch(batch: pa.RecordBatch, reconciled: Reconciled, table: str) -> pa.RecordBatch:
    """The rows in the table's columns, order and types."""
    columns = [_assigned(None if a.source is None else batch.column(a.source), batch.num_rows, a, table) for a in reconciled.columns]
    return pa.RecordBatch.from_arrays(columns, names=[a.field.name for a in reconciled.columns])


def inside(batch: pa.RecordBatch, where: Filter, schema: Schema, table: str) -> pa.RecordBatch:
    """The batch, once every row is found to be one the overwrite replaces; a condition that is null is not true."""
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.io.pyarrow import expression_to_pyarrow  # takes a second to import, and most writes have no filter

    from lakewright.read.prune import spark_semantics

    condition = expression_to_pyarrow(bind(schema, spark_semantics(where.iceberg, schema), case_sensitive=True))
    if pa.Table.from_batches([batch]).filter(condition).num_rows < batch.num_rows:
        raise RowsOutsideFilter(
            f"A row given to the overwrite of {table} is outside its overwrite-filter ({where.sql}); filter it out, or append it instead. Nothing was written.",
            table=table,
        )
    return batch


def _assigned(source: pa.Array | None, rows: int, assign: Assign, table: str) -> pa.Array:
    if source is None:
        kind = _arrow_type(assign.field.field_type)
        default = assign.field.write_default
        return pa.nulls(rows, kind) if default is None else pa.repeat(pa.scalar(default, kind), rows)
    value = _converted(source, assign.conversion, assign.path, table)
    if assign.no_nulls:
        _require_no_nulls(value, assign.path, table)
    return value


def _converted(array: pa.Array, conversion: Conversion, path: str, table: str) -> pa.Array:
    match conversion:
        case Keep():
            return array
        case Cast():
            return _cast(array, conversion, path, table)
        case ToStruct(fields):
            return _to_struct(array, fields, table)
        case ToList(element, no_nulls):
            if no_nulls:
                _require_no_nulls(array.flatten(), f"{path}.element", table)
            made = _converted(array.values, element, f"{path}.element", table)
            return pa.ListArray.from_arrays(array.offsets, made, mask=array.is_null())
        case ToMap(key, value, no_nulls):
            if no_nulls:
                _require_no_nulls(array.items, f"{path}.value", table)
            keys = _converted(array.keys, key, f"{path}.key", table)
            items = _converted(array.items, value, f"{path}.value", table)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())


def _to_struct(array: pa.StructArray, fields: tuple[Assign, ...], table: str) -> pa.StructArray:
    """Fields of null structs are no values, so only those of the others are checked."""
    present = array.filter(array.is_valid()) if array.null_count else array
    for field in fields:
        if field.no_nulls and field.source is not None:
            _require_no_nulls(pc.struct_field(present, field.source), field.path, table)
    children = [_assigned(None if f.source is None else pc.struct_field(array, f.source), len(array), _unchecked(f), table) for f in fields]
    return pa.StructArray.from_arrays(children, names=[f.field.name for f in fields], mask=array.is_null())


def _unchecked(assign: Assign) -> Assign:
    return Assign(assign.field, assign.path, assign.source, assign.conversion)


def _cast(array: pa.Array, cast: Cast, path: str, table: str) -> pa.Array:
    if array.null_count == len(array):
        return pa.nulls(len(array), _arrow_type(cast.target))
    if isinstance(cast.target, UUIDType):
        return _fitting(array, pc.match_substring_regex(array, UUID_TEXT), cast.target, path, table)
    if isinstance(cast.target, FixedType):
        return _fitting(array, pc.equal(pc.binary_length(array), len(cast.target)), cast.target, path, table)
    _require_no_time_zone(array, cast.target, path, table)
    try:
        return array.cast(_arrow_type(cast.target), safe=True)
    except pa.ArrowInvalid as error:
        raise TypeMismatch(
            f"A row has a value for {path!r} that does not fit {cast.target} of table {table}: {error}. Nothing was written.", table=table, column=path
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedOperation(
            f"Column {path!r} cannot be cast to {cast.target} of table {table} here; use t.append(df), or cast it in the DataFrame.", table=table, column=path
        ) from error


def _fitting(array: pa.Array, fits: pa.BooleanArray, target: IcebergType, path: str, table: str) -> pa.Array:
    if pc.all(fits, min_count=0).as_py() is False:
        value: Any = array.filter(pc.invert(fits))[0].as_py()
        raise TypeMismatch(f"A row has {value!r} for {path!r}, which does not fit {target} of table {table}; nothing was written.", table=table, column=path)
    return array


def _require_no_time_zone(array: pa.Array, target: IcebergType, path: str, table: str) -> None:
    """What a cast between times with and without a zone means depends on the session, which has no say here."""
    zoned = pa.types.is_timestamp(array.type) and array.type.tz is not None
    if zoned != isinstance(target, TimestamptzType):
        raise UnsupportedOperation(
            f"Casting {path!r} to {target} of table {table} needs the session's time zone; cast it in the DataFrame, or use t.append(df).",
            table=table,
            column=path,
        )


def _require_no_nulls(array: pa.Array, path: str, table: str) -> None:
    if array.null_count:
        raise NullInRequiredColumn(
            f"A row has null for {path!r}, which table {table} requires; filter it out or use coalesce. Nothing was written.", table=table, column=path
        )


def _arrow_type(kind: IcebergType) -> pa.DataType:
    return arrow_type(spark_type(kind))
