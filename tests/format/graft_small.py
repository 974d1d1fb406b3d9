"""A small file of two row groups, and grafts of it in memory."""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.format.graft import GraftWriter
from lakewright.format.graft_layout import footer_bytes
from lakewright.format.parquet_footer import Footer, read_footer
from lakewright.format.thrift import Struct, decode
from tests.format.graft_kit import SETTINGS, column

ID = column("id", pa.int64(), 1, nullable=False)
NAME = column("name", pa.string(), 2)
PRICE = column("price", pa.decimal128(9, 2), 3)
TAGS = column("tags", pa.list_(pa.string()), 4)
SCHEMA = pa.schema([ID, NAME, PRICE, TAGS])
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "name": ["a", None, "c", "d"],
        "price": pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("-3.30"), None], pa.decimal128(9, 2)),
        "tags": [["x"], [], None, ["y", None]],
    }
)
ROW_ID = column("_row_id", pa.int64(), 2147483540)


def written(table: pa.Table = ROWS, schema: pa.Schema = SCHEMA, **options: Any) -> bytes:
    """Two row groups."""
    sink = io.BytesIO()
    pq.write_table(table.cast(schema), sink, **{"row_group_size": 2, "store_decimal_as_integer": True, **options})
    return sink.getvalue()


class Grafted:
    """A source and the file that grows out of it."""

    def __init__(self, source: bytes, *changed: pa.Field, keep: list[int] | None = None, **settings: Any) -> None:
        self.out = io.BytesIO()
        self.writer = GraftWriter(io.BytesIO(source), self.out, keep=keep, changed=pa.schema(changed), settings={**SETTINGS, **settings})

    def copy(self, *groups: dict[str, Any] | None) -> Grafted:
        for index, columns in enumerate(groups):
            self.writer.copy_group(index, None if columns is None else pa.table(columns))
        self.writer.close()
        return self

    @property
    def table(self) -> pa.Table:
        return pq.read_table(io.BytesIO(self.out.getvalue()))

    @property
    def footer(self) -> Footer:
        return read_footer(io.BytesIO(self.out.getvalue()), "new")


def edited(source: bytes, edit: Callable[[Struct], Any]) -> bytes:
    length = int.from_bytes(source[-8:-4], "little")
    struct, _ = decode(source[-8 - length : -8])
    edit(struct)
    return source[: -8 - length] + footer_bytes(struct)


def chunks(struct: Struct, group: int = 0) -> list[Struct]:
    found: list[Struct] = struct[4][1][1][group][1][1][1]
    return found
