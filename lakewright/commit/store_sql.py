"""Compare-and-swap on the row of a SQL catalog (SQLite, PostgreSQL)."""

from __future__ import annotations

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from lakewright.commit.store import CommitRaced, Identifier, PointerStore, PublishUnclear, TableState
from lakewright.commit.store_sqlite import unavailable as unavailable_for
from lakewright.errors import CatalogUnavailable, TableExists
from lakewright.format.metadata import Metadata


class SqlStore(PointerStore):
    catalog: SqlCatalog

    def __init__(self, catalog: SqlCatalog) -> None:
        super().__init__(catalog)

    def pointer(self, identifier: Identifier) -> str | None:
        query = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == self.catalog.name,
            IcebergTables.table_namespace == ".".join(identifier[:-1]),
            IcebergTables.table_name == identifier[-1],
        )
        try:
            with Session(self.catalog.engine) as session:
                return session.execute(query).scalar_one_or_none()
        except SQLAlchemyError as error:
            raise unavailable(error) from error

    def insert(self, identifier: Identifier, location: str, metadata: Metadata) -> None:
        row = self.catalog._create_table_row(".".join(identifier[:-1]), identifier[-1], location)
        with Session(self.catalog.engine) as session:
            try:
                session.execute(insert(IcebergTables).values(**row))
            except IntegrityError as error:
                raise TableExists(f"Table {'.'.join(identifier)} is already there.", table=".".join(identifier)) from error
            except SQLAlchemyError as error:
                raise unavailable(error) from error
            _commit(session)

    def swap(self, base: TableState, location: str, metadata: Metadata) -> None:
        statement = (
            update(IcebergTables)
            .where(
                IcebergTables.catalog_name == self.catalog.name,
                IcebergTables.table_namespace == ".".join(base.identifier[:-1]),
                IcebergTables.table_name == base.identifier[-1],
                IcebergTables.metadata_location == base.metadata_location,
            )
            .values(metadata_location=location, previous_metadata_location=base.metadata_location)
        )
        with Session(self.catalog.engine) as session:
            try:
                swapped = session.execute(statement).rowcount  # type: ignore[attr-defined]
            except SQLAlchemyError as error:
                session.rollback()
                if _is_busy(error):
                    raise CommitRaced(str(error)) from error
                raise unavailable(error) from error
            if swapped != 1:
                raise CommitRaced(f"{base.name} has moved past {base.metadata_location}")
            _commit(session)


def _commit(session: Session) -> None:
    try:
        session.commit()
    except SQLAlchemyError as error:
        session.rollback()
        if _is_busy(error):
            raise CommitRaced(str(error)) from error
        raise PublishUnclear(str(error)) from error


def _is_busy(error: SQLAlchemyError) -> bool:
    """SQLite says so when another process holds the write lock; nothing was written then."""
    return isinstance(error, OperationalError) and "locked" in str(error.orig)


def unavailable(error: Exception) -> CatalogUnavailable:
    reason = str(error.orig).strip() if isinstance(error, DBAPIError) and error.orig else str(error)
    return unavailable_for(reason)
