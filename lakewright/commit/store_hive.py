"""Compare-and-swap on a Hive metastore, under its table lock."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hive_metastore.ttypes import AlreadyExistsException, EnvironmentContext, InvalidOperationException, LockState, NoSuchObjectException, UnlockRequest
from hive_metastore.ttypes import Table as HiveTable
from pyiceberg.catalog import hive
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
from pyiceberg.schema import Schema
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from lakewright.commit.store import CommitRaced, Identifier, PointerStore, PublishUnclear, TableState
from lakewright.errors import CatalogUnavailable, LakewrightError, TableExists
from lakewright.format.metadata import Metadata


class HiveStore(PointerStore):
    catalog: HiveCatalog

    def __init__(self, catalog: HiveCatalog) -> None:
        super().__init__(catalog)

    def pointer(self, identifier: Identifier) -> str | None:
        with self._client() as client:
            try:
                table = client.get_table(dbname=identifier[0], tbl_name=identifier[-1])
            except NoSuchObjectException:
                return None
        location: str | None = (table.parameters or {}).get("metadata_location")
        return location

    def insert(self, identifier: Identifier, location: str, metadata: Metadata) -> None:
        table = HiveTable(
            dbName=identifier[0],
            tableName=identifier[-1],
            owner=metadata.properties.get("owner", getpass.getuser()),
            sd=self._columns(metadata.schema, metadata.location),
            tableType="EXTERNAL_TABLE",
            parameters=hive._construct_parameters(location, None, metadata.properties),
        )
        with self._client() as client:
            try:
                client.create_table(table)
            except AlreadyExistsException as error:
                raise TableExists(f"Table {'.'.join(identifier)} is already there.", table=".".join(identifier)) from error
            except TTransportException as error:
                raise PublishUnclear(str(error)) from error

    def swap(self, base: TableState, location: str, metadata: Metadata) -> None:
        database, name = base.identifier[0], base.identifier[-1]
        with self._client() as client, self._locked(client, database, name):
            table = client.get_table(dbname=database, tbl_name=name)
            if table.parameters.get("metadata_location") != base.metadata_location:
                raise CommitRaced(f"{base.name} has moved past {base.metadata_location}")
            kept = {k: v for k, v in table.parameters.items() if k not in base.metadata.properties}
            table.parameters = {**kept, **hive._construct_parameters(location, base.metadata_location, metadata.properties)}
            table.sd = self._columns(metadata.schema, metadata.location)
            context = EnvironmentContext(properties={hive.DO_NOT_UPDATE_STATS: hive.DO_NOT_UPDATE_STATS_DEFAULT})
            try:
                client.alter_table_with_environment_context(dbname=database, tbl_name=name, new_tbl=table, environment_context=context)
            except InvalidOperationException as error:
                raise LakewrightError(f"The Hive metastore refused the commit to {base.name}: {error.message}", table=base.name) from error
            except TException as error:
                raise PublishUnclear(str(error)) from error

    def _columns(self, schema: Schema, location: str) -> Any:
        compatible = str(self.catalog.properties.get(hive.HIVE2_COMPATIBLE, "false")).lower() == "true"
        return hive._construct_hive_storage_descriptor(schema, location, compatible)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        client = self.catalog._create_hive_client(self.catalog.properties)
        try:
            opened = client.__enter__()
        except TTransportException as error:
            raise CatalogUnavailable(f"The Hive metastore at {self.catalog.properties.get('uri')} did not answer: {error}. Nothing was changed.") from error
        try:
            yield opened
        finally:
            client.__exit__(None, None, None)

    @contextmanager
    def _locked(self, client: Any, database: str, name: str) -> Iterator[None]:
        lock = client.lock(self.catalog._create_lock_request(database, name))
        try:
            if lock.state == LockState.WAITING:
                self.catalog._wait_for_lock(database, name, lock.lockid, client)
            elif lock.state != LockState.ACQUIRED:
                raise CommitRaced(f"the lock on {database}.{name} was not granted")
            yield
        except (WaitingForLockException, CommitFailedException) as error:
            raise CommitRaced(f"the lock on {database}.{name} was not granted in time") from error
        finally:
            with suppress(TException):  # a lock that stays lapses by itself
                client.unlock(UnlockRequest(lockid=lock.lockid))
