"""Opening the PyIceberg catalog of a lake, with errors that say what is wrong."""

from __future__ import annotations

import errno
import random
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NotInstalledError, OAuthError, RESTError, UnauthorizedError

from lakewright.config import LakeConfig, redact_uri
from lakewright.errors import CatalogUnavailable, ConfigurationError, CorruptFile, PermissionRefused

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from lakewright.commit.store_sqlite import SqliteCatalog

SQLITE_TIMEOUT = "timeout=60"
OPEN_ATTEMPTS = 8
EXTRAS = {"postgresql": "postgres", "postgres": "postgres", "hive": "hive", "glue": "glue"}


def open_catalog(config: LakeConfig, *, create: bool = True) -> Catalog:
    """The lake's catalog. An embedded lake is made on first use, unless `create` is off: then it must be there."""
    from pyiceberg.catalog import load_catalog

    if config.folder is not None:
        _prepare_folder(config.folder, create)
    properties = _with_defaults(config.catalog_properties)
    for attempt in range(OPEN_ATTEMPTS):
        try:
            return load_catalog(config.name, **properties)
        except Exception as error:
            if not _lost_race_to_create(error) or attempt == OPEN_ATTEMPTS - 1:
                raise _explained(error, config) from error
            time.sleep(random.uniform(0.02, 0.2))
    raise AssertionError("unreachable")


def open_sqlite(config: LakeConfig) -> SqliteCatalog:
    """The catalog of an embedded lake that is there, to find and publish versions of tables with and nothing more."""
    from pyiceberg.utils.config import Config

    from lakewright.commit.store_sqlite import SqliteCatalog

    assert config.folder is not None
    _prepare_folder(config.folder, create=False)
    configured = Config().get_catalog_config(config.name) or {}
    catalog = SqliteCatalog(config.name, {**configured, **_with_defaults(config.catalog_properties)}, config.folder / "catalog.db")
    try:
        with catalog.connection() as connection:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.Error as error:
        raise _explained(error, config) from error
    return catalog


def _with_defaults(given: Mapping[str, str]) -> dict[str, str]:
    """SQLite waits for other processes instead of failing; a pooled connection that died is replaced."""
    properties = dict(given)
    uri = properties.get("uri", "")
    if uri.startswith("sqlite") and "timeout=" not in uri and ":memory:" not in uri and not uri.endswith("//"):
        properties["uri"] = f"{uri}{'&' if '?' in uri else '?'}{SQLITE_TIMEOUT}"
    elif properties.get("type") == "sql":
        properties.setdefault("pool_pre_ping", "true")
    return properties


def _prepare_folder(folder: Path, create: bool) -> None:
    if not create:
        if not (folder / "catalog.db").exists():
            raise ConfigurationError(f"There is no lake at {folder}: it has no catalog.db. lakewright.connect({str(folder)!r}) makes one.")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "catalog.db").exists():
            probe = folder / f".lakewright-{random.getrandbits(64):x}"
            probe.touch()
            probe.unlink()
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise PermissionRefused(
                f"The folder {folder} cannot be written ({error.strerror}), so no lake can be made there. Choose another, or change its permissions."
            ) from error
        raise ConfigurationError(f"No lake can be made at {folder}: {error.strerror}.") from error


def _lost_race_to_create(error: Exception) -> bool:
    """Another process made the catalog's tables between our look and our CREATE TABLE."""
    text = str(error).lower()
    return "already exists" in text or "duplicate key" in text or "database is locked" in text


def _explained(error: Exception, config: LakeConfig) -> Exception:
    place = _place(config)
    cause = str(getattr(error, "orig", None) or error).strip()
    if isinstance(error, (NotInstalledError, ImportError)):
        return ConfigurationError(f"{place} needs a package that is not installed: {cause}. {_install_hint(config)}")
    if isinstance(error, (OAuthError, UnauthorizedError)):
        return PermissionRefused(f"{place} refused the credentials: {redact_uri(cause)}")
    original: Any = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    if isinstance(original, sqlite3.Error):
        if "readonly" in cause or "unable to open" in cause:
            return PermissionRefused(f"{place} cannot be opened: {cause}. Check the folder's permissions.")
        if isinstance(original, sqlite3.DatabaseError) and "not a database" in cause or "malformed" in cause:
            return CorruptFile(f"{place} is not a SQLite catalog: {cause}.")
    if isinstance(error, (ValueError, TypeError, KeyError)) and not isinstance(error, OSError):
        return ConfigurationError(f"{place} cannot be opened as configured: {redact_uri(cause)}")
    if isinstance(error, (OSError, RESTError)) or original is not None:
        return CatalogUnavailable(f"{place} did not answer: {redact_uri(cause)}")
    return ConfigurationError(f"{place} cannot be opened as configured: {redact_uri(cause)}")


def _place(config: LakeConfig) -> str:
    uri = redact_uri(config.catalog_properties.get("uri", ""))
    return f"The catalog{f' at {uri}' if uri else ''} of lake {config.location or config.name}"


def _install_hint(config: LakeConfig) -> str:
    kind = config.catalog_properties.get("type", "").lower()
    uri = config.catalog_properties.get("uri", "").split(":", 1)[0].split("+", 1)[0]
    extra = EXTRAS.get(uri) or EXTRAS.get(kind)
    return f"pip install 'lakewright[{extra}]'" if extra in ("postgres", "hive") else "pip install 'pyiceberg[…]' with the extra for this catalog."
