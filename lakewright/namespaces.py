"""Names in the catalog: namespaces, and tables as entries of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError

from lakewright.commit.store import Identifier, TableState
from lakewright.config import redact_uri
from lakewright.errors import CatalogUnavailable, InvalidOption, NamespaceExists, NamespaceNotEmpty, NamespaceNotFound, TableExists, TableNotFound
from lakewright.format.storage import delete_tree, prune_empty_folders

# What no path of a table may hold: file systems are reached by URIs, where # and ? end the path.
UNFIT = re.compile(r"[/\\#?\x00-\x1f]")


@contextmanager
def answering() -> Iterator[None]:
    """A catalog that cannot be reached, whatever client library says so, as one typed error."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("sqlalchemy", "requests", "thrift", "urllib3"):
            raise
        reason = redact_uri(str(getattr(error, "orig", None) or error))
        raise CatalogUnavailable(f"The catalog did not answer: {reason}. Check that it is up and can be reached; nothing was changed.") from error


def identifier(name: str) -> Identifier:
    """`nyc.trips` as its parts; a table name has a namespace and no part that is empty or unfit for a path."""
    parts = tuple(name.split("."))
    if len(parts) < 2 or any(not part.strip() or UNFIT.search(part) for part in parts):
        raise InvalidOption(f"{name!r} is not a table name; it takes namespace.table, like nyc.trips.", table=name)
    return parts


@answering()
def listed(catalog: Catalog) -> list[str]:
    names: list[str] = []
    pending = list(catalog.list_namespaces())
    while pending:
        namespace = pending.pop()
        name = ".".join(namespace)
        if name not in names:
            names.append(name)
            pending.extend(child for child in catalog.list_namespaces(namespace) if len(child) > len(namespace))
    return sorted(names)


@answering()
def create(catalog: Catalog, name: str, if_not_exists: bool) -> None:
    if not name.strip() or UNFIT.search(name):
        raise InvalidOption(f"{name!r} is not a namespace name.")
    if if_not_exists and catalog.namespace_exists(tuple(name.split("."))):
        return
    try:
        catalog.create_namespace(tuple(name.split(".")))
    except NamespaceAlreadyExistsError as error:
        if not if_not_exists:
            raise NamespaceExists(f"Namespace {name} is already there.") from error


@answering()
def drop(catalog: Catalog, name: str, if_exists: bool) -> None:
    try:
        catalog.drop_namespace(tuple(name.split(".")))
    except NoSuchNamespaceError as error:
        if not if_exists:
            raise NamespaceNotFound(f"There is no namespace {name}; lake.namespaces() lists those there are.") from error
    except NamespaceNotEmptyError as error:
        raise NamespaceNotEmpty(f"Namespace {name} still holds tables; drop them first (lake.tables({name!r}) lists them).") from error


@answering()
def tables(catalog: Catalog, namespace: str | None) -> list[str]:
    if namespace is None:
        return sorted(name for each in listed(catalog) for name in tables(catalog, each))
    try:
        return sorted(".".join(found) for found in catalog.list_tables(tuple(namespace.split("."))))
    except NoSuchNamespaceError as error:
        raise NamespaceNotFound(f"There is no namespace {namespace}; lake.namespaces() lists those there are.") from error


@answering()
def rename_table(catalog: Catalog, name: str, to: str) -> None:
    create(catalog, ".".join(identifier(to)[:-1]), if_not_exists=True)
    try:
        catalog.rename_table(identifier(name), identifier(to))
    except NoSuchTableError as error:
        raise TableNotFound(f"There is no table {name} to rename.", table=name) from error
    except TableAlreadyExistsError as error:
        raise TableExists(f"Table {to} is already there; drop it first or choose another name.", table=to) from error


@answering()
def drop_table(catalog: Catalog, state: TableState, purge: bool) -> None:
    catalog.drop_table(state.identifier)
    if purge:
        for folder in ("data", "metadata", "runs", "index"):
            delete_tree(state.io, f"{state.metadata.location}/{folder}")
        prune_empty_folders(state.metadata.location)


@answering()
def location_by_catalog(catalog: Catalog, name: Identifier) -> str:
    """Where the catalog itself would put a table."""
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.schema import Schema

    if isinstance(catalog, MetastoreCatalog):
        return str(catalog._resolve_table_location(None, ".".join(name[:-1]), name[-1]))
    staged = catalog.create_table_transaction(name, Schema())
    return str(staged.table_metadata.location).rstrip("/")


def as_text(properties: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items() if value is not None}
