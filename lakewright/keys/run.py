"""Running an operation on keys: records are read and combined once, however often what becomes of them is planned."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lakewright.call_sites import no_call_sites
from lakewright.commit.result import Commit
from lakewright.commit.runs import new_run_id
from lakewright.format.metadata import Snapshot
from lakewright.keys.buckets import first_buckets
from lakewright.keys.first_load import FirstLoad, LookFirst, may_load_first
from lakewright.keys.operations import Prepared, ReadAgain, prepare
from lakewright.keys.postpone import TO_DELETE, TakenInMeanwhile, pending, pending_records, tokens_of
from lakewright.keys.quarantine import quarantined
from lakewright.keys.request import QUARANTINE, Fitted, KeyRequest, Operation, check_on_error, fit
from lakewright.options import UPSERT_REPLANS, resolve
from lakewright.plan.request import Request
from lakewright.rows.expressions import explaining
from lakewright.session import session_options
from lakewright.transaction import Transaction, request_fields
from lakewright.write.engine import running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewright.table import Table

log = logging.getLogger("lakewright")
OWN = {f.name for f in fields(KeyRequest)} - {f.name for f in fields(Request)}


@no_call_sites()
def by_key(table: Table, operation: Operation, df: DataFrame, on_record_error: str = "fail", **given: Any) -> Commit:
    """Carry out what a verb of the table was called with: settings of the operation, and what every write takes."""
    check_on_error(on_record_error, table.name)
    settings = {name: given.pop(name) for name in list(given) if name in OWN}
    request = KeyRequest(operation, df, **settings, **request_fields(given))
    table.refresh()
    return change_keys(table, quarantined(table._lake, table._state, request) if on_record_error == QUARANTINE else request)


@no_call_sites()
def change_keys(table: Table, request: KeyRequest) -> Commit:
    def planned(step: Callable[[Transaction], None]) -> Commit:
        return table._planned(request.operation.value, step, request.options, UPSERT_REPLANS)

    while True:
        fitted = fitted_to(table.refresh(), request)
        if may_load_first(fitted, table._state.metadata):
            try:
                return planned(FirstLoad(fitted).run)
            except LookFirst:
                log.info("records for %s have to be looked at and combined before they are written", table.name)
        try:
            return planned(prepared(table, fitted).run)
        except ReadAgain:
            log.info("key or ordering of %s got another type; its records are read again", table.name)


@no_call_sites()
def first_records(table: Table, request: KeyRequest) -> Commit:
    """Make a table, which is not published yet, with its first rows in one commit."""
    records = prepared(table, fitted_to(table, request))
    with Transaction(table._lake, table._state, operation=request.operation.value) as tx:
        records.run(tx)
    table._state = tx.state
    return tx.commit


def fitted_to(table: Table, request: KeyRequest) -> Fitted:
    with explaining("batch", table.name):
        return fit(request, table._state.metadata, session_options(table._lake.spark), table.name)


def prepared(table: Table, fitted: Fitted) -> Prepared:
    with running(table._lake.spark, f"lakewright-{new_run_id()}", table.name), explaining("batch", table.name):
        return prepare(fitted, table._state.metadata)


def take_in(table: Table) -> Commit | None:
    """Bring records that wait on the branch of the bucket mode postpone to main, in their buckets; None where there are none."""
    while waiting := pending(table.refresh()._state.metadata):
        try:
            return _taken_in(table, waiting)
        except TakenInMeanwhile:
            log.info("records of %s were taken in by another compaction; looking for more", table.name)
    return None


def _taken_in(table: Table, waiting: list[Snapshot]) -> Commit:
    spark = table._lake.spark
    records = pending_records(spark, table._state, waiting)
    options = resolve({}, session_options(spark), table.properties)
    table._changed(first_buckets(sum(int(s.summary.get("added-records", "0")) for s in waiting), options, table.name))
    token = f"postponed-{waiting[-1].snapshot_id}"
    return change_keys(table, KeyRequest(Operation.UPSERT, records, delete_when=TO_DELETE, takes_in=tuple(waiting), token=token, snapshot_properties=tokens_of(waiting)))
