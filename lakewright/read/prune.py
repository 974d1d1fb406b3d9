"""Leaving out what cannot match: manifests by their summaries, files by partition and by column metrics.

PyIceberg's evaluators do the work, on an expression rewritten so that they decide as Spark filters: in Spark NaN equals NaN and
is greater than every number, so a file whose NaNs are not counted may always match `x > 5`.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    _InclusiveMetricsEvaluator,
    _ManifestEvalVisitor,
    expression_evaluator,
    inclusive_projection,
    rewrite_not,
    visit,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from lakewright.format.data_file import DataFile, ManifestFile

Keeps = Callable[[Any], bool]
WRAPS_AT = (2**31, 2**63)

# Bounds cut inside a character, or of a type since promoted: they tell nothing.
UNREADABLE = (struct.error, UnicodeDecodeError, ValueError, TypeError, OverflowError)


class Pruner:
    """Decides for one filter. Each file is judged under the spec it was written with."""

    def __init__(self, expression: BooleanExpression, schema: Schema, schemas: Mapping[int, Schema], specs: Mapping[int, PartitionSpec]) -> None:
        self.schema = optional_schema(schema)
        self.expression = spark_semantics(expression, self.schema)
        self.keeps_all = isinstance(self.expression, AlwaysTrue)
        self._sources = {field_id: field.field_type for s in (*schemas.values(), schema) for field_id, field in s._lazy_id_to_field.items()}
        self._specs = specs
        self._manifests: dict[int, Keeps] = {}
        self._partitions: dict[int, Keeps] = {}
        self._decided: dict[tuple[int, tuple[Any, ...]], bool] = {}
        self._metrics = _guarded(_InclusiveMetricsEvaluator(self.schema, self.expression).eval)

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        if self.keeps_all:
            return True
        spec_id = manifest.partition_spec_id
        if spec_id not in self._manifests:
            self._manifests[spec_id] = _guarded(_ManifestEvalVisitor(*self._projected(spec_id), case_sensitive=True).eval)
        return self._summary_wraps(manifest) or self._manifests[spec_id](manifest)

    def keeps_file(self, file: DataFile) -> bool:
        return self.keeps_all or (self.keeps_partition(file) and self._metrics(file))

    def keeps_partition(self, file: DataFile) -> bool:
        if self.keeps_all or not file.partition:
            return True
        key = (file.spec_id, partition_key(file.partition))
        if key not in self._decided:
            record = Record(*(comparable(value) for value in file.partition))
            self._decided[key] = partition_wraps(self._specs[file.spec_id], file.partition) or self._partition_evaluator(file.spec_id)(record)
        return self._decided[key]

    def _partition_evaluator(self, spec_id: int) -> Keeps:
        if spec_id not in self._partitions:
            self._partitions[spec_id] = _guarded(expression_evaluator(*self._projected(spec_id), case_sensitive=True))
        return self._partitions[spec_id]

    def _summary_wraps(self, manifest: ManifestFile) -> bool:
        spec = self._specs[manifest.partition_spec_id]
        if manifest.partitions is None:
            return False
        return partition_wraps(spec, tuple(self._number(f.source_id, s.upper_bound) for f, s in zip(spec.fields, manifest.partitions, strict=True)))

    def _number(self, field_id: int, bound: bytes | None) -> int | None:
        is_number = isinstance(self._sources.get(field_id), (IntegerType, LongType))
        return int.from_bytes(bound, "little", signed=True) if is_number and bound is not None else None

    def _projected(self, spec_id: int) -> tuple[Schema, BooleanExpression]:
        """The type of the spec's partitions, all optional, and the filter on them.

        A source column that was dropped keeps the type it last had; no filter can name it.
        """
        spec = self._specs[spec_id]
        fields = []
        for field in spec.fields:
            source = self._sources.get(field.source_id)
            result = field.transform.result_type(source) if source is not None else StringType()
            fields.append(NestedField(field.field_id, field.name, result, required=False))
        try:
            return Schema(*fields), inclusive_projection(self.schema, spec)(self.expression)
        except UNREADABLE:  # PyIceberg projects `d > last day of 9999` through a date of the year 10000
            return Schema(*fields), AlwaysTrue()


def partition_wraps(spec: PartitionSpec, partition: tuple[Any, ...]) -> bool:
    """Whether a value may be that of the least ints or longs, which truncated wrap around to the greatest: such a partition tells nothing of its rows."""
    return any(
        isinstance(field.transform, TruncateTransform) and isinstance(value, int) and any(limit - field.transform.width <= value < limit for limit in WRAPS_AT)
        for field, value in zip(spec.fields, partition, strict=True)
    )


def partition_key(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """A partition as a dictionary key: NaN equals NaN there."""
    return tuple("NaN" if _is_nan(v) else v for v in partition)


def optional_schema(schema: Schema) -> Schema:
    """The schema with every field optional, since a required field of a null struct reads as null all the same."""
    return Schema(*_optional(schema.as_struct()).fields, schema_id=schema.schema_id)


def spark_semantics(expression: BooleanExpression, schema: Schema) -> BooleanExpression:
    """The expression without NOT, unbound, and with NaN where Spark would find it: `x > 5` becomes `x > 5 OR x is NaN`."""
    return visit(rewrite_not(expression), _SparkSemantics(schema))


class _SparkSemantics(BooleanExpressionVisitor[BooleanExpression]):
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise ValueError(f"NOT should have been rewritten: {child_result}")

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise ValueError(f"A filter to prune with names columns and is not bound: {predicate}")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        is_float = isinstance(predicate.term.bind(self.schema).ref().field.field_type, (FloatType, DoubleType))
        if is_float and isinstance(predicate, (GreaterThan, GreaterThanOrEqual)):
            return Or(predicate, IsNaN(term=predicate.term))
        return predicate


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _optional(struct_type: StructType) -> StructType:
    return StructType(*(NestedField(f.field_id, f.name, _optional_type(f.field_type), required=False, doc=f.doc) for f in struct_type.fields))


def _optional_type(source: IcebergType) -> IcebergType:
    if isinstance(source, StructType):
        return _optional(source)
    if isinstance(source, ListType):
        return ListType(source.element_id, _optional_type(source.element_type), element_required=False)
    if isinstance(source, MapType):
        return MapType(source.key_id, _optional_type(source.key_type), source.value_id, _optional_type(source.value_type), value_required=False)
    return source


def comparable(value: Any) -> Any:
    """Literals of uuid columns hold bytes."""
    return value.bytes if isinstance(value, uuid.UUID) else value


def _guarded(keeps: Keeps) -> Keeps:
    def keeps_or_unreadable(what: Any) -> bool:
        try:
            return keeps(what)
        except UNREADABLE:
            return True

    return keeps_or_unreadable
