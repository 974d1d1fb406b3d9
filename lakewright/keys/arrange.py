"""How a bulk insert lays its rows out, since no lookup does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from lakewright.errors import InvalidOption
from lakewright.format.metadata import Metadata
from lakewright.keys.definition import Definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Partitioner = Callable[[Any], Any]
NONE, SORT, HASH = "none", "sort", "hash"


@dataclass(frozen=True)
class Arrangement:
    """by: none, sort, hash, or a function from rows to rows. parallelism: tasks that write, where rows are moved at all."""

    by: str | Partitioner = NONE
    parallelism: int | None = None

    def applied(self, rows: DataFrame, definition: Definition, metadata: Metadata) -> tuple[DataFrame, SortOrder | None, str | None]:
        """The rows, the order to write them in where it is not the table's, and the distribution where it is not the usual one."""
        from pyspark.sql import functions as F

        keys = [F.expr(part.of(None)) for part in definition.key]
        if callable(self.by):
            return self.by(rows), None, "none"
        match self.by:
            case "none":
                return (rows if self.parallelism is None else rows.repartition(self.parallelism)), None, None
            case "hash":
                return (rows.repartition(*keys) if self.parallelism is None else rows.repartition(self.parallelism, *keys)), None, "none"
            case "sort":
                order = key_order(definition, metadata)
                if order is None:
                    ordered = rows.repartitionByRange(*keys) if self.parallelism is None else rows.repartitionByRange(self.parallelism, *keys)
                    return ordered.sortWithinPartitions(*keys), None, "none"
                return rows, order, "range"
        raise InvalidOption(f"bulk_insert into {definition.table} is by {self.by!r}; it takes none, sort, hash or a function from rows to rows.", table=definition.table)


NOT_ARRANGED = Arrangement()


def key_order(definition: Definition, metadata: Metadata) -> SortOrder | None:
    """Rows by key. Not an order the table has, so files do not claim it: its id is that of unsorted files."""
    if any(part.column is None for part in definition.key):
        return None
    ids = [metadata.schema.find_field(part.column or "").field_id for part in definition.key]
    fields = [SortField(source_id=i, transform=IdentityTransform(), direction=SortDirection.ASC, null_order=NullOrder.NULLS_FIRST) for i in ids]
    return SortOrder(*fields, order_id=UNSORTED_SORT_ORDER_ID)
