"""What an overwrite replaces: which files go, and which of their rows must be written again because they stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import _StrictMetricsEvaluator, expression_evaluator, rewrite_not, strict_projection
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from lakewright.commit.change import PartitionScope
from lakewright.commit.store import TableState
from lakewright.format.data_file import DataFile
from lakewright.format.metadata import Metadata, Snapshot
from lakewright.plan.filters import Filter, parse_where, resolving
from lakewright.plan.partition_scope import outside_partitions
from lakewright.plan.write_plan import WritePlan
from lakewright.read.frame import to_dataframe
from lakewright.read.prune import UNREADABLE, comparable, optional_schema, partition_wraps
from lakewright.read.scan import FileScan, Scan, live_entries, plan_scan
from lakewright.session import time_zone
from lakewright.write.engine import write_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True)
class Replacement:
    """Files to remove, the rows of them to keep, and the part of the table this decision rests on."""

    removed: frozenset[str] = frozenset()
    removed_vectors: frozenset[str] = frozenset()
    filter: BooleanExpression = field(default_factory=AlwaysTrue)
    partitions: PartitionScope | None = None
    where: Filter | None = None
    kept: DataFrame | None = None

    def with_kept(self, rows: DataFrame, table: str) -> DataFrame:
        """The rows to write: the given ones, each checked to be inside `where`, and those of replaced files that stay."""
        if self.where is not None and self.where.sql is not None:
            with resolving(self.where.sql, table):
                rows = rows.filter(_inside(self.where.sql, table))
        return rows if self.kept is None else rows.unionByName(self.kept)


def plan_replacement(spark: SparkSession, state: TableState, metadata: Metadata, head: Snapshot | None, where: str | Column | None) -> Replacement:
    """Everything, or what `where` selects. A file that matches only in part is removed and its other rows are kept."""
    if where is None:
        return everything(state, metadata, head)
    chosen = parse_where(where, metadata.schema, state.name, session_tz=time_zone(spark), deterministic=True)
    scan = plan_scan(state.io, metadata, head, chosen, with_metrics=True)
    whole = WholeFiles(chosen.strict, metadata)
    partial = tuple(f for f in scan.files if not whole.match(f.data_file))
    kept = None
    if partial:
        stored = to_dataframe(spark, state.io, metadata, Scan(scan.snapshot, partial))
        with resolving(where, state.name):
            kept = stored.filter(_outside(chosen.sql))
    removed, vectors = with_their_deletes(state, metadata, head, scan.files)
    return Replacement(removed, vectors, chosen.iceberg, None, chosen, kept)


def everything(state: TableState, metadata: Metadata, head: Snapshot | None) -> Replacement:
    """All files of a snapshot, deletes included."""
    live = [entry.data_file for entry in live_entries(state.io, metadata, head, with_metrics=False)]
    vectors = frozenset(f.referenced_data_file for f in live if f.is_vector and f.referenced_data_file is not None)
    return Replacement(frozenset(f.file_path for f in live if not f.is_vector), vectors)


def replaced_partitions(
    spark: SparkSession, state: TableState, metadata: Metadata, head: Snapshot | None, plan: WritePlan, files: list[DataFile]
) -> tuple[Replacement, list[DataFile]]:
    """The partitions new files fall into. Files of other specs may hold rows of them: those are removed, their other rows rewritten."""
    scope = PartitionScope(plan.spec.spec_id, frozenset(f.partition for f in files))
    if not files:
        return Replacement(), []
    scan = plan_scan(state.io, metadata, head)
    same = [f for f in scan.files if f.data_file.spec_id == plan.spec.spec_id and scope.covers(f.data_file)]
    other = [f for f in scan.files if f.data_file.spec_id != plan.spec.spec_id]
    kept: list[DataFile] = []
    if other and plan.spec.fields:
        rows = to_dataframe(spark, state.io, metadata, Scan(scan.snapshot, tuple(other)))
        kept = write_files(plan, outside_partitions(plan, rows, scope.partitions))
    removed, vectors = with_their_deletes(state, metadata, head, (*same, *other))
    return Replacement(removed, vectors, partitions=scope), kept


def with_their_deletes(state: TableState, metadata: Metadata, head: Snapshot | None, removed: Sequence[FileScan]) -> tuple[frozenset[str], frozenset[str]]:
    """Paths of the files and of delete files that apply to nothing else; and those of the files that have a vector, which goes too."""
    paths = {f.data_file.file_path for f in removed}
    vectors = frozenset(f.data_file.file_path for f in removed if any(d.is_vector for d in f.deletes))
    if any(not d.is_vector for f in removed for d in f.deletes):
        users: dict[str, set[str]] = defaultdict(set)
        for scanned in plan_scan(state.io, metadata, head).files:
            for delete in scanned.deletes:
                if not delete.is_vector:
                    users[delete.data_file.file_path].add(scanned.data_file.file_path)
        paths |= {delete for delete, using in users.items() if using <= paths}
    return frozenset(paths), vectors


class WholeFiles:
    """Whether every row of a file is sure to match."""

    def __init__(self, strict: BooleanExpression, metadata: Metadata) -> None:
        self._strict = rewrite_not(strict)
        self._schema = optional_schema(metadata.schema)
        self._specs = metadata.specs
        self._metrics = _StrictMetricsEvaluator(self._schema, self._strict)
        self._partitions = {spec_id: self._by_partition(spec) for spec_id, spec in metadata.specs.items()}

    def match(self, file: DataFile) -> bool:
        by_partition = None if partition_wraps(self._specs[file.spec_id], file.partition) else self._partitions[file.spec_id]
        try:
            return self._metrics.eval(file) or (by_partition is not None and by_partition(Record(*map(comparable, file.partition))))  # type: ignore[arg-type]
        except UNREADABLE:
            return False

    def _by_partition(self, spec: PartitionSpec) -> Callable[[Any], bool] | None:
        if any(f.source_id not in self._schema._lazy_id_to_field for f in spec.fields) or not spec.fields:
            return None
        struct = Schema(*(NestedField(f.field_id, f.name, f.field_type, required=False) for f in spec.partition_type(self._schema).fields))
        try:
            return expression_evaluator(struct, strict_projection(self._schema, spec)(self._strict), case_sensitive=True)
        except UNREADABLE:
            return None


def _inside(where: str | Column, table: str) -> Column:
    from pyspark.sql import functions as F

    refusal = f"lakewright.errors.RowsOutsideFilter: a row given to the overwrite of {table} is outside its where ({where}); filter it out, or append it instead"
    return F.when(_condition(where), F.lit(True)).otherwise(F.raise_error(F.lit(refusal)).cast("boolean"))


def _outside(where: str | Column | None) -> Column:
    from pyspark.sql import functions as F

    return ~F.coalesce(_condition(where if where is not None else "true"), F.lit(False))


def _condition(where: str | Column) -> Column:
    from pyspark.sql import functions as F

    return F.expr(where) if isinstance(where, str) else where


