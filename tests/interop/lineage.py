"""Row ids and sequence numbers of a format 3 table, as each engine reads them, and what a statement may do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.interop import readers
from tests.interop.canonical import plain

if TYPE_CHECKING:
    from tests.interop.peer import Peer
    from tests.interop.places import Place

Lineage = dict[int, tuple[int, int]]
COLUMNS = "id, _row_id, _last_updated_sequence_number"


def ours(table: Any) -> Lineage:
    return in_rows(table.read(metadata=True).select(*COLUMNS.split(", ")).toArrow())


def of_the_runtime(peer: Peer, place: Place, table: Any) -> Lineage:
    return in_rows(peer.sql(f"SELECT {COLUMNS} FROM {place.name}.{table.name}"))


def of_duckdb(table: Any) -> Lineage:
    return in_rows(readers.duck(table, columns=COLUMNS))


def in_rows(rows: pa.Table) -> Lineage:
    found = {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


def by_id(rows: pa.Table) -> dict[int, Any]:
    return {row["id"]: plain(row) for row in rows.to_pylist()}


class Ledger:
    """Checks each step of a table's history: rows keep their ids, changed ones get the step's sequence number, new ones ids never given before."""

    def __init__(self) -> None:
        self._rows: dict[int, Any] = {}
        self._lineage: Lineage = {}
        self._given: set[int] = set()

    def begin(self, rows: dict[int, Any], lineage: Lineage) -> None:
        """A table that has rows already."""
        self._given = {row_id for row_id, _ in lineage.values()}
        self._rows, self._lineage = rows, lineage

    def step(self, rows: dict[int, Any], lineage: Lineage, sequence_number: int, shape_changed: bool = False) -> None:
        assert lineage.keys() == rows.keys()
        assert len({row_id for row_id, _ in lineage.values()}) == len(lineage)
        for key, (row_id, sequence) in lineage.items():
            if key not in self._lineage:
                assert row_id not in self._given, f"row {key} has an id that was given before"
                assert sequence == sequence_number, f"new row {key}"
                continue
            old_id, old_sequence = self._lineage[key]
            assert row_id == old_id, f"row {key} lost its id"
            is_same = shape_changed or self._rows[key] == rows[key]
            assert sequence == (old_sequence if is_same else sequence_number), f"row {key}, {'left alone' if is_same else 'updated'}"
        self._given |= {row_id for row_id, _ in lineage.values()}
        self._rows, self._lineage = rows, lineage
