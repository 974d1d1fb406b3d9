"""Records that go where no key can be yet, written as they come: their keys are looked at in the files, before these are committed.

The records are read once, and only the columns of the key a second time, from the files. Where a key turns out to be there twice
the files are dropped, and the records go the long way: read, kept, combined, written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewright.errors import NullInRequiredColumn
from lakewright.format.metadata import Metadata
from lakewright.keys.batch import looked_at, require_keys
from lakewright.keys.definition import Definition
from lakewright.keys.plain import bulk, counted, plain
from lakewright.keys.postpone import is_postponed
from lakewright.keys.request import Fitted, Operation
from lakewright.keys.written_keys import WrittenKeys, written_keys
from lakewright.plan.project import project
from lakewright.plan.request import IntoEmpty, WriteMode, Written
from lakewright.plan.write_plan import most_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.transaction import Transaction


class LookFirst(Exception):
    """The records cannot be written as they come."""


@dataclass(frozen=True)
class FirstLoad:
    fitted: Fitted

    def run(self, tx: Transaction) -> None:
        try:
            self._write(tx)
        except NullInRequiredColumn as error:
            if error.column not in self.fitted.definition.key_columns:
                raise
            raise LookFirst from error  # to tell how many records have no key

    def _write(self, tx: Transaction) -> None:
        request, rows = self.fitted.request, project(self.fitted.records, self.fitted.columns)
        if request.operation is Operation.BULK_INSERT:
            write, rows = bulk(request, self.fitted.definition, rows, tx.state.metadata, {}, checked=self._checked)
            tx.write(write, rows)
        elif request.operation is Operation.OVERWRITE:
            tx.write(plain(request, WriteMode.OVERWRITE, {}, checked=self._checked), rows)
        elif tx.has_rows(request.branch):
            raise LookFirst
        else:
            tx.write(plain(request, WriteMode.APPEND, {}, into_empty=IntoEmpty.TABLE, checked=self._checked), rows)

    def _checked(self, written: Written) -> Mapping[str, str]:
        """What the snapshot says of the records, as they are in the files."""
        definition = self.fitted.definition
        found = written_keys(written.io, written.files, definition) or _looked_at(written.rows(), definition)
        require_keys(found.nulls, found.rows, definition)
        if not found.is_unique:
            raise LookFirst
        return counted(found.rows, found.rows)


def _looked_at(rows: DataFrame, definition: Definition) -> WrittenKeys:
    found = looked_at(rows, definition)
    return WrittenKeys(found["rows"], found["nulls"], found["most"] < 2)


def may_load_first(fitted: Fitted, metadata: Metadata) -> bool:
    """Whether the records may be written before anyone has looked at them: none is a deletion or has to be counted or completed before."""
    request, options = fitted.request, fitted.options
    if request.delete_when is not None or request.takes_in or fitted.engine.first or most_rows(options) is not None:
        return False
    if request.operation in (Operation.BULK_INSERT, Operation.OVERWRITE):
        return True
    head = metadata.head_if_any(request.branch)
    is_empty = head is None or head.summary.get("total-records") == "0"
    return is_empty and (request.operation is Operation.INSERT or (request.operation is Operation.UPSERT and not is_postponed(options)))
