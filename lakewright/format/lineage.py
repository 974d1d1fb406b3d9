"""Row lineage of format 3: the two columns a file holds for rows that came from another file."""

from __future__ import annotations

from pyiceberg.types import LongType, NestedField

ROW_ID, ROW_SEQUENCE = 2147483540, 2147483539
ROW_ID_NAME, ROW_SEQUENCE_NAME = "_row_id", "_last_updated_sequence_number"
LINEAGE_FIELDS = (
    NestedField(ROW_ID, ROW_ID_NAME, LongType(), required=False),
    NestedField(ROW_SEQUENCE, ROW_SEQUENCE_NAME, LongType(), required=False),
)
