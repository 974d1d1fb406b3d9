"""Which batches are handled at hand."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.types import BinaryType, BooleanType, DateType, DecimalType, IntegerType, LongType, StringType, TimestampType, TimestamptzType

from lakewright.format.metadata import Metadata
from lakewright.keys.definition import Part
from lakewright.keys.partitions import MOVE, partition_is_of_key
from lakewright.keys.postpone import is_postponed
from lakewright.keys.request import Fitted, Operation
from lakewright.options import DRIVER_BATCH_SIZE, MERGE_MODE, PARTITION_CHANGE
from lakewright.plan.delta import COPY_ON_WRITE
from lakewright.plan.distribution import partition_fields
from lakewright.plan.request import MAIN

LOOKED_UP = (Operation.UPSERT, Operation.INSERT, Operation.DELETE_KEYS)
ORDERED = (IntegerType, LongType, DateType, DecimalType, StringType, TimestampType, TimestamptzType)
COMPARED = (*ORDERED, BinaryType, BooleanType)
MOST_COPIED = 128 * 1024 * 1024


def may_be_at_hand(fitted: Fitted, metadata: Metadata) -> bool:
    """Whether records of this request are merged as Arrow compares values: the latest record of a key is its row, and key and order are plain columns.
    Floats are left to Spark, which has its own view of NaN and zero; and so are large tables whose files are rewritten, which takes tasks anyway:
    records that are in Spark already get to those sooner."""
    request, definition, options = fitted.request, fitted.definition, fitted.options
    if not options[DRIVER_BATCH_SIZE] or request.operation not in LOOKED_UP or not fitted.engine.takes_latest:
        return False
    if is_postponed(options) and request.branch == MAIN and not request.takes_in:
        return False
    if options[MERGE_MODE] == COPY_ON_WRITE and _bytes_of(metadata, request.branch) > MOST_COPIED:
        return False
    may_move = options[PARTITION_CHANGE] == MOVE or not partition_fields(metadata.spec) or partition_is_of_key(metadata, definition)
    return may_move and _are(definition.key, COMPARED) and _are(definition.ordering, ORDERED)


def _bytes_of(metadata: Metadata, branch: str) -> int:
    head = metadata.head_if_any(branch)
    return int(head.summary.get("total-files-size", "0")) if head else 0


def _are(parts: Sequence[Part], kinds: tuple[type, ...]) -> bool:
    return all(part.is_top_level and isinstance(part.schema.find_type(part.column or ""), kinds) for part in parts)
