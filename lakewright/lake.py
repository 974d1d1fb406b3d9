"""A lake: its catalog, its Spark session, and its tables by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog

from lakewright import making, namespaces
from lakewright.catalogs import open_catalog
from lakewright.commit.publish import publish
from lakewright.commit.result import Commit, nothing_written
from lakewright.commit.store import Store, open_store
from lakewright.config import LakeConfig, absolute, resolve_lake
from lakewright.errors import InvalidOption, TableExists, TableNotFound
from lakewright.jvm_names import remember_names
from lakewright.keys.request import SAVED, KeyRequest, Operation
from lakewright.keys.run import change_keys, first_records
from lakewright.making import Shape, Texts
from lakewright.options import resolve
from lakewright.plan.keys import is_keyed
from lakewright.plan.request import WriteMode, WriteRequest
from lakewright.plan.types import schema_from
from lakewright.read.prune import optional_schema
from lakewright.session import active_or_local, partition_overwrite_mode
from lakewright.table import Table
from lakewright.transaction import Transaction, request_fields

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakewright.sql.frames import View

SAVE_MODES = ("append", "overwrite", "ignore", "error")


def connect(
    lake: str | os.PathLike[str] = "lake",
    *,
    spark: SparkSession | None = None,
    catalog: Mapping[str, Any] | Catalog | None = None,
    progress: str = "auto",
) -> Lake:
    """Open a lake: a folder (made on first use), a location with a catalog, or a name from lakewright.toml or the environment.

    `spark` may be any session, Spark Connect included, and keeps its settings; without one the active session is used, or a
    local one is started at the first need. `progress`: auto, rich, log or off.
    """
    if isinstance(catalog, Catalog):
        return Lake(LakeConfig(absolute(os.fspath(lake)), dict(catalog.properties), catalog.name), catalog, spark, progress)
    config = resolve_lake(lake, catalog)
    return Lake(config, open_catalog(config), spark, progress)


class Lake:
    """Tables under one catalog. Made by `connect`."""

    def __init__(self, config: LakeConfig, catalog: Catalog, spark: SparkSession | None, progress: str) -> None:
        self.config = config
        self.catalog = catalog
        self.progress = progress
        self.views: dict[str, View] = {}
        self._spark = spark
        if spark is not None:
            remember_names(spark)

    def __repr__(self) -> str:
        return f"Lake({self.location!r})"

    @property
    def spark(self) -> SparkSession:
        """The session, started at first use."""
        if self._spark is None:
            self._spark = active_or_local()
            remember_names(self._spark)
        return self._spark

    @property
    def location(self) -> str:
        return self.config.location

    @cached_property
    def store(self) -> Store:
        return open_store(self.catalog)

    # Namespaces

    def namespaces(self) -> list[str]:
        return namespaces.listed(self.catalog)

    def create_namespace(self, name: str, if_not_exists: bool = False) -> None:
        namespaces.create(self.catalog, name, if_not_exists)

    def drop_namespace(self, name: str, if_exists: bool = False) -> None:
        namespaces.drop(self.catalog, name, if_exists)

    # Tables

    def create_table(
        self,
        name: str,
        schema: StructType | str | pa.Schema | Any,
        *,
        partition_by: Texts = (),
        sort_by: Texts = (),
        properties: Mapping[str, Any] | None = None,
        format_version: int | None = None,
        key: Texts = (),
        ordering: Texts = (),
        location: str | None = None,
        if_not_exists: bool = False,
        replace: bool = False,
    ) -> Table:
        """Make an empty table; its namespace is made if missing. `replace` starts an existing one anew, keeping its history.

        `key`: the columns, or expressions, that tell rows apart; the table is then a keyed one, of format 3 unless told otherwise.
        `ordering`: those that tell which of a key's records is the latest. `location`: a folder of its own.
        """
        shape = Shape(schema, partition_by, sort_by, properties, format_version, key, location, ordering)
        if self.table_exists(name):
            if if_not_exists:
                return self.table(name)
            if not replace:
                raise TableExists(f"Table {name} is already there; use if_not_exists=True to keep it, or replace=True to start it anew.", table=name)
            return Table(self, making.replace(self, name, shape))
        state = making.first_state(self, name, shape)
        try:
            options = resolve({}, {}, state.metadata.properties)
            return Table(self, publish(self.store, state, [], run_id=state.metadata.table_uuid, options=options).state)
        except TableExists:
            if if_not_exists:
                return self.table(name)
            raise

    def table(self, name: str) -> Table:
        return Table(self, self.store.load(namespaces.identifier(name)))

    def tables(self, namespace: str | None = None) -> list[str]:
        """Names of all tables, or of those in one namespace."""
        return namespaces.tables(self.catalog, namespace)

    def table_exists(self, name: str) -> bool:
        try:
            self.store.load(namespaces.identifier(name))
        except TableNotFound:
            return False
        return True

    def rename_table(self, name: str, to: str) -> Table:
        namespaces.rename_table(self.catalog, name, to)
        return self.table(to)

    def drop_table(self, name: str, purge: bool = False) -> None:
        """Forget a table; `purge` deletes its files too."""
        namespaces.drop_table(self.catalog, self.store.load(namespaces.identifier(name)), purge)

    # Rows

    def write(
        self,
        df: DataFrame,
        name: str,
        mode: str = "append",
        *,
        partition_by: Texts = (),
        sort_by: Texts = (),
        properties: Mapping[str, Any] | None = None,
        format_version: int | None = None,
        key: Texts = (),
        ordering: Texts = (),
        location: str | None = None,
        **how: Any,
    ) -> Commit:
        """Write rows; the table is made in the same commit if missing. Overwrite is dynamic where the session's partitionOverwriteMode is."""
        if mode not in SAVE_MODES:
            raise InvalidOption(f"Mode is {mode!r}; it takes one of {', '.join(SAVE_MODES)}.", table=name)
        fields = request_fields(how)
        if not self.table_exists(name):
            columns = optional_schema(schema_from(df.schema))  # as CREATE TABLE AS does: that no row is null now promises nothing
            state = making.first_state(self, name, Shape(columns, partition_by, sort_by, properties, format_version, key, location, ordering))
            try:
                return self._first_rows(Table(self, state), df, fields)
            except TableExists:  # someone else made it meanwhile
                if mode == "error":
                    raise
        state = self.store.load(namespaces.identifier(name))
        if mode == "error":
            raise TableExists(f"Table {name} is already there; use mode='append', 'overwrite' or 'ignore'.", table=name)
        if mode == "ignore":
            return nothing_written(state.metadata.head(), mode, "", None)
        return self._written(Table(self, state), self._write_mode(mode), df, fields)

    def sql(self, query: str, args: Mapping[str, Any] | Sequence[Any] | None = None, **frames: DataFrame) -> DataFrame:
        """Run SQL: Spark's dialect, with this lake's tables in it and every statement that changes them; several are split by semicolons.

        `args` are the values of `:name` or `?`; DataFrames given by name are tables of that name: `lake.sql("… USING updates …", updates=df)`.
        """
        from lakewright.sql.run import run

        return run(self, query, args, frames)

    def _first_rows(self, table: Table, df: DataFrame, fields: Mapping[str, Any]) -> Commit:
        if is_keyed(table.properties):
            return first_records(table, KeyRequest(Operation.INSERT, df, **fields))
        with Transaction(self, table._state, operation=WriteMode.APPEND.value) as tx:
            tx.write(WriteRequest(WriteMode.APPEND, **fields), df)
        return tx.commit

    def _written(self, table: Table, mode: WriteMode, df: DataFrame, fields: Mapping[str, Any]) -> Commit:
        """On a keyed table with a look at its keys."""
        if is_keyed(table.properties):
            return change_keys(table, KeyRequest(SAVED[mode], df, **fields))
        return table._write(WriteRequest(mode, **fields), df)

    def _write_mode(self, mode: str) -> WriteMode:
        if mode == "overwrite" and partition_overwrite_mode(self.spark) == "dynamic":
            return WriteMode.OVERWRITE_PARTITIONS
        return WriteMode(mode)

    def snapshot_properties(self) -> dict[str, str]:
        """What every snapshot says of the application that made it."""
        from pyspark import __version__ as spark_version

        try:
            application = {"spark.app.id": str(self.spark.conf.get("spark.app.id"))}
        except Exception:
            application = {}
        return {"engine-name": "lakewright", "engine-version": f"spark {spark_version}", **application}


